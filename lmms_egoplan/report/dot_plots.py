"""The charts of a benchmark's main scores on the page, and the signs of the models in them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lmms_egoplan.report.axes import Axis, axis_of
from lmms_egoplan.report.charts import model_colours
from lmms_egoplan.report.document import Headline, Reference, Section
from lmms_egoplan.report.tables import show
from lmms_egoplan.text import counted, percent


@dataclass(frozen=True)
class DotPlot:
    """The scores of one task under one protocol.

    Attributes:
        task: name of the task, or its protocol if the section has several protocols of the task.
        metric: name of the score.
        chance: score of random answers; None if unknown.
        reference: the best published score; None if no score is comparable with it.
        lines: the scores, best first. Those without a value come last.
    """

    task: str
    metric: str
    chance: float | None
    reference: Reference | None
    lines: tuple[Headline, ...]

    def gaps(self, line: Headline) -> list[str]:
        """Return what a score lacks, and its chance if the chances differ."""
        return [*_gaps(line, self.chance)]

    @property
    def shared_gaps(self) -> list[str]:
        """What all of several scores lack."""
        first, *others = [self.gaps(line) for line in self.lines]
        return [gap for gap in first if others and all(gap in gaps for gaps in others)]


@dataclass(frozen=True)
class ModelSign:
    """How a model is drawn: a colour such as ``#0072b2``, and the name of a shape."""

    colour: str
    shape: str


# In the order of the figures' markers.
_SHAPES = ("circle", "square", "up", "diamond", "down", "plus", "cross", "star")


def signs_of(models: Sequence[str]) -> dict[str, ModelSign]:
    """Return the sign of each model, the same as in the figures.

    Args:
        models: Names of all models of the report, in order. Repeated names count once.
    """
    colours = model_colours(models)
    return {
        name: ModelSign(colour, _SHAPES[number % len(_SHAPES)])
        for number, (name, colour) in enumerate(colours.items())
    }


def dot_plots(section: Section, *, is_main: bool) -> list[DotPlot]:
    """Return a chart for each task and protocol of a section.

    Args:
        section: The section.
        is_main: True for the protocols under which a model has its main score, false for others.
    """
    groups: dict[tuple[str, str, str], list[Headline]] = {}
    for line in section.headlines:
        groups.setdefault((line.task, line.metric, line.protocol), []).append(line)
    groups = {
        key: lines
        for key, lines in groups.items()
        if any(line.is_main for line in lines) == is_main
    }
    names = [(task, metric) for task, metric, _ in groups]
    plots = []
    for (task, metric, protocol), lines in groups.items():
        chances = {line.chance for line in lines}
        plots.append(
            DotPlot(
                task=task if names.count((task, metric)) == 1 else protocol,
                metric=metric,
                chance=chances.pop() if len(chances) == 1 else None,
                reference=best_published(section, lines),
                lines=tuple(sorted(lines, key=_best_first)),
            )
        )
    return plots


def _gaps(line: Headline, chance: float | None) -> Iterator[str]:
    """Yield how much of the questions and answers is missing, and the chance if it varies."""
    if line.coverage is None:
        yield "coverage unknown"
    elif line.coverage < 1:
        yield f"{percent(line.coverage)} covered"
    if line.is_generated and line.truncated is None:
        yield "truncation unknown"
    elif line.is_generated and line.truncated:
        answers = counted(line.truncated_of, "answers") if line.truncated_of else ""
        known = f" of {answers} whose length is known" if answers else ""
        yield f"{percent(line.truncated)} truncated{known}"
    if line.chance is not None and chance is None:
        yield f"chance {show(line.chance, line.decimals)}"


def axis_of_plots(section: Section, plots: Iterable[DotPlot]) -> Axis:
    """Return the common axis of charts of a section."""
    lines: list[Headline] = []
    others: list[float | None] = []
    for plot in plots:
        lines += plot.lines
        others += [plot.chance, plot.reference.value if plot.reference else None]
    return axis_of(lines, section.top, others)


def best_published(section: Section, lines: Sequence[Headline]) -> Reference | None:
    """Return the best published score of the lines' task; None if no line is comparable with it."""
    is_first = lines[0].task == section.headlines[0].task
    has_comparable = any(not line.apart and line.value is not None for line in lines)
    return section.reference if is_first and has_comparable else None


def _best_first(line: Headline) -> tuple[bool, float]:
    return line.value is None, -(line.value or 0)
