"""ActPlan-1K: procedural plans for household activities (arXiv 2410.03907), scored by their LCS with a gold plan.

The release is not redistributed. Set ``ACTPLAN_DIR`` to its folder ``annotation``, which contains
``<scene>/<activity>/<n>/sample_<k>/`` with images and gold plans, and ``task_description_<n>.txt`` one folder up.
"""

import hashlib
import json
import os
import threading
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, Sequence

import numpy as np
from loguru import logger as eval_logger
from PIL import Image

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg"}

_ENCODING = threading.Lock()


def __getattr__(name: str) -> str:
    """Return ``INSTANCES``, which the task's YAML uses: a file that lists the release, written when the task is loaded."""
    if name == "INSTANCES":
        return _write_instances()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def actplan_doc_to_visual(doc: dict[str, Any]) -> list[Image.Image]:
    """Return the views of the home, sorted by file name."""
    images = []
    for path in doc["images"]:
        with Image.open(path) as image:
            images.append(image.convert("RGB"))
    return images


def actplan_process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Return the LCS of the answer's lines with gold plan 1; no LCS if the release has no such plan."""
    plan = official_steps(results[0])
    value = {"id": doc["id"], "plan": plan}
    if doc["gold_plan_1"]:
        length = _lcs_length(plan, doc["gold_plan_1"])
        value |= {"lcs": length, "lcs_norm": lcs_norm(length, len(plan), len(doc["gold_plan_1"]))}
    return {"lcs_norm": value, "lcs": value, "empty": value}


def actplan_lcs(values: Sequence[dict[str, Any]]) -> float:
    """Return the mean LCS, in steps."""
    return _mean(values, "lcs")


def actplan_lcs_norm(values: Sequence[dict[str, Any]]) -> float:
    """Return the mean of the LCS divided by the longer plan's length."""
    return _mean(values, "lcs_norm")


def actplan_empty(values: Sequence[dict[str, Any]]) -> float:
    """Return the fraction of answers without text."""
    return fmean(not value["plan"] for value in values)


def official_steps(text: str) -> list[str]:
    r"""Split a plan into lines, as the reference implementation splits a plan file (sec. 4.2.1).

    ``\r\n`` and ``\r`` are line breaks too. Lines are unchanged, and blank lines count. White space around the whole
    text is dropped, so the break after the last line adds no step. The reference counts an additional empty step there.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    return text.split("\n") if text else []


# As in the reference implementation; the paper says "greater than 0.8".
THRESHOLD = 0.8


def lcs_norm(length: int, candidate_length: int, reference_length: int) -> float:
    """Divide the LCS length by the longer plan's (sec. 4.2.1), in [0, 1]; 0 if a plan is empty.

    >>> lcs_norm(2, candidate_length=2, reference_length=4)
    0.5
    """
    return length / max(candidate_length, reference_length) if candidate_length and reference_length else 0.0


def _length(first: list[int], second: list[int], embeddings: np.ndarray) -> int:
    """Return the LCS length of two non-empty plans, given as rows of `embeddings`.

    Let L[i, j] be the LCS length of the first i and j steps, and m[i, j] = 1 if step i matches step j, else 0. Then
    L[i, j] = L[i-1, j-1] + 1 for a match, else max(L[i-1, j], L[i, j-1]). Adding a step to a prefix increases L by 0 or
    1, so both cases equal max(L[i-1, j], L[i-1, j-1] + m[i, j], L[i, j-1]). The first two terms come from the row
    above; row i is their running maximum.
    """
    distinct_first, first_indices = np.unique(first, return_inverse=True)
    distinct_second, second_indices = np.unique(second, return_inverse=True)
    matches = embeddings[distinct_first] @ embeddings[distinct_second].T >= THRESHOLD
    lengths = np.zeros(len(second) + 1, dtype=np.int32)
    for step in first_indices:
        np.maximum(lengths[1:], lengths[:-1] + matches[step, second_indices], out=lengths[1:])
        np.maximum.accumulate(lengths, out=lengths)
    return int(lengths[-1])


def _lcs_length(plan: Sequence[str], gold: Sequence[str]) -> int:
    if not plan:
        return 0
    steps = list(dict.fromkeys([*plan, *gold]))
    rows = {step: row for row, step in enumerate(steps)}
    with _ENCODING:  # several threads score documents
        embeddings = _encoder().encode(steps, normalize_embeddings=True, show_progress_bar=False)
    return _length([rows[step] for step in plan], [rows[step] for step in gold], embeddings)


@lru_cache(maxsize=1)
def _encoder() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(os.environ.get("ACTPLAN_ENCODER") or ENCODER)


def _mean(values: Sequence[dict[str, Any]], name: str) -> float:
    scores = [value[name] for value in values if name in value]
    if len(scores) < len(values):
        eval_logger.warning(f"actplan: {len(values) - len(scores)} of {len(values)} instances have no gold plan 1; {name} excludes them")
    return fmean(scores) if scores else float("nan")


def _write_instances() -> str:
    root = os.environ.get("ACTPLAN_DIR")
    if not root:
        raise ValueError("actplan: set ACTPLAN_DIR (see lmms_eval/tasks/actplan/README.md)")
    samples = sorted(Path(root).expanduser().resolve().glob("*/*/[01]/sample_*"))
    if not samples:
        raise FileNotFoundError(f"actplan: no <scene>/<activity>/<n>/sample_<k> in ACTPLAN_DIR, {root}")
    instances = [_instance(sample) for sample in samples]
    folder = Path(os.environ.get("LMMS_EVAL_HOME", "~/.cache/lmms_eval")).expanduser() / "actplan"
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(instance) + "\n" for instance in instances)
    path = folder / f"instances-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    # Several processes may write it concurrently; each replaces the whole file.
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
    return str(path)


def _instance(sample: Path) -> dict[str, Any]:
    description = sample.parent / f"task_description_{sample.parent.name}.txt"
    images = sorted(str(path) for path in sample.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    if not images or not description.exists():
        raise FileNotFoundError(f"actplan: {sample} has no image" if not images else f"actplan: no {description}")
    gold = sample / "plan_gold_1.txt"
    lines = official_steps(gold.read_text(encoding="utf-8-sig")) if gold.exists() else []
    return {
        "id": "/".join(sample.parts[-4:]),
        "task_description": description.read_text(encoding="utf-8-sig"),
        "images": images,
        "gold_plan_1": [line.strip() for line in lines if line.strip()],
    }
