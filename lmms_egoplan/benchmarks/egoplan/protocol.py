"""What a model is asked: the question of a goal, and the choices under letters."""

from lmms_egoplan.benchmarks.egoplan.records import LETTERS
from lmms_egoplan.media.sampling import Doc

# As the published records of arXiv 2312.06722 have it.
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {goal}?"
)


def lettered_choices(doc: Doc) -> list[str]:
    """A line for each choice, under the letters A to D."""
    return [f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True)]
