"""Notes and columns of several of ActPlan-1K's tables."""

from lmms_egoplan.benchmarks.actplan.instances import INSTANCES
from lmms_egoplan.report.tables import Column
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS

INTERVAL_NOTE = (
    "Low to high: 95 % interval over activities, each with all of its plans; by Wilson for "
    "scores, from a bootstrap for numbers of steps and differences. None without samples or with "
    f"fewer than {FEWEST_CLUSTERS} activities."
)
GOLD_NOTE = (
    "LCS compares with gold plan 1 unless stated otherwise. The paper does not say "
    "which gold plan it uses. The authors' code uses gold plan 1 for Claude's and "
    "GPT-4V's plans, and gold plan 2 for Gemini's."
)
OWN_GOLD_NOTE = (
    "Each gold plan favours one model. In the published plans, GPT-4V has a normalised "
    "LCS of 0.527 with gold plan 1 and 0.397 with gold plan 2, and Gemini-Pro-1.5 has "
    "0.471 and 0.628; 58 of the 209 plans that people called correct equal a gold "
    "plan. The gold plans were therefore probably written from these two models' "
    "plans, and Table 4 scores each of the two against its own. A run has no gold plan "
    "of its own, so its scores are not directly comparable with these two rows."
)
SHARES_COLUMNS = (
    Column("plans", "Plans", note="Plans: number of plans in the score.", is_condition=True),
    Column(
        "coverage",
        "Coverage %",
        decimals=1,
        note=(
            f"Coverage: share of the paper's {sum(INSTANCES.values()):,} instances "
            f"({INSTANCES['normal']} normal, {INSTANCES['counterfactual']} counterfactual)."
        ),
        is_condition=True,
    ),
    Column(
        "truncated",
        "Truncated %",
        decimals=1,
        note="Truncated: share of the answers that reached the limit on new tokens, if known.",
        is_condition=True,
    ),
)
"""The columns of `Planned.shares`."""
