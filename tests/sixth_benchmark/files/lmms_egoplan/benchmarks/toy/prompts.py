"""Word the question about the picture."""

from collections.abc import Mapping
from typing import Any


def short_question(doc: Mapping[str, Any]) -> str:
    """Return the question for an answer in words."""
    return f"{doc['question']} Answer in a few words."
