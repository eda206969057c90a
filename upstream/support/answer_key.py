"""A backend that answers every second question with the reference, and all others with "I do not
know".
"""

import json
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms

UNKNOWN = "I do not know."


class AnswerKey(lmms):
    """Reference answers as a backend.

    Args:
        field: The document's field with the answer: a text, or a list of lines.
        replies: JSON file that maps each document's ``id`` to the answer, instead of `field`.
    """

    def __init__(
        self, field: str = "answer", replies: str | None = None, batch_size: int = 1, **_: Any
    ) -> None:
        super().__init__()
        self._field = field
        self._replies = json.loads(Path(replies).read_text(encoding="utf-8")) if replies else {}

    def generate_until(self, requests: list[Instance]) -> list[str]:
        answers = []
        for _, _, doc_to_visual, doc_id, task, split in (request.args for request in requests):
            doc = self.task_dict[task][split][doc_id]
            if not doc_to_visual(doc):
                raise ValueError(f"{task}, document {doc_id}: no image")
            reference = self._replies[doc["id"]] if self._replies else doc[self._field]
            reference = reference if isinstance(reference, str) else "\n".join(reference)
            answers.append(reference if doc_id % 2 == 0 else UNKNOWN)
        return answers

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def generate_until_multi_round(self, requests: list[Instance]) -> list[str]:
        raise NotImplementedError


def manifests() -> Any:
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest("answer_key", simple_class_path="answer_key.AnswerKey")
