"""EgoThink's tables: scores beside Table 3 and by group, and how far judges agree, with others and when asked again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.rating_files import read_repeated
from lmms_egoplan.benchmarks.egothink.report.answers import CAPABILITIES, SINGLE, Graded
from lmms_egoplan.benchmarks.egothink.report.people import RatedAnswer, table9, table10
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.splits import OFFICIAL
from lmms_egoplan.judging.agreement import MIN_ITEMS, agreement
from lmms_egoplan.report.document import Column, Row, Table, table_of_runs
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.scored import compared, in_percent
from lmms_egoplan.report.statistics import RESAMPLES

DECIMALS = 1
note = read_notes(__file__, resamples=RESAMPLES, min_items=MIN_ITEMS)
_COLUMNS = read_columns(__file__)
# Of Tables 9 to 11.
_GRADED_BY_SEVERAL = ("object", "planning")
_SAME_ANSWERS = 0.5


def all_tables(graded: Sequence[Graded], rated: Sequence[RatedAnswer] = ()) -> Iterator[Table | None]:
    """In the section's order; `rated` is what people said."""
    yield _table3(graded)
    yield _score_table("egothink_capabilities", "Capability", graded, CAPABILITIES)
    yield _score_table("egothink_dimensions", "Dimension", graded, SINGLE)
    yield _judges(graded)
    told = ("egothink_comparisons", "Every pair of runs", DECIMALS, "questions", note("comparisons"))
    yield compared(graded, "score", *told)
    yield table9(rated, graded)
    yield table10(rated)
    yield published_with_runs("Published: grades by two other judges", load_table("egothink", "table11"), ())


def _table3(graded: Sequence[Graded]) -> Table:
    """The dimensions' scores of each run among the published ones."""
    own = []
    for run in graded:
        values = run.whole.values()
        average = {"model": run.name, "average": values.pop("score"), "apart": run.apart}
        own.append(average | {name: task_run.number("score") for name, task_run in run.tasks.items()} | values)
    notes = (note("average"), note("judge"), note("interval"), note("shares"))
    return published_with_runs(
        "Twelve dimensions, beside Table 3", load_table("egothink", "table3"), own, _COLUMNS["table3"], notes
    )


def _score_table(key: str, head: str, graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]) -> Table:
    """Scores of each run in each group of dimensions; head: what a group is."""
    columns = (Column("group", head), *_COLUMNS["scores"])
    parts = [(group, run.name, run.part(dimensions)) for group, dimensions in groups.items() for run in graded]
    rows = [part.values() | {"group": group, "model": name} for group, name, part in parts if part.questions]
    notes = (*([note("capability")] if head == "Capability" else []), note("interval"), note("shares"))
    return table_of_runs(key, f"Scores by {head.lower()}", columns, rows, notes)


def _judges(graded: Sequence[Graded]) -> Table | None:
    """Agreement of two judges on the same answers; None where no two runs have such."""
    rows = []
    for first, second in combinations(graded, 2):
        common = [
            (first.answers[key].record, second.answers[key].record) for key in first.answers if key in second.answers
        ]
        rated = [pair for pair in common if None not in (pair[0].rating, pair[1].rating)]
        same = [(a, b) for a, b in rated if a.answer == b.answer and a.judge != b.judge]
        if same and len(same) >= _SAME_ANSWERS * len(rated):
            rows += _agreements(first.name, second.name, same)
    if not rows:
        return None
    notes = (note("agreement"), note("agreement_interval"), note("table9"))
    return Table("egothink_judges", "Judges of the same answers", _COLUMNS["judges"], tuple(rows), "the runs", notes)


def _agreements(first: str, second: str, pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[Row]:
    capability = {dimension.name: dimension.capability for dimension in DIMENSIONS}
    scopes = {"all": tuple(CAPABILITIES), " and ".join(_GRADED_BY_SEVERAL): _GRADED_BY_SEVERAL}
    for scope, names in (scopes | {name: (name,) for name in CAPABILITIES}).items():
        chosen = [pair for pair in pairs if capability[dimension_of(pair[0].id)] in names]
        if chosen:
            found = agreement([a.rating for a, _ in chosen], [b.rating for _, b in chosen], LEVELS)
            judges = [", ".join(sorted({pair[place].judge or "" for pair in chosen})) for place in (0, 1)]
            estimates = (found.pearson, found.kappa_unweighted, found.kappa_linear)
            numbers = [(None,) * 3 if one is None else (one.value, one.low, one.high) for one in estimates]
            yield Row((first, judges[0], second, judges[1], scope, found.questions, *chain(*numbers)), is_own=True)


def judge_noise(judged: Sequence[Path]) -> Table | None:
    """Spread of ratings and scores in files of answers that a judge has rated several times; None without files.

    Raises:
        LmmsEgoplanError: a file cannot be read, or holds something else.
    """
    rows = []
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        name, repeats = path.stem if stems[path.stem] == 1 else str(path), len(next(iter(ratings.values())))
        for scope, noise in noise_by_dimension(ratings, OFFICIAL).items():
            spread = (min(noise.scores, default=None), max(noise.scores, default=None))
            rating_sd = None if noise.rating_sd is None else noise.rating_sd / 100
            numbers = (noise.score, noise.score_sd, *spread, in_percent(noise.changed), rating_sd)
            rows.append(Row((name, judges, scope, repeats, noise.answers, noise.left_out, *numbers), is_own=True))
    if not rows:
        return None
    notes = (note("noise"), note("noise_scale", questions=sum(OFFICIAL.values())))
    return Table(
        "egothink_judge_noise", "Judge noise", _COLUMNS["judge_noise"], tuple(rows), "lmms-egoplan judge", notes
    )
