"""Every pair of runs on the same questions, as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from lmms_egoplan.report import statistics
from lmms_egoplan.report.scores import Key, ScoredTask
from lmms_egoplan.report.tables import Table, Value, read_columns, read_notes, table_of_runs

FEW_CLUSTERS = 20
_COLUMNS = read_columns(__file__)["pairs"]
note = read_notes(
    __file__,
    resamples=statistics.RESAMPLES,
    exact=statistics.EXACT_UP_TO,
    permutations=statistics.PERMUTATIONS,
    fewest_clusters=statistics.FEWEST_CLUSTERS,
)


def compared(
    runs: Sequence[ScoredTask],
    measure: str,
    key: str,
    title: str,
    decimals: int,
    unit: str,
    note_on_table: str | None = None,
    scale: float = 1.0,
) -> Table | None:
    """Compare every pair of runs by a measure, over the questions for which both have it; omit inexact runs.

    The largest difference comes first. p-values are corrected by Holm over all pairs of the table.

    Args:
        key, title: of the table.
        decimals: of printed differences and intervals.
        unit: plural noun for the clusters: ``"videos"``.
        note_on_table: after those on the numbers.
        scale: factor of differences and intervals: 100 for per cent.

    Returns:
        None if no two runs share a question.

    Raises:
        ValueError: a shared question has no cluster.
    """
    answers = [(run.name, run.answers) for run in runs if run.answers and not run.inexact]
    scores = {
        name: {_text(question): answer.scores[measure] for question, answer in of_run.items()}
        for name, of_run in answers
    }
    clusters = {
        _text(question): answer.cluster
        for _, of_run in answers
        for question, answer in of_run.items()
        if answer.cluster is not None
    }
    pairs = [
        (first, second, comparison)
        for first, second in combinations(scores, 2)
        if (comparison := statistics.compare(scores[first], scores[second], clusters)) is not None
    ]
    if not pairs:
        return None
    corrected = statistics.holm([comparison.p_value for _, _, comparison in pairs])
    ordered = sorted(zip(pairs, corrected, strict=True), key=lambda pair: -abs(pair[0][2].difference))
    rows: list[dict[str, Value]] = []
    for (first, second, comparison), p_holm in ordered:
        numbers = {name: getattr(comparison, name) for name in ("difference", "low", "high")}
        scaled = {name: None if number is None else number * scale for name, number in numbers.items()}
        rows.append(vars(comparison) | scaled | {"first": first, "second": second, "p_holm": p_holm})
    columns = [
        replace(column, decimals=decimals) if column.key in ("difference", "low", "high") else column
        for column in _COLUMNS
    ]
    notes = [
        *_notes([comparison for _, _, comparison in pairs], unit),
        *([note_on_table] if note_on_table else []),
        *(f"Not compared: {run.name}, {run.inexact}." for run in runs if run.inexact),
    ]
    return replace(table_of_runs(key, title, columns, rows, notes), role="pairs")


def _notes(made: Sequence[statistics.Comparison], unit: str) -> Iterator[str]:
    """Explain the numbers of these comparisons, and their limits."""
    yield note("difference")
    yield note("low_high", unit=unit)
    if any(comparison.low is None for comparison in made):
        yield note("no_interval", unit=unit)
    few = [comparison.clusters for comparison in made if comparison.low is not None]
    if few and min(few) < FEW_CLUSTERS:
        yield note("few", unit=unit, fewest=min(few))
    tests = {comparison.test for comparison in made}
    if "McNemar" in tests:
        yield note("mcnemar")
    if "permutation" in tests:
        yield note("permutation", unit=unit)
    yield note("holm", count=len(made), s="s" if len(made) > 1 else "")


def _text(key: Key) -> str:
    return "\n".join(map(str, key))
