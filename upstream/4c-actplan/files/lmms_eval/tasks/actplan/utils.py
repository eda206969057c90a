"""ActPlan-1K: procedural plans for household activities (arXiv 2410.03907), scored by their LCS with a gold plan.

The release is not redistributed. Set ``ACTPLAN_DIR`` to its folder ``annotation`` (see README.md).
"""

import os
import threading
from functools import lru_cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, Sequence

from datasets import Dataset
from PIL import Image

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
# As in the authors' code; the paper says "greater than 0.8".
THRESHOLD = 0.8

_ENCODING = threading.Lock()  # several threads score documents


def __getattr__(name: str) -> list[str]:
    """Return ``GOLD_PLANS``, which the task's YAML uses: found when the task is loaded, not when it is listed."""
    if name != "GOLD_PLANS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    root = os.environ.get("ACTPLAN_DIR")
    if not root:
        raise ValueError("actplan: set ACTPLAN_DIR (see lmms_eval/tasks/actplan/README.md)")
    plans = sorted(str(path) for path in Path(root).expanduser().resolve().glob("*/*/[01]/sample_*/plan_gold_1.txt"))
    if not plans:
        raise FileNotFoundError(f"actplan: no <scene>/<activity>/<n>/sample_<k>/plan_gold_1.txt in ACTPLAN_DIR, {root}")
    return plans


def actplan_process_docs(dataset: Dataset) -> Dataset:
    """Return one document per gold plan 1, with the images and the task description next to it."""
    return Dataset.from_list([_instance(Path(path).parent, gold) for path, gold in zip(__getattr__("GOLD_PLANS"), dataset["text"], strict=True)])


def _instance(sample: Path, gold: str) -> dict[str, Any]:
    images = sorted(str(path) for path in sample.iterdir() if path.suffix.lower() in {".png", ".jpg", ".jpeg"})
    if not images:
        raise FileNotFoundError(f"actplan: {sample} has no image")
    description = sample.parent / f"task_description_{sample.parent.name}.txt"
    return {
        "id": "/".join(sample.parts[-4:]),
        "task_description": description.read_text(encoding="utf-8-sig"),
        "images": images,
        "gold_plan_1": [line.strip() for line in gold.split("\n") if line.strip()],
    }


def actplan_doc_to_visual(doc: dict[str, Any]) -> list[Image.Image]:
    """Return the views of the home, sorted by file name."""
    return [Image.open(path).convert("RGB") for path in doc["images"]]


def actplan_process_results(doc: dict[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Return the LCS of the answer's lines with gold plan 1 (sec. 4.2.1)."""
    text, gold = results[0].strip(), doc["gold_plan_1"]
    plan = text.split("\n") if text else []
    lcs = lcs_length(plan, gold) if plan else 0
    value = {"id": doc["id"], "plan": plan, "lcs": lcs, "lcs_norm": lcs / max(len(plan), len(gold)), "empty": not plan}
    return dict.fromkeys(["lcs_norm", "lcs", "empty"], value)


def lcs_length(plan: Sequence[str], gold: Sequence[str]) -> int:
    """Return the length of the longest common subsequence; two steps match if their embeddings are similar."""
    with _ENCODING:
        first, second = (_encoder().encode(list(steps), normalize_embeddings=True, show_progress_bar=False) for steps in (plan, gold))
    matches = first @ second.T >= THRESHOLD
    previous = [0] * (len(gold) + 1)
    for row in matches:
        current = [0]
        for j, is_match in enumerate(row):
            current.append(previous[j] + 1 if is_match else max(previous[j + 1], current[j]))
        previous = current
    return previous[-1]


@lru_cache(maxsize=1)
def _encoder() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(os.environ.get("ACTPLAN_ENCODER") or ENCODER)


def _mean(values: Sequence[dict[str, Any]], name: str) -> float:
    return fmean(value[name] for value in values)


actplan_lcs_norm = partial(_mean, name="lcs_norm")
actplan_lcs = partial(_mean, name="lcs")
actplan_empty = partial(_mean, name="empty")
