"""Measure the longest common subsequence of two plans, with similar steps as equal (sec. 4.2.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from loguru import logger

from lmms_egoplan.benchmarks.actplan.plans import Steps
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import quoted

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


# As in the reference implementation; the paper says "greater than 0.8".
THRESHOLD = 0.8
_BATCH = 64

Alignment = list[tuple[int, int]]
"""Matching steps of two plans in order: positions in the first and in the second, from 0."""


def lcs_alignments(
    pairs: Sequence[tuple[Steps, Steps]], encoder: "SentenceTransformer"
) -> list[Alignment]:
    """Return a longest common subsequence of each pair of plans.

    Two steps match if the cosine of their embeddings is at least `THRESHOLD`. Every distinct step
    is embedded once.

    Several subsequences may be equally long. The one returned ends as early as possible in the
    first plan, then in the second; the same holds for each of its beginnings.

    Args:
        pairs: The steps of both plans, in any order.
        encoder: The sentence encoder.

    Returns:
        The matching steps of each pair; empty if a plan is empty.

    Raises:
        LmmsEgoplanError: The encoder returns values that are not finite.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sentence_transformers import SentenceTransformer
    >>> from lmms_egoplan.demo.checkpoint import write_encoder
    >>> with TemporaryDirectory() as folder:  # any sentence encoder, or a name on the hub
    ...     write_encoder(Path(folder))
    ...     encoder = SentenceTransformer(folder, device="cpu")
    >>> gold = ["walk_to(table)", "open(box)", "grab(cup)"]
    >>> lcs_alignments([(["walk_to(table)", "grab(cup)"], gold), ([], gold)], encoder)
    [[(0, 0), (1, 2)], []]
    """
    rows: dict[str, int] = {}
    for first, second in pairs:
        if first and second:
            for step in (*first, *second):
                rows.setdefault(step, len(rows))
    embeddings = _embeddings(list(rows), encoder)
    alignments: list[Alignment] = []
    for first, second in pairs:
        if first and second:
            first_rows = [rows[step] for step in first]
            second_rows = [rows[step] for step in second]
            alignments.append(_traced(_prefix_lengths(first_rows, second_rows, embeddings)))
        else:
            alignments.append([])
    return alignments


def lcs_lengths(pairs: Sequence[tuple[Steps, Steps]], encoder: "SentenceTransformer") -> list[int]:
    """Return the LCS lengths of pairs of plans, in steps. See `lcs_alignments`."""
    return [len(alignment) for alignment in lcs_alignments(pairs, encoder)]


def lcs_norm(length: int, candidate_length: int, reference_length: int) -> float:
    """Divide the LCS length by the longer plan's (sec. 4.2.1), in [0, 1]; 0 if a plan is empty.

    >>> lcs_norm(2, candidate_length=2, reference_length=4)
    0.5
    """
    if not candidate_length or not reference_length:
        return 0.0
    return length / max(candidate_length, reference_length)


def _prefix_lengths(first: list[int], second: list[int], embeddings: np.ndarray) -> np.ndarray:
    """Return the LCS lengths of all prefixes of two plans, given as rows of `embeddings`.

    The result is int32 [steps of first + 1, steps of second + 1]. Let L[i, j] be the LCS length of
    the first i and j steps, and m[i, j] = 1 if step i matches step j, else 0. Then L[i, j] =
    L[i-1, j-1] + 1 for a match, else max(L[i-1, j], L[i, j-1]). Adding a step to a prefix increases
    L by 0 or 1, so both cases equal max(L[i-1, j], L[i-1, j-1] + m[i, j], L[i, j-1]). The first two
    terms come from the row above; row i is their running maximum.
    """
    distinct_first, first_indices = np.unique(first, return_inverse=True)
    distinct_second, second_indices = np.unique(second, return_inverse=True)
    matches = embeddings[distinct_first] @ embeddings[distinct_second].T >= THRESHOLD
    lengths = np.zeros((len(first) + 1, len(second) + 1), dtype=np.int32)
    for index, step in enumerate(first_indices):
        above = lengths[index]
        row = lengths[index + 1]
        np.maximum(above[1:], above[:-1] + matches[step, second_indices], out=row[1:])
        np.maximum.accumulate(row, out=row)
    return lengths


def _traced(lengths: np.ndarray) -> Alignment:
    """Return a longest common subsequence, given the lengths of `_prefix_lengths`."""
    first = lengths.shape[0] - 1
    second = lengths.shape[1] - 1
    alignment: Alignment = []
    while lengths[first, second]:
        if lengths[first - 1, second] == lengths[first, second]:
            first -= 1
        elif lengths[first, second - 1] == lengths[first, second]:
            second -= 1
        else:
            first -= 1
            second -= 1
            alignment.append((first, second))
    return alignment[::-1]


def _embeddings(steps: list[str], encoder: "SentenceTransformer") -> np.ndarray:
    """Embed the steps as unit vectors, float32 [steps, dimension]."""
    if not steps:
        return np.zeros((0, 0), dtype=np.float32)
    texts = [clean_text(step) for step in steps]
    # Sort by tokens. The encoder sorts by characters, which costs a fifth more computation, all of
    # it padding.
    order = np.argsort(_token_counts(texts, encoder), kind="stable")[::-1]
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    vectors: list[np.ndarray] = []
    for batch in track(batches, "Embedding steps"):
        vectors.append(_encode([texts[index] for index in batch], encoder))
    embeddings = np.empty((len(steps), vectors[0].shape[1]), dtype=np.float32)
    embeddings[order] = np.concatenate(vectors)
    broken = ~np.isfinite(embeddings).all(axis=1)
    if broken.any():
        raise LmmsEgoplanError(
            f"the sentence encoder returns NaN or infinity for {broken.sum()} of {len(steps)} "
            f"steps, first for {quoted(steps[broken.argmax()])}: its weights are damaged; use "
            "another copy"
        )
    return embeddings


def _token_counts(texts: list[str], encoder: "SentenceTransformer") -> list[int]:
    """Count the tokens of each text; 0 if the encoder does not pad."""
    if not callable(encoder.tokenizer):
        # A static encoder does not pad, so the order does not matter.
        return [0] * len(texts)
    tokens = encoder.tokenizer(texts, truncation=True, verbose=False)["input_ids"]
    return [len(token_ids) for token_ids in tokens]


def _encode(texts: list[str], encoder: "SentenceTransformer") -> np.ndarray:
    """Embed a batch of texts; on the CPU if the GPU has not enough memory."""
    import torch

    def encode() -> np.ndarray:
        return encoder.encode(
            texts, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
        )

    try:
        return encode()
    except torch.OutOfMemoryError:
        logger.warning("not enough GPU memory for the sentence encoder; continuing on the CPU")
        encoder.to("cpu")
        return encode()
