"""Encode the images of a question once for all its conditions."""

from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any

import torch
from torch.testing import assert_close
from transformers import BatchFeature

from lmms_egoplan.sharing import cached_for_question, split_media


class _Shared:
    """An image or video processor that encodes the images of a question once.

    All conditions of the question share the result.

    If the images come in another order or repeated, the result is assembled from the earlier one.
    This requires that the processor encodes each image by itself. The first use with images of this
    number and size verifies it: the processor's own result must be exactly equal. Otherwise, such
    images are always encoded anew, as by processors that merge consecutive frames. An order that
    begins with two consecutive images verifies nothing.

    Attributes:
        separable: Results of the verification.
    """

    separable: dict[Any, bool]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call, media = split_media((args, kwargs))
        encode = partial(super().__call__, *args, **kwargs)  # type: ignore[misc]
        results: dict[tuple[int, ...], Any] = cached_for_question((type(self), call), dict)
        order = tuple(map(id, media))
        if order not in results:
            known = next((known for known in results if set(order) <= set(known)), None)
            if known:
                result = self._rearranged(results[known][0], known, order, call, encode)
            else:
                result = encode()
            results[order] = result, media  # the media, so that no other image gets their ids
        # A copy, because processors remove entries. They do not change tensors.
        return copy(results[order][0])

    def _rearranged(
        self, earlier: Any, known: tuple[int, ...], order: tuple[int, ...], call: str, encode: Any
    ) -> Any:
        kind = (call, len(set(order)))
        positions = [known.index(image) for image in order]
        rearranged = BatchFeature(
            {name: _taken(value, positions) for name, value in earlier.items()}
        )
        if self.separable.get(kind):
            return rearranged
        exact = encode()
        # Otherwise, the order has no effect, or consecutive images that the processor merges stay
        # together.
        if (
            kind not in self.separable
            and not _is_equal(exact, earlier)
            and positions[1] != positions[0] + 1
        ):
            self.separable[kind] = _is_equal(exact, rearranged)
        return exact


def with_shared_parts(processor: Any) -> Any:
    """Return a processor that shares encoded images between the conditions of a question."""
    processor = copy(processor)
    for name in ("image_processor", "video_processor"):
        part = copy(getattr(processor, name, None))
        if part is not None:
            part.__class__ = type(type(part).__name__, (_Shared, type(part)), {"separable": {}})
            setattr(processor, name, part)
    return processor


def _taken(value: Any, positions: list[int]) -> Any:
    """Return the parts of a tensor that belong to the images at these positions.

    Other values, and tensors without equal parts for all images, are returned whole.
    """
    if not isinstance(value, torch.Tensor) or not value.ndim:
        # such as the number of tiles of each image, which is equal for images of one size
        return value
    axis = int(len(value) == 1 < value.ndim)
    parts = value.tensor_split(len(positions), axis)
    return torch.cat([parts[position] for position in positions], axis)


def _is_equal(one: Any, other: Any) -> bool:
    with suppress(AssertionError, TypeError, ValueError):  # texts and objects cannot be compared
        assert_close(dict(one), dict(other), rtol=0, atol=0)
        return True
    return False
