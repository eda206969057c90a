"""Every pair of runs on the same questions, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.statistics import (
    EXACT_UP_TO,
    PERMUTATIONS,
    RESAMPLES,
    Comparison,
    Scores,
    compare,
    holm,
)

FEW_CLUSTERS = 20
_P_DECIMALS = 4


def comparisons(
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    key: str,
    title: str,
    decimals: int,
    scale: float = 1.0,
    unit: str = "clusters",
) -> Table | None:
    """Every pair of runs that share questions, the largest difference first.

    p-values are corrected by Holm over all pairs of the table.

    Args:
        scores: for each run, its score in each question; missing ones are None or NaN, or not there.
        clusters: each question's cluster; its own id where questions are independent.
        key, title: the table's.
        decimals: of differences and intervals as shown.
        scale: what differences and intervals are multiplied by: 100 for per cent.
        unit: what the clusters are, in the plural: ``"videos"``.

    Returns:
        None where no two runs share a question.

    Raises:
        ValueError: a question that two runs share has no cluster.
    """
    pairs = [
        (first, second, found)
        for first, second in combinations(scores, 2)
        if (found := compare(scores[first], scores[second], clusters)) is not None
    ]
    if not pairs:
        return None
    corrected = holm([found.p_value for _, _, found in pairs])
    rows = [
        Row((first, second, *_numbers(found, scale), found.test, found.p_value, p_holm), is_own=True)
        for (first, second, found), p_holm in zip(pairs, corrected, strict=True)
    ]
    columns = (
        Column("first", "First"),
        Column("second", "Second"),
        Column("questions", "Questions"),
        Column("difference", "Difference", decimals),
        Column("low", "Low", decimals),
        Column("high", "High", decimals),
        Column("test", "Test"),
        Column("p_value", "p", _P_DECIMALS),
        Column("p_holm", "p (Holm)", _P_DECIMALS),
    )
    place = [column.key for column in columns].index("difference")
    rows.sort(key=lambda row: -abs(row.values[place]))
    notes = tuple(_notes([found for _, _, found in pairs], unit))
    return Table(key, title, columns, tuple(rows), source="the runs", notes=notes)


def _numbers(found: Comparison, scale: float) -> tuple[int, float, float | None, float | None]:
    low, high = (None if end is None else end * scale for end in (found.low, found.high))
    return found.questions, found.difference * scale, low, high


def _notes(found: Sequence[Comparison], unit: str) -> Iterator[str]:
    """What the numbers of these comparisons are, and what is not to be read from them."""
    yield "Difference: first minus second, mean over the questions that both runs have scores for."
    yield f"Low, high: 95 % interval of the difference, percentiles of {RESAMPLES:,} bootstrap resamples of the {unit}."
    if any(one.low is None for one in found):
        yield f"No interval where the {unit} are fewer than two."
    if any(one.low is not None and one.clusters < FEW_CLUSTERS for one in found):
        fewest = min(one.clusters for one in found if one.low is not None)
        yield f"Intervals of few {unit}, here as few as {fewest}, are too narrow."
    tests = {one.test for one in found}
    if "McNemar" in tests:
        yield "McNemar: exact and two-sided, on the questions that only one of the two runs got right."
    if "permutation" in tests:
        yield (
            f"permutation: two-sided; the sum of differences in each of the {unit} may as well have the other sign. "
            f"All ways are counted for at most {EXACT_UP_TO} sums that are not 0, else {PERMUTATIONS:,} random ones."
        )
    yield f"p (Holm): corrected for {len(found)} comparison{'s' if len(found) > 1 else ''} in this table."
