"""Report the noise of a judge that rated the same answers several times."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.report.egothink.agreement import noise_by_dimension
from lmms_egoplan.report.egothink.answer_files import read_repeated
from lmms_egoplan.report.scores import in_percent
from lmms_egoplan.report.tables import Column, Table, Value, table_of_runs


def noise_table(judged: Sequence[Path]) -> Table | None:
    """Build the table of judge noise; None without files of repeated judgements.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed.
    """
    rows = list(_noise_rows(judged))
    if not rows:
        return None
    columns = (
        Column("answers_of", "Answers of"),
        Column("judge", "Judge"),
        Column("questions", "Questions"),
        Column("repeats", "Repeats"),
        Column("answers", "Answers"),
        Column("left_out", "Excluded"),
        Column("score", "Mean score", decimals=2),
        Column("score_sd", "SD", decimals=2),
        Column("lowest", "Lowest", decimals=2),
        Column("highest", "Highest", decimals=2),
        Column("changed", "Answers that change, %", decimals=1),
        Column("rating_sd", "SD of a rating", decimals=3),
    )
    notes = [
        (
            "The judge rated each answer several times at temperature 0, so differences "
            "come from the endpoint. A difference between runs may be judge noise unless "
            "it is well above the SD of the score."
        ),
        (
            "Computed over the answers with a rating in every repeat; all other answers "
            "count as excluded. Scores are 0 to 100, ratings 0 to 1. The average is the "
            "plain mean over the dimensions. It requires a rating of all "
            f"{sum(EGOTHINK.official.values())} questions in every repeat."
        ),
    ]
    table = table_of_runs("egothink_judge_noise", "Judge noise", columns, rows, notes)
    return replace(table, source="lmms-egoplan judge")


def _noise_rows(judged: Sequence[Path]) -> Iterator[dict[str, Value]]:
    """Yield the spread of ratings and scores in files of repeated judgements.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed.
    """
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        for scope, noise in noise_by_dimension(ratings, EGOTHINK.official).items():
            yield {
                "answers_of": path.stem if stems[path.stem] == 1 else str(path),
                "judge": judges,
                "questions": scope,
                "repeats": len(next(iter(ratings.values()))),
                "answers": noise.answers,
                "left_out": noise.left_out,
                "score": noise.score,
                "score_sd": noise.score_sd,
                "lowest": min(noise.scores, default=None),
                "highest": max(noise.scores, default=None),
                "changed": in_percent(noise.changed),
                "rating_sd": None if noise.rating_sd is None else noise.rating_sd / 100,
            }
