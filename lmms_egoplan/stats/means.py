"""A mean with its interval and the numbers of questions in it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over the questions that have it. Unknown or missing values are None.

    interval: 95 % interval of `score_interval`, or of `bootstrap_interval` for values without
    bounds.
    questions: number of questions.
    clusters: number of the questions' clusters.
    drawn: number of the questions in a compact run, where the interval counts each as a cluster;
    None for other runs.
    """

    value: float | None = None
    interval: tuple[float, float] | None = None
    questions: int | None = None
    clusters: int | None = None
    drawn: int | None = None

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The ends of the interval."""
        return self.interval or (None, None)

    def cells(self, value: str, prefix: str = "", scale: float = 1) -> dict[str, float | None]:
        """Return value and ends of the interval, by the keys of their columns."""
        numbers = (self.value, *self.ends)
        names = (value, f"{prefix}low", f"{prefix}high")
        return {
            name: None if x is None else scale * x for name, x in zip(names, numbers, strict=True)
        }
