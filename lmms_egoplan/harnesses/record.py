"""Record how a run encoded its questions: the processor's settings, and tokens and images per question.

The results of a run contain ``record``, and so does each logged sample; see ``docs/report-json.md``.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Protocol

import torch.distributed as dist

from lmms_egoplan.processes import num_processes

NOT_KNOWN = "not known"
COUNTS = ("tokens", "images")
_PACKAGES = ("torch", "transformers", "vllm")


class Request(Protocol):
    """A request of a harness. Its task and document identify the question."""

    task_name: Any
    doc_id: Any


# The counts of each question of this process. A count that is not known is missing.
_counts: dict[tuple[Any, Any], dict[str, int]] = {}
_asked: set[tuple[Any, Any]] = set()


def ask(requests: Iterable[Request]) -> None:
    """Add the questions of these requests to the record."""
    _asked.update((request.task_name, request.doc_id) for request in requests)


def note(request: Request, **counts: int | None) -> None:
    """Record `COUNTS` of a request's question: tokens of its context, and images and video frames. Thread-safe."""
    known = {name: count for name, count in counts.items() if count is not None}
    _counts.setdefault((request.task_name, request.doc_id), {}).update(known)


def settings_of(processor: Any, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a loaded processor, as plain JSON values, and those of the model.

    Args:
        processor: A transformers processor.
        model: Settings of the loaded model, such as ``dtype``.
    """
    template = getattr(processor, "chat_template", None) or processor.tokenizer.chat_template
    digest = template and hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()
    settings = json.loads(json.dumps(processor.to_dict(), default=str))
    return {"processor": {**settings, "chat_template_sha256": digest}, "model": dict(model)}


def model_settings(model: Any) -> dict[str, Any]:
    """Return the class, precision and attention implementation of a transformers model."""
    attention = model.config._attn_implementation
    return {"class": type(model).__name__, "dtype": str(model.dtype), "attention": attention}


def engine_settings(processor: Any, engine: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings like `settings_of` for an engine; a server does not report its version and precision.

    Args:
        processor: The model's transformers processor.
        engine: The engine.
        arguments: The engine's arguments; ``mm_processor_kwargs`` override settings of the processor.
    """
    dtype = getattr(engine, "dtype", None)
    model = {"dtype": dtype or NOT_KNOWN, "attention": NOT_KNOWN}
    model |= {name: arguments[name] for name in ("mm_processor_kwargs",) if name in arguments}
    return settings_of(processor, model) | ({} if dtype else {"packages": {"vllm": NOT_KNOWN}})


def recorded(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Let a harness's ``evaluate`` add the record to its results. A backend has its settings as an attribute."""

    @functools.wraps(evaluate)
    def evaluate_and_record(lm: Any, *args: Any, **kwargs: Any) -> Any:
        _counts.clear()
        _asked.clear()
        results = evaluate(lm, *args, **kwargs)
        counts = _gathered()
        if results is not None:
            add(results, counts, getattr(lm, "recorded_settings", {}), kwargs.get("samples") or {})
        return results

    return evaluate_and_record


def add(
    results: dict[str, Any],
    counts: Mapping[tuple[Any, Any], Mapping[str, int]],
    settings: Mapping[str, Any],
    selections: Mapping[str, Sequence[int]],
) -> None:
    """Add the record to a harness's results, and to their samples.

    Args:
        results: The results, as the harness saves them.
        counts: The known counts of all questions, by task and document.
        settings: From `settings_of`; empty for a backend that is not this package's.
        selections: Documents that the user selected, by task; a question's document is then its position among them.
    """
    tasks: dict[Any, Any] = {}
    for task in sorted({task for task, _ in counts}):
        questions = [of_question for (name, _), of_question in counts.items() if name == task]
        tasks[task] = {"questions": len(questions), **{name: _summary(name, questions) for name in COUNTS}}
    packages = {name: sys.modules[name].__version__ for name in _PACKAGES if name in sys.modules}
    unknown = dict.fromkeys(("processor", "model"), NOT_KNOWN)
    packages |= settings.get("packages", {})
    results["record"] = {**unknown, **settings, "packages": packages, "tasks": tasks}
    for task, samples in results.get("samples", {}).items():
        for sample in samples:
            document = selections[task].index(sample["doc_id"]) if task in selections else sample["doc_id"]
            sample["record"] = {**dict.fromkeys(COUNTS), **counts.get((task, document), {})}


def _summary(name: str, questions: Sequence[Mapping[str, int]]) -> dict[str, float | None]:
    values = [question[name] for question in questions if name in question]
    known = {"mean": fmean(values), "minimum": min(values), "maximum": max(values)} if values else {}
    return dict.fromkeys(("mean", "minimum", "maximum")) | known | {"not_known": len(questions) - len(values)}


def _gathered() -> dict[tuple[Any, Any], dict[str, int]]:
    """Return the counts of the questions of all processes."""
    counts = {question: _counts.get(question, {}) for question in _asked}
    if num_processes() == 1 or not (dist.is_available() and dist.is_initialized()):
        return counts
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, counts)
    return {question: part[question] for part in parts for question in part}
