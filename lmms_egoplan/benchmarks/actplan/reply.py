"""Read a plan from a model's reply.

There are two readings: the reference's split into lines (`official_steps`), and the steps without
the text around them (`parsed_steps`). The form of a step is checked, too.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from itertools import dropwhile, pairwise
from typing import Any

from lmms_egoplan.judging.text import without_thinking
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text

_DATA = module_yaml(__file__)

_WORDS = {name: frozenset(words.split()) for name, words in _DATA["words"].items()}
_PROSE = _WORDS["prose"]
_LABELS = _WORDS["labels"]
_TITLES = _LABELS | _WORDS["titles"]
_LINKS = _WORDS["links"]
_CLOSINGS = _WORDS["closings"]
_AROUND_CLOSINGS = _WORDS["around_closings"]
_GREETINGS = tuple(f"{words}_" for words in _WORDS["greetings"])
# Words that never belong to a call.
_NO_WORDS = _PROSE | _TITLES | _LINKS

_PLAN_KEYS: list[str] = _DATA["keys"]["plan"]
_ACTION_KEYS: list[str] = _DATA["keys"]["action"]
_CALL_KEYS: list[str] = _DATA["keys"]["call"]
_OBJECT_KEYS: list[str] = _DATA["keys"]["object"]
_ASIDE_KEYS: list[str] = _DATA["keys"]["aside"]
_NO_OBJECTS: list[str] = _DATA["keys"]["nothing"]
_EMPHASIS_TAGS: list[str] = _DATA["keys"]["emphasis"]
# Keys that are not verbs, even as the only key of an object.
_NO_VERBS = {*_PLAN_KEYS, *_OBJECT_KEYS, *_ASIDE_KEYS}

# Lengths in words.
_LONGEST_OBJECT = 5
_LONGEST_ACTION = 3
_LONGEST_STEP = 40

_FULL_WIDTH = str.maketrans("\uff08\uff09\uff0c", "(),")
_FULL_WIDTH_ENDS = str.maketrans("\uff1a\uff1f", ":?")

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
# Single characters that are numbers or letters: circled, in parentheses, with a full stop, or
# Roman. Regular expressions treat most of them as letters.
_SIGN = (
    r"[\u2160-\u217f\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3248-\u324f\u3251-\u325f"
    r"\u3280-\u3289\u32b1-\u32bf\U0001f100-\U0001f10c]"
)
# LaTeX's \item with an optional label, such as \item[1.]
_LATEX_ITEM = r"\\{1,2}item(?![a-z])(?:\[[^\]\n]{0,20}\])?"


@dataclass(frozen=True, slots=True)
class _Line:
    """A line, or a numbered item of a line. It has calls, or words that may be a step, or neither.

    indent: Number of leading whitespace characters.
    calls: The calls in the line.
    words: The line's words, if they may be a step.
    is_item: True if the words have a number or bullet.
    heading: The words of a numbered heading; `words` is then empty.
    """

    indent: int = 0
    calls: Sequence[str] = ()
    words: str = ""
    is_item: bool = False
    heading: str = ""


@dataclass(frozen=True, slots=True)
class _Unwrapped:
    """A line without the numbers, bullets and marks around it.

    text: The remaining text.
    is_item: True if a number or bullet was removed, or the text is a cell of a table.
    is_numbered: True if a number was removed.
    is_bold: True if the text was bold.
    """

    text: str
    is_item: bool
    is_numbered: bool
    is_bold: bool


def plan_text(reply: str) -> str:
    """Return the plan in a model's reply, without its thinking.

    The plan is "" if the reply ends inside a thought.

    >>> plan_text("<think>First walk_to(bed).</think>grab(cup)"), plan_text("[THINK]walk_to(bed)")
    ('grab(cup)', '')
    """
    return without_thinking(clean_text(reply)) or ""


def official_steps(text: str) -> list[str]:
    r"""Split a plan into lines, as the reference implementation splits a plan file (sec. 4.2.1).

    ``\r\n`` and ``\r`` are line breaks too. Lines are unchanged, and blank lines count. White space
    around the whole text is dropped, so the break after the last line adds no step. The reference
    counts an additional empty step there.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text.split("\n") if text else []


def one_per_line(text: str) -> str:
    """Put each step of a plan on a separate line if blanks separate the steps.

    Plans in ``finetuning_data.jsonl`` are of this form. Each call ``name(...)`` becomes a line (see
    `parsed_steps`). Words before the name do not belong to the call here, because blanks separate
    steps. Text before, between and after calls becomes a line too; punctuation alone stays with the
    preceding call. A text of several lines is only stripped.
    """
    text = text.strip()
    if len(text.splitlines()) != 1:
        return text
    lines: list[str] = []
    position = 0
    for start, end in [*find_calls(text), (len(text), len(text))]:
        between = text[position:start].strip()
        if lines and between and not _WORD.search(between):
            lines[-1] += between
        elif between:
            lines.append(between)
        if end > start:
            lines.append(text[start:end])
        position = end
    return "\n".join(lines)


def parsed_steps(text: str) -> list[str]:
    r"""Find the steps in a model's answer, without surrounding text.

    The text of a step is unchanged.

    1. **Calls.** A call is ``name(...)`` with no blank before the parenthesis. It ends at the
       matching parenthesis and includes nested calls. If no parenthesis on the line matches, it
       ends at the next call or at the end of the line. ``cookie(s)`` is not a call.
    2. **Words of a call.** One to three plain words directly before a name belong to the call, as
       in ``Walk to(table)``. This does not apply if one of them is a word that begins sentences or
       titles (rules 3 and 4), or a linking word such as ``then`` (`_LINKS`). Linking words before
       them are dropped.
    3. **Lines with calls.** The calls are the steps. The text around them is dropped, and so are
       calls after ``#`` or ``//``. The line has no steps in these cases, which concern the text
       before its first call:

       - It does not end with ``:`` and has more than 40 words.
       - It does not end with ``:``, has no number or bullet, begins with a word that begins
         sentences but not steps (``I``, ``the``, ``this``, ``here`` and so on: `_PROSE`), and words
         follow the last call.
       - It begins with a title's word (`_TITLES`), unless it is a label: ``Plan:``, ``Step 1``,
         ``Action``.
    4. **Lines without calls.** The line is a step of words, such as ``Wait until tea is ready``.
       These are dropped: leading numbers (``1.``, ``(1)``, ``1)``, ``1.1``, ``II.``, ``Step 1:``, a
       number that is one character), bullets, boxes and LaTeX's ``\item``; and emphasis, backticks
       and quotation marks around the whole line. Items with consecutive numbers on one line are
       separate lines. In a table row, the longest cell is the line; the header is not a line. The
       line is not a step in these cases:

       - It has more than 40 words, or ends with ``:`` or ``?``.
       - It begins with a title's word, or with a word that begins sentences.
       - It is a heading, or bold without number or bullet.
       - It closes the plan and names no action: ``Done.``, ``Task completed.``, ``Enjoy your
         meal!``
       - It is a comment, a code fence, a JSON key with its value, or the beginning or end of a
         LaTeX list.
       - It has no letter.
    5. **Calls and words together.** Between the first and the last line with calls, steps of words
       count too. Directly before and after these lines, they count up to the first line that is no
       such step, for example a blank line. A step of words must have the same indent as some line
       with calls; otherwise, it is a title or a remark.
    6. **No calls at all.** The list items count; without list items, the numbered headings;
       otherwise all steps of words, even a single line. A refusal or a paragraph of prose has no
       steps (rule 4). If this is one step, or if the text is a single line with more than 40 words
       or with a label such as ``Plan:``, its sentences are the steps, and arrows and semicolons
       separate steps too. The first sentence must be a step by rule 4, and the others are dropped
       if they are not.
    7. **JSON.** JSON that begins a line is read before rules 1 to 6. The members of a list are
       lines, and so are the members of lists in an object and its nested objects. If any of these
       lists has the key ``plan``, ``steps``, ``actions`` or ``procedure``, only such lists count.
       An object such as ``{"action": "grab", "object": "cup"}`` is the line ``grab(cup)``.
    8. **Markup and final plans.** Before rule 7, markup is resolved (`without_markup`):
       ``walk\_to``, ``&#40;`` and ``<step id="1">walk_to(x)</step>`` are read as ``walk_to``, ``(``
       and ``walk_to(x)``. Then everything before a line ``Final plan:`` or ``Final answer:`` is
       dropped.

    For every text without markup, the steps are substrings of the text (or of the strings in its
    JSON), in order. No step is empty, has surrounding white space, or contains a line break.
    Parsing ``"\n".join(steps)`` returns the same steps.

    Args:
        text: A model's answer without its thinking (`plan_text`), of any content; time is linear in
            its length.
    """
    text = json_as_lines(_final("\n".join(without_markup(text).splitlines())))
    lines = _read_lines(text)
    if any(line.calls for line in lines):
        return _steps_with_calls(lines)
    return _steps_without_calls(lines, text)


_WELL_FORMED = re.compile(
    r"""
    (\*{1,3}|`)?                # emphasis around the action
    [^\W\d_][\w\\-]*            # the action; Markdown may escape its "_"
    (?(1)\1)                    # the end of the emphasis
    \((?P<objects>[^()\n]*)\)
    """,
    re.VERBOSE,
)


def is_well_formed(step: str) -> bool:
    """Return True if a step has the form ``action(object[, object ...])``.

    The form is that of secs. 3.1 and 5.6 and Table 8. The action is one of the eight main actions
    or another verb: one word of letters, digits, ``_`` and ``-``. A step has at least one object.
    Objects are not empty and contain no parentheses. Emphasis around the action, and full-width
    parentheses and commas, are accepted. Anything else is an "incorrect form".
    """
    form = _WELL_FORMED.fullmatch(ascii_form(step))
    if form is None:
        return False
    return all(re.search(r"[^\W_]", name) for name in form["objects"].split(","))


def form_validity(steps: Sequence[str]) -> float:
    """Return the share of well-formed steps, in [0, 1]; NaN without steps.

    >>> form_validity(["walk_to(table)", "grab the cup"])
    0.5
    """
    if not steps:
        return float("nan")
    return sum(map(is_well_formed, steps)) / len(steps)


def ascii_form(text: str) -> str:
    """Replace full-width parentheses and commas by ASCII ones; the length is unchanged."""
    return text.translate(_FULL_WIDTH)


_IN_NAME = rf"(?:(?!{_SIGN})\w|[\\/-])"
_NAME_OF_CALL = re.compile(
    rf"""
    (?:
        (?P<marked>                         # emphasis around the name
            (?P<mark>\*{{1,3}}|`)
            (?!{_SIGN})[^\W\d_] {_IN_NAME}*
            (?P=mark)
        )
        |
        [\d_\\/-]*                          # a number before the name is not part of it
        (?P<name>
            (?!{_SIGN})[^\W\d_] {_IN_NAME}*   # Markdown may write "walk\_to"
        )
    )
    \( (?!e?s\))                            # "(s)" and "(es)" are plural endings
    |
    {_IN_NAME}+                             # any other word, so that no word is searched twice
    """,
    re.VERBOSE,
)


def find_calls(line: str) -> list[tuple[int, int]]:
    """Return start and end of a line's calls, excluding nested calls (rule 1 of `parsed_steps`)."""
    line = ascii_form(line)
    if "(" not in line:
        return []
    ends = _matching_parentheses(line)
    names: list[tuple[int, int]] = []
    for match in _NAME_OF_CALL.finditer(line):
        if match["marked"]:
            names.append((match.start("marked"), match.end() - 1))
        elif match["name"]:
            names.append((match.start("name"), match.end() - 1))
    calls: list[tuple[int, int]] = []
    position = 0
    for (start, opening), (next_start, _) in pairwise([*names, (len(line), 0)]):
        if start >= position:
            position = ends.get(opening, next_start)
            calls.append((start, start + len(line[start:position].rstrip())))
    return calls


def _matching_parentheses(line: str) -> dict[int, int]:
    """Return the end of each matched pair of parentheses by its start."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for parenthesis in re.finditer("[()]", line):
        if parenthesis[0] == "(":
            opened.append(parenthesis.start())
        elif opened:
            ends[opened.pop()] = parenthesis.end()
    return ends


# Tokens of chat templates.
_TOKEN = re.compile(
    r"""
    <\|[^<>|\n]{1,40}\|?>       # <|im_end|> or <|im_end>
    | <[^<>|\n]{1,40}\|>        # <im_end|>
    """,
    re.VERBOSE,
)
_CHARACTER_REFERENCE = re.compile(
    r"""
    & (?:amp;)*                 # "&" may be a reference itself
    (
        (?:
            \#\d{1,7}           # &#40;
            | \#x[0-9a-f]{1,6}  # &#x28;
            | [a-z][a-z0-9]{1,31}   # &lpar;
        )
        ;
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_MARKDOWN_ESCAPE = re.compile(r"(?<!\\)\\+([_()\[\]*#.&<>-])")
_TAG = re.compile(
    r"""
    < (?P<end>/?)
    (?P<name>[a-z][\w:-]{0,40})
    (?P<attributes>
        (?: \s+[\w:-]+ \s*=\s* (?: "[^"<>\n]*" | '[^'<>\n]*' ) )*
    )
    \s* /? >
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Two or more elements side by side.
_FIELDS = re.compile(r"(?:<(\w+)>[^<>]*</\1>\s*){2,}")


def without_markup(text: str) -> str:
    """Resolve character references and Markdown's escapes, and remove tags.

    Tokens of chat templates become line breaks. A tag becomes a line break, and also begins a list
    item if its name means a step; emphasis becomes asterisks. A tag without attributes that is
    never closed is kept, because it may name an object.
    """
    text = _CHARACTER_REFERENCE.sub(lambda reference: unescape(f"&{reference[1]}"), text)
    text = _MARKDOWN_ESCAPE.sub(r"\1", text)
    closed = {tag["name"].casefold() for tag in _TAG.finditer(text) if tag["end"]}
    closed.add("br")
    text = _TOKEN.sub("\n", text)
    text = _FIELDS.sub(_as_item, text)
    return _TAG.sub(lambda tag: _line_break(tag, closed), text)


# JSON at the beginning of a line.
_JSON = re.compile(
    r"""
    ^[ \t]*
    (?P<value>[\[{]) \s*
    (?: [\[{]\s* ){0,2}
    "
    """,
    re.VERBOSE | re.MULTILINE,
)
# An innermost object of broken JSON.
_INNERMOST_OBJECT = re.compile(r"\{[^{},]{1,1000},[^{}]{1,1000}\}")


def json_as_lines(text: str) -> str:
    """Replace JSON by its steps, one per line.

    If the JSON is invalid, each of its innermost objects is replaced.
    """
    parts: list[str] = []
    position = 0
    opening = _JSON.search(text)
    while opening is not None:
        start = opening.start("value")
        try:
            # Parsing a long integer as int would take quadratic time.
            value, end = json.JSONDecoder(parse_int=float).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        parts.append(text[position:start])
        lists = _lists_of_steps(value)
        if lists:
            steps = clean_text("\n\n".join(map("\n".join, lists)))
            parts.append(f"\n\n{steps}\n\n")
        else:
            parts.append(text[start:end])
        position = end
        opening = _JSON.search(text, position)
    parts.append(text[position:])
    return _INNERMOST_OBJECT.sub(_as_line, "".join(parts))


def _line_break(tag: re.Match[str], closed: set[str]) -> str:
    """Return the text that takes a tag's place.

    Args:
        closed: Names of the tags that are closed anywhere.
    """
    name = tag["name"].casefold()
    if name in _EMPHASIS_TAGS:
        return "**"
    if not tag["attributes"] and name not in closed:
        return tag[0]
    if name.startswith(("step", "action", "item", "li")) and not tag["end"]:
        return "\n- "
    return "\n"


_NUMBERED_KEY = re.compile(r"(?:step|action)?[\s_-]*\d+", re.IGNORECASE)
_ACTION = re.compile(r"[^\W\d][\w-]*")


def _lists_of_steps(value: Any) -> Sequence[list[str]]:
    """Return the lists of steps in a JSON value, including those of inner objects.

    If any list has a plan's key, only such lists are returned. An object whose keys are all numbers
    is read as a list.
    """
    plans: list[list[str]] = []
    other_lists: list[list[str]] = []
    is_single_step = isinstance(value, dict) and bool(value.keys() & _CALL_KEYS)
    # Grows while it is read.
    members: list[tuple[str, Any]] = [("", [value] if is_single_step else value)]
    for key, member in members:
        is_plan = key.casefold() in _PLAN_KEYS
        if isinstance(member, dict) and not all(map(_NUMBERED_KEY.fullmatch, member)):
            members += member.items()
        elif isinstance(member, str) and is_plan:
            members.append((key, [member]))
        elif isinstance(member, dict | list):
            items = list(member.values()) if isinstance(member, dict) else member
            steps = [_step(item) for item in items]
            texts = [step for step in steps if step is not None]
            if len(texts) == len(items):
                if is_plan:
                    plans.append(texts)
                else:
                    other_lists.append(texts)
            for item, step in zip(items, steps, strict=True):
                if step is None and isinstance(item, dict | list):
                    members.append((key, item))
    return plans or other_lists


def _step(item: Any) -> str | None:
    """Return a step of JSON; None for other values.

    A step is a text, an object, or a list of an action and its objects.
    """
    if isinstance(item, str):
        return item
    if isinstance(item, list) and len(item) > 1 and isinstance(item[0], str):
        if _ACTION.fullmatch(item[0]) is None:
            return None
        return _step_of_object({"action": item[0], "objects": item[1:]})
    if isinstance(item, dict):
        return _step_of_object(item)
    return None


def _step_of_object(item: dict[str, Any]) -> str | None:
    """Return the step that an object describes; None without an action or with a plan inside."""
    members = {key.casefold(): member for key, member in item.items()}
    key = _action_key(members)
    if key is None and len(members) == 1:
        # The only key may be the action, as in {"grab": "cup"}.
        (verb,) = members
        is_number = _NUMBERED_KEY.fullmatch(verb) is not None
        if _ACTION.fullmatch(verb) and verb not in _NO_VERBS and not is_number:
            return _step([verb, *_texts(members[verb])])
    if key is None or members.keys() & _PLAN_KEYS:
        return None
    action = members.pop(key)
    if "(" in action or len(action.split()) > _LONGEST_ACTION:
        return action
    objects: list[str] = []
    for name, member in members.items():
        if name not in _ASIDE_KEYS:
            objects += [text for text in _texts(member) if _is_object(text, action)]
    return f"{action}({', '.join(objects)})" if objects else action


def _action_key(members: dict[str, Any]) -> str | None:
    """Return the key of an object's action; None without one.

    The key ``name`` may be the name of a thing. It is the action only next to a key of objects.
    """
    keys = list(_ACTION_KEYS)
    if members.keys() & _OBJECT_KEYS:
        keys.append("name")
    return next((key for key in keys if isinstance(members.get(key), str)), None)


def _is_object(text: str, action: str) -> bool:
    """Return True if a member of an object names an object that its action does not contain."""
    if text.strip().casefold() in _NO_OBJECTS:
        return False
    return len(text.split()) <= _LONGEST_OBJECT and f" {text} " not in f" {action} "


def _texts(member: Any) -> list[str]:
    """Return the texts of a JSON value: itself, or the members of a list or object."""
    if isinstance(member, dict):
        members = list(member.values())
    elif isinstance(member, list):
        members = member
    else:
        members = [member]
    return [text for text in members if isinstance(text, str)]


def _as_item(fields: re.Match[str]) -> str:
    """Convert elements such as ``<action>grab</action><object>cup</object>`` to a call.

    Elements are unchanged if two share a name.
    """
    pairs = re.findall(r"<(\w+)>([^<>]*)</", fields[0])
    members = dict(pairs)
    if len(members) < len(pairs):
        return fields[0]
    step = _step(members)
    if step is None or "(" not in step:
        return fields[0]
    return f"\n- {step}\n"


def _as_line(value: re.Match[str]) -> str:
    """Convert an object to a line with its step; an object that is not a step is unchanged."""
    for text in (value[0], value[0].replace("'", '"')):
        with suppress(ValueError, RecursionError):
            step = _step(json.loads(text, parse_int=float))
            if step is not None:
                return f"\n{step}\n"
    return value[0]


# The line below a table's header.
_SEPARATOR = re.compile(r"\s*\|\s*:?-[\s|:-]*")


def _read_lines(text: str) -> list[_Line]:
    """Read the lines of a text without markup and JSON (rules 1 to 4 of `parsed_steps`)."""
    lines: list[_Line] = []
    for line, next_line in pairwise([*text.splitlines(), ""]):
        is_table_row = line.lstrip().startswith("|")
        if not _LETTER.search(line) or (is_table_row and _SEPARATOR.fullmatch(next_line)):
            lines.append(_Line())
            continue
        indent = len(line) - len(line.lstrip())
        calls = find_calls(line)
        items = _numbered_items(line, indent, calls)
        if len(items) == 1:
            lines.append(_read_line(line, indent, calls))
        else:
            lines += [_read_line(item, indent, find_calls(item)) for item in items]
    return lines


def _steps_with_calls(lines: Sequence[_Line]) -> list[str]:
    """Return the steps of lines of which at least one has calls (rule 5 of `parsed_steps`)."""
    with_calls = [index for index, line in enumerate(lines) if line.calls]
    indents = {lines[index].indent for index in with_calls}
    are_words = [bool(line.words) and line.indent in indents for line in lines]
    first = with_calls[0]
    while first > 0 and are_words[first - 1]:
        first -= 1
    last = with_calls[-1]
    while last + 1 < len(lines) and are_words[last + 1]:
        last += 1
    steps: list[str] = []
    for index in range(first, last + 1):
        if are_words[index]:
            steps.append(lines[index].words)
        else:
            steps += lines[index].calls
    return steps


def _steps_without_calls(lines: Sequence[_Line], text: str) -> list[str]:
    """Return the steps of words of a text without calls (rule 6 of `parsed_steps`)."""
    steps = [line.words for line in lines if line.is_item]
    if not steps:
        steps = [line.heading for line in lines if line.heading]
    if not steps:
        steps = [line.words for line in lines if line.words]
    if len(steps) > 1:
        return steps
    return _steps_of_line(steps[0] if steps else text.strip()) or steps


# Not allowed in the words of a call.
_GAP = re.compile(
    rf"""
    {_LATEX_ITEM}
    | [^\w\s-]              # punctuation
    | {_SIGN}
    | (?<!\S)[-\d]+(?!\S)   # separate numbers and dashes
    | (?<!\w)_+             # emphasis
    """,
    re.VERBOSE,
)
_PLAIN_WORD = re.compile(r"[^\W\d_]\w*(?:-\w+)*")


def _with_words(line: str, calls: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend a line's calls by the words before their names (rule 2 of `parsed_steps`)."""
    extended: list[tuple[int, int]] = []
    position = 0
    for start, end in calls:
        for gap in _GAP.finditer(line, position, start):
            position = gap.end()
        extended.append((position + _start_of_words(line[position:start]), end))
        position = end
    return extended


def _start_of_words(before: str) -> int:
    """Return where a call begins in the text before its name; the text's end without words."""
    if not before.strip() or not before[-1].isspace():
        return len(before)
    words = list(dropwhile(lambda word: word[0].casefold() in _LINKS, re.finditer(r"\S+", before)))
    if not 1 <= len(words) <= 3:
        return len(before)
    for word in words:
        if not _PLAIN_WORD.fullmatch(word[0]) or word[0].casefold() in _NO_WORDS:
            return len(before)
    return words[0].start()


def _read_line(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> _Line:
    """Read a line or a numbered item, given the positions of its calls."""
    if calls:
        return _Line(indent, calls=_steps_of_calls(line, _with_words(line, calls)))
    unwrapped = _unwrap(line)
    if not unwrapped.text.startswith("#"):
        if _is_step(unwrapped):
            return _Line(indent, words=unwrapped.text, is_item=unwrapped.is_item)
        return _Line()
    heading = _unwrap(unwrapped.text.lstrip("#"))
    # Emphasis around the whole heading, with its marks "#", makes it bold.
    heading = _Unwrapped(
        heading.text, heading.is_item, heading.is_numbered, is_bold=unwrapped.is_bold
    )
    if heading.is_numbered and _is_step(heading):
        return _Line(indent, heading=heading.text)
    return _Line()


# Lines that are no steps.
_NO_STEP = re.compile(
    r"""
    \# | //                                             # a comment
    | (?: ``` | ~~~ ) \s*[\w+.-]*\Z                     # a code fence
    | "[^"]*"\s*:                                       # a key of a JSON object
    | \\{1,2}(?:begin|end|(?:sub)*section|paragraph)\*?\s?\{   # LaTeX's lists and headings
    """,
    re.VERBOSE,
)


def _is_step(line: _Unwrapped) -> bool:
    """Return True if a line without calls is a step of words (rule 4 of `parsed_steps`)."""
    words = line.text
    is_title = _begins_with(words, _TITLES) or _ends_with(words, ":")
    if is_title or (line.is_bold and not line.is_item):
        return False
    if _is_long(words) or _ends_with(words, "?") or _begins_with(words, _PROSE):
        return False
    if _closes_plan(words) or _NO_STEP.match(words):
        return False
    return _LETTER.search(words) is not None


# Between the steps of a line.
_STEP_END = re.compile(
    r"""
    (?<=[.!?;])                 # after a sentence
    (?<![.\s][a-z]\.)           # but not after an abbreviation such as "e.g."
    \s+ (?=[^\W\d_])
    | (?<=[\u3002\uff01\uff1b]) # the same for full-width punctuation
    | \s+(?:[-=]>|[\u2192\u21d2])\s+  # an arrow
    """,
    re.VERBOSE,
)
# A label before the first step of a line.
_LABEL = re.compile(r"[^\n.:\uff1a;!?]{0,60}[:\uff1a]\s*")


def _steps_of_line(line: str) -> list[str]:
    """Return the steps of a line with several sentences (rule 6 of `parsed_steps`)."""
    if "\n" in line:
        return []
    label = _LABEL.match(line)
    if label and not _LABELS.isdisjoint(_WORD.findall(label[0].casefold())):
        line = line[label.end() :]
    steps = [_read_line(sentence, 0, []).words for sentence in _STEP_END.split(line)]
    if len(steps) == 1 or not steps[0]:
        return []
    return [step for step in steps if step]


def _closes_plan(words: str) -> bool:
    """Return True for words such as "Done." or "Enjoy your meal!"."""
    plain_words = _WORD.findall(words.casefold())
    if f"{'_'.join(plain_words)}_".startswith(_GREETINGS):
        return True
    if _CLOSINGS.isdisjoint(plain_words):
        return False
    return (_CLOSINGS | _AROUND_CLOSINGS).issuperset(plain_words)


_COMMENT = re.compile("#|//")


def _steps_of_calls(line: str, calls: Sequence[tuple[int, int]]) -> list[str]:
    """Return a line's calls; none if the text before them is prose or a title (rule 3)."""
    before = _unwrap(line[: calls[0][0]])
    if before.text.startswith("//") or _is_about_calls(before.text):
        return []
    has_words_after = _WORD.search(line, calls[-1][1]) is not None
    begins_sentence = not before.is_item and _begins_with(before.text, _PROSE)
    is_prose = _is_long(before.text) or (begins_sentence and has_words_after)
    if is_prose and not _ends_with(before.text, ":"):
        return []
    steps: list[str] = []
    position = calls[0][0]
    for start, end in calls:
        # The rest of the line is a comment.
        if _COMMENT.search(line, position, start):
            break
        steps.append(line[start:end])
        position = end
    return steps


# A number at the beginning of a line, such as "1.", "(1)", "Step 1:" or "**1.**".
_NUMBER = r"""
    (?P<bold>[*_`]{1,3})?
    (?:step\s?)?
    [(\uff08]?
    (?P<number>\d{1,4})
    (?(bold)
        [.):\uff1a]{0,2} [*_`]{1,3} [.):\uff1a]?
        |
        (?:
            [.):\u3001\uff0e\uff09\uff1a]{1,2}
            | \s?[-\u2013\u2014](?!\S)
        )
    )
"""
_NUMBER_INSIDE = re.compile(rf"(?<!\S) {_NUMBER} (?!\S)", re.VERBOSE | re.IGNORECASE)


def _numbered_items(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> list[str]:
    """Split a line before consecutive numbers.

    They start with a number that begins the line, or with 1 before 2.
    """
    starts: list[int] = []
    numbers: list[int] = []
    position = 0
    for start, end in [*calls, (len(line), len(line))]:
        for match in _NUMBER_INSIDE.finditer(line, position, start):
            starts.append(match.start())
            numbers.append(int(match["number"]))
        position = end
    cuts = [0]
    expected = None
    for index, (start, number) in enumerate(zip(starts, numbers, strict=True)):
        is_1_before_2 = numbers[index : index + 2] == [1, 2]
        if start == indent:
            expected = number + 1
        elif number == expected or is_1_before_2:
            cuts.append(start)
            expected = number + 1
    return [line[start:end] for start, end in pairwise([*cuts, len(line)])]


# Numbers of other forms.
_OTHER_NUMBER = rf"""
    [*_`]{{1,3}} {_SIGN} [.):\uff1a]? [*_`]{{1,3}} [.):\uff1a]?     # a bold sign
    | {_SIGN} [.):\u3001\uff0e\uff09\uff1a]{{0,2}}
    | \d{{1,2}}\ufe0f?\u20e3                                        # keycaps
    | \d{{1,3}}(?:\.\d{{1,3}})+[.):]?(?=\s)                         # 1.1
    | [ivx]{{1,5}}\.(?=\s)                                          # II.
"""
_BULLET = rf"""
    {_LATEX_ITEM}
    | \[[ x]?\](?!\S)                   # a box
    | \(?[a-z][.)](?!\S)                # a letter
    | [-*+\u2013\u2014](?!\S)
    | [\u2022\u25cf\u25aa\u00b7>\u2192]
    | [-=]>
"""
_MARKER = re.compile(
    rf"""
    \s*
    (?:
        (?: {_NUMBER} ) (?![\d.)])
        | (?: {_OTHER_NUMBER} )
        | (?P<bullet> {_BULLET} )
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _unwrap(line: str) -> _Unwrapped:
    """Remove numbers, bullets and marks around a line until nothing changes."""
    is_item = False
    is_numbered = False
    is_bold = False
    text = line.strip()
    before = None
    while text != before:
        before = text
        position = 0
        marker = _MARKER.match(text)
        while marker is not None:
            is_item = True
            is_numbered |= marker["bullet"] is None
            position = marker.end()
            marker = _MARKER.match(text, position)
        text = text[position:].strip()
        if text.startswith("|") and text.endswith("|") and _LETTER.search(text):
            is_item = True
            text = _longest_cell(text)
        # Drop the bracket of invalid JSON, because the remaining step might be valid JSON with it.
        if _JSON.match(text):
            text = text[1:].strip()
        inside = _without_marks_around(text)
        if inside:
            is_bold |= text.startswith(("**", "__"))
            text = inside.strip()
    return _Unwrapped(text, is_item, is_numbered, is_bold)


def _longest_cell(row: str) -> str:
    """Return the longest cell of a table's row that has letters."""
    return max(filter(_LETTER.search, row.split("|")), key=len).strip()


def _without_marks_around(text: str) -> str:
    """Return the text inside emphasis, backticks or quotation marks; "" without such marks."""
    mark = text[:1]
    if not mark or mark not in '*_`"' or not text.endswith(mark):
        return ""
    inside = text.strip(mark)
    return "" if mark in inside else inside


def _is_about_calls(before: str) -> bool:
    """Return True if the text before a call is a title, not only the label of a step or plan."""
    words = _WORD.findall(before.casefold())
    if not words or words[0] not in _TITLES:
        return False
    if any(word in _TITLES - _LABELS for word in words):
        return True
    has_number = len(words) > 1 and words[1].isdigit()
    is_label = _LABELS.issuperset(words) or has_number or _ends_with(before, ":")
    return not is_label


def _is_long(text: str) -> bool:
    return len(text.split()) > _LONGEST_STEP


def _begins_with(text: str, words: frozenset[str]) -> bool:
    first = _WORD.search(text)
    return first is not None and first[0].casefold() in words


def _ends_with(text: str, mark: str) -> bool:
    return text.rstrip("\"'*_` ").translate(_FULL_WIDTH_ENDS).endswith(mark)


# The line that announces the plan, as a heading or with a colon.
_FINAL = re.compile(
    r"""
    ^[ \t]*
    (?:
        \#[#*_`\ \t]* final[ ](?:plan|answer) [:\uff1a*_`\ \t]*
        |
        [*_`]* final[ ](?:plan|answer) [*_`]*[:\uff1a][*_`\ ]*
    )
    $
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)


def _final(text: str) -> str:
    """Return the text after the last line that announces the final plan, or all of it."""
    position = 0
    for title in _FINAL.finditer(text):
        position = title.end()
    return text[position:]
