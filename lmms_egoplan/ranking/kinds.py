"""Group questions into kinds.

A computation path that is exact for one question should be exact for its whole kind.
"""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion

# Names of a text model's settings that limit a length, in tokens. Beyond the limit, the computation
# changes. Examples: sliding windows, chunks of attention or of a recurrent scan, keys in sparse
# attention, rotary frequencies.
_LIMIT = re.compile(
    r"""
    ^(?!.*(?:layers|pattern))  # these count layers, or list their types
    .*(?:
        window | chunk | block_size | local_attention$ | index_topk$
        | original_max_position | original_max_seq
    )
    """,
    re.VERBOSE,
)

# Beyond this many questions of a kind, one in this many is audited.
AUDITED_EVERY = 512

# Number of images, their pixels, pixels per image, length of the context, length of the longest
# candidate. Lengths are rounded. Contexts up to 64 tokens are equal; longer ones have four steps
# per doubling. Candidates have one step per doubling: up to 16, 32, 64, ... tokens.
Extent = tuple[int, ...]


class KindFinder:
    """Determine the kind of each question for one text model."""

    def __init__(self, text_config: Any) -> None:
        self._limits = sorted(set(_limits(text_config.to_dict())))

    def kind(self, question: EncodedQuestion) -> str:
        """Return the media and the exceeded limits, such as ``image; past sliding_window``.

        ``past``: the context alone reaches the limit. ``across``: only the context with a candidate
        exceeds it.
        """
        pixels = [name for name in question.inputs if name.startswith("pixel_values")]
        media = sorted({"video" if "video" in name else "image" for name in pixels})
        passed = [
            f"{'past' if question.prefix_length >= limit else 'across'} {name} {limit}"
            for name, limit in self._limits
            if question.prefix_length + question.longest_candidate > limit
        ]
        return "; ".join([" and ".join(media) or "text", *passed])

    def room(self, question: EncodedQuestion) -> int | None:
        """Return the longest candidate, in tokens, that crosses no further limit.

        None if unlimited.
        """
        rooms = [
            limit - question.prefix_length
            for _, limit in self._limits
            if limit > question.prefix_length
        ]
        return min(rooms, default=None)


def extent(question: EncodedQuestion) -> Extent:
    """Measure the sizes of a question.

    Each may push a path beyond a limit, even one that no setting names.
    """
    pixels = sum(
        value.numel() for name, value in question.inputs.items() if name.startswith("pixel_values")
    )
    visuals = question.num_visuals
    context = math.ceil(4 * math.log2(max(64, question.prefix_length)))
    candidate = max(15, question.longest_candidate - 1).bit_length()
    return visuals, pixels, pixels // max(1, visuals), context, candidate


def is_audited(count: int, candidates: Sequence[CandidateTokens]) -> bool:
    """Return whether a kind's count-th question is audited.

    These are the 2nd, 4th, ..., 512th, and then those that a hash of the tokens selects.
    """
    if count <= AUDITED_EVERY:
        return count > 1 and count & (count - 1) == 0
    digest = hashlib.sha256(repr([candidate.tokens for candidate in candidates]).encode()).digest()
    return int.from_bytes(digest[:8], "big") % AUDITED_EVERY == 0


def _limits(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _limits(value)
        elif (
            _LIMIT.search(str(name))
            and isinstance(value, int)
            and not isinstance(value, bool)
            and value > 1
        ):
            yield name, value
