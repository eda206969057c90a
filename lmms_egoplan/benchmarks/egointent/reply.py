r"""Read a written answer: find the three fields in JSON, tags, tables or labelled lines.

    fields = fields of the best source (object, tags, table or lines), completed from the other
    sources

The regular expressions are in ``reply.yaml``. Objects are often not quite valid JSON. Only the
fields' keys and strings are searched for, so errors elsewhere do no harm. Repairing the whole
object would mean guessing where strings end. The text is read in one pass, in linear time for any
input.
"""

import html
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice, takewhile

from lmms_egoplan.benchmarks.egointent.protocol import ALIASES, FIELDS, PROMPT, RELEASE_PROMPT
from lmms_egoplan.jsonl import decode
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text, compile_patterns

_TABLES = module_yaml(__file__)
_RE = compile_patterns(_TABLES["patterns"], re.VERBOSE)
_FIELD_OF = {
    name.replace("_", ""): field
    for name, field in (*zip(FIELDS, FIELDS, strict=True), *ALIASES.items())
}
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    0x3001: ord(","),
    0x3000: ord(" "),
}
_STOP = {
    first: re.compile(rf"\\.|[\n{last}]", re.DOTALL) for first, last in _TABLES["quotes"].items()
}
_NO_TEXT = ("#", "```", "{", "}")
_YAML_ENDS = ("---", "...")
_MARKUP = " *_`,;\uff0c\uff1b\u3001\u3002"

_Values = list[tuple[str, str]]
"""Pairs of a field and its text, in the order of the reply."""


@dataclass
class _Object:
    """An object of the reply: its values, and the places where it starts and ends."""

    start: int
    end: int
    values: _Values


def read_reply(text: str) -> dict[str, str]:
    """Read the fields of a reply, in the order of `FIELDS`; a missing field is absent.

    These sources are read: JSON objects (`_read_objects`) and, outside of them, tags
    (`_read_tags`), tables (`_read_tables`) and labelled lines (`_read_lines`). Rules if a reply has
    several sources:

    - The source with the most fields is used. On a tie, it is the first one in the order objects,
      tags, tables, lines.
    - Its missing fields are taken from the other sources in the same order.
    - If a field occurs more than once in a source, the first value is used.
    - Of several objects with all fields, the first one is used. One that follows directly, or after
      words such as "revised answer" or a heading, replaces the one before.
    - Text after ``Final answer:`` (or revised, corrected, updated), ``On second thought`` or a
      similar phrase has priority over everything else.
    - If the prompt follows an answer with all fields, nothing after it is read.
    - If the reply contains an initial guess or a draft, the last source is used on a tie, and a
      field's last value.

    A value is text of the reply, unescaped. Runs of white space become one blank, and the items of
    a list are joined by ``; ``. A value counts as missing if it is not a text, has no letter, only
    marks a missing value (``N/A``, ``none``, ``unknown``), or is a piece of the prompt. If the
    reply ends within a field, its text up to there is used. This applies to JSON as well as to
    lines, where the end of the text is not marked.

    If fields are missing, full-width punctuation is read as ASCII, also within values. If no field
    is found by its name, JSON with the keys local, global and next, or what, why and next, is read.

    Args:
        text: A model's reply without its thinking, of any content.
    """
    # Replace a run of white space by one blank or one line break, or by two line breaks for an
    # empty line.
    text = re.sub(
        r"\s\s+|[^\S ]", lambda run: "\n" * min(run[0].count("\n"), 2) or " ", text.strip()
    )
    text = _first_answer(text)
    fields = _read(text)
    if len(fields) < len(FIELDS) and (plain := text.translate(_FULL_WIDTH)) != text:
        fields = max(fields, _read(plain), key=len)
    if not fields and (
        keys := _short_fields({key["name"].lower() for key in _RE.short_key.finditer(text)})
    ):
        fields = _read(
            _RE.short_key.sub(lambda key: f'"{keys.get(key["name"].lower(), key["name"])}"', text)
        )
    return {field: fields[field] for field in FIELDS if field in fields}


def _first_answer(text: str) -> str:
    """Return the text up to a prompt that follows an answer with all fields."""
    for question in islice(_RE.question.finditer(text), 2):
        if len(_read(text[: question.start()])) == len(FIELDS):
            return text[: question.start()]
    return text


def _read(text: str) -> dict[str, str]:
    all_fields = _read_part(text, last_first=_RE.first.search(text) is not None)
    finals = list(_RE.final.finditer(text))
    with suppress(ValueError):
        decode(text)
        # In valid JSON, only a key can mark the final answer. Other matches are inside strings.
        finals = [final for final in finals if final[0][0] in _STOP]
    return all_fields | _read_part(text[finals[-1].end() :]) if finals else all_fields


def _read_part(text: str, *, last_first: bool = False) -> dict[str, str]:
    placed, around = _read_objects(text)
    objects = [placed_object.values for placed_object in placed]
    tables, around = _read_tables(around)
    tags = _read_tags(around)
    sources = [
        *_last_complete(text, placed),
        *objects,
        tags,
        *tables,
        [] if tags else _read_lines(around),
    ]
    if last_first:
        sources = [source[::-1] for source in reversed(sources)]
    fields: dict[str, str] = {}
    for source in sorted(map(_answered, sources), key=len, reverse=True):
        fields = source | fields
    return fields


def _last_complete(text: str, objects: Sequence[_Object]) -> list[_Values]:
    """Return the object with all fields that counts, if there is one: the last that replaces the
    one before.
    """
    complete = [placed for placed in objects if len(_answered(placed.values)) == len(FIELDS)]
    if not complete:
        return []
    last = complete[0]
    for following in complete[1:]:
        between = _RE.replacing.sub(" ", text[last.end : following.start])
        if last.end > following.start or _RE.word.search(between):
            break
        last = following
    return [last.values]


def _answered(values: _Values) -> dict[str, str]:
    answered: dict[str, str] = {}
    for field, raw in values:
        value = " ".join(clean_text(raw).split())
        if not _is_missing(value):
            answered.setdefault(field, value)
    return answered


def _words(text: str) -> str:
    return " ".join(_RE.word.findall(text.casefold()))


_PROMPT_WORDS = f" {_words(PROMPT)} | {_words(RELEASE_PROMPT)} "


def _is_missing(value: str) -> bool:
    words = _words(value)
    return (
        words in _TABLES["no_answer"]
        or f" {words} " in _PROMPT_WORDS
        or not any(map(str.isalpha, words))
    )


def _field_of(name: str) -> str:
    """Return the field for a text that matches ``name`` or ``short_name``."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return _FIELD_OF.get(plain) or next(
        fields[plain] for fields in _TABLES["short_names"] if plain in fields
    )


def _short_fields(names: Collection[str], named_fields: Collection[str] = ()) -> dict[str, str]:
    """Return the fields of the short names that are read.

    At least two names of one set are needed, or one name for the only field that is not in the text
    under another name.

    Args:
        names: Short names in the text, in lower case.
        named_fields: Fields in the text under other names.
    """
    for fields in _TABLES["short_names"]:
        matching_fields = {
            name: field
            for name, field in fields.items()
            if name in names and field not in named_fields
        }
        if len(matching_fields) > 1 or (matching_fields and len(named_fields) == len(FIELDS) - 1):
            return matching_fields
    return {}


def _read_objects(text: str) -> tuple[list[_Object], str]:
    """Read the objects that contain a field's key, at any depth, and the text around them.

    An object begins at ``{``, or at a key in quotation marks if the brace is missing. A key may
    have any quotation marks, or none after ``{``, a comma or a line break. A value is a string,
    which may contain unescaped quotation marks; a list of strings, joined by ``; ``; or bare text
    up to the next key. A string or an object without an end reaches to the end of the text, so the
    last field of a truncated reply is kept.

    Returns:
        The objects that have fields, with empty values for values that are not texts, and the text
        outside of the outermost objects that contain fields.
    """
    objects: list[_Object] = []
    around: list[str] = []
    position = 0
    while opening := _RE.opening.search(text, position):
        inside, end = _read_object(text, opening.start())
        objects += inside
        around.append(text[position : opening.start() if inside else end])
        position = end
    return objects, "\n".join([*around, text[position:]])


def _read_object(text: str, start: int) -> tuple[list[_Object], int]:
    """Read the object that starts here, and the objects inside it that contain a field; also return
    its end.
    """
    objects: list[_Object] = []
    open_objects: list[_Object] = [] if text[start] == "{" else [_Object(start, len(text), [])]
    position = start
    while token := _RE.token.search(text, position):
        position = token.end()
        if name := token["key"] or token["bare"]:
            if not open_objects[-1].values:
                objects.append(open_objects[-1])
            value, position = _read_value(text, position)
            open_objects[-1].values.append((_field_of(name), value))
        elif token["quote"]:
            _, position = _read_string(text, token.start("quote"))
        elif token["brace"] == "{":
            open_objects.append(_Object(token.start("brace"), len(text), []))
        elif token["brace"] == "}":
            open_objects.pop().end = position
            if not open_objects:
                return objects, position
    return objects, len(text)


def _read_value(text: str, position: int) -> tuple[str, int]:
    first = text[position : position + 1]
    if first in _STOP:
        return _read_string(text, position)
    if first == "[":
        return _read_list(text, position + 1)
    if first == "{":  # an object: the caller reads it next
        return "", position
    end = _RE.bare_end.search(text, position).start()
    return text[position:end], end


def _read_list(text: str, position: int) -> tuple[str, int]:
    items: list[str] = []
    while True:
        while text[position : position + 1] in (" ", "\n", ","):
            position += 1
        if text[position : position + 1] not in _STOP:
            return "; ".join(items), position
        item, position = _read_string(text, position)
        items.append(item)


def _read_string(text: str, start: int) -> tuple[str, int]:
    for stop in _STOP[text[start]].finditer(text, start + 1):
        if stop[0][0] == "\\":
            continue
        if _RE.unended.match(text, stop.start()):
            return _unescape(text[start + 1 : stop.start()].rstrip(" \n,")), stop.start()
        if stop[0] != "\n" and _RE.after.match(text, stop.end()):
            return _unescape(text[start + 1 : stop.start()]), stop.end()
    return _unescape(text[start + 1 :]), len(text)


def _unescape(text: str) -> str:
    escapes = _TABLES["escapes"]
    return _RE.escape.sub(
        lambda mark: chr(int(mark[1], 16)) if mark[1] else escapes.get(mark[2], mark[2] or ""), text
    )


def _read_tags(text: str) -> _Values:
    """Read the text in every tag that is named after a field, such as
    ``<local_intent>...</local_intent>``.

    The field's name may also be in an attribute. If no such tag is closed, no value is read. A last
    tag that is not closed reaches to the end of the text.
    """
    tags = list(_RE.tag.finditer(text))
    ends = [*(tag.start() for tag in tags), len(text)][1:]
    values: _Values = []
    closed = False
    for tag, end in zip(tags, ends, strict=True):
        field = _field_of(tag["tag"] or tag["named"])
        attributes = tag["attributes"] or tag["more"] or ""
        if attributes.rstrip().endswith("/"):
            if attribute := _RE.attribute.search(attributes):
                values.append((field, html.unescape(attribute[1] or attribute[2] or "")))
                closed = True
            continue
        start = tag.end()
        while inner := _RE.inner.match(text, start, end):
            start = inner.end()
        closing = _RE.field_closing.search(text, start, end) or _RE.closing.search(text, start, end)
        closed |= closing is not None
        if closing or end == len(text):
            value = _RE.emphasis.sub("", text[start : closing.start() if closing else end])
            values.append((field, html.unescape(value).removesuffix("]]>")))
    return values if closed else []


def _read_tables(text: str) -> tuple[list[_Values], str]:
    """Read the fields in tables.

    A field's text follows its name in the row, or is in the cell below its name.

    If several cells after a name contain letters, the header of the table must name the column of
    the answers.

    Returns:
        The values of each table, and the text without the rows of tables that name a field.
    """
    tables: list[_Values] = []
    around: list[str] = []
    for has_bars, group in groupby([*text.split("\n"), ""], lambda line: "|" in line):
        lines = list(group)
        if has_bars and (
            values := _read_table([_cells(row) for row in lines if not _RE.rule.fullmatch(row)])
        ):
            tables.append(values)
        else:
            around += lines
    return tables, "\n".join(around)


def _read_table(rows: Sequence[Sequence[str]]) -> _Values:
    names = [
        [name and name["name"].lower() for name in map(_RE.name_cell.fullmatch, row)]
        for row in rows
    ]
    words = {name for row in names for name in row if name}
    field_by_word = {word: _field_of(word) for word in words if _RE.full_name.fullmatch(word)}
    field_by_word |= _short_fields(words, {*field_by_word.values()})
    fields = [[field_by_word.get(name) for name in row] for row in names]
    for number, row_fields in enumerate(fields):
        if sum(name is not None for name in row_fields) > 1:
            below = rows[number + 1] if number + 1 < len(rows) else ()
            return [(name, cell) for name, cell in zip(row_fields, below, strict=False) if name]
    answer_column = next(
        (
            column
            for column, cell in enumerate(rows[0] if rows else ())
            if _RE.answers.fullmatch(cell)
        ),
        None,
    )
    values: _Values = []
    for row, row_fields in zip(rows, fields, strict=True):
        column, field = next(
            ((column, name) for column, name in enumerate(row_fields) if name), (0, "")
        )
        text_cells = [cell for cell in row[column + 1 :] if _RE.letter.search(cell)]
        if field and answer_column is not None and column < answer_column < len(row):
            values.append((field, row[answer_column]))
        elif field and len(text_cells) == 1:
            values.append((field, text_cells[0]))
    return values


def _cells(row: str) -> list[str]:
    return [
        cell.replace(r"\|", "|").strip(' *_`"')
        for cell in _RE.cell_end.split(row.strip().strip("|"))
    ]


def _read_lines(text: str) -> _Values:
    """Read the text after the name of each field.

    This is the rest of the line, up to the name of another field. If the rest is empty or marks a
    YAML block, the next paragraph is read. Its lines are joined by a blank, or by ``; `` if all are
    bullets. The text may be empty. For the short names (Local, Global or Procedural, Next; What,
    Why, Next), see `_short_fields`.
    """
    inner_labels = _inner_labels(text)
    lines = {_line_of(label) for label in inner_labels}
    labels = [
        label for label in _RE.label.finditer(text) if label["end"] is None or _opens_line(label)
    ]
    labels = [
        label for label in [*labels, *_short_labels(text, labels)] if _line_of(label) not in lines
    ]
    labels = sorted([*labels, *inner_labels], key=re.Match.start)
    starts = [*(label.start() for label in labels), len(text)]
    values = []
    for label, end in zip(labels, starts[1:], strict=True):
        following = text[label.end() : end]
        first_line = following.partition("\n")[0]
        if _RE.block.fullmatch(first_line):
            following, first_line = following[len(first_line) :], ""
        line = "" if label.groupdict().get("end") is not None else _plain(first_line)
        values.append((_field_of(label["name"]), line or _paragraph(following)))
    return values


def _inner_labels(text: str) -> list[re.Match[str]]:
    """List the labels in lines that have the labels of all fields, wherever these are in the line."""
    labels: list[re.Match[str]] = []
    for pattern in (_RE.inner_label, _RE.short_inner_label):
        for _, group in groupby(pattern.finditer(text), key=_line_of):
            line = list(group)
            names = {label["name"].lower() for label in line}
            fields = (
                _short_fields(names)
                if pattern is _RE.short_inner_label
                else {name: _field_of(name) for name in names}
            )
            if {*fields.values()} == {*FIELDS}:
                labels += [label for label in line if label["name"].lower() in fields]
    return labels


def _line_of(label: re.Match[str]) -> int:
    """Return the place where the line of a label's name begins."""
    return label.string.rfind("\n", 0, label.end("name"))


def _short_labels(text: str, labels: Sequence[re.Match[str]]) -> list[re.Match[str]]:
    """List the short names at the start of lines, before a separator or as headings, that
    `_short_fields` accepts.
    """
    labelled_lines = set(map(_line_of, labels))
    openings = [
        label
        for label in _RE.short_label.finditer(text)
        if _opens_line(label)
        and (label["end"] is None or label[0].lstrip().startswith(("#", "**")))
        and _line_of(label) not in labelled_lines
    ]
    fields = _short_fields(
        {label["name"].lower() for label in openings},
        {_field_of(label["name"]) for label in labels},
    )
    return [label for label in openings if label["name"].lower() in fields]


def _opens_line(label: re.Match[str]) -> bool:
    return label.start() == 0 or label.string[label.start() - 1] == "\n"


def _paragraph(text: str) -> str:
    lines = text.strip().partition("\n\n")[0].split("\n")
    lines = list(
        takewhile(lambda line: not line.startswith(_NO_TEXT) and line not in _YAML_ENDS, lines)
    )
    if all(map(_RE.bullet.match, lines)):
        return "; ".join(_plain(_RE.bullet.sub("", line, count=1)) for line in lines)
    return _plain(" ".join(lines))


def _plain(line: str) -> str:
    """Remove surrounding emphasis, quotation marks and commas."""
    plain = line.strip(_MARKUP)
    return plain[1:-1] if len(plain) > 1 and _TABLES["paired"].get(plain[0]) == plain[-1] else plain
