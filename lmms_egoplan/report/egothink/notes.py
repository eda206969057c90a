"""Notes and columns of several of EgoThink's tables."""

from lmms_egoplan.report.tables import Column
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS

INTERVAL_NOTE = (
    "Low to high: 95 % interval by Wilson over the questions of each dimension; that of a "
    "difference is from a bootstrap. It covers the choice of questions, not the choice of judge. "
    f"None without samples or with fewer than {FEWEST_CLUSTERS} questions."
)
SHARES_COLUMNS = (
    Column("questions", "Questions", is_condition=True),
    Column(
        "coverage",
        "Coverage %",
        decimals=1,
        note=(
            "Coverage: share of the official questions with a rating (50 per dimension, 100 in "
            "activity and forecasting). The score is the mean over these ratings."
        ),
        is_condition=True,
    ),
    Column(
        "judged",
        "Judged %",
        decimals=1,
        note="Judged: share of the answers with a rating.",
        is_condition=True,
    ),
    Column(
        "truncated",
        "Truncated %",
        decimals=1,
        note="Truncated: share of the answers that the limit on new tokens ended, if known.",
        is_condition=True,
    ),
    Column(
        "suspect",
        "Suspect %",
        decimals=1,
        note="Suspect: share of the answers that look as if they rate themselves.",
        is_condition=True,
    ),
    Column("judge", "Judge", is_condition=True),
    Column(
        "prompts",
        "Prompts",
        note="Prompts: the model family of Tables 5 and 6 whose prompts were used.",
        is_condition=True,
    ),
)
"""The columns of `Part.values` except the score."""
