"""The fields in tags and in tables of Markdown."""

import html
import re
from collections.abc import Sequence
from itertools import groupby

from lmms_egoplan.benchmarks.egointent.reply_labels import FLAGS, NAME, SHORT_NAME, Values, field_of, short_names

_TAG = re.compile(
    rf"""
    < (?: (?P<tag>{NAME}) (?P<attributes>\s[^<>]{{0,200}})?
    | [a-z]\w{{0,30}} \s [^<>]{{0,100}}? ["'] (?P<named>{NAME}) ["'] (?P<more>[^<>]{{0,200}}) ) >
    """,
    FLAGS,
)
_CLOSING = re.compile(r"</[a-z][\w\s-]{0,40}>", FLAGS)
_FIELD_CLOSING = re.compile(rf"</\s?(?:{NAME})\s?>", FLAGS)
_EMPHASIS = re.compile(r"</?[a-z]{1,10}>", FLAGS)
_ATTRIBUTE = re.compile(r"""\b(?:value|text|content|answer)\s?=\s?(?:"([^"]*)"|'([^']*)')""", FLAGS)
_INNER = re.compile(r"\s*(?:<!\[CDATA\[|<[a-z][^<>]{0,100}>)", FLAGS)
_CELL_END = re.compile(r"(?<!\\)\|")
# A cell that names a field, with a number, emphasis or remark.
_NAME_CELL = re.compile(
    rf"[^a-z]{{0,12}}(?P<name>{NAME}|{SHORT_NAME})[^a-z]{{0,6}}(?:\([^()]{{0,60}}\))?[^a-z]{{0,6}}", FLAGS
)
_RULE = re.compile(r"[\s|:+=-]+")
_ANSWERS = re.compile(
    r"\W*(?:(?:my|the|your|predicted|model)\s)?(?:answer|value|prediction|response|output|content|result|text)s?\W*",
    FLAGS,
)
_LETTER = re.compile(r"[^\W\d_]")


def read_tags(text: str) -> Values:
    """Read the text in every tag named by a field (``<local_intent>...</local_intent>``), or with it as an attribute.

    Return nothing if no such tag is closed; a last tag that is not closed reaches to the end of the text.
    """
    tags = list(_TAG.finditer(text))
    ends = [*(tag.start() for tag in tags), len(text)][1:]
    values: Values = []
    closed = False
    for tag, end in zip(tags, ends, strict=True):
        field = field_of(tag["tag"] or tag["named"])
        attributes = tag["attributes"] or tag["more"] or ""
        if attributes.rstrip().endswith("/"):
            if attribute := _ATTRIBUTE.search(attributes):
                values.append((field, html.unescape(attribute[1] or attribute[2] or "")))
                closed = True
            continue
        start = tag.end()
        while inner := _INNER.match(text, start, end):
            start = inner.end()
        closing = _FIELD_CLOSING.search(text, start, end) or _CLOSING.search(text, start, end)
        closed |= closing is not None
        if closing or end == len(text):
            value = _EMPHASIS.sub("", text[start : closing.start() if closing else end])
            values.append((field, html.unescape(value).removesuffix("]]>")))
    return values if closed else []


def read_tables(text: str) -> tuple[list[Values], str]:
    """Read the fields in tables: a row for each, after its name, or a column for each, below it.

    If several cells after a name contain letters, the table's header must name the answer.

    Returns:
        The values of each table, and the text without the rows of tables that name a field.
    """
    tables: list[Values] = []
    around: list[str] = []
    for has_bars, group in groupby([*text.split("\n"), ""], lambda line: "|" in line):
        lines = list(group)
        if has_bars and (values := _read_table([_cells(row) for row in lines if not _RULE.fullmatch(row)])):
            tables.append(values)
        else:
            around += lines
    return tables, "\n".join(around)


def _read_table(rows: Sequence[Sequence[str]]) -> Values:
    names = [[_NAME_CELL.fullmatch(cell) for cell in row] for row in rows]
    words = {name["name"].lower() for row in names for name in row if name}
    known = {word: field_of(word) for word in words if re.fullmatch(NAME, word, FLAGS)}
    known |= short_names(words, {*known.values()})
    fields = [[known.get(name["name"].lower()) if name else None for name in row] for row in names]
    for number, found in enumerate(fields):
        if sum(name is not None for name in found) > 1:
            below = rows[number + 1] if number + 1 < len(rows) else ()
            return [(name, cell) for name, cell in zip(found, below, strict=False) if name]
    answers = next((place for place, cell in enumerate(rows[0] if rows else ()) if _ANSWERS.fullmatch(cell)), None)
    values: Values = []
    for row, found in zip(rows, fields, strict=True):
        place, field = next(((place, name) for place, name in enumerate(found) if name), (0, ""))
        after = [cell for cell in row[place + 1 :] if _LETTER.search(cell)]
        if field and answers is not None and place < answers < len(row):
            values.append((field, row[answers]))
        elif field and len(after) == 1:
            values.append((field, after[0]))
    return values


def _cells(row: str) -> list[str]:
    return [cell.replace(r"\|", "|").strip(' *_`"') for cell in _CELL_END.split(row.strip().strip("|"))]
