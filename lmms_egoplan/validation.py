"""Checks of values that others made, and how problems with them are told."""

import re
from collections.abc import Sequence
from typing import Any

_SHOWN = 80


def is_text(value: Any) -> bool:
    """Whether a value is a text with more than blanks that can be stored: JSON files may hold halves of surrogates."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def shown(value: Any) -> str:
    """A value of any kind for a message: in ASCII, cut after 80 characters; ``nothing`` for None."""
    text = "nothing" if value is None else ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def listing(problems: Sequence[str], limit: int) -> str:
    """Indented lines with the first `limit` problems, and how many more there are."""
    lines = [f"  {problem}" for problem in problems[:limit]]
    if len(problems) > limit:
        lines.append(f"  ... and {len(problems) - limit} more")
    return "\n".join(lines)
