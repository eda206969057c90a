"""Record settings of the processor, limits and counts of each question, and the judge.

Limits concern pixels, tokens and images. The judge's protocol is recorded.

See ``docs/report-json.md`` and ``docs/judges.md``.
"""

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import torch.distributed as dist
from transformers import PreTrainedModel

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import stated_pixels
from lmms_egoplan.benchmarks.subset import SUBSET, designs_of
from lmms_egoplan.harnesses.evaluation import Evaluation, evaluating, running
from lmms_egoplan.harnesses.pixels import is_as_stated
from lmms_egoplan.harnesses.weights import (
    NOT_KNOWN,
    WeightsDigest,
    WeightsSource,
    digest_in_background,
)
from lmms_egoplan.jsonl import member
from lmms_egoplan.judging.judgement import version_under
from lmms_egoplan.ranking.chat_templates import NO_TEMPLATE, NOT_APPLIED
from lmms_egoplan.task_files import is_package_task

NOT_QUANTISED = "none"
"""Quantisation of a model without any."""


def note(request: Any, **counts: Any) -> None:
    """Record the known counts of a request's question; without any, only that it was asked.

    Thread-safe. Outside an evaluation, nothing is recorded.

    Args:
        request: A request of a harness, with ``task_name`` and ``doc_id``.
        counts: ``tokens`` of the context, ``images``, including video frames, and ``reply_tokens``,
            as integers, and ``asked``, the prompt before the chat template; or functions to call
            after the run, unless a later call has the value.
    """
    evaluation = running()
    if evaluation is not None:
        evaluation.counts[request.task_name, request.doc_id].update(counts)


def known(task: Any, document: Any) -> dict[str, int]:
    """Return the counts of a question that are known so far.

    They are stored with a cached response.
    """
    evaluation = running()
    if evaluation is None:
        return {}
    counts = evaluation.counts.get((task, document), {})
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def settings_of(processor: Any, model: Any, config: Any = None) -> dict[str, Any]:
    """Return settings of a loaded processor and its model, and versions of packages.

    All are plain JSON values.

    Args:
        processor: A transformers processor.
        model: A transformers model, or an engine. An engine on a server has no ``dtype``.
        config: Configuration of the checkpoint that an engine loaded; None for other engines.
    """
    template = getattr(processor, "chat_template", None) or processor.tokenizer.chat_template
    digest = template and hashlib.sha256(json.dumps(template).encode()).hexdigest()
    settings = json.loads(json.dumps(processor.to_dict(), default=str)) | {
        "chat_template_sha256": digest
    }
    packages = (
        _package_versions()
        if hasattr(model, "dtype")
        else {**_package_versions(), "vllm": NOT_KNOWN}
    )
    return {"processor": settings, "model": _model_settings(model, config), "packages": packages}


def _model_settings(model: Any, loaded_config: Any = None) -> dict[str, Any]:
    """Return the settings of a transformers model or an engine."""
    config = getattr(model, "config", None)
    # packed weights are few
    is_counted = hasattr(model, "num_parameters") and not getattr(model, "hf_quantizer", None)
    return {
        "class": type(model).__name__,
        "dtype": str(getattr(model, "dtype", NOT_KNOWN)),
        "attention": getattr(config, "_attn_implementation", NOT_KNOWN),
        "parameters": model.num_parameters() if is_counted else NOT_KNOWN,
        "quantisation": _quantisation(config or loaded_config),
    }


def _quantisation(config: Any) -> Any:
    """Return the settings of the quantisation in a model's configuration.

    `NOT_QUANTISED` without any, `NOT_KNOWN` without a configuration.
    """
    if config is None:
        return NOT_KNOWN
    settings = getattr(config, "quantization_config", None)
    if settings is None:
        return NOT_QUANTISED
    values = settings.to_dict() if hasattr(settings, "to_dict") else settings
    return json.loads(json.dumps(values, default=str))


def plain_text(*, is_applied: bool, exists: bool) -> str | None:
    """Return the mark of a run without a chat template; None if it is applied.

    Args:
        is_applied: Whether the chat template renders the questions.
        exists: Whether the model or its family has one.
    """
    if is_applied:
        return None
    return NOT_APPLIED if exists else NO_TEMPLATE


def recorded(
    evaluate: Callable[..., Any],
    plain_text_of: Callable[[Any, Mapping[str, Any]], str | None] | None = None,
) -> Callable[..., Any]:
    """Let a harness's ``evaluate`` add the record to results and samples.

    A backend may have ``recorded_settings``, and ``plain_text``, the mark of a run without a chat
    template.

    Args:
        evaluate: The harness's function.
        plain_text_of: Returns this mark from the backend and the arguments of `evaluate`, if the
            harness decides it.
    """

    @functools.wraps(evaluate)
    def evaluate_and_record(lm: Any, *args: Any, **kwargs: Any) -> Any:
        source = _weights_source(lm)
        with evaluating(lm) as evaluation, digest_in_background(source) as digest:
            results = evaluate(lm, *args, **kwargs)
            counts = _gathered(evaluation)
            weights = WeightsDigest() if results is None else digest()
        if results is not None:
            _move_details(results)
            tasks = dict.fromkeys(task for task, _ in counts)
            mark = (
                plain_text_of(lm, kwargs)
                if plain_text_of is not None
                else getattr(lm, "plain_text", None)
            )
            _add_marks(results, tasks if mark else (), {"chat_template": mark})
            _add_protocols(results)
            _add_designs(results)
            settings = _settings_of_backend(lm, weights)
            _mark_other_pixel_limits(results, settings["pixels"])
            results["record"] = settings | {
                "tasks": {task: _summary(task, counts) for task in tasks}
            }
            _add_counts(results, tasks, counts, kwargs.get("samples") or {})
        return results

    return evaluate_and_record


def _weights_source(lm: Any) -> WeightsSource | None:
    """Return where the weights of a backend's model come from; None if that is not known.

    A backend of this package states it in ``weights_source``. Other backends are asked for the
    transformers model that they loaded. Only the first of several processes reads weights.
    """
    backend = getattr(lm, "lm", lm)  # inside lm-eval's cache
    if getattr(backend, "rank", 0) != 0:
        return None
    source = getattr(backend, "weights_source", None)
    if source is not None:
        return source
    model = _loaded_model(backend)
    config = getattr(model, "config", None)
    name = getattr(config, "_name_or_path", None)
    # the adapter's folder is not stored with the model
    if not name or hasattr(model, "peft_config"):
        return None
    return WeightsSource(str(name), getattr(config, "_commit_hash", None) or "main")


def _loaded_model(backend: Any) -> Any:
    """Return the transformers model of a harness's own backend; None if there is none."""
    model = getattr(backend, "__dict__", {}).get("_model")
    model = getattr(model, "module", model)  # one copy per process
    return model if isinstance(model, PreTrainedModel) else None


def _settings_of_backend(lm: Any, weights: WeightsDigest) -> dict[str, Any]:
    """Return the settings of a backend's processor and model, with the digests of its weights."""
    backend = getattr(lm, "lm", lm)  # inside lm-eval's cache
    model = _loaded_model(backend)
    settings = {
        "processor": NOT_KNOWN,
        "model": NOT_KNOWN if model is None else _model_settings(model),
        "pixels": NOT_KNOWN,
        "packages": _package_versions(),
    }
    settings |= getattr(lm, "recorded_settings", {})
    if settings["model"] != NOT_KNOWN or weights.weights != NOT_KNOWN:
        known = settings["model"] if isinstance(settings["model"], dict) else {}
        settings["model"] = {**known, **asdict(weights)}
    return settings


def _move_details(results: dict[str, Any]) -> None:
    """Move the metric ``details`` of this package's tasks from the harness's table.

    The table would show it as one long line. ``results["details"]`` has it by task.
    """
    results[DETAILS] = {}
    for task, values in results["results"].items():
        if not is_package_task(task, member(results, "configs", task)):
            continue
        # The harnesses append the filter's name ("details,none"), and add standard errors.
        for name in [name for name in values if name.startswith(DETAILS)]:
            value = values.pop(name)
            if name.partition(",")[0] == DETAILS:
                results[DETAILS][task] = value


def _add_counts(
    results: Mapping[str, Any],
    tasks: Collection[Any],
    counts: Mapping[tuple[Any, Any], Mapping[str, Any]],
    selected: Mapping[Any, Sequence[Any]],
) -> None:
    """Add the counts of questions to the harness's samples.

    Args:
        results: The harness's results, with or without samples.
        tasks: The tasks with counts.
        counts: Known counts by task and document.
        selected: The documents to which the run was limited, by task. A question's document in
            `counts` is then its position among them.
    """
    for task, samples in results.get("samples", {}).items():
        if task not in tasks:
            continue
        positions = {document: index for index, document in enumerate(selected.get(task, ()))}
        for sample in samples:
            document = positions.get(sample["doc_id"], sample["doc_id"])
            _add_counts_of_question(sample, counts.get((task, document), {}))


def _add_counts_of_question(sample: dict[str, Any], counts: Mapping[str, Any]) -> None:
    known = {"tokens": None, "images": None, **counts}
    reply_tokens = known.pop("reply_tokens", None)
    if reply_tokens is not None:  # lm-eval logs no counts
        usage = {"input_tokens": known["tokens"], "output_tokens": reply_tokens}
        sample.setdefault("token_counts", [usage])
    asked = known.pop("asked", None)
    if asked is not None:
        sample["asked"] = asked
    sample["record"] = known


def _add_marks(results: Mapping[str, Any], tasks: Iterable[Any], marks: Mapping[str, Any]) -> None:
    """Add marks to the metadata of tasks, like `_add_protocols`."""
    for task in tasks:
        config = member(results, "configs", task)
        if config is not None:
            config["metadata"] = {**(config.get("metadata") or {}), **marks}


def _add_protocols(results: Mapping[str, Any]) -> None:
    """Add the judge's protocol to each task's metadata, protocol and preset to its version.

    They change no answer. The harness's keys for cached answers therefore do not contain them.
    """
    for task in results["results"]:
        protocol = member(results, DETAILS, task, "judge_protocol") or "none"
        judged = {} if protocol == "none" else {"judge_protocol": protocol}
        preset = member(results, "configs", task, "metadata", "asked_as") or ""
        if preset or judged:
            version = version_under(judged.get("judge_protocol"), results["versions"][task], preset)
            results["versions"][task] = version
            config = results["configs"][task]
            config["metadata"] = {**config["metadata"], "version": version, **judged}


def _add_designs(results: Mapping[str, Any]) -> None:
    """Mark the tasks of a compact run.

    Add the design to the metadata, with samples or without, and correct the counts.

    The harness's standard errors are removed from them. They treat the questions as a sample of
    endlessly many, but the score estimates that over the prepared ones.
    """
    if not os.environ.get(SUBSET):
        return
    for task, values in results["results"].items():
        config = member(results, "configs", task) or {}
        benchmark = member(config, "metadata", "benchmark")
        if not benchmark:
            continue
        designs = list(designs_of(benchmark, config["test_split"]).values())
        if not designs:
            continue
        design = designs[0]
        config["metadata"] = {**config["metadata"], "subset": design}
        # lmms-eval counts all prepared questions. With --limit, both harnesses ask fewer than
        # were drawn.
        effective = min(design["asked"], results["n-samples"][task]["effective"])
        results["n-samples"][task] = {"original": design["of"], "effective": effective}
        standard_errors = [name for name in values if "_stderr" in name]
        for name in standard_errors:
            values[name] = "N/A"


def _mark_other_pixel_limits(results: Mapping[str, Any], pixels: Any) -> None:
    """Mark each preset's task whose stated limits on pixels are not those in effect.

    This includes limits in effect that are not known.
    """
    differing_tasks = []
    for task in results["results"]:
        stated = stated_pixels(str(member(results, "configs", task, "metadata", "preset")))
        if stated and not is_as_stated(pixels, stated):
            differing_tasks.append(task)
    _add_marks(results, differing_tasks, {"pixels": "other limits"})


def _summary(task: Any, counts: Mapping[tuple[Any, Any], Mapping[str, int]]) -> dict[str, Any]:
    questions = [known for (name, _), known in counts.items() if name == task]
    summary: dict[str, Any] = {"questions": len(questions)}
    for name in ("tokens", "images"):
        values = [question[name] for question in questions if name in question]
        statistics: dict[str, Any] = {}
        if values:
            statistics["mean"] = fmean(values)
            statistics["minimum"] = min(values)
            statistics["maximum"] = max(values)
        statistics["not_known"] = len(questions) - len(values)
        summary[name] = statistics
    return summary


def _package_versions() -> dict[str, str]:
    """Return the versions of torch, transformers and vllm, of those that this process imported."""
    loaded: dict[str, Any] = {
        name: sys.modules.get(name) for name in ("torch", "transformers", "vllm")
    }
    return {
        name: module.__version__
        for name, module in loaded.items()
        if hasattr(module, "__version__")
    }


def _gathered(evaluation: Evaluation) -> dict[tuple[Any, Any], dict[str, int]]:
    """Return the counts of the questions of all processes."""
    counts: dict[tuple[Any, Any], dict[str, int]] = {}
    for question, of_question in evaluation.counts.items():
        counts[question] = {}
        for name, count in of_question.items():
            counts[question][name] = count() if callable(count) else count
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return counts
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, counts)
    counts_of_all: dict[tuple[Any, Any], dict[str, int]] = {}
    for part in parts:
        counts_of_all |= part
    return counts_of_all
