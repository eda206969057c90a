"""Read questions and answers of conversations.

Find the option that an answer names by its letter.
"""

import re
from collections.abc import Mapping
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.text import without_thinking
from lmms_egoplan.validation import quoted

_NUMBER = r"""
    [*_(\[]*
    ([A-Za-z]|\d{1,2})\b              # a letter or number
    [*_]*
    (?:[.):\]]+(?!\d)|\s+[-\u2013\u2014](?=\s))  # and its mark: "A.", "(A)", "A -", but not "1.5"
    [*_]*
"""
_OPTION = re.compile(rf"(?:(?<=[\s'\"])|^){_NUMBER}\s*(?=\S)", re.VERBOSE)
# A request after the options: "Please choose one.", "Answer with the option's letter", "Answer:",
# "What comes next?"
_REQUEST = re.compile(
    r"""
    \s+\W*
    (?:
        please\b
        | answer\s*:
        | (?:what|which)\b[^?]*\?
        | (?:answer|choose|select|respond|reply|provide|output|only)\b
          (?=.*\b(?:answer|option|letter|choice|number|directly|one)s?\b)
    )
    .*
    """,
    re.VERBOSE | re.IGNORECASE,
)
# "<answer>B</answer>", "\boxed{B}", "\boxed{\text{B}}"
_ANSWER = re.compile(
    r"<\s*answer\s*>(.*?)<\s*/\s*answer\s*>|\\boxed\{(?:\\text\{)?([^{}]*)\}",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"<(?![A-Za-z]>)[^<>\n]*>")
# An answer that names an option: groups 1 and 2 are name and text of "B. open tap", groups 3 and 4
# those of "B", "B because ..." and "B", then the text on the next line.
_LETTER = re.compile(
    rf"""
    \W*
    (?:
        [^.!?\n]{{0,60}}\b(?:answer|choice|option)(?:\s+is)?[\s:]*
        | I\s+(?:think|choose|pick|select)\s+
    )?
    (?:option\s+)?
    (?:
        {_NUMBER}\s*(.*)
        | [*_(\[]*([A-Za-z]|\d{{1,2}})
          (?:
            \s*\n\s*(.*)
            | ,?\s+(?:because|since|is[ ](?:the[ ])?(?:correct|right|best))\b.*
            | \W*
          )
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def turns_of(turn: Any, where: str, keys: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a turn of a conversation does, and its text.

    Args:
        turn: An object with a speaker and a content. The content is a text, or a list that contains
            texts and media.
        where: Position of the turn.
        keys: Names of keys and speakers, see ``training_files.yaml``.

    Returns:
        ``"asks"``, ``"answers"`` or ``"silent"``, and the text.

    Raises:
        LmmsEgoplanError: the turn has another form, or an unknown speaker.
    """
    row = turn if isinstance(turn, dict) else {}
    speaker = next((row[key] for key in keys["speaker"] if isinstance(row.get(key), str)), None)
    content = next(
        (row[key] for key in keys["content"] if isinstance(row.get(key), str | list)), None
    )
    if speaker is None or content is None:
        raise LmmsEgoplanError(
            f"{where}: expected a turn with from and value, or with role and content"
        )
    name = speaker.strip().lower()
    role = next((role for role in ("asks", "answers", "silent") if name in keys[role]), None)
    if role is None:
        raise LmmsEgoplanError(
            f"{where}: {quoted(speaker)} is no known speaker; use human and gpt, or user "
            "and assistant"
        )
    parts = [content] if isinstance(content, str) else [_part_text(part) for part in content]
    return role, "\n".join(part for part in parts if isinstance(part, str))


def _part_text(part: Any) -> Any:
    return part.get("text") if isinstance(part, dict) else part


def options_in(question: str) -> dict[str, str]:
    r"""Return the options in a question by letter, in lower case, or by number.

    They are lettered from A, or numbered from 0 or 1, on one or several lines. The last list
    counts.

    >>> options_in("What next? A. open tap\nB. take cup\nAnswer with a letter.")
    {'a': 'open tap', 'b': 'take cup'}
    >>> options_in("What next? **1.** open tap **2.** take cup Answer with the option's number.")
    {'1': 'open tap', '2': 'take cup'}
    """
    marks = list(_OPTION.finditer(question))
    letters = [mark for mark in marks if mark[1].isalpha()]
    numbers = [mark for mark in marks if mark[1].isdigit()]
    return _last_list(question, letters) | _last_list(question, numbers)


def _last_list(question: str, marks: list[re.Match[str]]) -> dict[str, str]:
    """Return the last options with consecutive letters or numbers."""
    options: dict[str, str] = {}
    run: list[re.Match[str]] = []
    for mark in marks:
        name = mark[1].lower()
        if run and name == _next(run[-1][1].lower()):
            run.append(mark)
        elif name in ("a", "0", "1"):
            run = [mark]
        if len(run) > 1:
            options = _texts_after(question, run)
    return {name: _REQUEST.sub("", text).strip() for name, text in options.items()}


def _texts_after(question: str, marks: list[re.Match[str]]) -> dict[str, str]:
    """Return the first line of the text between each mark and the next one, by its letter."""
    ends = [mark.start() for mark in marks[1:]]
    ends.append(len(question))
    texts = {}
    for mark, end in zip(marks, ends, strict=True):
        first_line = question[mark.end() : end].strip().split("\n")[0]
        texts[mark[1].lower()] = first_line.strip()
    return texts


def _next(name: str) -> str:
    return str(int(name) + 1) if name.isdigit() else chr(ord(name) + 1)


def without_mark(option: str) -> str:
    """Return an option's text without its letter or number.

    >>> without_mark("A. open tap"), without_mark("open tap")
    ('open tap', 'open tap')
    """
    text = option.strip()
    mark = _OPTION.match(text)
    return text[mark.end() :] if mark else text


def answer_of(
    question: str, answer: str, where: str, options: Mapping[str, str] | None = None
) -> str:
    r"""Return the text of an answer without thinking and tags.

    If it names an option, return the option's text.

    A letter without options gives "": nobody knows what it means.

    Args:
        question: Text that may contain options.
        answer: The answer, such as "B", "(B)", "B because ...", "<answer>B</answer>", or a text.
        where: Position of the answer.
        options: Options by letter or number that the record lists.

    Raises:
        LmmsEgoplanError: the answer's thinking does not end, or it is the letter or number of none
            of the options.

    >>> asked = "What next?\nA. open tap\nB. take cup"
    >>> [answer_of(asked, answer, "1") for answer in ("(B)", "The answer is A.", "close tap")]
    ['take cup', 'open tap', 'close tap']
    """
    reply = without_thinking(answer)
    if reply is None:
        raise LmmsEgoplanError(
            f"{where}: the answer is not readable, since its thinking does not end; correct it"
        )
    marked = _ANSWER.findall(reply)
    text = ("".join(marked[-1]) if marked else _TAG.sub(" ", reply)).strip()
    letter = _LETTER.fullmatch(text)
    if letter is None:
        return text
    name = (letter[1] or letter[3]).lower()
    rest = letter[2] or letter[4] or ""
    known = {**options_in(question), **(options or {})}
    if name in known or rest:
        return known.get(name, rest)
    if known:
        raise LmmsEgoplanError(
            f"{where}: {quoted(text)} is no option of the question; write the option's text"
        )
    return text if name.isdigit() else ""
