"""Read questions and answers of conversations, and the option that an answer names by its letter."""

import re
from collections.abc import Mapping
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.validation import quoted

_OPTION = re.compile(r"(?:(?<=\s)|^)[(\[]?([A-Za-z])[.):\]]+\s*(?=\S)")
_LETTER = re.compile(
    r"\W*(?:(?:the\s+)?(?:correct\s+|right\s+|best\s+)?(?:answer|choice|option)(?:\s+is)?[\s:]*)?[(\[]?([A-Za-z])(?:[.):\]]+\s*(.*)|\W*)",
    re.IGNORECASE | re.DOTALL,
)


def turns_of(turn: Any, where: str, keys: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a turn of a conversation does, and its text.

    Args:
        turn: An object with a speaker and a content. The content is a text, or a list that contains texts and media.
        where: Position of the turn.
        keys: Names of keys and speakers, see ``training_files.yaml``.

    Returns:
        ``"asks"``, ``"answers"`` or ``"silent"``, and the text.

    Raises:
        LmmsEgoplanError: the turn has another form, or an unknown speaker.
    """
    row = turn if isinstance(turn, dict) else {}
    speaker = next((row[key] for key in keys["speaker"] if isinstance(row.get(key), str)), None)
    content = next((row[key] for key in keys["content"] if isinstance(row.get(key), str | list)), None)
    if speaker is None or content is None:
        raise LmmsEgoplanError(f"{where}: expected a turn with from and value, or with role and content")
    kind = next((kind for kind in ("asks", "answers", "silent") if speaker.strip().lower() in keys[kind]), None)
    if kind is None:
        raise LmmsEgoplanError(
            f"{where}: {quoted(speaker)} is no known speaker; use human and gpt, or user and assistant"
        )
    parts = [content] if isinstance(content, str) else [part.get("text") for part in content if isinstance(part, dict)]
    return kind, "\n".join(part for part in parts if isinstance(part, str))


def options_in(question: str) -> dict[str, str]:
    r"""Return the options in a question by letter, in lower case. They are lettered from A, on one or several lines.

    >>> options_in("What next? A. open tap\nB. take cup\nAnswer with a letter.")
    {'a': 'open tap', 'b': 'take cup'}
    """
    marks: list[re.Match[str]] = []
    for mark in _OPTION.finditer(question):
        if mark[1].lower() == "a":
            marks = [mark]
        elif mark[1].lower() == chr(ord("a") + len(marks)):
            marks.append(mark)
    if len(marks) < 2:
        return {}
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    texts = (question[mark.end() : end].strip().split("\n")[0] for mark, end in zip(marks, ends, strict=True))
    return {mark[1].lower(): text.strip() for mark, text in zip(marks, texts, strict=True)}


def answer_of(question: str, answer: str, options: Mapping[str, str] | None = None) -> str:
    r"""Return the text of an answer: that of the option whose letter it is, or its own.

    A letter without options gives "".

    >>> asked = "What next?\nA. open tap\nB. take cup"
    >>> answer_of(asked, "(B)"), answer_of(asked, "The answer is A."), answer_of(asked, "close tap")
    ('take cup', 'open tap', 'close tap')
    """
    letter = _LETTER.fullmatch(answer.strip())
    if letter is None:
        return answer
    return (options or options_in(question)).get(letter[1].lower(), letter[2] or "")
