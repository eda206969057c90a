"""What a model is asked: the question that the goal makes, ranked, or lettered with the published prompt."""

from lmms_egoplan.benchmarks.egoplan.protocol import lettered_choices
from lmms_egoplan.media.sampling import Doc

# "Prompt" in the README of the paper's repository; the blank lines are those of its eval.py.
INSTRUCTION = (
    "Select the best answer to the following multiple-choice question based on the video. "
    "Respond with only the letter (A, B, C, or D) of the correct option."
)
# For models that think first: the published prompt but for its second sentence, which is the project's.
THINKING = (
    "Select the best answer to the following multiple-choice question based on the video. "
    "Think first, then put the letter (A, B, C, or D) of the correct option in \\boxed{}."
)


def lettered_question(doc: Doc) -> str:
    """The published prompt: the instruction, the question, and the choices under the letters A to D."""
    return _prompt(INSTRUCTION, doc)


def thinking_question(doc: Doc) -> str:
    """As `lettered_question`, for a model that thinks before it answers."""
    return _prompt(THINKING, doc)


def _prompt(instruction: str, doc: Doc) -> str:
    return "\n\n".join([instruction, doc["question"], "\n".join(lettered_choices(doc))])
