"""Build requests like lmms-eval, from documents that a test defines."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from lmms_eval.api.instance import Instance

from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM

TASK, SPLIT = "small", "test"

Doc = dict[str, Any]  # "text", "visuals", and "choices" to rank


def generate(model: HFVLM, docs: Sequence[Doc], **arguments: Any) -> list[str]:
    """Return the model's answers to the documents."""
    return [
        result.text
        for result in model.generate_until(generation_requests(model, docs, **arguments))
    ]


def generation_requests(model: HFVLM, docs: Sequence[Doc], **arguments: Any) -> list[Instance]:
    return _instances(model, "generate_until", docs, lambda doc: [arguments])


def ranking_requests(model: HFVLM, docs: Sequence[Doc]) -> list[Instance]:
    return _instances(model, "loglikelihood", docs, itemgetter("choices"))


def _instances(
    model: HFVLM, kind: str, docs: Sequence[Doc], second_arguments: Any
) -> list[Instance]:
    model.task_dict[TASK] = {SPLIT: docs}
    return [
        Instance(
            request_type=kind,
            arguments=(doc["text"], second, itemgetter("visuals"), doc_id, TASK, SPLIT),
            idx=index,
            metadata={"task": TASK, "doc_id": doc_id, "repeats": 1},
        )
        for doc_id, doc in enumerate(docs)
        for index, second in enumerate(second_arguments(doc))
    ]
