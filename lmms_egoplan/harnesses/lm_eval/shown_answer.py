"""Answers that record the form of the visual input and whether they are truncated; lm-eval passes on only text."""

from typing import Any

from lmms_egoplan.text import clean_text

IMAGES, VIDEO = "images", "video"


class ShownAnswer(str):
    """An answer, the form of its visual input, `IMAGES` or `VIDEO`, and whether the limit on new tokens ended it.

    ``--use_cache`` stores all three.
    """

    media: str
    truncated: bool | None

    def __new__(cls, text: str, media: str, *, truncated: bool | None = None) -> "ShownAnswer":
        """Create an answer from a text."""
        self = super().__new__(cls, text)
        self.media, self.truncated = media, truncated
        return self

    def __getnewargs_ex__(self) -> tuple[Any, ...]:
        return (str(self), self.media), {"truncated": self.truncated}


def media_of(answer: Any) -> str:
    """Return the form of a response's visual input. lm-eval's own classes support only images."""
    return answer.media if isinstance(answer, ShownAnswer) else IMAGES


def truncated_of(answer: Any) -> bool | None:
    """Return whether the limit on new tokens ended a response; None if unknown, as for lm-eval's own classes."""
    return answer.truncated if isinstance(answer, ShownAnswer) else None


def clean_answer(answer: str) -> str:
    """Clean an answer with `clean_text`, and keep what it records."""
    text = clean_text(answer)
    return ShownAnswer(text, answer.media, truncated=answer.truncated) if isinstance(answer, ShownAnswer) else text
