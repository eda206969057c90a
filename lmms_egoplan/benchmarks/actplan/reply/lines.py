"""Read the steps in lines, with and without calls (rules 2 to 6 of `parsed_steps`)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile, pairwise

from lmms_egoplan.benchmarks.actplan.reply.calls import NUMBER_SIGN, find_calls
from lmms_egoplan.benchmarks.actplan.reply.markup import JSON_START
from lmms_egoplan.paths import module_yaml

_WORDS = {name: frozenset(words.split()) for name, words in module_yaml(__file__).items()}
_PROSE = _WORDS["prose"]
_LABELS = _WORDS["labels"]
_TITLES = _LABELS | _WORDS["titles"]
_LINKS = _WORDS["links"]
_CLOSINGS = _WORDS["closings"]
_AROUND_CLOSINGS = _WORDS["around_closings"]
_GREETINGS = tuple(f"{words}_" for words in _WORDS["greetings"])
# Words that never belong to a call.
_NO_WORDS = _PROSE | _TITLES | _LINKS
# Length in words.
_LONGEST_STEP = 40
_FULL_WIDTH_ENDS = str.maketrans("\uff1a\uff1f", ":?")

_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
# LaTeX's \item with an optional label, such as \item[1.]
_LATEX_ITEM = r"\\{1,2}item(?![a-z])(?:\[[^\]\n]{0,20}\])?"


@dataclass(frozen=True, slots=True)
class Line:
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


# The line below a table's header.
_SEPARATOR = re.compile(r"\s*\|\s*:?-[\s|:-]*")


def read_lines(text: str) -> list[Line]:
    """Read the lines of a text without markup and JSON (rules 1 to 4 of `parsed_steps`)."""
    lines: list[Line] = []
    for line, next_line in pairwise([*text.splitlines(), ""]):
        is_table_row = line.lstrip().startswith("|")
        if not _LETTER.search(line) or (is_table_row and _SEPARATOR.fullmatch(next_line)):
            lines.append(Line())
            continue
        indent = len(line) - len(line.lstrip())
        calls = find_calls(line)
        items = _numbered_items(line, indent, calls)
        if len(items) == 1:
            lines.append(_read_line(line, indent, calls))
        else:
            lines += [_read_line(item, indent, find_calls(item)) for item in items]
    return lines


def steps_with_calls(lines: Sequence[Line]) -> list[str]:
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


def steps_without_calls(lines: Sequence[Line], text: str) -> list[str]:
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
    | {NUMBER_SIGN}
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


def _read_line(line: str, indent: int, calls: Sequence[tuple[int, int]]) -> Line:
    """Read a line or a numbered item, given the positions of its calls."""
    if calls:
        return Line(indent, calls=_steps_of_calls(line, _with_words(line, calls)))
    unwrapped = _unwrap(line)
    if not unwrapped.text.startswith("#"):
        if _is_step(unwrapped):
            return Line(indent, words=unwrapped.text, is_item=unwrapped.is_item)
        return Line()
    heading = _unwrap(unwrapped.text.lstrip("#"))
    # Emphasis around the whole heading, with its marks "#", makes it bold.
    heading = _Unwrapped(
        heading.text, heading.is_item, heading.is_numbered, is_bold=unwrapped.is_bold
    )
    if heading.is_numbered and _is_step(heading):
        return Line(indent, heading=heading.text)
    return Line()


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
    [*_`]{{1,3}} {NUMBER_SIGN} [.):\uff1a]? [*_`]{{1,3}} [.):\uff1a]?     # a bold sign
    | {NUMBER_SIGN} [.):\u3001\uff0e\uff09\uff1a]{{0,2}}
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
        if JSON_START.match(text):
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
