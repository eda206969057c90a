"""Compare judges with each other and with people (Tables 9 to 11 of EgoThink's paper)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean

from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, capability_of, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.report.egothink.agreement import coefficient_cells, pair_coefficients
from lmms_egoplan.report.egothink.answer_files import RatedAnswer
from lmms_egoplan.report.egothink.answers import CAPABILITIES, EgoThinkTask
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS, agreement

# Capabilities of Tables 9 to 11.
_TABLE9_CAPABILITIES = ("object", "planning")
# Smallest share of equal answers with which two sets of ratings are of the same answers.
SAME_ANSWERS = 0.5
_OTHER_ANSWERS = "other answers than the published ones"


def judges_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the agreement of each pair of judges on the same answers."""
    columns = (
        Column("first", "First run"),
        Column("first_judge", "Its judge"),
        Column("second", "Second run"),
        Column("second_judge", "Its judge"),
        Column("answers", "Answers"),
        Column("questions", "Questions"),
        Column("pearson", "Pearson's r", decimals=3),
        *interval_columns("pearson", decimals=3, prefix="pearson_"),
        Column("kappa_unweighted", "Cohen's kappa", decimals=3),
        *interval_columns("kappa_unweighted", decimals=3, prefix="kappa_unweighted_"),
        Column("kappa_linear", "Kappa, linear", decimals=3),
        *interval_columns("kappa_linear", decimals=3, prefix="kappa_linear_"),
    )
    notes = [
        (
            "Computed over identical answers that both runs rated, if these are at least half of "
            "the answers rated in both. Kappa: Cohen's, unweighted and with linear weights."
        ),
        (
            "Low to high: 95 % interval, percentiles of a bootstrap over questions. There is none "
            f"for fewer than {MIN_ITEMS} questions, or if all ratings of a judge are equal."
        ),
        (
            "Table 9 of the paper covers object and planning, and prints r times 100. For "
            "its three people, the paper reports a Cohen's kappa of 0.81 (sec. 5.2), but "
            "not how it combined them."
        ),
    ]
    title = "Agreement of judges on the same answers"
    return table_of_runs("egothink_judges", title, columns, _judge_rows(graded), notes)


def _judge_rows(graded: Sequence[EgoThinkTask]) -> Iterator[dict[str, Value]]:
    """Yield the agreement of each pair of judges on the same answers."""
    for first, second in combinations(graded, 2):
        second_records = second.judged
        rated = [
            (record, second_records[key])
            for key, record in first.judged.items()
            if key in second_records
        ]
        same = [
            pair
            for pair in rated
            if pair[0].answer == pair[1].answer and pair[0].judge != pair[1].judge
        ]
        if same and len(same) >= SAME_ANSWERS * len(rated):
            for row in agreements(same):
                yield {**row, "first": first.name, "second": second.name}


def agreements(pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[dict[str, Value]]:
    """Yield the agreement of two judges: over all answers, those of Table 9, and by capability."""
    capabilities_by_scope = {
        "all": tuple(CAPABILITIES),
        " and ".join(_TABLE9_CAPABILITIES): _TABLE9_CAPABILITIES,
    }
    for name in CAPABILITIES:
        capabilities_by_scope[name] = (name,)
    for scope, names in capabilities_by_scope.items():
        scope_pairs = [pair for pair in pairs if capability_of(pair[0].id) in names]
        if not scope_pairs:
            continue
        first, second = zip(*scope_pairs, strict=True)
        first_ratings = ratings_of(first)
        second_ratings = ratings_of(second)
        # Some published protocols read other ratings. Then only Pearson's r is defined.
        is_on_levels = {*first_ratings, *second_ratings} <= {*LEVELS}
        result = agreement(first_ratings, second_ratings, LEVELS if is_on_levels else None)
        row: dict[str, Value] = {
            "first_judge": judge_names(first),
            "second_judge": judge_names(second),
            "answers": scope,
            "questions": result.questions,
        }
        yield {**row, **coefficient_cells(pair_coefficients(result))}


def table9(people: Mapping[tuple[str, str], float], graded: Sequence[EgoThinkTask]) -> Table:
    """Put Pearson's r between people and the runs' judges above Table 9 of the paper."""
    columns = (
        Column("own", "Judge of the run", decimals=1, higher_is_better=True),
        *interval_columns("own", decimals=1, prefix="own_"),
        Column("judge", "Judge"),
        Column("answers", "Answers"),
    )
    rows = list(_table9_rows(people, graded))
    if rows:
        title = "Judges and people, next to Table 9 of the paper"
    else:
        title = "Published: Pearson's r between judges, times 100"
    return published_with_runs(title, load_table("egothink", "table9"), rows, columns)


def _table9_rows(
    people: Mapping[tuple[str, str], float], graded: Sequence[EgoThinkTask]
) -> Iterator[OwnRow]:
    """Yield Pearson's r between the people and the judge of each run, over the same answers."""
    for run in graded:
        records = [
            record
            for record in run.judged.values()
            if (record.id, record.answer) in people
            and capability_of(record.id) in _TABLE9_CAPABILITIES
        ]
        if not records:
            continue
        ratings = [people[record.id, record.answer] for record in records]
        pearson = coefficient_cells({"own": agreement(ratings, ratings_of(records), None).pearson})
        reasons = [_OTHER_ANSWERS]
        if len(records) < MIN_ITEMS:
            reasons.append(f"fewer than {MIN_ITEMS} answers, so no coefficient")
        row: dict[str, Value] = {
            "evaluator": f"Human ({run.name})",
            "judge": judge_names(records),
            "answers": len(records),
            "apart": "; ".join(reasons),
        }
        for name, coefficient in pearson.items():
            if coefficient is not None:
                row[name] = in_percent(coefficient)
        yield row


def table10(rated: Sequence[RatedAnswer]) -> Table:
    """Put people's mean grades of each model above Table 10 of the paper."""
    columns = (Column("answers", "Answers"),)
    rows = list(_table10_rows(rated))
    if rows:
        title = "People's grades, next to Table 10 of the paper"
    else:
        title = "Published: people's grades of GPT-4V"
    return published_with_runs(title, load_table("egothink", "table10"), rows, columns)


def _table10_rows(rated: Sequence[RatedAnswer]) -> Iterator[OwnRow]:
    """Yield the people's mean grades of each model, for the dimensions of object and planning."""
    for model in dict.fromkeys(answer.model for answer in rated):
        answers = [answer for answer in rated if answer.model == model]
        row: dict[str, Value] = {"grading_methods": f"People, {model}", "apart": _OTHER_ANSWERS}
        for dimension in DIMENSIONS:
            ratings = [
                answer.rating for answer in answers if dimension_of(answer.id) == dimension.name
            ]
            if dimension.capability in _TABLE9_CAPABILITIES and ratings:
                row[f"{dimension.capability}_{dimension.name}"] = 100 * fmean(ratings)
        yield row | {"answers": len(answers)}


def table11() -> Table:
    """Return Table 11 of the paper."""
    title = "Published: grades by two other judges"
    return published_with_runs(title, load_table("egothink", "table11"), ())


def ratings_of(records: Sequence[JudgedAnswer]) -> list[float]:
    """Return the ratings of the answers that have one."""
    return [record.rating for record in records if record.rating is not None]


def judge_names(records: Sequence[JudgedAnswer]) -> str:
    """Return the names of the answers' judges, separated by commas."""
    return ", ".join(sorted({record.judge or "" for record in records}))
