"""Provenance of a run's numbers: model, settings and packages from its results file, without secrets."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.report.run import TaskRun

_HIDDEN = "[hidden]"
_SECRET = (
    r"[\w-]*(?:(?:api|access|private|subscription|account)[-_]?key|secret\w*|passw\w*|(?<!pad_)(?<!eos_)(?<!bos_)token"
    r"|auth(?!or\b)\w*|credential\w*|bearer)"
)
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
# An HTTP scheme may precede the key; in an address, ``key`` and ``sig`` are names of keys.
_ASSIGNED = re.compile(
    rf"({_SECRET}|(?<=[?&])(?:key|sig|signature))(['\"]?\s*[=:]\s*['\"]?(?:(?:bearer|basic|token)\s+)?)"
    r"(?!\[hidden\])[^,;&\s'\"}]+",
    re.IGNORECASE,
)
_KEYS = re.compile(
    r"\b(?:(?:sk|hf|gh[pousr]|xox[abp]|github_pat|glpat)[-_][A-Za-z0-9_-]{12,}|AIza[\w-]{20,}|AKIA[A-Z0-9]{12,})"
    r"|(?<=://)[^/@\s,]+(?=@)|(?<=\bbearer\s)[^,;&\s'\"}]{16,}",
    re.IGNORECASE,
)
_REVISION = re.compile(r"(?:^|,)\s*revision=([^,]+)")
_NAMES = yaml_beside(__file__)
_IN_ENVIRONMENT = re.compile(r"^(?:\[pip3\] )?(torch|numpy|transformers)(?:==| version: ?)(\S+)$", re.MULTILINE)
_SETTINGS = ("batch_size", "device", "limit", "num_fewshot", "gen_kwargs", "system_instruction", "max_batch_size")
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
# Metadata of a task that the page shows in other places.
_ELSEWHERE = ("version", "benchmark")
# Texts among a task's metrics.
_TEXT_METRICS = ("judge_model", "media", "encoder", "bleurt_model", "prompts")


def without_secrets(text: str) -> str:
    """Hide what looks like a key: values of such names, and keys in the form of known services.

    >>> without_secrets("pretrained=m,api_key=abc,token=x,max_new_tokens=5")
    'pretrained=m,api_key=[hidden],token=[hidden],max_new_tokens=5'
    """
    return _KEYS.sub(_HIDDEN, _ASSIGNED.sub(rf"\1\2{_HIDDEN}", text))


def provenance_of(content: Mapping[str, Any], model: str, harness: str, time: str, folder: Path) -> dict[str, str]:
    """Return a run's details from its results file, by name, in the page's order.

    Args:
        content: of the file.
        model, harness, time, folder: see `Run`.
    """
    config = _dict(content.get("config"))
    arguments = _text(config.get("model_args"))
    typed = _dict(config.get("resolved_cli_args"))
    revision = _REVISION.search(arguments) or _REVISION.search(_text(typed.get("model_args")))
    details = {
        "model": model,
        "revision": revision[1] if revision else _text(config.get("model_revision")),
        "checkpoint hash": _text(config.get("model_sha")),
        "backend": _text(config.get("model")),
        "arguments": arguments,
        **{name.replace("_", " "): _text(config.get(name)) for name in _SETTINGS},
        "seeds": ", ".join(f"{name.partition('_')[0]} {config[name]}" for name in _SEEDS if _is_number(config, name)),
        "harness": harness,
        "packages": ", ".join(_packages(content)),
        "started": time,
        "seconds": _seconds(content.get("total_evaluation_time_seconds")),
        "folder": str(folder),
        "command": _command(content, config, typed, harness),
    }
    return {name: without_secrets(x) for name, x in details.items() if x not in ("", "None", "unknown@unknown")}


def task_provenance(task_run: TaskRun) -> dict[str, str]:
    """Return a task's details: versions of task, prompts and data, media, judge."""
    metrics, metadata = task_run.metrics, _dict(task_run.config.get("metadata"))
    details = {
        "version": task_run.version or "unknown",
        **{name.replace("_", " "): _text(value)[:80] for name, value in metadata.items() if name not in _ELSEWHERE},
        "shown": _shown(task_run),
        **{name.replace("_", " "): metrics[name] for name in _TEXT_METRICS if isinstance(metrics.get(name), str)},
    }
    return {name: without_secrets(text) for name, text in details.items() if text not in ("", "None")}


def changed_settings(earlier: Mapping[str, str], later: Mapping[str, str]) -> Iterator[str]:
    """Describe the changes of a run's details, without those between any two runs."""
    for name in {**earlier, **later}:
        before, after = earlier.get(name, "none"), later.get(name, "none")
        if before != after and name not in ("started", "seconds", "command", "folder"):
            yield f"{name}: {before} → {after}"


def _shown(task_run: TaskRun) -> str:
    """Describe the media: what lm-eval logs with each question, or the defaults of lmms-eval's task."""
    for sample in (task_run.samples or ())[:1]:
        doc = sample.get("doc")
        if isinstance(doc, dict) and isinstance(doc.get("shown"), dict):
            return _listed(doc["shown"])
    return _listed(_dict(_dict(task_run.config.get("lmms_eval_specific_kwargs")).get("default")))


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_text(value)}" for name, value in values.items() if not isinstance(value, (dict, list)))


def _packages(content: Mapping[str, Any]) -> Iterator[str]:
    for name, package in _NAMES["packages"].items():
        if (version := _text(content.get(name))) not in ("", "unknown@unknown"):
            yield f"{package} {version}"
    for name, version in dict(_IN_ENVIRONMENT.findall(_text(content.get("pretty_env_info")))).items():
        if f"{name}_version" not in content:
            yield f"{name} {version}"


def _command(content: Mapping[str, Any], config: Mapping[str, Any], typed: Mapping[str, Any], harness: str) -> str:
    """Return a command that repeats the run, from the results; "" if they name no model."""
    backend = _text(typed.get("model")) or _text(config.get("model"))
    results = content.get("results")
    if not backend or not isinstance(results, dict):
        return ""
    named = [task for task in results if task in _dict(content.get("configs"))]
    tasks = typed.get("tasks")
    seeds = [str(config[name]) for name in _SEEDS if _is_number(config, name)]
    options = {
        "--tasks": (",".join(map(str, tasks)) if isinstance(tasks, list) else _text(tasks)) or ",".join(named),
        "--model": backend,
        "--model_args": _arguments(typed.get("model_args") or config.get("model_args")),
        "--batch_size": _text(config.get("batch_size")),
        "--limit": _text(config.get("limit")),
        "--gen_kwargs": _arguments(config.get("gen_kwargs")),
        "--system_instruction": _text(typed.get("system_instruction") or content.get("system_instruction")),
        "--seed": ",".join(seeds) if len(seeds) == len(_SEEDS) else "",
        "--output_path": "DIR",
    }
    words = [word for option, value in options.items() if value for word in (option, without_secrets(value))]
    if typed.get("apply_chat_template") or content.get("chat_template"):
        words.append("--apply_chat_template")
    return f"{_NAMES['programs'][harness]} {shlex.join([*words, '--log_samples'])}"


def _arguments(value: Any) -> str:
    """Format arguments as a user types them: ``name=value,name=value``."""
    if isinstance(value, dict):
        return ",".join(f"{name}={one}" for name, one in value.items())
    return _text(value)


def _dict(value: Any) -> dict[str, Any]:
    """Return a value that is a dict; an empty one for any other."""
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, dict):
        safe = {name: _HIDDEN if _SECRET_NAME.fullmatch(str(name)) else one for name, one in value.items()}
        return ", ".join(f"{name}={_text(one)}" for name, one in safe.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_number(config: Mapping[str, Any], name: str) -> bool:
    return isinstance(config.get(name), (int, float))


def _seconds(value: Any) -> str:
    try:
        return f"{float(value):.0f}"
    except (TypeError, ValueError):
        return ""
