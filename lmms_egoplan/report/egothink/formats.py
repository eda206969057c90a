"""Compare EgoThink's yes-or-no questions and what-questions (Fig. 4 of the paper)."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.benchmarks.egothink.prepare import FORMATS
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.egothink.gallery import QUESTION_FORMAT
from lmms_egoplan.report.egothink.judges import ratings_of
from lmms_egoplan.report.egothink.slopes import slope_rows
from lmms_egoplan.report.scores import Key
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.intervals import RESAMPLES, interval_of_sums
from lmms_egoplan.stats.means import Mean


def formats_table(
    graded: Sequence[EgoThinkTask], facts_of: Callable[[Key], Mapping[str, str]]
) -> Table:
    """Compare yes-or-no questions and what-questions, after Fig. 4 of the paper.

    Args:
        graded: The runs.
        facts_of: Returns the attributes of a question.
    """
    columns = (
        Column("model", "Run"),
        Column("dimensions", "Dimensions"),
        Column("difference", "Difference", decimals=1),
        *interval_columns("difference", decimals=1),
        Column("questions", "Questions"),
        Column("left_out", "Not compared"),
    )
    notes = [
        (
            "Fig. 4 of the paper asks for one fact in two formats, once with yes or no "
            'and once with "what". The released questions contain no such pair. This '
            "table therefore compares different questions of the same dimensions, "
            "which may also differ in difficulty. Guesses are right more often if the "
            "answer is yes or no. Scores by format are among the scores by attribute."
        ),
        (
            "Difference: score of what-questions minus that of yes-or-no questions within a "
            "dimension; over several dimensions, a mean with weights n m / (n + m) for n and "
            f"m questions. Low to high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap "
            "resamples of the questions. Not compared: questions of other formats, of unknown "
            "text, or of dimensions that lack a format. These rules are this project's."
        ),
    ]
    title = "Yes-or-no questions and what-questions, after Fig. 4 of the paper"
    rows = _format_rows(graded, facts_of)
    return table_of_runs("egothink_formats", title, columns, rows, notes)


def _format_rows(
    graded: Sequence[EgoThinkTask], facts_of: Callable[[Key], Mapping[str, str]]
) -> Iterator[dict[str, Value]]:
    """Compare yes-or-no and what-questions of each run.

    The rows are for all dimensions together, and for each that has both.
    """
    for run in graded:
        facts = [facts_of(key) for key in run.judged]
        names = np.array([fact.get("dimension", "") for fact in facts])
        formats = np.array([fact.get(QUESTION_FORMAT, "") for fact in facts])
        # The group "" has no what-questions.
        groups = np.where(np.isin(formats, FORMATS[:2]), names, "")
        scores = 100 * np.array(ratings_of([*run.judged.values()]))
        summands = slope_rows(formats == FORMATS[1], scores, groups)
        for scope in ("all", *DIMENSION_NAMES):
            is_in_scope = (names == scope) | (scope == "all")
            used = summands[is_in_scope & (summands[:, 2] > 0)]
            if not len(used):
                continue
            interval = interval_of_sums(used, np.arange(len(used)), _slope)
            difference = Mean(used[:, 0].sum() / used[:, 1].sum(), interval)
            row: dict[str, Value] = {
                "model": run.name,
                "dimensions": scope,
                "questions": len(used),
                "left_out": int(is_in_scope.sum()) - len(used),
            }
            yield {**row, **difference.cells("difference")}


def _slope(sums: np.ndarray) -> np.ndarray:
    """Return the slope from sums of `slope_rows`."""
    return sums[..., 0] / sums[..., 1]
