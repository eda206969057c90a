r"""Read the one letter that a written answer claims.

    read letter = marked (``\boxed{B}``, JSON), or stated ("the answer is B"), or the first or last
    line ("B. text")

The patterns for claims expect the lines that `_lines` returns: half-width characters, single
spaces, round brackets, no emphasis.
"""

import ast
import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.statements import (
    DENIED,
    RETRACTION,
    contradicts,
    is_answer_name,
    is_denial,
    is_denying_name,
    stated_letter,
)
from lmms_egoplan.judging.text import without_reasons, without_thinking
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import compile_patterns

# GLM's box, and tags. All marks around an answer are replaced by LaTeX commands.
_BOXES = {"<|begin_of_box|>": r"\boxed{", "<|end_of_box|>": "}"}
_BOX = re.compile("|".join(map(re.escape, _BOXES)), re.IGNORECASE)
_TAG = re.compile(r"<(?P<end>/)?(?P<name>[a-z][a-z _-]{2,30})>", re.IGNORECASE)
_PAIR = re.compile(r"<(?P<name>[a-zA-Z]\w{0,30})>(?P<text>[^<>]{1,200})</(?P=name)>")
# Fences of code, and invisible characters.
_UNSEEN = re.compile("^[ \\t]*```[\\w-]*[ \\t]*$|[\u200b-\u200f\u2060\ufe0f\ufeff]", re.MULTILINE)
# Reduce brackets, full stops, quotation marks and dashes to one form each before parsing.
_SIGNS = dict(
    zip(
        map(ord, "[{【「『\u3014]}】」』\u3015、\u2018\u2019\u2013\u2014"),
        "(((((()))))).''--",
        strict=True,
    )
) | {ord("。"): ". "}
_LOOK_BACK = 300
# Values of members that have nothing to say.
_NOTHING = ("no", "none")
_SENTENCE_END = re.compile(r"(?<=[.!?;)])\s+|\n")
# Objects that are nested deeper are read as text.
_MOST_DEPTH = 20

# Texts that EgoPlan-Bench2's eval.py (commit 2523b38) removes, in its order. Two of them are pairs
# that its source joins by a missing comma, so "Best answer: C" is read as B.
OPENINGS = (
    *("The best answer is", "The correct answer is", "The answer is", "The answer"),
    *("The best option isThe correct option is", "Best answer:Best option:", "Answer:", "Option:"),
    *("The correct answer", "The correct option"),
)

_RE = compile_patterns(module_yaml(__file__))
_Texts = Mapping[str, str]
"""Texts of the choices by letter, in lower case; none is empty."""


def parse_letter(reply: str, choices: Sequence[str] = ()) -> str | None:
    r"""Read the one letter that a reply claims; None if it claims none or several.

    Thoughts are removed first; an unfinished thought makes the reply unreadable. If the reply has
    ``\boxed{B}`` or GLM's box, or otherwise a tag or a member of a JSON object that is named after
    an answer, only these marks are read. They must agree with each other, and with any claim in the
    text around them. An object must not take its answer back by a false member, another letter or
    choice, or an answer in an inner object.

    Otherwise, a claim is one of these:

    * The last line states the answer: ``The answer is B.``, ``The best choice is therefore B.
      text``. Earlier lines may contain other letters.
    * The first line states the answer, or it is the letter, marked as an option or followed by its
      choice's text: ``B``, ``B.``, ``(B)``, ``B) text``, ``Option B``. No other letter is a
      separate word anywhere, as in ``A or B`` or ``A cat``.
    * A line in between states the answer, and no other letter is a separate word anywhere.
    * The last line is the letter with its choice's text, and no other line begins with a letter.
    * The first or the last sentence is a statement in any language that `stated_letter` knows, such
      as the text of a choice alone.

    If claims differ, a letter is followed by another choice's text, or words such as "wait, no" or
    a sentence such as "Incorrect." follow, no letter is read. Nor is one in a tag or command that
    may cross it out.

    Args:
        choices: Texts of the choices, in the letters' order.

    >>> parse_letter("The drawer is closed.\nThe best choice is therefore **B. open it**.", ["cut it", "open it"])
    'B'
    >>> parse_letter("B open it", ["cut it", "open it"]), parse_letter("B. cut it", ["cut it", "open it"])
    ('B', None)
    >>> parse_letter('{"answer": "B"}'), parse_letter("Open it.", ["cut it", "open it"]), parse_letter("정답은 B입니다")
    ('B', 'B', 'B')
    """
    spoken = without_reasons(without_thinking(reply) or "")
    # A thought may also begin after other text.
    if spoken is None or any(
        without_thinking(part) is None for part in re.split(r"(?=[<\[◁])", spoken)
    ):
        return None
    plain_choices = (" ".join(_plain(choice).split()).rstrip(" .").lower() for choice in choices)
    texts = {letter: text for letter, text in zip(LETTERS, plain_choices, strict=False) if text}
    if not ("<s>" in spoken and "</s>" in spoken):  # tokens; a pair would cross the text out
        spoken = spoken.replace("<s>", " ").replace("</s>", " ")
    spoken = _mark_answers(_UNSEEN.sub("", unicodedata.normalize("NFKC", spoken)), texts)
    letter = _read(spoken, texts)
    return None if letter is None or _is_retracted(spoken, letter) else letter


def parse_reasoned(reply: str, choices: Sequence[str] = ()) -> tuple[str | None, dict[str, str]]:
    r"""Read a reply to `REASONED`: the letter of its last part, and its parts as they are named.

    The letter is read by `parse_letter` from the plan. Without a plan, it is read from the last
    line, so that a reply that ends in the summary or the description claims nothing; without any
    named part, from the whole reply. If a name occurs several times, its last text counts.

    Returns:
        The letter or None, and the texts of ``progress``, ``observation`` and ``plan``, in the
        order of the reply. A part without a name is missing.

    >>> parse_reasoned("**Task progress:** lid off\nCurrent observation: A spoon.\nNext action: B")
    ('B', {'progress': 'lid off', 'observation': 'A spoon.', 'plan': 'B'})
    >>> parse_reasoned("Task progress: lid off\nCurrent observation: A")
    (None, {'progress': 'lid off', 'observation': 'A'})
    """
    spoken = _objects_as_lines(without_thinking(reply) or "")
    names = list(_RE.part.finditer(spoken))
    ends = [*(name.start() for name in names), len(spoken)][1:]
    parts = {
        str(name.lastgroup): spoken[name.end() : end].strip(" \t\n*_`")
        for name, end in zip(names, ends, strict=True)
    }
    if not parts:
        return parse_letter(reply, choices), parts
    return parse_letter(parts.get("plan") or spoken.strip().rpartition("\n")[2], choices), parts


def first_letter(reply: str, openings: Sequence[str] = OPENINGS) -> str | None:
    """Read a reply as extract_characters_regex in EgoPlan-Bench2's eval.py does: the first capital
    A to D anywhere.

    Args:
        openings: Texts that are removed first, in this order.

    >>> first_letter("The answer is B."), first_letter("Answer: B"), first_letter("Add it, so B"), first_letter("none")
    ('B', 'B', 'A', None)
    """
    for opening in openings:
        reply = reply.replace(opening, "")
    letter = re.search("[ABCD]", reply)
    return letter and letter[0]


def _read(spoken: str, texts: _Texts) -> str | None:
    for marked in (_RE.boxed, _RE.answer):
        if answers := marked.findall(spoken):
            letters = {_marked_letter(text, texts) for text in answers}
            around = marked.sub(" ", spoken)
            tagged = {_marked_letter(pair["text"], texts) for pair in _PAIR.finditer(around)}
            letters |= ({_read(around, texts), *tagged} - {None}) | _mentioned(
                _lines(_plain(around))
            )
            return letters.pop() if len(letters) == 1 else None
    return _letter_of(_plain(spoken), texts)


def _marked_letter(text: str, texts: _Texts) -> str | None:
    """Read the text of a mark, where a letter may be in lower case."""
    return _letter_of(_RE.small.sub(lambda small: small[0].upper(), _plain(text)), texts)


def _letter_of(plain: str, texts: _Texts) -> str | None:
    lines = _lines(plain)
    if letter := _claimed(plain, texts):
        is_list = _lists_all("\n".join(lines), texts)
        return letter if is_list or not contradicts(lines, texts, letter) else None
    letter = stated_letter(lines, texts)
    return letter if letter and _mentioned(lines) <= {letter} else None


def _is_retracted(spoken: str, letter: str) -> bool:
    """Return True if the last mention of the letter is denied, or if "wait, no" or "Incorrect."
    follows it.
    """
    *before, after = re.split(rf"(?<!\w){letter}(?!\w)", spoken)
    is_denied = bool(before) and DENIED.search(_plain(before[-1])[-_LOOK_BACK:]) is not None
    if is_denied or RETRACTION.search(_plain(after)):
        return True
    _, *sentences = _SENTENCE_END.split(_plain(after))
    return any(map(is_denial, sentences))


def _mark_answers(text: str, texts: _Texts) -> str:
    r"""Turn each mark around an answer into a LaTeX command:
    GLM's box, tags, and the answers in JSON objects.

    If another member of an object may take the answers back, the command is empty.

    >>> _mark_answers('<final_answer>B</final_answer> or {"reason": "A is done", "answer": "B"}', {})
    '\\answer{B} or \\answer{B}'
    >>> _mark_answers('{"answer": "A", "revised": "B"}', {}), _mark_answers('{"answer": "A", "fits": false}', {})
    ('\\answer{}', '\\answer{}')
    """
    text = _BOX.sub(lambda mark: _BOXES[mark[0].lower()], text)
    closed = {tag["name"].lower() for tag in _TAG.finditer(text) if tag["end"]}
    text = _TAG.sub(lambda tag: _tag_as_mark(tag, closed), text)
    parts: list[str] = []
    position = 0
    objects = [(start, end, _members(text[start:end])) for start, end in _braces(text)]
    letters = {
        _marked_letter(answer, texts) for *_, members in objects for answer in _answers(members)
    }
    is_doubtful = any(_takes_back(members, letters, texts) for *_, members in objects)
    for start, end, members in objects:
        answers = [*_answers(members)]
        if answers or _has_answer(members):
            marked = "".join(f"\\answer{{{answer}}}" for answer in answers)
            parts += [text[position:start], r"\answer{}" if is_doubtful else marked]
            position = end
    return "".join([*parts, text[position:]])


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
    depths = accumulate(1 if bracket in "{[" else -1 for bracket in re.findall(r"[{}\[\]]", text))
    if max(depths, default=0) > _MOST_DEPTH:
        return _Members()
    with suppress(ValueError, RecursionError):
        return _Members(json.loads(text, object_pairs_hook=_Members))
    with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        members = ast.literal_eval(text)
        return _Members(members.items() if isinstance(members, dict) else ())
    return _Members()


def _objects_as_lines(text: str) -> str:
    """Write each JSON object as lines of a name and a text, without the members that are not texts.

    An object with a false member stays as it is, since it may take an answer back.
    """
    parts: list[str] = []
    position = 0
    for start, end in _braces(text):
        members = _members(text[start:end])
        lines = [
            f"{name.replace('_', ' ')}: {value}"
            for name, value in members
            if _are_texts(name, value)
        ]
        if lines and not any(value is False for _, value in members):
            parts += [text[position:start], "\n".join(["", *lines, ""])]
            position = end
    return "".join([*parts, text[position:]])


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


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
    elif isinstance(value, dict | _Members):
        for name, member in _named(value):
            if _is_answer(name):
                yield from _answers(member, is_answer=True)
    elif isinstance(value, list | tuple) and is_answer:
        for member in value:
            yield from _answers(member, is_answer=True)


def _has_answer(value: Any) -> bool:
    """Return True if an object at any depth has a member with the name of an answer and a text."""
    if isinstance(value, dict | _Members):
        return any(
            (_is_answer(name) and any(_answers(member, is_answer=True))) or _has_answer(member)
            for name, member in _named(value)
        )
    return isinstance(value, list | tuple) and any(map(_has_answer, value))


def _takes_back(value: Any, letters: Collection[str | None], texts: _Texts) -> bool:
    """Return True if a member is false, denies, has an answer of its own, or means one letter that
    is not the answer.

    Only members of objects that may have answers are read: the outermost one, and those with the
    name of an answer.
    """
    for name, member in _named(value):
        if isinstance(member, bool) and (not member or is_denying_name(str(name))):
            return True
        if _is_answer(name):
            inner = (
                member
                if isinstance(member, list | tuple) and not isinstance(member, _Members)
                else [member]
            )
            if any(_takes_back(part, letters, texts) for part in inner):
                return True
            continue
        is_list = isinstance(name, str) and name.endswith("s")  # "alternatives"
        others = (
            {_marked_letter(text, texts) for text in _strings(member)} - {None}
            if not is_list
            else set()
        )
        is_nothing = isinstance(member, str) and member.strip(" .").lower() in _NOTHING
        is_denied = isinstance(member, str) and is_denial(member) and not is_nothing
        if _has_answer(member) or is_denied or (len(others) == 1 and not others <= {*letters}):
            return True
    return False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | _Members):
        for _, member in _named(value):
            yield from _strings(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _strings(member)


def _plain(text: str) -> str:
    return _RE.noise.sub("", _RE.command.sub(r"\1", text).translate(_SIGNS))


def _lines(plain: str) -> list[str]:
    """Return the lines that are not empty.

    A line that announces an answer is joined with the next one.
    """
    lines: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in plain.split("\n"))):
        announcement = (
            f"{lines[-1].rstrip(' :')}: " if lines and len(lines[-1]) < _LOOK_BACK else ""
        )
        if _RE.announcement.search(announcement):
            lines[-1] = announcement + line
        else:
            lines.append(line)
    return lines


def _claimed(plain: str, texts: _Texts) -> str | None:
    lines = _lines(plain)
    if not lines:
        return None
    whole, first, last = "\n".join(lines), _RE.line.match(lines[0]), _RE.line.match(lines[-1])
    stated = [
        claim
        for line in lines
        for claim in list(_RE.statement.finditer(line))[-1:]
        if _holds(claim, texts)
    ]
    claims = _mentioned(lines) | (set() if _lists_all(whole, texts) else _options(lines[:1], texts))
    if len(claims) > 1:
        return None
    if stated and stated[-1].string == lines[-1]:
        return stated[-1]["letter"]
    if stated or (claims and first and _after(first, texts) is not None):
        (letter,) = claims
        without_choice = re.sub(rf"(?i)(?<!\w){re.escape(texts.get(letter, ''))}(?!\w)", "", whole)
        return letter if {*_RE.standalone.findall(without_choice)} <= {letter} else None
    if (
        last is None
        or len(lines) == 1
        or not claims | _options(lines[:-1], texts) <= {last["letter"]}
    ):
        return None
    after, choice = _after(last, texts), texts.get(last["letter"], "\n")
    is_whole = (
        after is not None
        and not after.strip(" .!")
        and lines[-1].lower().rstrip(" .!").endswith(choice)
    )
    return last["letter"] if is_whole and not _RE.listing.search(lines[-2]) else None


def _mentioned(lines: Sequence[str]) -> set[str]:
    """Return the letters that are called the answer, even if the reply denies it."""
    patterns = (_RE.mention, _RE.statement)
    return {
        claim["letter"]
        for line in lines
        for pattern in patterns
        for claim in pattern.finditer(line)
    }


def _options(lines: Sequence[str], texts: _Texts) -> set[str]:
    """Return the letters that begin lines as options."""
    claims = filter(None, map(_RE.line.match, lines))
    return {
        claim["letter"] for claim in claims if _is_marked(claim) or _after(claim, texts) is not None
    }


def _lists_all(whole: str, texts: _Texts) -> bool:
    """Return True if every choice is quoted with its letter."""
    quotes = (rf"\b{letter}\W{{1,3}}(?i:{re.escape(text)})" for letter, text in texts.items())
    return len(texts) > 1 and all(re.search(quote, whole) for quote in quotes)


def _holds(statement: re.Match[str], texts: _Texts) -> bool:
    """Return True if a statement is not part of a condition, and no other letter follows it in its
    line.
    """
    after = _after(statement, texts)
    before = statement.string[max(0, statement.start() - _LOOK_BACK) : statement.start()]
    return (
        after is not None and not _RE.standalone.search(after) and not _RE.condition.search(before)
    )


def _is_marked(claim: re.Match[str]) -> bool:
    suffix = claim.string[claim.end() :]
    return bool(_RE.mark.match(suffix) or (claim["open"] and _RE.mark_after_bracket.match(suffix)))


def _after(claim: re.Match[str], texts: _Texts) -> str | None:
    """Return the text after a claimed letter and its choice's text; None if that text cancels the
    claim.
    """
    suffix, is_marked = claim.string[claim.end() :], _is_marked(claim)
    tail = suffix.lstrip(" .,:;!()-")
    text = _leading(tail, texts)
    after = tail[len(text) :]
    if not is_marked and len(_leading(claim.string[claim.start("letter") :], texts)) > 1:
        return None
    if text and (text != texts.get(claim["letter"]) or suffix[:1].isalnum()):
        return None
    if is_marked or (text and (_RE.end.match(after) or _RE.end_of_text.match(after))):
        return None if _RE.denial.match(after) else after
    return suffix if _RE.end.match(suffix) else None


def _leading(line: str, texts: _Texts) -> str:
    """Return the longest choice that a line begins with; empty if there is none."""
    starts = (
        text for text in texts.values() if re.match(rf"{re.escape(text)}(?!\w)", line.lower())
    )
    return max(starts, key=len, default="")
