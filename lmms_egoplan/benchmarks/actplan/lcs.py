"""The longest common subsequence of two plans, whose steps match if their embeddings are alike (sec. 4.2.1)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import shown

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# The reference implementation's; the paper says "greater than 0.8".
THRESHOLD = 0.8

_BATCH = 64

Steps = Sequence[str]


def lcs_lengths(pairs: Sequence[tuple[Steps, Steps]], encoder: "SentenceTransformer") -> list[int]:
    """Return the LCS lengths of pairs of plans.

    Two steps match if the cosine of their embeddings is at least `THRESHOLD`. Every distinct step is embedded once.

    Args:
        pairs: the steps of both plans; the order of the two does not matter.

    Returns:
        A number of steps for each pair; 0 where a plan is empty.

    Raises:
        LmmsEgoplanError: the encoder gives something other than numbers.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sentence_transformers import SentenceTransformer
    >>> from lmms_egoplan.demo.checkpoint import write_encoder
    >>> with TemporaryDirectory() as folder:  # any sentence encoder, or a name on the hub
    ...     write_encoder(Path(folder))
    ...     encoder = SentenceTransformer(folder, device="cpu")
    >>> gold = ["walk_to(table)", "open(box)", "grab(cup)"]
    >>> lcs_lengths([(["walk_to(table)", "grab(cup)"], gold), ([], gold)], encoder)
    [2, 0]
    """
    steps = list(dict.fromkeys(step for pair in pairs if all(pair) for plan in pair for step in plan))
    embeddings = _embeddings(steps, encoder)
    rows = {step: row for row, step in enumerate(steps)}
    return [
        _length([rows[step] for step in first], [rows[step] for step in second], embeddings) if first and second else 0
        for first, second in pairs
    ]


def lcs_norm(length: int, candidate_length: int, reference_length: int) -> float:
    """Divide the LCS length by the longer plan's (sec. 4.2.1), in [0, 1]; 0 if a plan is empty.

    >>> lcs_norm(2, candidate_length=2, reference_length=4)
    0.5
    """
    return length / max(candidate_length, reference_length) if candidate_length and reference_length else 0.0


def _length(first: list[int], second: list[int], embeddings: np.ndarray) -> int:
    """Return the LCS length of two plans of at least one step, given as rows of `embeddings`.

    With L[i, j] for the first i and j steps, and m[i, j] = 1 where the last of them match, else 0, the recurrence is
    L[i, j] = L[i-1, j-1] + 1 where they match, else max(L[i-1, j], L[i, j-1]). L grows by 0 or 1 from one prefix to
    the next, so that this is max(L[i-1, j], L[i-1, j-1] + m[i, j], L[i, j-1]) in both cases: row i is the running
    maximum of what the first two, from the row above, give.
    """
    distinct_first, of_first = np.unique(first, return_inverse=True)
    distinct_second, of_second = np.unique(second, return_inverse=True)
    alike = embeddings[distinct_first] @ embeddings[distinct_second].T >= THRESHOLD
    lengths = np.zeros(len(second) + 1, dtype=np.int32)
    for step in of_first:
        np.maximum(lengths[1:], lengths[:-1] + alike[step, of_second], out=lengths[1:])
        np.maximum.accumulate(lengths, out=lengths)
    return int(lengths[-1])


def _embeddings(steps: list[str], encoder: "SentenceTransformer") -> np.ndarray:
    """Embed the steps as unit vectors, float32 [steps, dimension]."""
    if not steps:
        return np.zeros((0, 0), dtype=np.float32)
    texts = [clean_text(step) for step in steps]
    # By tokens: the encoder itself sorts by characters, and computes a fifth more for it, all padding.
    order = np.argsort(_token_counts(texts, encoder), kind="stable")[::-1]
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    vectors = [_encode([texts[index] for index in batch], encoder) for batch in track(batches, "Embedding steps")]
    embeddings = np.empty((len(steps), vectors[0].shape[1]), dtype=np.float32)
    embeddings[order] = np.concatenate(vectors)
    broken = ~np.isfinite(embeddings).all(axis=1)
    if broken.any():
        raise LmmsEgoplanError(
            f"the sentence encoder gives no numbers for {broken.sum()} of {len(steps)} steps, the first "
            f"{shown(steps[broken.argmax()])}: its weights are damaged, take another copy"
        )
    return embeddings


def _token_counts(texts: list[str], encoder: "SentenceTransformer") -> list[int]:
    if callable(encoder.tokenizer):
        return [len(tokens) for tokens in encoder.tokenizer(texts, truncation=True, verbose=False)["input_ids"]]
    # A static encoder pads nothing: any order is as fast.
    return [0] * len(texts)


def _encode(texts: list[str], encoder: "SentenceTransformer") -> np.ndarray:
    import torch

    def encode() -> np.ndarray:
        return encoder.encode(texts, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)

    try:
        return encode()
    except torch.OutOfMemoryError:
        logger.warning("no GPU memory is left for the sentence encoder: it goes on on the CPU")
        encoder.to("cpu")
        return encode()
