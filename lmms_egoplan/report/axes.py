"""Choose the range of scores in a chart of the page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lmms_egoplan.report.document import Group, Headline


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of scores in a chart, from `low` to `high` in round steps."""

    low: float
    high: float
    step: float

    @property
    def ticks(self) -> list[float]:
        """The round values from `low` to `high`."""
        return [
            self.low + self.step * number
            for number in range(round((self.high - self.low) / self.step) + 1)
        ]

    def at(self, value: float) -> str:
        """Return the position of a value, in per cent of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def width(self, interval: tuple[float, float]) -> str:
        """Return the width of an interval, in per cent of the whole."""
        return f"{100 * (interval[1] - interval[0]) / (self.high - self.low):.2f}%"


def axis_of(
    lines: Iterable[Headline | Group],
    top: float,
    further: Iterable[float | None] = (),
    *,
    from_zero: bool = False,
) -> Axis:
    """Return an axis with round ends that includes all scores and further values.

    It includes the scores' intervals, too.

    Noise must not look like a difference: unless it is the whole scale, the axis has at least a
    quarter of the scale and four times the width of the widest interval.

    Args:
        lines: scores in the chart.
        top: end of the scale, which begins at 0.
        further: other values in the chart, such as the score of random answers.
        from_zero: true for bars, which begin at 0.
    """
    scores = [*lines]
    intervals = [line.interval for line in scores if line.interval]
    values = [
        *(line.value for line in scores),
        *further,
        *(end for interval in intervals for end in interval),
    ]
    numbers = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    least = min(top, max([top / 4, *(4 * (end - start) for start, end in intervals)]))
    low = min([*numbers, 0.0] if from_zero else numbers)
    high = max(numbers)
    low = max(min(low, 0.0), min(low, (low + high - least) / 2, top - least))
    high = max(high, low + least)
    power: float = 10 ** math.floor(math.log10((high - low) / 4))
    step = power * next(
        factor for factor in (1, 2, 5, 10) if factor * power * 4 >= (high - low) * (1 - 1e-9)
    )
    return Axis(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, step)
