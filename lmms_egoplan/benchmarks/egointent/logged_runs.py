"""EgoIntent's scores as lmms-eval logged them, one run per sample file."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.checking import shown

TASK = "egointent"
SAMPLES = f"*_samples_{TASK}.jsonl"


class LoggedRunError(ValueError):
    """Logs of runs cannot be read, or hold something else."""


@dataclass(frozen=True)
class LoggedStep:
    """One judged step.

    ratings: 0..100 for each of `FIELDS`, None where it is not judged.
    judges: models that gave the ratings.
    """

    scenario: str
    ratings: dict[str, float | None]
    judges: frozenset[str]


@dataclass(frozen=True)
class LoggedRun:
    """One run of the task.

    name: of the model; different from those of the other runs read with it.
    steps: by step_id; at least one.
    prompt, judge_prompt: versions of the prompts; None where the results do not tell.
    """

    name: str
    steps: dict[str, LoggedStep]
    prompt: str | None
    judge_prompt: str | None


def read_runs(folders: Iterable[Path]) -> list[LoggedRun]:
    """All runs of the task below some folders, in the folders' order.

    A run is named after its model, as lmms-eval's results beside the samples name it, without the folders before the
    model's own name; after its folder where they do not. What is the same for several runs gets the folders, the
    run's time and the file's path, as far as needed.

    Raises:
        LoggedRunError: a folder has no samples of the task, or a file cannot be read or holds something else (names
            line and field).
    """
    files: dict[Path, Path] = {}
    for folder in folders:
        found = sorted(folder.rglob(SAMPLES))
        if not found:
            raise LoggedRunError(
                f"{folder}: no {SAMPLES} below it; lmms-eval writes them with --tasks {TASK} --log_samples "
                "--output_path DIR"
            )
        files |= {file.resolve(): file for file in found}
    runs = [(file, _results(file), _steps(file)) for file in files.values()]
    names = _distinct([_names(file, results) for file, results, _ in runs])
    return [
        LoggedRun(name, steps, _version(results, "prompt"), _version(results, "judge_prompt"))
        for name, (_, results, steps) in zip(names, runs, strict=True)
    ]


def _distinct(choices: Sequence[Sequence[str]]) -> list[str]:
    """The first of each run's names, or a later one where another run has the same."""
    names = [choice[0] for choice in choices]
    for later in range(1, len(choices[0])):
        counts = Counter(names)
        names = [choice[later] if counts[name] > 1 else name for name, choice in zip(names, choices, strict=True)]
    return names


def _names(samples: Path, results: dict[str, Any]) -> tuple[str, ...]:
    config = results.get("config")
    backend = config.get("model") if isinstance(config, dict) else None
    found = (results.get("model_name"), backend, samples.resolve().parent.name)
    full = next((name.strip().rstrip("/") for name in found if isinstance(name, str) and name.strip(" /")), "")
    return full.rpartition("/")[2], full, f"{full} ({_time(samples)})", str(samples)


def _version(results: dict[str, Any], prompt: str) -> str | None:
    found: Any = results
    for key in ("configs", TASK, "metadata", prompt):
        found = found.get(key) if isinstance(found, dict) else None
    return None if found is None else str(found)


def _time(samples: Path) -> str:
    return samples.name.removesuffix(SAMPLES.removeprefix("*"))


def _results(samples: Path) -> dict[str, Any]:
    """The results that lmms-eval wrote with the samples; empty without."""
    path = samples.with_name(f"{_time(samples)}_results.json")
    if not path.exists():
        return {}
    try:
        results = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise LoggedRunError(f"{path}: no JSON: {error}; run again, or move it away") from error
    if not isinstance(results, dict):
        raise LoggedRunError(f"{path}: expected lmms-eval's results, an object; run again, or move it away")
    return results


def _steps(path: Path) -> dict[str, LoggedStep]:
    steps: dict[str, LoggedStep] = {}
    for number, line in enumerate(_text(path).split("\n"), 1):
        if line.strip():
            where = f"{path}, line {number}"
            step_id, step = _step(where, line)
            if step_id in steps:
                raise LoggedRunError(f"{where}: step {step_id!r} is there twice; a file holds one run")
            steps[step_id] = step
    if not steps:
        raise LoggedRunError(f"{path}: no samples in it; remove it, or run again")
    return steps


def _step(where: str, line: str) -> tuple[str, LoggedStep]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LoggedRunError(f"{where}: no JSON: {error}; was the run stopped while it wrote? Run again") from error
    record = record.get("overall") if isinstance(record, dict) else None
    if not isinstance(record, dict):
        raise LoggedRunError(f"{where}: overall: expected an object, as the task {TASK} logs it, found {shown(record)}")
    for field in ("step_id", "scenario"):
        if not isinstance(record.get(field), str) or not record[field].strip():
            raise LoggedRunError(f"{where}: overall.{field}: expected a text, found {shown(record.get(field))}")
    for field in ("ratings", "judges"):
        if not isinstance(record.get(field), dict):
            raise LoggedRunError(f"{where}: overall.{field}: expected an object, found {shown(record.get(field))}")
    ratings = {field: _rating(f"{where}: overall.ratings.{field}", record["ratings"], field) for field in FIELDS}
    judges = {record["judges"].get(field) for field, rating in ratings.items() if rating is not None} - {None}
    if not all(isinstance(judge, str) for judge in judges):
        raise LoggedRunError(f"{where}: overall.judges: expected names of models, found {shown(record['judges'])}")
    return record["step_id"], LoggedStep(record["scenario"].strip(), ratings, frozenset(judges))


def _rating(where: str, ratings: dict[str, Any], field: str) -> float | None:
    rating = ratings.get(field, "nothing")
    if rating is None:
        return None
    if isinstance(rating, bool) or not isinstance(rating, int | float) or not 0 <= rating <= 100:
        raise LoggedRunError(f"{where}: expected a number from 0 to 100 or null, found {shown(rating)}")
    return float(rating)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise LoggedRunError(f"{path}: cannot be read: {error}") from error
