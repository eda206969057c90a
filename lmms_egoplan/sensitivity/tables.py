"""Fill the tables of a sensitivity run from the cells of its conditions."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from lmms_egoplan.report.ledger import checkpoint_names, read_ledger
from lmms_egoplan.report.tables import Column, Row, Table
from lmms_egoplan.stats.equivalence import ERROR_RATE
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS
from lmms_egoplan.text import join_list

Cells = Mapping[str, Any]
"""Values of one condition, by the keys of columns. Missing values are absent or None."""

# By the rule of three, an answer that changes in none of n videos may still change in 3 of n: this
# number divided by n, in points.
RULE_OF_THREE = 300

_SCORE = (
    Column("score", "Score %", decimals=1),
    Column("score_low", "Low", decimals=1, end_of="score"),
    Column("score_high", "High", decimals=1, end_of="score"),
)
_DIFFERENCE = (
    Column("difference", "Difference", decimals=1),
    Column("low", "Low", decimals=1, end_of="difference"),
    Column("high", "High", decimals=1, end_of="difference"),
)
_P_VALUE = Column("p_value", "p", decimals=4)
_P_HOLM = Column("p_holm", "p (Holm)", decimals=4)
_CHANGED = Column("changed", "Changed %", decimals=1)
_UNPARSED = Column("unparsed", "Unparsed %", decimals=1)
_TRUNCATED = Column("truncated", "Cut off %", decimals=1)
_MISSING = Column("missing", "No reply to")


def _table(
    key: str, title: str, columns: Sequence[Column], rows: Iterable[Cells], *notes: str
) -> Table:
    """Return a table with a row for each mapping of cells."""
    filled = []
    for cells in rows:
        values = [cells.get(column.key) for column in columns]
        filled.append(Row(tuple(values)))
    return Table(key, title, tuple(columns), tuple(filled), notes=notes)


def presets_table(presets: Sequence[Cells]) -> Table:
    """Return the score of each preset, with its difference from the base."""
    columns = [
        Column("level", "Preset"),
        *_SCORE,
        *_DIFFERENCE,
        _P_VALUE,
        _P_HOLM,
        _CHANGED,
        _UNPARSED,
        _TRUNCATED,
        Column("questions", "Questions"),
        _MISSING,
        Column("unknown", "Unknown fields with the values used, and gaps"),
    ]
    note = (
        "Each preset asks and scores as a published pipeline does. Intervals are for 95 %, with "
        f"videos as clusters, and absent for fewer than {FEWEST_CLUSTERS} videos. p-values are "
        "corrected by Holm's method over the presets, which are a family of their own. Changed: "
        "share of questions with another chosen option than at the base. A reply in which the "
        "parser reads no letter from A to D is unparsed, and wrong. Cut off: share of replies that "
        "the limit on new tokens ended, where the backend counts tokens. A preset without a "
        "difference equals the base. Fields that the source does not state have the listed values, "
        "with long ones cut. Such a score need not be the pipeline's."
    )
    return _table("presets", "Score by preset", columns, presets, note)


def factors_table(factors: Sequence[Cells]) -> Table:
    """Return the summary of each factor, see `effects.factors_of`."""
    columns = [
        Column("factor", "Factor"),
        Column("levels", "Levels"),
        Column("spread", "Spread", decimals=1),
        Column("level", "Strongest level"),
        *_DIFFERENCE,
        _P_HOLM,
        Column("bound", "Bound", decimals=1),
        Column("changed", "Most changed %", decimals=1),
    ]
    note = (
        "Spread: largest difference between two levels, the base among them. Strongest level: the "
        "largest difference from the base, among those with a corrected p-value below "
        f"{ERROR_RATE} if there are any. Bound: the largest end of a 95 % interval of the factor's "
        f"differences, but at least {RULE_OF_THREE} points divided by the number of videos. Each "
        "interval is for one difference, not for all of them together. Most changed: largest share "
        "of questions with another chosen option than at the base. Many changed answers with equal "
        "scores also show that a choice matters."
    )
    return _table("factors", "Effect by factor", columns, factors, note)


def effects_table(levels: Sequence[Cells]) -> Table:
    """Return the base and each level of each factor, with its difference from the base."""
    columns = [
        Column("factor", "Factor"),
        Column("level", "Level"),
        *_SCORE,
        *_DIFFERENCE,
        _P_VALUE,
        _P_HOLM,
        _CHANGED,
        _UNPARSED,
        _TRUNCATED,
        Column("compared", "Compared"),
        _MISSING,
    ]
    note = (
        "One factor differs from the base at a time. p-values are corrected by Holm's method over "
        "the levels of all factors. Replies that are sampled differ from run to run, and stored "
        "ones are reused, so a condition with sampling also changes answers by chance. Levels "
        "without a difference equal the base."
    )
    return _table("effects", "Effect by level", columns, levels, note)


def scoring_table(scoring: Sequence[Cells]) -> Table:
    """Return the scores by letters and by likelihoods. The first row is the base."""
    columns = [
        Column("level", "Scoring"),
        *_SCORE,
        Column("questions", "Questions"),
        _UNPARSED,
        _TRUNCATED,
        Column("unscored", "Without likelihoods"),
        Column("ties", "Ties"),
    ]
    note = (
        "The first row is the base. The other rows rank the options by likelihood: mean per token, "
        "sum, or sum per byte. Questions with an unknown likelihood are excluded. Ties: questions "
        "for which several options share the best mean; the first one counts."
    )
    return _table("scoring", "Letters and likelihoods", columns, scoring, note)


def published_table(benchmark: str, model: str, presets: Sequence[Cells]) -> Table:
    """Return the published scores of a checkpoint, with the presets whose intervals contain them.

    Args:
        benchmark: Name of the benchmark.
        model: Name of the checkpoint.
        presets: Cells of the presets.
    """
    columns = [
        Column("source", "Source"),
        Column("date", "Date"),
        Column("score", "Published"),
        Column("presets", "Presets whose interval contains it"),
        Column("marks", "Marks"),
        Column("prompt", "Prompt"),
        Column("frames", "Frames"),
        Column("parser", "Parser"),
    ]
    notes = [
        "From the ledger of published scores, over all questions of the benchmark. The intervals "
        "are those of the questions asked here. A score within an interval does not show that the "
        "protocols are equal."
    ]
    names = checkpoint_names(model)
    rows = []
    for score in read_ledger():
        is_whole = score.group[:2] in ((benchmark, "all"), (benchmark, "val"))
        if not is_whole or score.name not in names:
            continue
        around = [preset["level"] for preset in presets if _contains(preset, score.value)]
        rows.append(
            {
                **score.cells,
                "marks": ", ".join(score.marks),
                "presets": join_list(around) or "none",
            }
        )
    if not rows:
        notes.append(f"The ledger has no score of {model} over all questions of this benchmark.")
    return _table("published", "Published scores of this checkpoint", columns, rows, *notes)


def _contains(preset: Cells, score: Fraction) -> bool:
    """Return whether the interval of a preset contains a score. A preset may have no interval."""
    low = preset["score_low"]
    high = preset["score_high"]
    if low is None or high is None:
        return False
    return low <= score <= high
