"""Share decoded frames, encoded images and results between the conditions of one question."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

STORE: ContextVar[dict[Hashable, Any] | None] = ContextVar("STORE", default=None)
"""The values that `shared` stores while `encode_together` runs in this thread; otherwise None."""


def shared(key: Hashable, compute: Callable[[], Any], *sources: Any) -> Any:
    """Return the value that an earlier condition of the question has stored, or compute it.

    Args:
        key: Identifies the value. It may contain the ``id`` of a source.
        compute: Computes the value.
        sources: Objects to store with the value, so that no other object gets their ``id``.
    """
    if (store := STORE.get()) is None:
        return compute()
    if key not in store:
        store[key] = compute(), sources
    return store[key][0]


def outline(value: Any) -> tuple[str, list[Any]]:
    """Return a text that describes nested values except the content of images and arrays, and
    these, in order.

    >>> from PIL import Image
    >>> text, media = outline({"images": [Image.new("RGB", (4, 2))], "text": "next?"})
    >>> text, len(media)
    ("{'images': [(4, 2)], 'text': 'next?'}", 1)
    """
    media: list[Any] = []

    def described(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: described(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            items = [described(item) for item in value]
            return (
                [items, rate] if (rate := getattr(value, "fps", None)) else items
            )  # a clip has a rate
        if (size := getattr(value, "shape", getattr(value, "size", None))) is None:
            return value
        media.append(value)
        return size

    return repr(described(value)), media


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

    >>> encode_together(["a1", "b1", "a2"], lambda condition: (condition[0], "question"), lambda text, _: text.upper())
    [('A', ['a1', 'a2']), ('B', ['b1'])]
    """
    encoded: dict[Any, tuple[Any, list[Any], Any]] = {}
    token = STORE.set({} if len(conditions) > 1 else None)
    try:
        for condition in conditions:
            content, question_id = load(condition)
            description, media = outline(content)
            if (key := (description, *map(id, media))) not in encoded:
                encoded[key] = (
                    encode(content, question_id),
                    [],
                    media,
                )  # the media, so that no other gets their ids
            encoded[key][1].append(condition)
    finally:
        STORE.reset(token)
    return [(value, equal) for value, equal, _ in encoded.values()]


def shown_question(doc: Any, default: Any) -> Any:
    """Return a key of the question whose media a document shows: its partner's, if it has one, else
    its own.

    Without an ID, this is the default.

    >>> shown_question({"sample_id": 1, "partner": {"sample_id": 7}}, None)
    7
    """
    row = (doc.get("partner") or doc) if isinstance(doc, Mapping) else {}
    return row.get("sample_id", default)


def by_question(items: Iterable[Any], shown_of: Callable[[Any], Any]) -> list[list[Any]]:
    """Return the conditions of each question, in the order in which the questions first appear.

    Args:
        items: The conditions.
        shown_of: Returns the key of the question whose media a condition shows.

    >>> by_question(["a1", "b1", "a2"], lambda condition: condition[0])
    [['a1', 'a2'], ['b1']]
    """
    questions: dict[Any, list[Any]] = {}
    for item in items:
        questions.setdefault(shown_of(item), []).append(item)
    return [*questions.values()]
