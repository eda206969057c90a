"""How far a judge's ratings of the same answers differ."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lmms_egoplan.benchmarks.egothink.repeats import noise_by_dimension, read_repeated
from lmms_egoplan.report.document import Column, Row, Table


def judge_noise(judged: Sequence[Path]) -> Table | None:
    """Spread of ratings and scores in files of answers that a judge has rated several times; None without files.

    Raises:
        LmmsEgoplanError: a file cannot be read, or holds something else.
    """
    rows = []
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        for scope, noise in noise_by_dimension(ratings).items():
            changed = None if noise.changed is None else 100 * noise.changed
            spread = (min(noise.scores, default=None), max(noise.scores, default=None))
            rating_sd = None if noise.rating_sd is None else noise.rating_sd / 100
            repeats = len(next(iter(ratings.values())))
            name = path.stem if stems[path.stem] == 1 else str(path)
            numbers = (noise.score, noise.score_sd, *spread, changed, rating_sd)
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
