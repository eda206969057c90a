"""Find the marks around an answer: GLM's box, tags and members of JSON objects."""

import ast
import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from lmms_egoplan.benchmarks.egoplan.reply.claims import ChoiceTexts, marked_letter
from lmms_egoplan.benchmarks.egoplan.reply.statements import (
    is_answer_name,
    is_denial,
    is_denying_name,
)

# GLM's box, and tags. All marks around an answer are replaced by LaTeX commands.
_BOXES = {"<|begin_of_box|>": r"\boxed{", "<|end_of_box|>": "}"}
_BOX = re.compile("|".join(re.escape(mark) for mark in _BOXES), re.IGNORECASE)
_TAG = re.compile(r"<(?P<end>/)?(?P<name>[a-z][a-z _-]{2,30})>", re.IGNORECASE)
# Values of members that have nothing to say.
_NOTHING = ("no", "none")
# Objects that are nested deeper are read as text.
_MOST_DEPTH = 20


def mark_answers(text: str, texts: ChoiceTexts) -> str:
    r"""Turn each mark around an answer into a LaTeX command.

    Marks are GLM's box, tags, and the answers in JSON objects. If another member of an object may
    take the answers back, the command is empty.

    >>> mark_answers("I say <final_answer>B</final_answer>", {})
    'I say \\answer{B}'
    >>> mark_answers('{"reason": "A is done", "answer": "B"}', {})
    '\\answer{B}'
    >>> mark_answers('{"answer": "A", "revised": "B"}', {})
    '\\answer{}'
    >>> mark_answers('{"answer": "A", "fits": false}', {})
    '\\answer{}'
    """
    text = _BOX.sub(lambda mark: _BOXES[mark[0].lower()], text)
    closed = {tag["name"].lower() for tag in _TAG.finditer(text) if tag["end"]}
    text = _TAG.sub(lambda tag: _tag_as_mark(tag, closed), text)
    objects = [(start, end, _members(text[start:end])) for start, end in _braces(text)]
    is_doubtful = _are_taken_back([members for _, _, members in objects], texts)
    parts: list[str] = []
    position = 0
    for start, end, members in objects:
        answers = list(_answers(members))
        if not answers and not _has_answer(members):
            continue
        parts.append(text[position:start])
        if is_doubtful:
            parts.append(r"\answer{}")
        else:
            parts += [f"\\answer{{{answer}}}" for answer in answers]
        position = end
    parts.append(text[position:])
    return "".join(parts)


def _tag_as_mark(tag: re.Match[str], closed: Collection[str]) -> str:
    if tag["name"].lower() not in closed or not is_answer_name(tag["name"]):
        return tag[0]
    return "}" if tag["end"] else r"\answer{"


def _braces(text: str) -> list[tuple[int, int]]:
    """Return start and end of the outermost pairs of braces."""
    pairs: list[tuple[int, int]] = []
    opened: list[int] = []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            start = opened.pop()
            if not opened:
                pairs.append((start, brace.end()))
    return pairs


class _Members(list[tuple[Any, Any]]):
    """Names and values of an object. A name may occur twice."""


def _members(text: str) -> _Members:
    """Return the members of a JSON object or a Python dictionary; none if the text is neither."""
    brackets = re.findall(r"[{}\[\]]", text)
    depths = accumulate(1 if bracket in "{[" else -1 for bracket in brackets)
    if max(depths, default=0) > _MOST_DEPTH:
        return _Members()
    with suppress(ValueError, RecursionError):
        return _Members(json.loads(text, object_pairs_hook=_Members))
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        members = ast.literal_eval(text)
        return _Members(members.items() if isinstance(members, dict) else ())
    return _Members()


def objects_as_lines(text: str) -> str:
    """Write each JSON object as lines of a name and a text, without the members that are not texts.

    An object with a false member stays as it is, since it may take an answer back.
    """
    parts: list[str] = []
    position = 0
    for start, end in _braces(text):
        members = _members(text[start:end])
        lines = []
        for name, value in members:
            if isinstance(name, str) and isinstance(value, str):
                lines.append(f"{name.replace('_', ' ')}: {value}")
        has_false = any(value is False for _, value in members)
        if lines and not has_false:
            parts.append(text[position:start])
            parts.append("\n".join(["", *lines, ""]))
            position = end
    parts.append(text[position:])
    return "".join(parts)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict | _Members)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and not isinstance(value, _Members)


def _named(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return names and values of an object; none for another value."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, _Members):
        yield from value


def _is_answer(name: Any) -> bool:
    return isinstance(name, str) and is_answer_name(name)


def _answers(value: Any, *, is_answer: bool = False) -> Iterator[str]:
    """Return the texts with the name of an answer.

    All objects and lists around them must have such a name, too.
    """
    if isinstance(value, str):
        if is_answer:
            yield re.sub(r"[{}\\]", " ", value)
    elif _is_object(value):
        for name, member in _named(value):
            if _is_answer(name):
                yield from _answers(member, is_answer=True)
    elif _is_list(value) and is_answer:
        for member in value:
            yield from _answers(member, is_answer=True)


def _has_answer(value: Any) -> bool:
    """Return True if an object at any depth has a member with the name of an answer and a text."""
    if _is_object(value):
        return any(_is_or_has_answer(name, member) for name, member in _named(value))
    return _is_list(value) and any(_has_answer(member) for member in value)


def _is_or_has_answer(name: Any, member: Any) -> bool:
    if _is_answer(name) and any(_answers(member, is_answer=True)):
        return True
    return _has_answer(member)


def _are_taken_back(objects: Sequence[_Members], texts: ChoiceTexts) -> bool:
    """Return True if one of the objects takes the answers of all of them back."""
    letters: set[str | None] = set()
    for members in objects:
        letters |= {marked_letter(answer, texts) for answer in _answers(members)}
    return any(_takes_back(members, letters, texts) for members in objects)


def _takes_back(value: Any, letters: Collection[str | None], texts: ChoiceTexts) -> bool:
    """Return True if a member of an object takes the answer back.

    Only members of objects that may have answers are read: the outermost one, and those with the
    name of an answer.
    """
    for name, member in _named(value):
        if isinstance(member, bool) and (not member or is_denying_name(str(name))):
            return True
        if _is_answer(name):
            inner = member if _is_list(member) else [member]
            if any(_takes_back(part, letters, texts) for part in inner):
                return True
        elif _speaks_against(name, member, letters, texts):
            return True
    return False


def _speaks_against(
    name: Any, member: Any, letters: Collection[str | None], texts: ChoiceTexts
) -> bool:
    """Return True if a member that is no answer denies, has an answer inside, or means one letter.

    The letter must not be one of the answers.
    """
    if _has_answer(member):
        return True
    if isinstance(member, str) and member.strip(" .").lower() not in _NOTHING and is_denial(member):
        return True
    if isinstance(name, str) and name.endswith("s"):  # a list, such as "alternatives"
        return False
    member_letters = {marked_letter(text, texts) for text in _strings(member)}
    member_letters.discard(None)
    return len(member_letters) == 1 and member_letters.isdisjoint(letters)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif _is_object(value):
        for _, member in _named(value):
            yield from _strings(member)
    elif _is_list(value):
        for member in value:
            yield from _strings(member)
