"""Encode the images of a question once for all its conditions."""

from copy import copy
from functools import partial
from typing import Any

from lmms_egoplan.sharing import outline, shared


class _Shared:
    """An image or video processor that encodes the same images, in the same order, once for all conditions."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, media = outline((args, kwargs))
        encode = partial(super().__call__, *args, **kwargs)  # type: ignore[misc]
        # A copy, because processors remove entries. They do not change tensors.
        return copy(shared((type(self), call, *map(id, media)), encode, media))


def with_shared_parts(processor: Any) -> Any:
    """Return a processor whose image and video processors share results between the conditions of a question."""
    processor = copy(processor)
    for name in ("image_processor", "video_processor"):
        if (part := copy(getattr(processor, name, None))) is not None:
            part.__class__ = type(type(part).__name__, (_Shared, type(part)), {})
            setattr(processor, name, part)
    return processor
