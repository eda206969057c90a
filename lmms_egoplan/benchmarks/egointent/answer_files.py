"""EgoIntent's scores as a harness logged them, one run per sample file."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.records import has_goalstep_id
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_json, read_lines
from lmms_egoplan.report.logged_samples import HOW_TO_LOG, SampleFile, find_sample_files, start_time
from lmms_egoplan.report.task_versions import logged_version
from lmms_egoplan.text import clean_text
from lmms_egoplan.validation import is_text, shown

# And the beginning of the names of variants that users make of it, egointent_16.
TASK = "egointent"
_NOT_GRADED = f"{TASK}_diagnostics"


@dataclass(frozen=True)
class LoggedStep:
    """One step of a run.

    group: its scenario; of a Goal-Step step, the category of its goal.
    unverified: nobody has verified its references.
    """

    graded: GradedStep
    group: str
    unverified: bool
    is_goalstep: bool = False


@dataclass(frozen=True)
class LoggedRun:
    """One run of the task.

    name: of the model; different from those of the other runs read with it.
    steps: by step_id; at least one.
    version: of the task; None where the results do not tell.
    prompt, judge_prompt: versions of the prompts, and whether the judge rated all fields in one request; None where
        the results do not tell.
    """

    name: str
    steps: dict[str, LoggedStep]
    version: str | None
    prompt: str | None
    judge_prompt: str | None

    @property
    def is_goalstep(self) -> bool:
        """Whether it is over Goal-Step steps, not the benchmark's."""
        return any(step.is_goalstep for step in self.steps.values())


def read_runs(folders: Iterable[Path]) -> list[LoggedRun]:
    """All runs of the task below some folders, in the folders' order.

    A run is named after its model, as the harness's results beside the samples name it, without the folders before the
    model's own name; after its folder where they do not. What is the same for several runs gets the folders, the
    run's time and the file's path, as far as needed.

    Raises:
        LmmsEgoplanError: a folder has no samples of the task, or a file cannot be read or holds something else (names
            line and field).
    """
    files: dict[Path, SampleFile] = {}
    for folder in folders:
        samples = [file for file in find_sample_files(folder, TASK) if file.task != _NOT_GRADED]
        if not samples:
            raise LmmsEgoplanError(f"{folder}: no samples of {TASK} below it; {HOW_TO_LOG}")
        files |= {file.path.resolve(): file for file in samples}
    runs = [(file, _results(file.results), _steps(file.path)) for file in files.values()]
    names = _distinct([_names(file, results) for file, results, _ in runs])
    return [
        LoggedRun(name, steps, logged_version(results, file.task), *prompt_versions(_task(file, results)))
        for name, (file, results, steps) in zip(names, runs, strict=True)
    ]


def prompt_versions(task: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Versions of a task's prompt and of its judge's, as `LoggedRun` has them.

    Args:
        task: its settings, as a harness logs them.
    """
    metadata = task.get("metadata")
    versions = metadata if isinstance(metadata, dict) else {}
    prompt, judge_prompt = (None if versions.get(x) is None else str(versions[x]) for x in ("prompt", "judge_prompt"))
    if '"together": true' in json.dumps(task.get("filter_list")):
        judge_prompt = f"{judge_prompt or 'unknown'} with all fields in one request"
    return prompt, judge_prompt


def _distinct(choices: Sequence[Sequence[str]]) -> list[str]:
    """The first of each run's names, or a later one where another run has the same."""
    names = [choice[0] for choice in choices]
    for later in range(1, len(choices[0])):
        counts = Counter(names)
        names = [choice[later] if counts[name] > 1 else name for name, choice in zip(names, choices, strict=True)]
    return names


def _names(samples: SampleFile, results: dict[str, Any]) -> tuple[str, ...]:
    config = results.get("config")
    backend = config.get("model") if isinstance(config, dict) else None
    names = (results.get("model_name"), backend, samples.path.resolve().parent.name)
    full = next((name.strip().rstrip("/") for name in names if isinstance(name, str) and name.strip(" /")), "")
    variant = "" if samples.task == TASK else f" ({samples.task})"
    full, time = clean_text(full), start_time(samples.results, results)
    return full.rpartition("/")[2] + variant, full + variant, f"{full}{variant} ({time})", str(samples.path)


def _task(samples: SampleFile, results: dict[str, Any]) -> dict[str, Any]:
    configs = results.get("configs")
    task = configs.get(samples.task) if isinstance(configs, dict) else None
    return task if isinstance(task, dict) else {}


def _results(path: Path) -> dict[str, Any]:
    """The results that the harness wrote with the samples; empty without."""
    if not path.exists():
        return {}
    results = read_json(path, how="run again, or move it away")
    if not isinstance(results, dict):
        raise LmmsEgoplanError(f"{path}: expected a harness's results, an object; run again, or move it away")
    return results


def _steps(path: Path) -> dict[str, LoggedStep]:
    steps: dict[str, LoggedStep] = {}
    for where, line in read_lines(path):
        step = _step(where, line)
        if steps.setdefault(step.graded.step_id, step) is not step:
            raise LmmsEgoplanError(f"{where}: step {step.graded.step_id!r} is there twice; a file holds one run")
    if not steps:
        raise LmmsEgoplanError(f"{path}: no samples in it; remove it, or run again")
    return steps


def _step(where: str, line: str) -> LoggedStep:
    sample = parse_record(where, line, "was the run stopped while it wrote? Run again")
    record = sample.get("overall") if isinstance(sample, dict) else None
    if not isinstance(record, dict):
        raise LmmsEgoplanError(
            f"{where}: overall: expected an object, as the task {TASK} logs it, found {shown(record)}"
        )
    unverified = sample.get("unverified") == {"unverified": True}
    name, is_goalstep = logged_group(record, unverified)
    if not is_text(record.get(name)):
        raise LmmsEgoplanError(f"{where}: overall.{name}: expected a text, found {shown(record.get(name))}")
    fields = {name: record[name] for name in GradedStep.__dataclass_fields__ if name in record}
    try:
        graded = GradedStep.from_text(json.dumps(fields))
    except ValueError as error:
        raise LmmsEgoplanError(f"{where}: overall: {error}; give the logs of the task {TASK}, or run again") from error
    return LoggedStep(graded, record[name].strip(), unverified, is_goalstep)


def logged_group(record: Mapping[str, Any], unverified: bool) -> tuple[str, bool]:
    """Under which name a logged step has its scenario or category, and whether it is a Goal-Step step.

    Before version 1.2 of the task a category was logged as a scenario.

    Args:
        record: what a sample has under ``overall``.
    """
    if record.get("scenario") is None and record.get("category") is not None:
        return "category", True
    ids = record.get("step_id"), record.get("video_id")
    return "scenario", all(isinstance(text, str) for text in ids) and has_goalstep_id(*ids, unverified)
