"""Read a plan from a model's reply: the reference's split into lines, the parsed steps, and the
form of a step.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from html import unescape
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple

from lmms_egoplan.judging.text import without_thinking
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text, compile_patterns

_DATA = module_yaml(__file__)
_RE = compile_patterns(_DATA["patterns"])
_KEYS: dict[str, list[str]] = _DATA["keys"]
_WORDS = {kind: frozenset(words.split()) for kind, words in _DATA["words"].items()}
_PROSE = _WORDS["prose"]
_LABELS = _WORDS["labels"]
_OTHER_TITLES = _WORDS["titles"]
_LINKS = _WORDS["links"]
_TITLES = _LABELS | _OTHER_TITLES
# Words that never belong to a call.
_NO_WORDS = _PROSE | _TITLES | _LINKS
# Keys that are not verbs, even as the only key of an object.
_NO_VERBS = {*_KEYS["plan"], *_KEYS["object"], *_KEYS["aside"]}
_LONGEST_OBJECT, _LONGEST_ACTION, _LONGEST = 5, 3, 40  # words
_GREETINGS = tuple(f"{words}_" for words in _WORDS["greetings"])
_FULL_WIDTH = str.maketrans("\uff08\uff09\uff0c", "(),")
_FULL_WIDTH_ENDS = str.maketrans("\uff1a\uff1f", ":?")


class _Line(NamedTuple):
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


def plan_text(reply: str) -> str:
    """Return the plan in a model's reply, without its thinking; "" if the reply ends inside a
    thought.

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
    """Put each step of a plan on a separate line if blanks separate the steps, as in
    ``finetuning_data.jsonl``.

    Each call ``name(...)`` becomes a line (see `parsed_steps`). Words before the name do not belong
    to the call here, because blanks separate steps. Text before, between and after calls becomes a
    line too; punctuation alone stays with the preceding call. A text of several lines is only
    stripped.
    """
    text = text.strip()
    if len(text.splitlines()) != 1:
        return text
    lines: list[str] = []
    position = 0
    for start, end in [*find_calls(text), (len(text), len(text))]:
        between = text[position:start].strip()
        if lines and between and not re.search(r"\w", between):
            lines[-1] += between
        elif between:
            lines.append(between)
        if end > start:
            lines.append(text[start:end])
        position = end
    return "\n".join(lines)


def parsed_steps(text: str) -> list[str]:
    r"""Find the steps in a model's answer, without surrounding text; the text of a step is
    unchanged.

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
    with_calls = [index for index, line in enumerate(lines) if line.calls]
    if not with_calls:
        items = [line.words for line in lines if line.is_item]
        headings = [line.heading for line in lines if line.heading]
        words = items or headings or [line.words for line in lines if line.words]
        if len(words) > 1:
            return words
        return _steps_of_line(words[0] if words else text.strip()) or words
    indents = {lines[index].indent for index in with_calls}
    counts = [bool(line.words) and line.indent in indents for line in lines]
    first, last = with_calls[0], with_calls[-1]
    while first > 0 and counts[first - 1]:
        first -= 1
    while last + 1 < len(lines) and counts[last + 1]:
        last += 1
    steps: list[str] = []
    for line, words_count in zip(lines[first : last + 1], counts[first : last + 1], strict=True):
        steps += [line.words] if words_count else line.calls
    return steps


def is_well_formed(step: str) -> bool:
    """Return True if a step has the form ``action(object[, object ...])`` (secs.

    3.1 and 5.6, Table 8).

    The action is one of the eight main actions or another verb: one word of letters, digits, ``_``
    and ``-``. A step has at least one object. Objects are not empty and contain no parentheses.
    Emphasis around the action, and full-width parentheses and commas, are accepted. Anything else
    is an "incorrect form".
    """
    form = re.fullmatch(r"(\*{1,3}|`)?[^\W\d_][\w\\-]*(?(1)\1)\(([^()\n]*)\)", ascii_form(step))
    return form is not None and all(re.search(r"[^\W_]", name) for name in form[2].split(","))


def form_validity(steps: Sequence[str]) -> float:
    """Return the share of well-formed steps, in [0, 1]; NaN without steps.

    >>> form_validity(["walk_to(table)", "grab the cup"])
    0.5
    """
    return sum(map(is_well_formed, steps)) / len(steps) if steps else float("nan")


def ascii_form(text: str) -> str:
    """Replace full-width parentheses and commas by ASCII ones; the length is unchanged."""
    return text.translate(_FULL_WIDTH)


def find_calls(line: str) -> list[tuple[int, int]]:
    """Return start and end of a line's calls, excluding nested calls (rule 1 of `parsed_steps`)."""
    line = ascii_form(line)
    if "(" not in line:
        return []
    closed: dict[int, int] = {}
    opened: list[int] = []
    for parenthesis in re.finditer("[()]", line):
        if parenthesis[0] == "(":
            opened.append(parenthesis.start())
        elif opened:
            closed[opened.pop()] = parenthesis.end()
    names = [
        (match.start("marked" if match["marked"] else "name"), match.end() - 1)
        for match in _RE.name.finditer(line)
        if match["marked"] or match["name"]
    ]
    calls: list[tuple[int, int]] = []
    position = 0
    for (start, opening), (following, _) in pairwise([*names, (len(line), 0)]):
        if start >= position:
            position = closed.get(opening, following)
            calls.append((start, start + len(line[start:position].rstrip())))
    return calls


def without_markup(text: str) -> str:
    """Resolve character references and Markdown's escapes, and remove tags and tokens of chat
    templates.

    A tag becomes a line break, and also begins a list item if its name means a step; emphasis
    becomes asterisks. A tag without attributes that is never closed is kept, because it may name an
    object.
    """
    plain = _RE.escaped.sub(
        r"\1", _RE.reference.sub(lambda reference: unescape(f"&{reference[1]}"), text)
    )
    closed = {"br"} | {tag["name"].casefold() for tag in _RE.tag.finditer(plain) if tag["end"]}
    return _RE.tag.sub(
        lambda tag: _line_break(tag, closed), _RE.fields.sub(_as_item, _RE.token.sub("\n", plain))
    )


def json_as_lines(text: str) -> str:
    """Replace JSON by its steps, one per line; if the JSON is invalid, replace each of its
    innermost objects.
    """
    parts: list[str] = []
    position = 0
    while opening := _RE.json.search(text, position):
        start = opening.start("value")
        try:
            # Parsing a long integer as int would take quadratic time.
            value, end = json.JSONDecoder(parse_int=float).raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        lists = _lists_of_steps(value)
        strings = clean_text("\n\n".join(map("\n".join, lists)))
        parts += [text[position:start], f"\n\n{strings}\n\n" if lists else text[start:end]]
        position = end
    return _RE.object.sub(_as_line, "".join([*parts, text[position:]]))


def _line_break(tag: re.Match[str], closed: set[str]) -> str:
    name = tag["name"].casefold()
    if name in _KEYS["emphasis"]:
        return "**"
    if not tag["attributes"] and name not in closed:
        return tag[0]
    return "\n- " if name.startswith(("step", "action", "item", "li")) and not tag["end"] else "\n"


def _lists_of_steps(value: Any) -> Sequence[list[str]]:
    """Return the lists of steps, including those of inner objects; only lists under a plan's key if
    any exist.
    """
    lists: list[tuple[bool, list[str]]] = []
    is_step = isinstance(value, dict) and value.keys() & _KEYS["call"]
    members: list[tuple[str, Any]] = [("", [value] if is_step else value)]
    for key, member in members:
        if isinstance(member, dict) and not all(map(_RE.numbered.fullmatch, member)):
            members += member.items()
        elif isinstance(member, str) and key.casefold() in _KEYS["plan"]:
            members.append((key, [member]))
        elif isinstance(member, dict | list):
            items = [*member.values()] if isinstance(member, dict) else member
            steps = [step for item in items if (step := _step(item)) is not None]
            if len(steps) == len(items):
                lists.append((key.casefold() in _KEYS["plan"], steps))
            members += [
                (key, item)
                for item in items
                if isinstance(item, dict | list) and _step(item) is None
            ]
    return [steps for is_plan, steps in lists if is_plan] or [steps for _, steps in lists]


def _step(item: Any) -> str | None:
    """Return a step that is a text, an object, or a list of an action and its objects; None for
    other values.
    """
    if (
        isinstance(item, list)
        and len(item) > 1
        and isinstance(item[0], str)
        and _RE.action.fullmatch(item[0])
    ):
        item = {"action": item[0], "objects": item[1:]}
    if not isinstance(item, dict):
        return item if isinstance(item, str) else None
    members = {key.casefold(): member for key, member in item.items()}
    names = [*_KEYS["action"], *(["name"] if members.keys() & _KEYS["object"] else [])]
    key = next((name for name in names if isinstance(members.get(name), str)), None)
    if key is None and len(members) == 1:
        (verb,) = members
        if _RE.action.fullmatch(verb) and not (verb in _NO_VERBS or _RE.numbered.fullmatch(verb)):
            return _step([verb, *_texts(members[verb])])
    if key is None or members.keys() & _KEYS["plan"]:
        return None
    action = members.pop(key)
    texts = [
        text
        for name, member in members.items()
        if name not in _KEYS["aside"]
        for text in _texts(member)
    ]
    texts = [text for text in texts if text.strip().casefold() not in _KEYS["nothing"]]
    objects = [
        text
        for text in texts
        if len(text.split()) <= _LONGEST_OBJECT and f" {text} " not in f" {action} "
    ]
    is_call = objects and "(" not in action and len(action.split()) <= _LONGEST_ACTION
    return f"{action}({', '.join(objects)})" if is_call else action


def _texts(member: Any) -> list[str]:
    if isinstance(member, dict):
        member = [*member.values()]
    return [
        text for text in (member if isinstance(member, list) else [member]) if isinstance(text, str)
    ]


def _as_item(fields: re.Match[str]) -> str:
    """Convert elements such as ``<action>grab</action><object>cup</object>`` to a call, unless two
    share a name.
    """
    pairs = re.findall(r"<(\w+)>([^<>]*)</", fields[0])
    step = _step(dict(pairs)) if len(dict(pairs)) == len(pairs) else None
    return f"\n- {step}\n" if step and "(" in step else fields[0]


def _as_line(value: re.Match[str]) -> str:
    for text in (value[0], value[0].replace("'", '"')):
        with suppress(ValueError, RecursionError):
            if (step := _step(json.loads(text, parse_int=float))) is not None:
                return f"\n{step}\n"
    return value[0]


def _read_lines(text: str) -> list[_Line]:
    """Read the lines of a text without markup and JSON (rules 1 to 4 of `parsed_steps`)."""
    lines: list[_Line] = []
    for line, following in pairwise([*text.splitlines(), ""]):
        if not _RE.letter.search(line) or (
            line.lstrip().startswith("|") and _RE.separator.fullmatch(following)
        ):
            lines.append(_Line())
            continue
        indent = len(line) - len(line.lstrip())
        calls = find_calls(line)
        items = _numbered_items(line, indent, calls)
        lines += [
            _read_line(item, indent, calls if len(items) == 1 else find_calls(item))
            for item in items
        ]
    return lines


def _with_words(line: str, calls: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Extend a line's calls by the words before each name that belong to it (rule 2 of
    `parsed_steps`).
    """
    with_words: list[tuple[int, int]] = []
    position = 0
    for start, end in calls:
        for mark in _RE.gap.finditer(line, position, start):
            position = mark.end()
        before = line[position:start]
        if before.strip() and before[-1].isspace():
            words = list(
                dropwhile(lambda word: word[0].casefold() in _LINKS, re.finditer(r"\S+", before))
            )
            are_plain = all(
                _RE.plain.fullmatch(word[0]) and word[0].casefold() not in _NO_WORDS
                for word in words
            )
            if 1 <= len(words) <= 3 and are_plain:
                start = position + words[0].start()
        with_words.append((start, end))
        position = end
    return with_words


def _read_line(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> _Line:
    if calls:
        return _Line(indent, calls=_steps(line, _with_words(line, calls)))
    words, is_item, is_numbered, is_bold = _unwrap(line)
    is_heading = words.startswith("#")
    if is_heading:
        words, is_item, is_numbered, _ = _unwrap(words.lstrip("#"))
        if not is_numbered:
            return _Line()
    is_title = _begins_with(words, _TITLES) or _ends_with(words, ":") or (is_bold and not is_item)
    is_prose = _is_long(words) or _ends_with(words, "?") or _begins_with(words, _PROSE)
    if (
        is_title
        or is_prose
        or _closes_plan(words)
        or _RE.no_step.match(words)
        or not _RE.letter.search(words)
    ):
        return _Line()
    return (
        _Line(indent, heading=words) if is_heading else _Line(indent, words=words, is_item=is_item)
    )


def _steps_of_line(line: str) -> list[str]:
    """Return the steps of a line with several sentences (rule 6 of `parsed_steps`)."""
    if "\n" in line:
        return []
    label = _RE.before_steps.match(line)
    if label and not _LABELS.isdisjoint(_RE.word.findall(label[0].casefold())):
        line = line[label.end() :]
    sentences = _RE.step_end.split(line)
    steps = [_read_line(sentence, 0, []).words for sentence in sentences]
    return [step for step in steps if step] if len(steps) > 1 and steps[0] else []


def _closes_plan(words: str) -> bool:
    """Return True for words such as "Done." or "Enjoy your meal!"."""
    plain = _RE.word.findall(words.casefold())
    if f"{'_'.join(plain)}_".startswith(_GREETINGS):
        return True
    return not _WORDS["closings"].isdisjoint(plain) and _WORDS["closings"] | _WORDS[
        "around_closings"
    ] >= {*plain}


def _steps(line: str, calls: Sequence[tuple[int, int]]) -> list[str]:
    before, is_item, _, _ = _unwrap(line[: calls[0][0]])
    may_be_prose = not is_item and _RE.word.search(line, calls[-1][1])
    is_prose = _is_long(before) or (_begins_with(before, _PROSE) and may_be_prose)
    if (
        before.startswith("//")
        or (is_prose and not _ends_with(before, ":"))
        or _is_about_calls(before)
    ):
        return []
    steps: list[str] = []
    position = calls[0][0]
    for start, end in calls:
        if _RE.comment.search(line, position, start):
            break
        steps.append(line[start:end])
        position = end
    return steps


def _numbered_items(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> list[str]:
    """Split a line before consecutive numbers.

    They start with a number that begins the line, or with 1 before 2.
    """
    numbers = [
        (number.start(), int(number["number"]))
        for (_, start), (end, _) in pairwise([(0, 0), *calls, (len(line), 0)])
        for number in _RE.number_inside.finditer(line, start, end)
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
    """Remove numbers, bullets and marks around a line.

    Returns:
        The text; and True or False for: a number or bullet was removed, a number was removed, the
        text was bold.
    """
    is_item = is_numbered = is_bold = False
    text, before = line.strip(), None
    while text != before:
        before = text
        position = 0
        while marker := _RE.marker.match(text, position):
            position = marker.end()
            is_numbered |= marker["bullet"] is None
        is_item |= position > 0
        text = text[position:].strip()
        if text.startswith("|") and text.endswith("|") and _RE.letter.search(text):
            is_item = True
            text = max(filter(_RE.letter.search, text.split("|")), key=len).strip()
        # Drop the bracket of invalid JSON, because the remaining step might be valid JSON with it.
        if _RE.json.match(text):
            text = text[1:].strip()
        mark = text[:1]
        inside = text.strip(mark) if mark and mark in '*_`"' and text.endswith(mark) else ""
        if inside and mark not in inside:
            is_bold |= text.startswith(("**", "__"))
            text = inside.strip()
    return text, is_item, is_numbered, is_bold


def _is_about_calls(before: str) -> bool:
    """Return True if the text before a call is a title, and not only the label of a step or plan."""
    words = _RE.word.findall(before.casefold())
    if not words or words[0] not in _TITLES:
        return False
    is_label = _LABELS.issuperset(words) or "".join(words[1:2]).isdigit() or _ends_with(before, ":")
    return not is_label or any(word in _TITLES - _LABELS for word in words)


def _is_long(text: str) -> bool:
    return len(text.split()) > _LONGEST


def _begins_with(text: str, words: frozenset[str]) -> bool:
    first = _RE.word.search(text)
    return first is not None and first[0].casefold() in words


def _ends_with(text: str, mark: str) -> bool:
    return text.rstrip("\"'*_` ").translate(_FULL_WIDTH_ENDS).endswith(mark)


def _final(text: str) -> str:
    """Return the text after the last line that announces the final plan; the whole text without
    such a line.
    """
    return text[max((title.end() for title in _RE.final.finditer(text)), default=0) :]
