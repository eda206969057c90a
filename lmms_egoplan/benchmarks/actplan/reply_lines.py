"""The lines of a plan as a model writes it."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from html import unescape
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple

from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.text import clean_text

_DATA = yaml_beside(__file__)
_KEYS: dict[str, list[str]] = _DATA["keys"]
_LONGEST_OBJECT, _LONGEST_ACTION = 5, 3  # words

JSON = re.compile(r'^[ \t]*(?P<value>[\[{])\s*(?:[\[{]\s*){0,2}"', re.MULTILINE)
_OBJECT = re.compile(r"\{[^{},]{1,1000},[^{}]{1,1000}\}")
_NUMBERED = re.compile(r"(?:step|action)?[\s_-]*\d+", re.IGNORECASE)
_ACTION = re.compile(r"[^\W\d][\w-]*")
# The only key of an object, if it names no part of a step.
_NO_VERB = "|".join((*_KEYS["plan"], *_KEYS["object"], *_KEYS["aside"], _NUMBERED.pattern))
_VERB = re.compile(rf"(?!(?:{_NO_VERB})\Z){_ACTION.pattern}")

_TOKEN = re.compile(r"<\|[^<>|\n]{1,40}\|?>|<[^<>|\n]{1,40}\|>")
_REFERENCE = re.compile(r"&(?:amp;)*((?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,31});)", re.IGNORECASE)
_ESCAPED = re.compile(r"(?<!\\)\\+([_()\[\]*#.&<>-])")
_ATTRIBUTES = r"""(?:\s+[\w:-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'))*"""
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>[a-z][\w:-]{{0,40}})(?P<attributes>{_ATTRIBUTES})\s*/?>", re.IGNORECASE)
_FIELDS = re.compile(r"(?:<(\w+)>[^<>]*</\1>\s*){2,}")


def without_markup(text: str) -> str:
    """Resolve character references and Markdown's escapes, and remove tags and tokens of chat templates.

    A tag becomes a line break, and begins an item if it is named after a step; emphasis becomes asterisks. A tag
    stays if it has no attributes and is never closed: it may name an object.
    """
    plain = _ESCAPED.sub(r"\1", _REFERENCE.sub(lambda reference: unescape(f"&{reference[1]}"), text))
    closed = {"br"} | {tag["name"].casefold() for tag in _TAG.finditer(plain) if tag["end"]}
    return _TAG.sub(lambda tag: _line_break(tag, closed), _FIELDS.sub(_as_item, _TOKEN.sub("\n", plain)))


def json_as_lines(text: str) -> str:
    """Replace JSON by its steps, one per line; if the JSON is broken, replace each of its innermost objects."""
    parts: list[str] = []
    position = 0
    while opening := JSON.search(text, position):
        start = opening.start("value")
        try:
            # A long integer would take quadratic time.
            value, end = json.JSONDecoder(parse_int=float).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        lists = _lists_of_steps(value)
        strings = clean_text("\n\n".join(map("\n".join, lists)))
        parts += [text[position:start], f"\n\n{strings}\n\n" if lists else text[start:end]]
        position = end
    return _OBJECT.sub(_as_line, "".join([*parts, text[position:]]))


def _line_break(tag: re.Match[str], closed: set[str]) -> str:
    name = tag["name"].casefold()
    if name in _KEYS["emphasis"]:
        return "**"
    if not tag["attributes"] and name not in closed:
        return tag[0]
    return "\n- " if name.startswith(("step", "action", "item", "li")) and not tag["end"] else "\n"


def _lists_of_steps(value: Any) -> Sequence[list[str]]:
    """Return the lists of steps, with those of inner objects; only those under a plan's key, if there are any."""
    lists: list[tuple[bool, list[str]]] = []
    is_step = isinstance(value, dict) and value.keys() & _KEYS["call"]
    members: list[tuple[str, Any]] = [("", [value] if is_step else value)]
    for key, member in members:
        if isinstance(member, dict) and not all(map(_NUMBERED.fullmatch, member)):
            members += member.items()
        elif isinstance(member, str) and key.casefold() in _KEYS["plan"]:
            members.append((key, [member]))
        elif isinstance(member, dict | list):
            items = [*member.values()] if isinstance(member, dict) else member
            steps = [step for item in items if (step := _step(item)) is not None]
            if len(steps) == len(items):
                lists.append((key.casefold() in _KEYS["plan"], steps))
            members += [(key, item) for item in items if isinstance(item, dict | list) and _step(item) is None]
    return [steps for is_plan, steps in lists if is_plan] or [steps for _, steps in lists]


def _step(item: Any) -> str | None:
    """Return a step that is a text, an object, or a list of an action and its objects; None for anything else."""
    if isinstance(item, list) and len(item) > 1 and isinstance(item[0], str) and _ACTION.fullmatch(item[0]):
        item = {"action": item[0], "objects": item[1:]}
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    members = {key.casefold(): member for key, member in item.items()}
    names = [*_KEYS["action"], *(["name"] if members.keys() & _KEYS["object"] else [])]
    key = next((name for name in names if isinstance(members.get(name), str)), None)
    if key is None and len(members) == 1 and _VERB.fullmatch(verb := next(iter(members))):
        return _step([verb, *_texts(members[verb])])
    if key is None or members.keys() & _KEYS["plan"]:
        return None
    action = members.pop(key)
    texts = [text for name, member in members.items() if name not in _KEYS["aside"] for text in _texts(member)]
    texts = [text for text in texts if text.strip().casefold() not in _KEYS["nothing"]]
    objects = [text for text in texts if len(text.split()) <= _LONGEST_OBJECT and f" {text} " not in f" {action} "]
    is_call = objects and "(" not in action and len(action.split()) <= _LONGEST_ACTION
    return f"{action}({', '.join(objects)})" if is_call else action


def _texts(member: Any) -> list[str]:
    if isinstance(member, dict):
        member = [*member.values()]
    return [text for text in (member if isinstance(member, list) else [member]) if isinstance(text, str)]


def _as_item(fields: re.Match[str]) -> str:
    """Write elements such as ``<action>grab</action><object>cup</object>`` as a call; those of one name stay."""
    pairs = re.findall(r"<(\w+)>([^<>]*)</", fields[0])
    step = _step(dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    return f"\n- {step}\n" if step and "(" in step else fields[0]


def _as_line(value: re.Match[str]) -> str:
    for text in (value[0], value[0].replace("'", '"')):
        with suppress(ValueError, RecursionError):
            if (step := _step(json.loads(text, parse_int=float))) is not None:
                return f"\n{step}\n"
    return value[0]


_WORDS = {name: frozenset(words.split()) for name, words in _DATA["words"].items()}
PROSE = _WORDS["prose"]
"""Words that sentences begin with, and steps do not."""
_LABELS = _WORDS["labels"]
TITLES = _LABELS | _WORDS["titles"]
"""Words that titles begin with, and steps do not."""
LINKS = _WORDS["links"]
"""Words that join steps, and belong to none."""
_NOT_PLAIN = PROSE | TITLES | LINKS
_LONGEST = 40  # words

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
# Numbers (and letters) that are one sign: circled, in parentheses, with a full stop; Roman ones. Regular expressions
# take most of them for letters.
_SIGNS = (
    "\u2160-\u217f\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3248-\u324f\u3251-\u325f\u3280-\u3289\u32b1-\u32bf"
    "\U0001f100-\U0001f10c"
)
_LATEX_ITEM = r"\\{1,2}item(?![a-z])(?:\[[^\]\n]{0,20}\])?"
# The last alternative takes every other word whole, so that none is searched twice. Markdown may write "walk\_to".
_FULL_WIDTH = str.maketrans("\uff08\uff09\uff0c", "(),")
_FULL_WIDTH_ENDS = str.maketrans("\uff1a\uff1f", ":?")
_IN_NAME = rf"(?:[^\W{_SIGNS}]|[\\/-])"
_NAME = re.compile(
    rf"""
    (?: (?P<marked>(?P<mark>\*{{1,3}}|`) [^\W\d_{_SIGNS}]{_IN_NAME}* (?P=mark))
    | [\d_\\/-]* (?P<name>[^\W\d_{_SIGNS}]{_IN_NAME}*) )
    \((?!e?s\)) | {_IN_NAME}+
    """,
    re.VERBOSE,
)
# What cannot be in the words of a call: punctuation, emphasis, and numbers and dashes that stand alone.
_BREAK = re.compile(rf"{_LATEX_ITEM}|[^\w\s-]|[{_SIGNS}]|(?<!\S)[-\d]+(?!\S)|(?<!\w)_+")
_PLAIN = re.compile(r"[^\W\d_]\w*(?:-\w+)*")
_PARENTHESIS = re.compile(r"[()]")
_SEPARATOR = re.compile(r"\s*\|\s*:?-[\s|:-]*")  # below a table's header
_FINAL = re.compile(
    r"""
    ^[ \t]* (?: \#[#*_`\ \t]* final[ ](?:plan|answer) [:\uff1a*_`\ \t]*
    | [*_`]* final[ ](?:plan|answer) [*_`]*[:\uff1a][*_`\ ]* )$
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_COMMENT = re.compile(r"#|//")
_NUMBER = r"""
    (?P<bold>[*_`]{1,3})? (?:step\s?)? [(\uff08]? (?P<number>\d{1,4})
    (?(bold) [.):\uff1a]{0,2}[*_`]{1,3}[.):\uff1a]?
    | (?: [.):\u3001\uff0e\uff09\uff1a]{1,2} | \s?[-\u2013\u2014](?!\S) ) )
"""
_OTHER_NUMBER = rf"""
    [*_`]{{1,3}}[{_SIGNS}][.):\uff1a]?[*_`]{{1,3}}[.):\uff1a]? | [{_SIGNS}][.):\u3001\uff0e\uff09\uff1a]{{0,2}}
    | \d{{1,2}}\ufe0f?\u20e3 | \d{{1,3}}(?:\.\d{{1,3}})+[.):]?(?=\s)
    | [ivx]{{1,5}}\.(?=\s)
"""
_BULLET = rf"""
    {_LATEX_ITEM}
    | \[[ x]?\](?!\S) | \(?[a-z][.)](?!\S) | [-*+\u2013\u2014](?!\S) | [\u2022\u25cf\u25aa\u00b7>\u2192] | [-=]>
"""
_FLAGS = re.VERBOSE | re.IGNORECASE
_NUMBER_INSIDE = re.compile(rf"(?<!\S){_NUMBER}(?!\S)", _FLAGS)
_MARKER = re.compile(rf"\s*(?: {_NUMBER}(?![\d.)]) | {_OTHER_NUMBER} | (?P<bullet>{_BULLET}) )", _FLAGS)
# A heading, a comment, a code fence, a key of a JSON object, a LaTeX command that makes a list or a heading.
_NO_STEP = re.compile(
    r"""\# | // | (?:```|~~~)\s*[\w+.-]*\Z | "[^"]*"\s*: | \\{1,2}(?:begin|end|(?:sub)*section|paragraph)\*?\s?\{""",
    re.VERBOSE,
)


class Line(NamedTuple):
    """A line, or a numbered item of one. It has calls, or words that may be a step, or neither."""

    indent: int
    """How many characters of white space the line begins with."""
    calls: Sequence[str] = ()
    words: str = ""
    is_item: bool = False
    """Whether the words have a number or bullet."""
    heading: str = ""
    """The words of a numbered heading, in place of the others."""


_NOTHING = Line(0)


def read_lines(text: str) -> list[Line]:
    """Read a text's lines, with those of its JSON instead of it (rules 1 to 4, 7 and 8 of `reply.parsed_steps`)."""
    text = json_as_lines(_final("\n".join(without_markup(text).splitlines())))
    lines: list[Line] = []
    for line, following in pairwise([*text.splitlines(), ""]):
        if not _LETTER.search(line) or (line.lstrip().startswith("|") and _SEPARATOR.fullmatch(following)):
            lines.append(_NOTHING)
            continue
        indent = len(line) - len(line.lstrip())
        calls = find_calls(line)
        items = _numbered_items(line, indent, calls)
        if len(items) == 1:
            lines.append(_read_line(line, indent, calls))
        else:
            lines += [_read_line(item, indent, find_calls(item)) for item in items]
    return lines


def ascii_form(text: str) -> str:
    """Replace full-width parentheses and commas by ASCII ones; the length stays."""
    return text.translate(_FULL_WIDTH)


def find_calls(line: str) -> list[tuple[int, int]]:
    """Find where the calls of a line begin and end, without calls in other calls (rule 1 of `reply.parsed_steps`)."""
    line = ascii_form(line)
    if "(" not in line:
        return []
    closed: dict[int, int] = {}
    opened: list[int] = []
    for parenthesis in _PARENTHESIS.finditer(line):
        if parenthesis[0] == "(":
            opened.append(parenthesis.start())
        elif opened:
            closed[opened.pop()] = parenthesis.end()
    names = [
        (match.start("marked" if match["marked"] else "name"), match.end() - 1)
        for match in _NAME.finditer(line)
        if match["marked"] or match["name"]
    ]
    calls: list[tuple[int, int]] = []
    position = 0
    for (start, opening), (following, _) in pairwise([*names, (len(line), 0)]):
        if start >= position:
            position = closed.get(opening, following)
            calls.append((start, start + len(line[start:position].rstrip())))
    return calls


def _with_words(line: str, calls: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Add to the calls of a line the words before each name that belong to it (rule 2 of `reply.parsed_steps`)."""
    with_words: list[tuple[int, int]] = []
    position = 0
    for start, end in calls:
        for mark in _BREAK.finditer(line, position, start):
            position = mark.end()
        if line[position:start].strip() and line[start - 1].isspace():
            words = list(dropwhile(lambda word: word[0].casefold() in LINKS, re.finditer(r"\S+", line[position:start])))
            if 1 <= len(words) <= 3 and all(map(_is_plain, words)):
                start = position + words[0].start()
        with_words.append((start, end))
        position = end
    return with_words


def _is_plain(word: re.Match[str]) -> bool:
    return _PLAIN.fullmatch(word[0]) is not None and word[0].casefold() not in _NOT_PLAIN


def _read_line(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> Line:
    if calls:
        return Line(indent, calls=_steps(line, _with_words(line, calls)))
    words, is_item, is_numbered, is_bold = _unwrap(line)
    is_heading = words.startswith("#")
    if is_heading:
        words, is_item, is_numbered, _ = _unwrap(words.lstrip("#"))
        if not is_numbered:
            return _NOTHING
    is_title = _begins_with(words, TITLES) or _ends_with(words, ":") or (is_bold and not is_item)
    is_prose = _is_long(words) or _ends_with(words, "?") or _begins_with(words, PROSE)
    if is_title or is_prose or _NO_STEP.match(words) or not _LETTER.search(words):
        return _NOTHING
    return Line(indent, heading=words) if is_heading else Line(indent, words=words, is_item=is_item)


def _steps(line: str, calls: Sequence[tuple[int, int]]) -> list[str]:
    before, is_item, _, _ = _unwrap(line[: calls[0][0]])
    may_be_prose = not is_item and _WORD.search(line, calls[-1][1])
    is_prose = _is_long(before) or (_begins_with(before, PROSE) and may_be_prose)
    if before.startswith("//") or (is_prose and not _ends_with(before, ":")) or _is_about_calls(before):
        return []
    steps: list[str] = []
    position = calls[0][0]
    for start, end in calls:
        if _COMMENT.search(line, position, start):
            break
        steps.append(line[start:end])
        position = end
    return steps


def _numbered_items(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> list[str]:
    """Cut a line before the numbers that count on from the one it begins with, or from a 1 that a 2 follows."""
    numbers = [
        (number.start(), int(number["number"]))
        for (_, start), (end, _) in pairwise([(0, 0), *calls, (len(line), 0)])
        for number in _NUMBER_INSIDE.finditer(line, start, end)
    ]
    cuts = [0]
    expected = None
    for (start, number), (_, following) in pairwise([*numbers, (len(line), 0)]):
        if start == indent:
            expected = number + 1
        elif number == expected or (number, following) == (1, 2):
            cuts.append(start)
            expected = number + 1
    return [line[start:end] for start, end in pairwise([*cuts, len(line)])]


def _unwrap(line: str) -> tuple[str, bool, bool, bool]:
    """Return a line's text, whether it had a number or bullet, whether a number, and whether it was in bold."""
    is_item = is_numbered = is_bold = False
    text, before = line.strip(), None
    while text != before:
        before = text
        position = 0
        while marker := _MARKER.match(text, position):
            position = marker.end()
            is_numbered |= marker["bullet"] is None
        is_item |= position > 0
        text = text[position:].strip()
        if text.startswith("|") and text.endswith("|") and _LETTER.search(text):
            is_item = True
            text = max(filter(_LETTER.search, text.split("|")), key=len).strip()
        # Else the steps of a broken JSON list might be whole JSON.
        if JSON.match(text):
            text = text[1:].strip()
        mark = text[:1]
        inside = text.strip(mark) if mark and mark in '*_`"' and text.endswith(mark) else ""
        if inside and mark not in inside:
            is_bold |= text.startswith(("**", "__"))
            text = inside.strip()
    return text, is_item, is_numbered, is_bold


def _is_about_calls(before: str) -> bool:
    """Check whether a title precedes a call that is more than the label of a step or plan."""
    words = _WORD.findall(before.casefold())
    if not words or words[0] not in TITLES:
        return False
    is_label = _LABELS.issuperset(words) or "".join(words[1:2]).isdigit() or _ends_with(before, ":")
    return not is_label or any(word in TITLES - _LABELS for word in words)


def _is_long(text: str) -> bool:
    return len(text.split()) > _LONGEST


def _begins_with(text: str, words: frozenset[str]) -> bool:
    first = _WORD.search(text)
    return first is not None and first[0].casefold() in words


def _ends_with(text: str, mark: str) -> bool:
    return text.rstrip("\"'*_` ").translate(_FULL_WIDTH_ENDS).endswith(mark)


def _final(text: str) -> str:
    """Return the text after the last line that announces the final plan, if there is one."""
    return text[max((title.end() for title in _FINAL.finditer(text)), default=0) :]
