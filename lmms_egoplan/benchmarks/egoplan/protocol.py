"""The texts that a model is asked with: the record's question, the choices under letters, or narrations.

EgoPlan-Bench ranks the choices after the record's own question (sec. 3.5); other words are the project's own.
EgoPlan-Bench2 publishes a prompt for letters.
"""

from lmms_egoplan.media.sampling import Doc

LETTERS = "ABCD"
# In the published records of EgoPlan-Bench.
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {goal}?"
)

LETTER = "Reply with nothing but the letter of the action to take: A, B, C or D."
# For models that think first; the words are the project's, the box is what teams read.
THINKING = (
    "Think about what has been done and what the last frame shows. Then put the letter of the action to take, A, B, C "
    "or D, in \\boxed{}."
)

_BENCH2_TASK = "Select the best answer to the following multiple-choice question based on the video."
# "Prompt" in the README of the paper's repository; the blank lines in `bench2_prompt` are those of its eval.py.
BENCH2_LETTER = f"{_BENCH2_TASK} Respond with only the letter (A, B, C, or D) of the correct option."
# For models that think first: the second sentence is the project's.
BENCH2_THINKING = (
    f"{_BENCH2_TASK} Think first, then put the letter (A, B, C, or D) of the correct option in \\boxed{{}}."
)

NARRATED = "The progress up to now, as the actions that I have done, in order:"
NOTHING_DONE = "The progress up to now: I have done nothing yet."


def lettered_question(doc: Doc, instruction: str = LETTER) -> str:
    """Ask EgoPlan-Bench's question with its choices under the letters A to D, for models that answer in writing.

    Not the paper's evaluation, which ranks the choices' likelihoods (sec. 3.5).

    Args:
        instruction: `LETTER`, or `THINKING` for a model that thinks before it answers.
    """
    return "\n".join([doc["question"], *_lettered_choices(doc), instruction])


def bench2_prompt(doc: Doc, instruction: str = BENCH2_LETTER) -> str:
    """Ask EgoPlan-Bench2's question with the published prompt: instruction, question, choices under letters.

    Args:
        instruction: `BENCH2_LETTER`, or `BENCH2_THINKING` for a model that thinks before it answers.
    """
    return "\n\n".join([instruction, doc["question"], "\n".join(_lettered_choices(doc))])


def narrated_question(doc: Doc) -> str:
    """Ask the record's question after the narrations of the past actions, in order, instead of the video.

    Not the paper's evaluation: what perfect perception of the progress would tell a model. The words are the project's.
    """
    actions = [f"{number}. {action['narration_text']}" for number, action in enumerate(doc["past_actions"], start=1)]
    return "\n".join([NARRATED if actions else NOTHING_DONE, *actions, doc["question"]])


def _lettered_choices(doc: Doc) -> list[str]:
    return [f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True)]
