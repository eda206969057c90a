"""Every pair of runs on the same questions, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from lmms_egoplan.report.document import Column, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.statistics import (
    EXACT_UP_TO,
    FEWEST_CLUSTERS,
    PERMUTATIONS,
    RESAMPLES,
    Comparison,
    Scores,
    compare,
    holm,
)

FEW_CLUSTERS = 20
_P_DECIMALS = 4
note = read_notes(
    __file__, resamples=RESAMPLES, exact=EXACT_UP_TO, permutations=PERMUTATIONS, fewest_clusters=FEWEST_CLUSTERS
)


def comparisons(
    scores: Mapping[str, Scores],
    clusters: Mapping[str, str],
    key: str,
    title: str,
    decimals: int,
    scale: float = 1.0,
    unit: str = "clusters",
    notes: Sequence[str] = (),
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
        notes: the table's, behind those on the numbers.

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
    rows: list[dict[str, Value]] = []
    for (first, second, found), p_holm in zip(pairs, corrected, strict=True):
        numbers = {"difference": found.difference, "low": found.low, "high": found.high}
        scaled = {name: None if number is None else number * scale for name, number in numbers.items()}
        rows.append(vars(found) | scaled | {"first": first, "second": second, "p_holm": p_holm})
    rows.sort(key=lambda row: -abs(row["difference"]))
    columns = (
        *(Column("first", "First"), Column("second", "Second"), Column("questions", "Questions")),
        Column("difference", "Difference", decimals),
        *(Column("low", "Low", decimals, None, "difference"), Column("high", "High", decimals, None, "difference")),
        Column("test", "Test"),
        *(Column("p_value", "p", _P_DECIMALS), Column("p_holm", "p (Holm)", _P_DECIMALS)),
    )
    told = _notes([found for _, _, found in pairs], unit)
    return replace(table_of_runs(key, title, columns, rows, (*told, *notes)), role="pairs")


def _notes(found: Sequence[Comparison], unit: str) -> Iterator[str]:
    """What the numbers of these comparisons are, and what is not to be read from them."""
    yield note("difference")
    yield note("low_high", unit=unit)
    if any(one.low is None for one in found):
        yield note("no_interval", unit=unit)
    few = [one.clusters for one in found if one.low is not None and one.clusters < FEW_CLUSTERS]
    if few:
        yield note("few", unit=unit, fewest=min(few))
    tests = {one.test for one in found}
    if "McNemar" in tests:
        yield note("mcnemar")
    if "permutation" in tests:
        yield note("permutation", unit=unit)
    yield note("holm", count=len(found), s="s" if len(found) > 1 else "")
