"""Adapt Toy to lmms-eval, with the functions that the YAML files of this folder name."""

from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from PIL import Image

from lmms_egoplan.benchmarks.splits import TOY
from lmms_egoplan.benchmarks.toy.judge import DEFAULT_JUDGE, grade
from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter
from lmms_egoplan.memory_ahead import reserve_for


def __getattr__(name: str) -> str:
    """Return folder and fingerprint of the prepared split, when a task is loaded."""
    if name == "TEST":
        return str(TOY.folder("test"))
    if name == "TEST_DATA":
        return TOY.fingerprint("test")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the picture of the question."""
    reserve_for([doc["image"]])
    return [doc["image"].convert("RGB")]


class Judged(JudgedFilter):
    """Judge all answers of the task together; return them as text."""

    DEFAULT_JUDGE = DEFAULT_JUDGE

    def apply(self, resps: Sequence[Sequence[str]], docs: Dataset) -> list[str]:
        texts = docs.select_columns(["id", "question", "answer"])
        responses = self.responses(resps)
        asked = [texts[response.doc_id] for response in responses]
        judged = grade(asked, [response.text for response in responses], self.judge())
        return [answer.to_text() for answer in judged]
