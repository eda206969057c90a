"""Notes of several of EgoPlan's tables."""

from collections.abc import Sequence

from lmms_egoplan.report.egoplan.answers import CHANCE, Series
from lmms_egoplan.report.tables import show
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS

INTERVAL_NOTE = (
    "Low to high: 95 % interval over videos, each with all of its questions; Wilson's "
    "for scores and shares, from a bootstrap for other means. Absent without samples "
    f"or with fewer than {FEWEST_CLUSTERS} videos."
)
COUNTS_NOTE = (
    "Questions: the number that the accuracy covers. Coverage: their share of the official "
    "questions. A question that a model could not score counts as neither right nor wrong."
)
SCORE_NOTE = (
    "Accuracy: for your runs, the choices are ranked by the mean log-probability per token. The "
    "paper says likelihood p(a|v,l) (sec. 3.5), not whether it is a mean or a sum. The authors' "
    "code uses the mean, including the token that ends an answer, as egoplan_val_published does. "
    "By sum: the same, ranked by the sum; absent if the backend reports only means."
)
BENCH2_SCORE_NOTE = (
    "Accuracy: egoplan_bench2_generate reads the first capital A to D of a reply, as the paper's "
    "code does. Clear letter: accuracy of the letter that a reply clearly claims, which "
    "egoplan_bench2_thinking reads. A reply without one (unparsed) is wrong there. egoplan_bench2, "
    "which is not in the paper, ranks the choices by the mean log-probability per token. By sum "
    "and by bytes: the same, ranked by the sum and by the sum per UTF-8 byte. Truncated: replies "
    "that the limit on new tokens ended."
)


def chance_note(baselines: Sequence[Series], num_questions: int) -> str:
    """State the accuracies of chance and of the baselines without a model.

    Args:
        baselines: The baselines.
        num_questions: Number of questions that were asked and are available.
    """
    means = ", ".join(f"{task.task} {show(task.main.value, 2)} %" for task in baselines)
    return (
        f"Chance: {CHANCE:g} %. Without a model, over the {num_questions:,} "
        f"questions that were asked and are available: {means or 'missing'}. Most "
        "frequent action: the answer of most questions on other videos. Similarity "
        "to the goal: most word stems in common with it. Not done yet: any choice "
        "that is not among the past actions. Longest candidate: most characters. "
        "Equally good choices share one point. These baselines are this project's."
    )
