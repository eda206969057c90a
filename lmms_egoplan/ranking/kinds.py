"""Kinds of questions: what decides whether a computation path that was exact for one is exact for the next."""

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion

# Settings of a text model that count tokens, from which on it computes in another way: sliding windows, chunks of
# attention or of a recurrent scan, keys that sparse attention chooses, and the lengths at which rotary frequencies
# change.
_LIMIT = re.compile(
    r"^(?!.*(?:layers|pattern))"
    r".*(?:window|chunk|block_size|local_attention$|index_topk$|original_max_position|original_max_seq)"
)

AUDITED_EVERY = 512

# Images, their pixels, the pixels of one, the context's length, the longest candidate's.
# Lengths are in steps: contexts count alike up to 64 tokens, then in quarters of a doubling; candidates up to 16, 32,
# 64, ... tokens.
Extent = tuple[int, ...]


class KindFinder:
    """Finder of the kind of each question, for one text model."""

    def __init__(self, text_config: Any) -> None:
        self._limits = sorted(set(_limits(text_config.to_dict())))

    def kind(self, question: EncodedQuestion) -> str:
        """Name the kinds of media, and the limits that context or candidates pass: ``image; past sliding_window``.

        ``past``: the context alone is as long as the limit. ``across``: only the context with a candidate passes it.
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
        """Return the most tokens that a candidate may have after this context within all limits; None: any number."""
        rooms = [limit - question.prefix_length for _, limit in self._limits if limit > question.prefix_length]
        return min(rooms, default=None)


def extent(question: EncodedQuestion) -> Extent:
    """Measure sizes, each of which may bring a path to a limit, also one that no setting names."""
    pixels = sum(value.numel() for name, value in question.inputs.items() if name.startswith("pixel_values"))
    visuals = question.num_visuals
    context = math.ceil(4 * math.log2(max(64, question.prefix_length)))
    candidate = max(15, question.longest_candidate - 1).bit_length()
    return visuals, pixels, pixels // max(1, visuals), context, candidate


def is_audited(count: int, candidates: Sequence[CandidateTokens]) -> bool:
    """Return whether a kind's count-th question is audited: the 2nd, 4th, ..., 512th; later, by its candidates."""
    if count <= AUDITED_EVERY:
        return count > 1 and count & (count - 1) == 0
    digest = hashlib.sha256(repr([candidate.tokens for candidate in candidates]).encode()).digest()
    return int.from_bytes(digest[:8], "big") % AUDITED_EVERY == 0


def _limits(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _limits(value)
        elif _LIMIT.search(str(name)) and isinstance(value, int) and not isinstance(value, bool) and value > 1:
            yield name, value
