"""The questions of lmms-eval's requests."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from lmms_eval.api.instance import Instance

from lmms_egoplan.errors import LmmsEgoplanError


def grouped(requests: Sequence[Instance]) -> list[list[Instance]]:
    """Consecutive requests about the same question."""

    def question_of(request: Instance) -> tuple[Any, ...]:
        context, _, _, doc_id, task, split = request.args
        return task, split, doc_id, context

    return [list(group) for _, group in itertools.groupby(requests, key=question_of)]


def document(request: Instance, task_dict: Mapping[str, Any]) -> tuple[Any, str]:
    """A request's document, and the id that names its question in errors."""
    _, _, _, doc_id, task, split = request.args
    doc = task_dict[task][split][doc_id]
    question_id = f"{task}/{doc_id}"
    if isinstance(doc, dict) and "sample_id" in doc:
        question_id += f" (sample_id {doc['sample_id']})"
    return doc, question_id


def media_error(question_id: str, error: Exception) -> LmmsEgoplanError:
    """Name a question whose media cannot be read. Its record is named once: errors of frames name theirs."""
    question, _, record = question_id.removesuffix(")").partition(" (")
    is_named = record and f"{error}".startswith(f"{record}: ")
    return LmmsEgoplanError(f"question {question if is_named else question_id}: {error}")


def continuation(request: Instance, task_dict: Mapping[str, Any]) -> str:
    """The continuation; tasks of type ``loglikelihood`` hand over a function of the document instead."""
    text = request.args[1]
    if callable(text):
        text = text(document(request, task_dict)[0])
    return text.strip()
