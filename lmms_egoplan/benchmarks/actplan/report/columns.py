"""Columns and notes that the benchmark's tables share."""

from lmms_egoplan.benchmarks.actplan.report.answers import INSTANCES
from lmms_egoplan.report.document import Column
from lmms_egoplan.report.statistics import RESAMPLES

DECIMALS = 3

SHARES = (
    Column("plans", "Plans"),
    Column("coverage", "Coverage %", 1),
    Column("truncated", "Truncated %", 1),
)
ENDS = (Column("low", "Low", DECIMALS), Column("high", "High", DECIMALS))
SHARES_NOTE = (
    f"Plans: how many the score is over. Coverage: their share of the paper's {sum(INSTANCES.values()):,} instances "
    f"({INSTANCES['normal']} normal, {INSTANCES['counterfactual']} counterfactual). Truncated: share of the answers "
    "that the limit on new tokens ended, where that is known."
)
INTERVAL_NOTE = (
    f"Low, high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap resamples of the activities, each with all of "
    "its plans. None for fewer than two activities; too narrow for few."
)
GOLD_NOTE = (
    "LCS is against gold plan 1 where nothing else is said. The paper does not say which gold plan it takes; the "
    "authors' code takes gold plan 1 for Claude's and GPT-4V's plans, gold plan 2 for Gemini's."
)
