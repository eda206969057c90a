"""How far judges agree: two on the same answers, and one with itself when asked again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from pathlib import Path

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.rating_files import read_repeated
from lmms_egoplan.benchmarks.egothink.report.answers import CAPABILITIES, Graded
from lmms_egoplan.benchmarks.egothink.report.tables import NOTES
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.judging.agreement import agreement
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.scored import ends, in_percent

# Of Tables 9 to 11.
_GRADED_BY_SEVERAL = ("object", "planning")
_SAME_ANSWERS = 0.5


def judges(graded: Sequence[Graded]) -> Table | None:
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
    columns = (
        Column("first", "First run"), Column("first_judge", "Its judge"),
        Column("second", "Second run"), Column("second_judge", "Its judge"),
        Column("answers", "Answers"), Column("questions", "Questions"),
        Column("pearson", "Pearson's r", 3), *ends(3, "pearson_"),
        Column("kappa_unweighted", "Cohen's kappa", 3), *ends(3, "kappa_unweighted_"),
        Column("kappa_linear", "Kappa, linear", 3), *ends(3, "kappa_linear_"),
    )  # fmt: skip
    notes = (NOTES["agreement"], NOTES["agreement_interval"], NOTES["table9"])
    return Table("egothink_judges", "Judges of the same answers", columns, tuple(rows), "the runs", notes)


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
        for scope, noise in noise_by_dimension(ratings).items():
            spread = (min(noise.scores, default=None), max(noise.scores, default=None))
            rating_sd = None if noise.rating_sd is None else noise.rating_sd / 100
            numbers = (noise.score, noise.score_sd, *spread, in_percent(noise.changed), rating_sd)
            rows.append(Row((name, judges, scope, repeats, noise.answers, noise.left_out, *numbers), is_own=True))
    if not rows:
        return None
    columns = (
        Column("answers_of", "Answers of"), Column("judge", "Judge"), Column("questions", "Questions"),
        Column("repeats", "Repeats"), Column("answers", "Answers"), Column("left_out", "Left out"),
        Column("score", "Mean score", 2), Column("score_sd", "SD", 2), Column("lowest", "Lowest", 2),
        Column("highest", "Highest", 2), Column("changed", "Answers that change, %", 1),
        Column("rating_sd", "SD of a rating", 3),
    )  # fmt: skip
    notes = (NOTES["noise"], NOTES["noise_scale"])
    return Table("egothink_judge_noise", "Judge noise", columns, tuple(rows), "lmms-egoplan judge", notes)
