"""What a model is asked: the record's question, ranked, lettered or behind narrations.

The paper ranks the choices behind the record's own question (sec. 3.5); other words are the project's own.
"""

from lmms_egoplan.benchmarks.egoplan.protocol import lettered_choices
from lmms_egoplan.media.sampling import Doc

INSTRUCTION = "Reply with nothing but the letter of the action to take: A, B, C or D."

# For models that think first; the words are the project's, the box is what teams read.
THINKING = (
    "Think about what has been done and what the last frame shows. Then put the letter of the action to take, A, B, C "
    "or D, in \\boxed{}."
)

NARRATED = "The progress up to now, as the actions that I have done, in order:"
NOTHING_DONE = "The progress up to now: I have done nothing yet."


def lettered_question(doc: Doc) -> str:
    """The record's question with its choices under the letters A to D, for models that answer in writing.

    Not the paper's evaluation, which ranks the choices' likelihoods (sec. 3.5).
    """
    return "\n".join([doc["question"], *lettered_choices(doc), INSTRUCTION])


def thinking_question(doc: Doc) -> str:
    """As `lettered_question`, for a model that thinks before it answers."""
    return "\n".join([doc["question"], *lettered_choices(doc), THINKING])


def narrated_question(doc: Doc) -> str:
    """The record's question behind the narrations of the past actions, in order, in place of the video.

    Not the paper's evaluation: what perfect perception of the progress would tell a model. The words are the project's.
    """
    actions = [f"{number}. {action['narration_text']}" for number, action in enumerate(doc["past_actions"], start=1)]
    return "\n".join([NARRATED if actions else NOTHING_DONE, *actions, doc["question"]])
