"""Notes and columns of several of EgoThink's tables."""

from lmms_egoplan.report.tables import Column

INTERVAL_NOTE = (
    "Low to high: 95 % interval by Wilson over the questions of each dimension; that of a "
    "difference is from a bootstrap. It covers the choice of questions, not the choice of judge."
)
SHARES_NOTE = (
    "Coverage: fraction of the official questions with a rating (50 per dimension, 100 in activity "
    "and forecasting). The score is the mean over these ratings. Judged: fraction of the answers "
    "with a rating. Truncated: fraction of the answers that the limit on new tokens ended, if "
    "known. Suspect: fraction of the answers that look as if they rate themselves. Prompts: the "
    "model family of Tables 5 and 6 whose prompts were used."
)
SHARES_COLUMNS = (
    Column("questions", "Questions"),
    Column("coverage", "Coverage %", decimals=1),
    Column("judged", "Judged %", decimals=1),
    Column("truncated", "Truncated %", decimals=1),
    Column("suspect", "Suspect %", decimals=1),
    Column("judge", "Judge"),
    Column("prompts", "Prompts"),
)
"""The columns that `SHARES_NOTE` explains."""
