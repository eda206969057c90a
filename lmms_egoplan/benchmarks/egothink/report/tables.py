"""EgoThink's tables: scores beside Table 3 and by group, judges and people compared, and what else is published."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from lmms_egoplan.benchmarks.egothink.agreement import coefficient_cells, pair_coefficients
from lmms_egoplan.benchmarks.egothink.answer_files import RatedAnswer, read_repeated
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension, capability_of, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.report.answers import CAPABILITIES, SINGLE, Graded
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.judging.agreement import MIN_ITEMS, agreement
from lmms_egoplan.report.comparisons import compared
from lmms_egoplan.report.document import Column, Row, Table, Value, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import load_table, published_with_runs
from lmms_egoplan.report.scored import in_percent
from lmms_egoplan.report.statistics import RESAMPLES

DECIMALS = 1
note = read_notes(__file__, resamples=RESAMPLES, min_items=MIN_ITEMS)
_COLUMNS = read_columns(__file__)
# Of Tables 9 to 11.
_GRADED_BY_SEVERAL = ("object", "planning")
_SAME_ANSWERS = 0.5
_OTHER_ANSWERS = "other answers than the published ones"


def all_tables(graded: Sequence[Graded], rated: Sequence[RatedAnswer]) -> Iterator[Table | None]:
    """Yield the section's tables in order; `rated` are people's ratings."""
    yield _table3(graded)
    yield _score_table("egothink_capabilities", "Capability", graded, CAPABILITIES)
    yield _score_table("egothink_dimensions", "Dimension", graded, SINGLE)
    yield _judges(graded)
    shown = ("egothink_comparisons", "Every pair of runs", DECIMALS, "questions", note("comparisons"))
    yield compared(graded, "score", *shown)
    yield _table9(rated, graded)
    yield _table10(rated)
    yield published_with_runs("Published: grades by two other judges", load_table("egothink", "table11"), ())


def _table3(graded: Sequence[Graded]) -> Table:
    """Return the dimensions' scores of each run among the published ones."""
    rows = []
    for run in graded:
        values = run.whole.values()
        row = {"model": run.name, "average": values.pop("score"), "apart": "; ".join(run.apart)}
        rows.append(row | {name: task_run.number("score") for name, task_run in run.tasks.items()} | values)
    notes = (note("average"), note("judge"), note("interval"), note("shares"))
    published = load_table("egothink", "table3")
    return published_with_runs("Twelve dimensions, beside Table 3", published, rows, _COLUMNS["table3"], notes)


def _score_table(key: str, head: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]) -> Table:
    """Return the scores of each run in each group of dimensions; `head` names a group."""
    columns = (Column("group", head), *_COLUMNS["scores"])
    parts = [(group, run.name, run.part(dimensions)) for group, dimensions in groups.items() for run in graded]
    rows = [part.values() | {"group": group, "model": name} for group, name, part in parts if part.questions]
    notes = (*([note("capability")] if head == "Capability" else []), note("interval"), note("shares"))
    return table_of_runs(key, f"Scores by {head.lower()}", columns, rows, notes)


def _judges(graded: Sequence[Graded]) -> Table | None:
    """Return the agreement of two judges on the same answers; None if no two runs have such answers."""
    rows: list[dict[str, Value]] = []
    for first, second in combinations(graded, 2):
        others = second.judged
        rated = [(one, others[key]) for key, one in first.judged.items() if key in others]
        same = [(one, other) for one, other in rated if one.answer == other.answer and one.judge != other.judge]
        if same and len(same) >= _SAME_ANSWERS * len(rated):
            rows += [{**row, "first": first.name, "second": second.name} for row in _agreements(same)]
    if not rows:
        return None
    notes = (note("agreement"), note("agreement_interval"), note("table9"))
    return table_of_runs("egothink_judges", "Judges of the same answers", _COLUMNS["judges"], rows, notes)


def _agreements(pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[dict[str, Value]]:
    scopes = {"all": tuple(CAPABILITIES), " and ".join(_GRADED_BY_SEVERAL): _GRADED_BY_SEVERAL}
    for scope, names in (scopes | {name: (name,) for name in CAPABILITIES}).items():
        chosen = [pair for pair in pairs if capability_of(pair[0].id) in names]
        if chosen:
            first, second = zip(*chosen, strict=True)
            found = agreement(_ratings(first), _ratings(second), LEVELS)
            yield {
                "first_judge": _judge_names(first),
                "second_judge": _judge_names(second),
                "answers": scope,
                "questions": found.questions,
                **coefficient_cells(pair_coefficients(found)),
            }


def _table9(rated: Sequence[RatedAnswer], graded: Sequence[Graded]) -> Table:
    """Return Pearson's r between the people and the judge of each run with the same answers."""
    people = {(answer.id, answer.answer): answer.rating for answer in rated}
    rows: list[dict[str, Value]] = []
    for run in graded:
        records = [
            record
            for record in run.judged.values()
            if (record.id, record.answer) in people and capability_of(record.id) in _GRADED_BY_SEVERAL
        ]
        if records:
            ratings = [people[record.id, record.answer] for record in records]
            pearson = coefficient_cells({"own": agreement(ratings, _ratings(records), None).pearson})
            few = [f"fewer than {MIN_ITEMS} answers, so no coefficient"] if len(records) < MIN_ITEMS else []
            cells: dict[str, Value] = {"evaluator": f"Human ({run.name})", "judge": _judge_names(records)}
            cells |= {name: in_percent(number) for name, number in pearson.items() if number is not None}
            rows.append(cells | {"answers": len(records), "apart": "; ".join((_OTHER_ANSWERS, *few))})
    title = "Judges and people, beside Table 9" if rows else "Published: Pearson's r between judges, times 100"
    return published_with_runs(title, load_table("egothink", "table9"), rows, _COLUMNS["table9"])


def _table10(rated: Sequence[RatedAnswer]) -> Table:
    """Return people's mean grades of each model, on the dimensions of object and planning."""
    rows: list[dict[str, Value]] = []
    for model in dict.fromkeys(answer.model for answer in rated):
        answers = [answer for answer in rated if answer.model == model]
        row: dict[str, Value] = {"grading_methods": f"People, {model}", "apart": _OTHER_ANSWERS}
        for dimension in DIMENSIONS:
            ratings = [answer.rating for answer in answers if dimension_of(answer.id) == dimension.name]
            if dimension.capability in _GRADED_BY_SEVERAL and ratings:
                row[f"{dimension.capability}_{dimension.name}"] = 100 * fmean(ratings)
        rows.append(row | {"answers": len(answers)})
    title = "People's grades, beside Table 10" if rows else "Published: people's grades of GPT-4V"
    return published_with_runs(title, load_table("egothink", "table10"), rows, _COLUMNS["table10"])


def judge_noise(judged: Sequence[Path]) -> Table | None:
    """Return the spread of ratings and scores in files of answers that were judged repeatedly; None without files.

    Raises:
        LmmsEgoplanError: A file cannot be read, or contains something else.
    """
    rows = []
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        name, repeats = path.stem if stems[path.stem] == 1 else str(path), len(next(iter(ratings.values())))
        for scope, noise in noise_by_dimension(ratings, EGOTHINK.official).items():
            spread = (min(noise.scores, default=None), max(noise.scores, default=None))
            rating_sd = None if noise.rating_sd is None else noise.rating_sd / 100
            numbers = (noise.score, noise.score_sd, *spread, in_percent(noise.changed), rating_sd)
            rows.append(Row((name, judges, scope, repeats, noise.answers, noise.left_out, *numbers), is_own=True))
    if not rows:
        return None
    columns, source = _COLUMNS["judge_noise"], "lmms-egoplan judge"
    notes = (note("noise"), note("noise_scale", questions=sum(EGOTHINK.official.values())))
    return Table("egothink_judge_noise", "Judge noise", columns, tuple(rows), source, notes)


def _ratings(records: Sequence[JudgedAnswer]) -> list[float]:
    return [record.rating for record in records if record.rating is not None]


def _judge_names(records: Sequence[JudgedAnswer]) -> str:
    return ", ".join(sorted({record.judge or "" for record in records}))
