"""Read the fields in tags, such as ``<local_intent>...</local_intent>``."""

import html
import re

from lmms_egoplan.benchmarks.egointent.reply.names import NAME, Values, field_of

_TAG = re.compile(
    rf"""
    < (?:
        (?P<tag>{NAME}) (?P<attributes> \s [^<>]{{0,200}} )?
        # a tag with the name in an attribute
        | [a-z]\w{{0,30}} \s [^<>]{{0,100}}? ["'] (?P<named>{NAME}) ["'] (?P<more> [^<>]{{0,200}} )
    ) >
    """,
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
_CLOSING = re.compile(r"</ [a-z] [\w\s-]{0,40} >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_FIELD_CLOSING = re.compile(rf"</ \s? {NAME} \s? >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_EMPHASIS = re.compile(r"</? [a-z]{1,10} >", re.VERBOSE | re.ASCII | re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\b (?: value | text | content | answer ) \s?=\s? (?: "([^"]*)" | '([^']*)' )""",
    re.VERBOSE | re.ASCII | re.IGNORECASE,
)
# A tag that surrounds the text inside the field's tag.
_INNER_TAG = re.compile(
    r"\s* (?: <!\[CDATA\[ | < [a-z] [^<>]{0,100} > )", re.VERBOSE | re.ASCII | re.IGNORECASE
)


def read_tags(text: str) -> Values:
    """Read the text in every tag that is named after a field.

    For example, this is the text in ``<local_intent>...</local_intent>``. The field's name may also
    be in an attribute. If no such tag is closed, no value is read. A last tag that is not closed
    reaches to the end of the text.
    """
    tags = list(_TAG.finditer(text))
    ends = [tag.start() for tag in tags[1:]] + [len(text)]
    values: Values = []
    has_closed = False
    for tag, end in zip(tags, ends, strict=False):
        field = field_of(tag["tag"] or tag["named"])
        attributes = tag["attributes"] or tag["more"] or ""
        if attributes.rstrip().endswith("/"):
            attribute = _ATTRIBUTE.search(attributes)
            if attribute:
                values.append((field, html.unescape(attribute[1] or attribute[2] or "")))
                has_closed = True
            continue
        value, is_closed = _tag_text(text, tag.end(), end)
        has_closed |= is_closed
        if is_closed or end == len(text):
            values.append((field, value))
    return values if has_closed else []


def _tag_text(text: str, start: int, end: int) -> tuple[str, bool]:
    """Return the text of a tag, and true if the tag is closed.

    Args:
        text: The reply.
        start: End of the opening tag.
        end: Start of the next field's tag, or the end of the reply.
    """
    inner = _INNER_TAG.match(text, start, end)
    while inner:
        start = inner.end()
        inner = _INNER_TAG.match(text, start, end)
    closing = _FIELD_CLOSING.search(text, start, end) or _CLOSING.search(text, start, end)
    if closing:
        end = closing.start()
    value = _EMPHASIS.sub("", text[start:end])
    return html.unescape(value).removesuffix("]]>"), closing is not None
