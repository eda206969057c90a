"""Build the prompts for a model: the record's question, lettered choices, or narrations.

EgoPlan-Bench ranks the choices after the record's own question (sec. 3.5). All other wording is this project's.
EgoPlan-Bench2 publishes a prompt for letters.
"""

from lmms_egoplan.media.sampling import Doc

LETTERS = "ABCD"
# The question of EgoPlan-Bench's published records.
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {goal}?"
)

LETTER = "Reply with nothing but the letter of the action to take: A, B, C or D."
# For models that think first. The wording is this project's; the box is the form that teams read.
THINKING = (
    "Think about what has been done and what the last frame shows. Then put the letter of the action to take, A, B, C "
    "or D, in \\boxed{}."
)

_BENCH2_TASK = "Select the best answer to the following multiple-choice question based on the video."
# "Prompt" in the README of the paper's repository. The blank lines in `bench2_prompt` follow its eval.py.
BENCH2_LETTER = f"{_BENCH2_TASK} Respond with only the letter (A, B, C, or D) of the correct option."
# For models that think first. The second sentence is this project's.
BENCH2_THINKING = (
    f"{_BENCH2_TASK} Think first, then put the letter (A, B, C, or D) of the correct option in \\boxed{{}}."
)

NARRATED = "The progress up to now, as the actions that I have done, in order:"
NOTHING_DONE = "The progress up to now: I have done nothing yet."


def lettered_question(doc: Doc, instruction: str = LETTER) -> str:
    """Ask EgoPlan-Bench's question with choices lettered A to D, for models that answer in writing.

    This is not the paper's evaluation, which ranks the choices' likelihoods (sec. 3.5).

    Args:
        instruction: `LETTER`, or `THINKING` for a model that thinks before it answers.
    """
    return "\n".join([doc["question"], *_lettered_choices(doc), instruction])


def bench2_prompt(doc: Doc, instruction: str = BENCH2_LETTER) -> str:
    """Ask EgoPlan-Bench2's question with the published prompt: instruction, question, lettered choices.

    Args:
        instruction: `BENCH2_LETTER`, or `BENCH2_THINKING` for a model that thinks before it answers.
    """
    return "\n\n".join([instruction, doc["question"], "\n".join(_lettered_choices(doc))])


def narrated_question(doc: Doc) -> str:
    """Ask the record's question after the narrations of the past actions, in order, instead of the video.

    This is not the paper's evaluation. It shows what a model would know if it perceived the progress perfectly. The
    wording is this project's.
    """
    actions = [f"{number}. {action['narration_text']}" for number, action in enumerate(doc["past_actions"], start=1)]
    return "\n".join([NARRATED if actions else NOTHING_DONE, *actions, doc["question"]])


def _lettered_choices(doc: Doc) -> list[str]:
    return [f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True)]
