"""Notes of several of EgoPlan's tables."""

from collections.abc import Sequence

from lmms_egoplan.report.egoplan.answers import CHANCE, Series
from lmms_egoplan.report.egoplan.baselines import BASELINES
from lmms_egoplan.report.tables import Column, show
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS

INTERVAL_NOTE = (
    "Low to high: 95 % interval over videos, each with all of its questions, by Wilson or, for "
    "other means than scores and shares, from a bootstrap. None without samples or with fewer than "
    f"{FEWEST_CLUSTERS} videos."
)
SCORE_NOTE = (
    "Accuracy: share of the questions for which the right choice has the highest mean "
    "log-probability per token. The paper does not say whether its likelihood is a mean or a sum "
    "(sec. 3.5). The authors' code uses the mean, including the token that ends an answer, as "
    "egoplan_val_published does."
)
BENCH2_SCORE_NOTE = (
    "Accuracy: egoplan_bench2_generate reads the first capital A to D of a reply, as the paper's "
    "code does. egoplan_bench2_thinking reads the letter that a reply clearly claims, and counts a "
    "reply without one as wrong. egoplan_bench2, which is not in the paper, ranks the choices by "
    "the mean log-probability per token."
)
BY_SUM_NOTE = "By sum: the choices are ranked by the sum of the log-probabilities instead."
COUNT_COLUMNS = (
    Column(
        "questions",
        "Questions",
        note=(
            "Questions: the number that the accuracy covers. A question that a model could not "
            "score counts as neither right nor wrong."
        ),
        is_condition=True,
    ),
    Column(
        "coverage",
        "Coverage %",
        decimals=1,
        note="Coverage: their share of the official questions.",
        is_condition=True,
    ),
)
"""The columns of `Series.counts`."""


def chance_note(baselines: Sequence[Series], num_questions: int) -> str:
    """State the accuracies of chance and of the baselines without a model, and what they do.

    Args:
        baselines: The baselines.
        num_questions: Number of questions that were asked and are available.
    """
    if not baselines:
        return f"Chance: {CHANCE:g} %. Baselines without a model: missing."
    texts = []
    for task in baselines:
        score = show(task.main.value, 2)
        does = BASELINES[task.task]
        texts.append(f"{task.task}, {score} %: {does[0].lower()}{does[1:].rstrip('.')}")
    return (
        f"Chance: {CHANCE:g} %. Baselines without a model, over {num_questions:,} questions: "
        f"{'; '.join(texts)}. Equally good choices share one point."
    )
