"""Answers with what the model was shown: lm-eval passes on only a text."""

from typing import Any

from lmms_egoplan.text import clean_text

IMAGES, VIDEO = "images", "video"


class ShownAnswer(str):
    """An answer and the form of its visual input, `IMAGES` or `VIDEO`; ``--use_cache`` keeps both."""

    media: str

    def __new__(cls, text: str, media: str) -> "ShownAnswer":
        """Make an answer of a text."""
        self = super().__new__(cls, text)
        self.media = media
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownAnswer, (str(self), self.media)


def media_of(answer: Any) -> str:
    """Return the form of the visual input of a response; lm-eval's own classes know only images."""
    return answer.media if isinstance(answer, ShownAnswer) else IMAGES


def clean_answer(answer: str) -> str:
    """Clean as `clean_text`, which returns a plain text."""
    text = clean_text(answer)
    return ShownAnswer(text, answer.media) if isinstance(answer, ShownAnswer) else text
