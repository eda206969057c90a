"""How far judges agree: two on the same answers, and one with itself when asked again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.repeats import noise_by_dimension, read_repeated
from lmms_egoplan.benchmarks.egothink.report.answers import CAPABILITIES, Graded
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.judging.agreement import Estimate, agreement
from lmms_egoplan.report.document import Column, Row, Table
from lmms_egoplan.report.scored import in_percent

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
        Column("pearson", "Pearson's r", 3), Column("pearson_low", "Low", 3), Column("pearson_high", "High", 3),
        *_kappa_columns("kappa_unweighted", "Cohen's kappa"), *_kappa_columns("kappa_linear", "Kappa, linear"),
    )  # fmt: skip
    notes = (
        "Over the answers that are the same in both runs and rated in both, where these are at least half of the rated "
        "ones. Kappa: Cohen's, unweighted, and with linear weights.",
        "Low, high: 95 % interval, percentiles of a bootstrap over questions. None where a judge gave one rating only.",
        "Object and planning is what the paper's Table 9 is over, which prints r times 100. Among its three people it "
        "gives a Cohen's kappa of 0.81 (sec. 5.2), and does not say how three were put together.",
    )
    return Table("egothink_judges", "Judges of the same answers", columns, tuple(rows), "the runs", notes)


def _agreements(first: str, second: str, pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[Row]:
    capability = {dimension.name: dimension.capability for dimension in DIMENSIONS}
    scopes = {"all": tuple(CAPABILITIES), " and ".join(_GRADED_BY_SEVERAL): _GRADED_BY_SEVERAL}
    for scope, names in (scopes | {name: (name,) for name in CAPABILITIES}).items():
        chosen = [pair for pair in pairs if capability[dimension_of(pair[0].id)] in names]
        if chosen:
            found = agreement([a.rating for a, _ in chosen], [b.rating for _, b in chosen], LEVELS)
            judges = [", ".join(sorted({pair[place].judge or "" for pair in chosen})) for place in (0, 1)]
            numbers = [end for one in (found.pearson, found.kappa_unweighted, found.kappa_linear) for end in _ends(one)]
            yield Row((first, judges[0], second, judges[1], scope, found.questions, *numbers), is_own=True)


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
    notes = (
        "The judge was asked the same several times, at temperature 0: what differs is the endpoint's doing. A "
        "difference between runs that is not well above the SD of the score may be the judge's.",
        "Over the answers with a rating each time; the others are counted as left out. Scores are 0 to 100, ratings 0 "
        "to 1; average is the plain mean over the dimensions.",
    )
    return Table("egothink_judge_noise", "Judge noise", columns, tuple(rows), "lmms-egoplan judge", notes)


def _kappa_columns(key: str, title: str) -> tuple[Column, ...]:
    return Column(key, title, 3), Column(f"{key}_low", "Low", 3), Column(f"{key}_high", "High", 3)


def _ends(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
