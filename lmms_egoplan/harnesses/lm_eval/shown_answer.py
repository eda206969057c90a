"""Answers that record the form of the visual input, since lm-eval passes on only text."""

from typing import Any

from lmms_egoplan.text import clean_text

IMAGES, VIDEO = "images", "video"


class ShownAnswer(str):
    """An answer and the form of its visual input, `IMAGES` or `VIDEO`. ``--use_cache`` stores both."""

    media: str

    def __new__(cls, text: str, media: str) -> "ShownAnswer":
        """Create an answer from a text."""
        self = super().__new__(cls, text)
        self.media = media
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownAnswer, (str(self), self.media)


def media_of(answer: Any) -> str:
    """Return the form of a response's visual input. lm-eval's own classes support only images."""
    return answer.media if isinstance(answer, ShownAnswer) else IMAGES


def clean_answer(answer: str) -> str:
    """Clean an answer with `clean_text`, and keep the form of its visual input."""
    text = clean_text(answer)
    return ShownAnswer(text, answer.media) if isinstance(answer, ShownAnswer) else text
