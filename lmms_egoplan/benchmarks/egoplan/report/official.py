"""How far a run is over the benchmark's official questions."""

from lmms_egoplan.benchmarks.egoplan import splits
from lmms_egoplan.benchmarks.egoplan.report.series import Series

OFFICIAL = splits.OFFICIAL["val"]
"""Questions of EgoPlan-Val."""


def official_coverage(each: Series) -> float | None:
    """Share of the official questions that the accuracy is over, 1 at most; None where the harness does not tell."""
    return None if each.questions is None else min(1.0, each.questions / OFFICIAL)


def compares(each: Series) -> bool:
    """Whether the accuracy compares with the published ones: over the official file, all of it."""
    return each.number("split_size") == OFFICIAL and official_coverage(each) == 1
