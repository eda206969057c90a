"""A run: its tasks with versions and scoring, and the provenance of its numbers."""

import hashlib
import json
import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lmms_egoplan import task_files
from lmms_egoplan.jsonl import member
from lmms_egoplan.judging.judgement import base_version
from lmms_egoplan.model_names import CHECKPOINT
from lmms_egoplan.report.identity import Identity, is_known
from lmms_egoplan.secret_values import HIDDEN, SECRET_NAME, without_secrets
from lmms_egoplan.task_files import read_task_file, scoring_paths, task_benchmark, version_text

# A checkpoint's number at the end of a name or of a folder's name.
_CHECKPOINT = re.compile(rf"[-_/.]?{CHECKPOINT}(?=$|[/_-])", re.IGNORECASE)
_REVISION = re.compile(r"(?:^|,)\s*revision=([^,]+)")
# Fields of a results file with versions, and the packages' names.
_PACKAGES = {
    "lmms_eval_version": "lmms-eval",
    "lm_eval_version": "lm-eval",
    "transformers_version": "transformers",
    "vllm_version": "vllm",
    "git_hash": "commit",
}
# The command of each harness.
_PROGRAMS = {
    "lmms-eval": "lmms-eval",
    "lm-eval": ("lmms-egoplan lm-eval --include_path $(lmms-egoplan tasks-path --harness lm-eval)"),
}
# Names in a task's configuration and in a run's record that differ between any two runs, or that
# belong to the task's version.
_NO_SETTING = re.compile(
    r"doc_to_\w+|process_\w+|\w+_list|tasks|(\w+_)?(cache|date|dir|folder|hash|path|time)"
)
_IN_ENVIRONMENT = re.compile(
    r"^(?:\[pip3\] )?(torch|numpy|transformers)(?:==| version: ?)(\S+)$", re.MULTILINE
)
_SETTINGS = ("batch_size", "device", "limit", "num_fewshot", "gen_kwargs", "max_batch_size")
_DIGEST_SHOWN = 12
_SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
# Metadata of a task that the page does not repeat among the task's details, or that say nothing to
# its readers.
_ELSEWHERE = (
    "version",
    "benchmark",
    "main_metric",
    "count_metric",
    "condition_of",
    "instead_of_video",
    "judge",
    "scores_end_token",
)
# Metrics of a task that are texts.
_TEXT_METRICS = ("judge_model", "judge_protocol", "media", "encoder", "bleurt_model", "prompts")


@dataclass(frozen=True, slots=True)
class Scoring:
    """The scoring of a task, defined by a file in ``tasks/shared``.

    name: stem of the file.
    benchmark: name of the benchmark.
    metrics: metrics in order, each with the dotted name of its aggregation.
    count: the entry of the details that counts questions.
    """

    name: str
    benchmark: str
    metrics: Mapping[str, str]
    count: str


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    metrics: the harness's own values by metric, and the aggregated details by entry; without
    standard errors.
    config: configuration of the task, as the harness logs it.
    samples: one logged sample per question, without large fields that no table uses, and with
        ``prompt`` and ``tokens`` if they are known. Only lm-eval logs the question itself, as
        ``doc``. None without readable samples.
    version: version of the task, see `logged_version`.
    scoring: scoring of the task; None for tasks of other projects.
    details: the harness's own aggregated details alone; empty for tasks that were judged later.
    """

    task: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    samples: tuple[dict[str, Any], ...] | None
    version: str | None = None
    scoring: Scoring | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subset(self) -> str:
        """The numbers of questions of a compact run; "" for other runs.

        The scores of a compact run are estimates.
        """
        design = member((self.samples or [{}])[0], "coverage", "subset") or member(
            self.config, "metadata", "subset"
        )
        if not design:
            return ""
        asked = design["asked"] if self.samples is None else min(design["asked"], len(self.samples))
        return f"estimate from {asked:,} of {design['of']:,} questions"

    def number(self, metric: str) -> int | float | None:
        """Return a metric's value; None for NaN, for other types and for missing ones."""
        value = self.metrics.get(metric)
        return value if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass(frozen=True)
class Run:
    """The content of a results file and of the samples next to it, or of several of one model.

    name: unique name among the runs that are read together.
    folder: folder of the files; of the newest of several.
    harness: ``lmms-eval`` or ``lm-eval``, with a suffix for answers that were judged later; several
    joined by commas.
    model: the harness's name of the model.
    time: see `samples.start_time`. The newest of several.
    tasks: this project's tasks by name, without groups. May be empty only if there are
    `other_tasks`.
    other_tasks: all other tasks with results, by name.
    provenance: see `provenance_of`.
    files: sample files by task, see `runs.with_samples`.
    record: settings of the processor, and tokens and images per question; empty for results without
    such a record.
    identity: the model and how it was asked, see `identity.identity_of`; empty if unknown.
    parts: the runs that were joined, the newest first, each with only the tasks that it
    contributes; empty for the content of one results file.
    """

    name: str
    folder: Path
    harness: str
    model: str
    time: str
    tasks: dict[str, TaskRun]
    other_tasks: dict[str, TaskRun] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    identity: Identity = field(default_factory=dict)
    parts: tuple["Run", ...] = ()

    @property
    def checkpoint(self) -> str:
        """A digest of the identity, equal in all runs of one model; "" if the model is unknown.

        It is unknown without its weights, its adapter or its configuration. Machine and folder do
        not change the digest.
        """
        if not is_known(self.identity):
            return ""
        text = json.dumps(self.identity, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all results files."""
        return tuple(dict.fromkeys(part.folder for part in self.parts)) or (self.folder,)

    def source(self, *tasks: str) -> "Run":
        """Return the part that all of some tasks come from; the run itself if there is none."""
        for part in self.parts:
            if all(task in part.tasks or task in part.other_tasks for task in tasks):
                return part
        return self

    @property
    def base_model(self) -> str:
        """The model's name without checkpoint number and parent folders.

        >>> names = ["org/Model-7B", "out/Model-7B/checkpoint-200", "Model-7B_step400", "Model-7B/"]
        >>> {Run("", Path(), "lm-eval", name, "", {}).base_model for name in names}
        {'Model-7B'}
        """
        path = _CHECKPOINT.sub("", self.model.rstrip("/")).rstrip("/")
        return path.rpartition("/")[2] or self.model


def scoring_of(task: str, config: Any, metrics: Collection[str]) -> Scoring | None:
    """Return the scoring of one of this project's tasks; None for other tasks.

    The task's metadata names the benchmark. Results of earlier versions lack this entry. Then the
    benchmark is that of the package's task with the longest name that the task's name begins with.
    A benchmark may have several scorings: the one with the most metrics in common and, among these,
    the fewest others and the shortest name is returned.

    Args:
        task: name of the task.
        config: configuration of the task, as a harness logs it.
        metrics: names of the task's metrics.
    """
    if not isinstance(config, Mapping):
        return None
    benchmark = task_benchmark(task, config)
    fitting = [scoring for scoring in scorings() if scoring.benchmark == benchmark]

    def closeness(scoring: Scoring) -> tuple[int, int, int]:
        num_shared = len(scoring.metrics.keys() & metrics)
        return num_shared, -len(scoring.metrics), -len(scoring.name)

    return max(fitting, key=closeness, default=None)


@cache
def scorings() -> tuple[Scoring, ...]:
    """Read the files in ``tasks/shared``."""
    scorings_in_order = []
    for path in scoring_paths():
        task = read_task_file(path)
        scoring = Scoring(
            name=path.stem,
            benchmark=task["metadata"]["benchmark"],
            metrics=task_files.metrics(task),
            count=task_files.count_metric(task),
        )
        scorings_in_order.append(scoring)
    return tuple(scorings_in_order)


def logged_version(results: Any, task: str) -> str | None:
    """Return the version of a task from the content of a results file; None if unknown.

    1, 1.0 and "1.0" are the same version. If ``versions`` and the task's ``metadata`` differ, the
    result is ``"1.0 or 2.0"``, which equals neither.
    """
    versions = (
        member(results, "versions", task),
        member(results, "configs", task, "metadata", "version"),
    )
    return " or ".join(dict.fromkeys(filter(None, map(version_text, versions)))) or None


def age(version: str | None) -> tuple[bool, list[int], bool, str]:
    """Return a sort key that puts the newest version last, after its variants.

    An unknown version comes first.
    """
    base = base_version(version)
    return (
        version is not None,
        [int(digits) for digits in re.findall(r"\d{1,9}", base or "")],
        base == version,
        version or "",
    )


def provenance_of(
    content: Mapping[str, Any], model: str, harness: str, time: str, folder: Path
) -> dict[str, str]:
    """Return a run's details from its results file, by name, in the page's order.

    Args:
        content: content of the results file.
        model, harness, time, folder: see `Run`.
    """
    config = _dict(content.get("config"))
    arguments = _text(config.get("model_args"))
    cli_args = _dict(config.get("resolved_cli_args"))
    revision = _REVISION.search(arguments) or _REVISION.search(_text(cli_args.get("model_args")))
    details = {
        "model": model,
        "revision": revision[1] if revision else _text(config.get("model_revision")),
        "checkpoint hash": _text(config.get("model_sha")),
        "parameters": _text(config.get("model_num_parameters")),
        "backend": _text(config.get("model")),
        "arguments": arguments,
        **{name.replace("_", " "): _text(config.get(name)) for name in _SETTINGS},
        "system instruction": _system_instruction(content),
        "chat template": _text(content.get("chat_template_sha"))[:_DIGEST_SHOWN],
        "seeds": ", ".join(
            f"{name.partition('_')[0]} {config[name]}"
            for name in _SEEDS
            if _is_number(config, name)
        ),
        "harness": harness,
        "packages": ", ".join(_packages(content)),
        "started": time,
        "seconds": _seconds(content.get("total_evaluation_time_seconds")),
        "folder": str(folder),
        "command": _command(content, config, cli_args, harness),
    }
    return {
        name: without_secrets(x)
        for name, x in details.items()
        if x not in ("", "None", "unknown@unknown")
    }


def task_provenance(task_run: TaskRun) -> dict[str, str]:
    """Return a task's details: versions of task, prompts and data; media; judge."""
    metrics = task_run.metrics
    metadata = _dict(task_run.config.get("metadata"))
    details = {
        "version": task_run.version or "unknown",
        **{
            name.replace("_", " "): _text(value)[:80]
            for name, value in metadata.items()
            if name not in _ELSEWHERE
        },
        "shown": _presentation(task_run),
        **{
            name.replace("_", " "): metrics[name]
            for name in _TEXT_METRICS
            if isinstance(metrics.get(name), str)
        },
    }
    return {
        name: without_secrets(text) for name, text in details.items() if text not in ("", "None")
    }


def changed_settings(earlier: Mapping[str, str], later: Mapping[str, str]) -> Iterator[str]:
    """Describe the settings that changed between two runs.

    Ignore details that always differ, such as the time.
    """
    for name in {**earlier, **later}:
        before = earlier.get(name, "none")
        after = later.get(name, "none")
        if before != after and name not in ("started", "seconds", "command", "folder"):
            yield f"{name}: {before} → {after}"


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten nested settings to texts by dotted name.

    Secrets and names that are no settings are excluded.
    """
    flat: dict[str, str] = {}
    for name, value in values.items():
        if _NO_SETTING.fullmatch(name):
            continue
        if isinstance(value, Mapping) and value:
            flat |= flat_settings(value, f"{prefix}{name}.")
        elif SECRET_NAME.fullmatch(name):
            flat[prefix + name] = HIDDEN
        else:
            flat[prefix + name] = without_secrets(_text(value) or "none")
    return flat


def _presentation(task_run: TaskRun) -> str:
    """Describe the media by what lm-eval logs with each question.

    Without it, use the defaults of lmms-eval's task.
    """
    for sample in (task_run.samples or ())[:1]:
        settings = member(sample, "doc", "shown")
        if isinstance(settings, dict):
            return _listed(settings)
    return _listed(_dict(member(task_run.config, "lmms_eval_specific_kwargs", "default")))


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} {_text(value)}"
        for name, value in values.items()
        if not isinstance(value, (dict, list))
    )


def _packages(content: Mapping[str, Any]) -> Iterator[str]:
    for name, package in _PACKAGES.items():
        version = _text(content.get(name))
        if version not in ("", "unknown@unknown"):
            yield f"{package} {version}"
    for name, version in dict(
        _IN_ENVIRONMENT.findall(_text(content.get("pretty_env_info")))
    ).items():
        if f"{name}_version" not in content:
            yield f"{name} {version}"


def _command(
    content: Mapping[str, Any], config: Mapping[str, Any], cli_args: Mapping[str, Any], harness: str
) -> str:
    """Return a command that repeats the run; "" if the results name no model."""
    backend = _text(cli_args.get("model")) or _text(config.get("model"))
    results = content.get("results")
    if not backend or not isinstance(results, dict):
        return ""
    named = [task for task in results if task in _dict(content.get("configs"))]
    tasks = cli_args.get("tasks")
    seeds = [str(config[name]) for name in _SEEDS if _is_number(config, name)]
    options = {
        "--tasks": (",".join(map(str, tasks)) if isinstance(tasks, list) else _text(tasks))
        or ",".join(named),
        "--model": backend,
        "--model_args": _arguments(cli_args.get("model_args") or config.get("model_args")),
        "--batch_size": _text(config.get("batch_size")),
        "--limit": _text(config.get("limit")),
        "--gen_kwargs": _arguments(config.get("gen_kwargs")),
        "--system_instruction": _system_instruction(content),
        "--seed": ",".join(seeds) if len(seeds) == len(_SEEDS) else "",
        "--output_path": "DIR",
    }
    words = [
        word
        for option, value in options.items()
        if value
        for word in (option, without_secrets(value))
    ]
    if cli_args.get("apply_chat_template") or content.get("chat_template"):
        words.append("--apply_chat_template")
    return f"{_PROGRAMS[harness]} {shlex.join([*words, '--log_samples'])}"


def _system_instruction(content: Mapping[str, Any]) -> str:
    """Return ``--system_instruction``. Both harnesses store it outside the configuration."""
    places = (
        content,
        _dict(content.get("config")),
        _dict(member(content, "config", "resolved_cli_args")),
    )
    for place in places:
        text = _text(place.get("system_instruction"))
        if text:
            return text
    return ""


def _arguments(value: Any) -> str:
    """Format arguments for a command line: ``name=value,name=value``."""
    if isinstance(value, dict):
        return ",".join(f"{name}={argument}" for name, argument in value.items())
    return _text(value)


def _dict(value: Any) -> dict[str, Any]:
    """Return a value if it is a dict, else an empty dict."""
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return ""
    if isinstance(value, dict):
        safe = {
            name: HIDDEN if SECRET_NAME.fullmatch(str(name)) else argument
            for name, argument in value.items()
        }
        return ", ".join(f"{name}={_text(argument)}" for name, argument in safe.items())
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _is_number(config: Mapping[str, Any], name: str) -> bool:
    return isinstance(config.get(name), (int, float))


def _seconds(value: Any) -> str:
    try:
        return f"{float(value):.0f}"
    except (TypeError, ValueError):
        return ""
