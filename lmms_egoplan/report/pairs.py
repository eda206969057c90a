"""Compare every pair of runs in a table, with intervals, tests and verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from lmms_egoplan.report.comparability import NOT_COMPARABLE, unequal
from lmms_egoplan.report.scores import Key, ScoredTask
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats import intervals
from lmms_egoplan.stats.equivalence import ERROR_RATE, MARGIN, POWER, Evidence, decide, weigh
from lmms_egoplan.text import join_list

FEW_CLUSTERS = 20


def compared(
    runs: Sequence[ScoredTask],
    measure: str,
    key: str,
    title: str,
    decimals: int,
    unit: str,
    scale: float = 1.0,
    *,
    of_tasks: bool = False,
) -> Table | None:
    """Compare every pair of runs by a measure, over the questions for which both have a value.

    Omit inexact runs.

    The largest difference comes first. p-values have Holm's correction for all comparable pairs of
    the table. The verdicts on these pairs share one error rate, with a margin of `MARGIN`. Pairs
    that are not comparable have no p-values and no verdict, but the names of what differs.

    Args:
        runs: the runs to compare.
        measure: name of the measure among `Answer.scores`.
        key, title: key and title of the table.
        decimals: number of decimals of differences and intervals.
        unit: plural noun for the clusters, such as ``"videos"``.
        scale: factor for differences and intervals, 100 for per cent.
        of_tasks: true if the table compares different tasks of one model with each other, as tasks
            of one run always are.

    Returns:
        None if no two runs share a question.

    Raises:
        ValueError: a shared question has no cluster.
    """
    pairs = []
    for first_run, second_run in combinations([run for run in runs if not run.ranking_flaw], 2):
        evidence = weighed(first_run, second_run, measure, MARGIN)
        if evidence is not None:
            apart = _apart(first_run, second_run, of_tasks=of_tasks)
            pairs.append((first_run.name, second_run.name, evidence, apart))
    if not pairs:
        return None
    pairs.sort(key=lambda pair: -abs(pair[2].comparison.difference))
    comparable = [evidence for *_, evidence, apart in pairs if not apart]
    comparisons = [evidence.comparison for evidence in comparable]
    corrected = iter(intervals.holm([comparison.p_value for comparison in comparisons]))
    verdicts = iter(decide(comparable))
    rows: list[dict[str, Value]] = []
    for first, second, evidence, apart in pairs:
        row: dict[str, Value] = {
            "first": first,
            "second": second,
            "questions": evidence.comparison.questions,
        }
        row |= scaled(evidence.comparison, scale)
        if apart:
            row["verdict"] = f"{NOT_COMPARABLE}: different {join_list(apart)}"
        else:
            row["test"] = evidence.comparison.test
            row["p_value"] = evidence.comparison.p_value
            row["p_holm"] = next(corrected)
            row["verdict"] = next(verdicts)
        rows.append(row)
    columns = (
        Column("first", "First"),
        Column("second", "Second"),
        Column("questions", "Questions", is_condition=True),
        Column("difference", "Difference", decimals),
        *interval_columns("difference", decimals),
        Column("test", "Test", is_condition=True),
        Column("p_value", "p", decimals=4),
        Column("p_holm", "p (Holm)", decimals=4),
        Column("verdict", "Verdict"),
    )
    notes = [
        *_notes(comparisons, unit),
        *(f"Not compared: {run.name}, {run.ranking_flaw}." for run in runs if run.ranking_flaw),
    ]
    return replace(table_of_runs(key, title, columns, rows, notes), role="pairs")


def _apart(first: ScoredTask, second: ScoredTask, *, of_tasks: bool) -> list[str]:
    """Name what makes two runs incomparable.

    Tasks of one run differ only in what their names say.
    """
    if first.task != second.task and (of_tasks or first.run.name == second.run.name):
        return []
    return list(dict.fromkeys(part.name for part in unequal(first, second)))


def scaled(comparison: intervals.Comparison, factor: float) -> dict[str, float | None]:
    """Return difference and ends of the interval, multiplied by a factor, by column."""
    numbers = {"difference": comparison.difference, "low": comparison.low, "high": comparison.high}
    return {name: None if number is None else factor * number for name, number in numbers.items()}


def weighed(first: ScoredTask, second: ScoredTask, measure: str, margin: float) -> Evidence | None:
    """Compare a task of two runs, see `weigh`.

    Args:
        first, second: the task in each run.
        measure: name of the measure among `Answer.scores`.
        margin: margin in per cent of the highest possible score.
    """
    clusters: dict[str, str] = {}
    first_scores = _scores_of(first, measure, clusters)
    second_scores = _scores_of(second, measure, clusters)
    return weigh(first_scores, second_scores, clusters, margin, first.largest)


def _scores_of(task: ScoredTask, measure: str, clusters: dict[str, str]) -> dict[str, float | None]:
    """Return a task's scores by question, and add the questions' clusters to `clusters`."""
    scores = {}
    for key, answer in (task.answers or {}).items():
        question = _text(key)
        scores[question] = answer.scores[measure]
        if answer.cluster is not None:
            clusters[question] = answer.cluster
    return scores


def _notes(comparisons: Sequence[intervals.Comparison], unit: str) -> Iterator[str]:
    """Explain the numbers of comparisons and their limits."""
    yield (
        "Difference: first minus second, mean over the questions for which both runs have scores."
    )
    yield (
        "Low to high: 95 % interval of the difference, percentiles of "
        f"{intervals.RESAMPLES:,} bootstrap resamples of the {unit}."
    )
    if not comparisons:
        return
    if any(comparison.low is None for comparison in comparisons):
        yield f"No interval for fewer than {intervals.FEWEST_CLUSTERS} {unit}."
    counts = [comparison.clusters for comparison in comparisons if comparison.low is not None]
    if counts and min(counts) < FEW_CLUSTERS:
        yield f"Intervals over few {unit} (here as few as {min(counts)}) are too narrow."
    tests = {comparison.test for comparison in comparisons}
    if "McNemar" in tests:
        yield (
            "McNemar: exact two-sided test on the questions that only one of the two "
            "runs answered correctly."
        )
    if "permutation" in tests:
        yield (
            f"permutation: two-sided test on the sums of differences of the {unit}, with all "
            f"possible signs if at most {intervals.EXACT_UP_TO} sums are not 0, otherwise with "
            f"{intervals.PERMUTATIONS:,} random ones."
        )
    count = len(comparisons)
    noun = "comparison" if count == 1 else "comparisons"
    yield f"p (Holm): corrected for {count} {noun} in this table."
    yield verdict_note(MARGIN)


def verdict_note(margin: float) -> str:
    """Explain the verdicts on differences.

    Args:
        margin: margin in per cent of the highest possible score.
    """
    return (
        'Verdict: "different" by the test, "equal" by two one-sided tests with a margin of '
        f'{margin:g} % of the highest possible score, otherwise "undecided". All verdicts of a '
        f"table share an error rate of {100 * ERROR_RATE:g} %. The number of questions that would "
        f"be needed is for a probability of {100 * POWER:g} %; there is none if the estimate is "
        "not above the number at hand."
    )


def _text(key: Key) -> str:
    return "\n".join(map(str, key))
