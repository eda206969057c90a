"""Answers that record what a run reports about them; lm-eval passes on only text."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from lmms_egoplan.text import clean_text

IMAGES = "images"
VIDEO = "video"


class ShownAnswer(str):
    """An answer with what a run reports about it. ``--use_cache`` stores all of it.

    Attributes:
        media: Form of the visual input, `IMAGES` or `VIDEO`.
        truncated: Whether the limit on new tokens ended the answer; None if unknown.
        counts: Known counts of its question, see `record.known`.
    """

    media: str
    truncated: bool | None
    counts: Mapping[str, int]

    def __new__(
        cls,
        text: str,
        media: str,
        *,
        truncated: bool | None = None,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> "ShownAnswer":
        """Create an answer from a text."""
        self = super().__new__(cls, text)
        self.media = media
        self.truncated = truncated
        self.counts = dict(counts)
        return self

    def __getnewargs_ex__(self) -> tuple[Any, ...]:
        return (str(self), self.media), {"truncated": self.truncated, "counts": self.counts}


def media_of(answer: Any) -> str:
    """Return the form of a response's visual input. lm-eval's own classes support only images."""
    return answer.media if isinstance(answer, ShownAnswer) else IMAGES


def truncated_of(answer: Any) -> bool | None:
    """Return whether the limit on new tokens ended a response.

    None if unknown, as for lm-eval's own classes.
    """
    return answer.truncated if isinstance(answer, ShownAnswer) else None


def clean_answer(answer: str) -> str:
    """Clean an answer with `clean_text`, and keep what it records."""
    text = clean_text(answer)
    if not isinstance(answer, ShownAnswer):
        return text
    return ShownAnswer(text, answer.media, truncated=answer.truncated, counts=answer.counts)
