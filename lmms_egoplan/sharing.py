"""Share decoded frames, encoded images and results between the conditions of one question."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

MEDIA_CACHE: ContextVar[dict[Hashable, Any] | None] = ContextVar("MEDIA_CACHE", default=None)
"""The values of `cached_for_question` while `encode_together` runs in this thread; else None."""


def cached_for_question(key: Hashable, compute: Callable[[], Any], *sources: Any) -> Any:
    """Return the value that an earlier condition of the question has stored, or compute it.

    Args:
        key: Identifies the value. It may contain the ``id`` of a source.
        compute: Computes the value.
        sources: Objects to store with the value, so that no other object gets their ``id``.
    """
    cache = MEDIA_CACHE.get()
    if cache is None:
        return compute()
    if key not in cache:
        cache[key] = compute(), sources
    return cache[key][0]


def split_media(value: Any) -> tuple[str, list[Any]]:
    """Separate nested values from the images and arrays inside them.

    Returns:
        A text that describes everything except the content of images and arrays, and these, in
        order.

    >>> from PIL import Image
    >>> text, media = split_media({"images": [Image.new("RGB", (4, 2))], "text": "next?"})
    >>> text, len(media)
    ("{'images': [(4, 2)], 'text': 'next?'}", 1)
    """
    media: list[Any] = []

    def describe(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: describe(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            items = [describe(item) for item in value]
            rate = getattr(value, "fps", None)  # of a clip
            return [items, rate] if rate else items
        size = getattr(value, "shape", getattr(value, "size", None))
        if size is None:
            return value
        media.append(value)
        return size

    return repr(describe(value)), media


@dataclass(frozen=True)
class _Encoded:
    """Encoded content.

    Attributes:
        value: The encoded content.
        media: The images and arrays before encoding, stored so that no other object gets their
            ``id``.
        conditions: The conditions with this content.
    """

    value: Any
    media: list[Any]
    conditions: list[Any]


def encode_together(
    conditions: Sequence[Any],
    load: Callable[[Any], tuple[Any, str]],
    encode: Callable[[Any, str], Any],
) -> list[tuple[Any, list[Any]]]:
    """Return a question's encoded conditions.

    They share decoding and encoding, and equal ones are encoded once.

    Args:
        conditions: The conditions, in order.
        load: Loads everything that a condition's result depends on, and the question's ID for error
            messages.
        encode: Encodes the loaded content.

    Returns:
        Each different encoded content with its conditions.

    >>> encode_together(
    ...     ["a1", "b1", "a2"],
    ...     lambda condition: (condition[0], "question"),
    ...     lambda text, _: text.upper(),
    ... )
    [('A', ['a1', 'a2']), ('B', ['b1'])]
    """
    encoded: dict[Hashable, _Encoded] = {}
    token = MEDIA_CACHE.set({} if len(conditions) > 1 else None)
    try:
        for condition in conditions:
            content, question_id = load(condition)
            description, media = split_media(content)
            key = (description, *map(id, media))
            if key not in encoded:
                encoded[key] = _Encoded(encode(content, question_id), media, [])
            encoded[key].conditions.append(condition)
    finally:
        MEDIA_CACHE.reset(token)
    return [(content.value, content.conditions) for content in encoded.values()]


def media_key(doc: Any, default: Any) -> Any:
    """Return a key of the media that a document shows: the id of the question that they belong to.

    This is the document's partner, if it has one, else the document itself. Without an ID, the
    key is the default.

    >>> media_key({"sample_id": 1, "partner": {"sample_id": 7}}, None)
    7
    """
    if not isinstance(doc, Mapping):
        return default
    row = doc.get("partner") or doc
    return row.get("sample_id", default)


def group_by_media(items: Iterable[Any], key_of: Callable[[Any], Any]) -> list[list[Any]]:
    """Return the conditions that show the same media together, in the order of first appearance.

    Args:
        items: The conditions.
        key_of: Returns the key of the media that a condition shows; see `media_key`.

    >>> group_by_media(["a1", "b1", "a2"], lambda condition: condition[0])
    [['a1', 'a2'], ['b1']]
    """
    groups: dict[Any, list[Any]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return [*groups.values()]
