"""Read runs of lmms-eval and lm-eval, and files of judged answers.

Runs are written by ``--output_path DIR --log_samples``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import Benchmark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, member
from lmms_egoplan.model_names import short_name
from lmms_egoplan.outputs import MARKER
from lmms_egoplan.report.identity import identity_of
from lmms_egoplan.report.joining import join_runs
from lmms_egoplan.report.judged import holds_lines, is_judged, read_judged
from lmms_egoplan.report.logged_samples import UnusableSamplesError, read_samples
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.run import (
    Run,
    TaskRun,
    age,
    logged_version,
    provenance_of,
    scoring_of,
    scorings,
)
from lmms_egoplan.report.run_names import chosen_names, names_of
from lmms_egoplan.report.samples import (
    HOW_TO_LOG,
    SampleFile,
    model_name,
    sample_file,
    start_time,
)
from lmms_egoplan.storage import DataMissingError
from lmms_egoplan.task_files import base_task, package_versions
from lmms_egoplan.text import counted, join_list
from lmms_egoplan.validation import listing

_STDERR = re.compile(r".+_stderr(_\w+)?")
# Files that lmms-eval writes to the folder of --use_cache. Other caches have no .json or .jsonl
# files.
_CACHE = re.compile(r"(cache|rank_\d+)\.audit\.jsonl")
_MOST_NAMES = 3
_MOST_LINES = 10
_NO_RESULTS = "no results of a run in this folder"
_WHAT_TO_PASS = "pass the folder of a run, or its results file"
_NO_SAMPLES = "not a harness's samples; pass files of judged answers by their own path"


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs at or below some paths.

    runs: runs in the order of the paths; below a folder, sorted by path.
    skipped: skipped or missing files with the reason, one line each. A line begins with the path.
    without: paths without a run.
    """

    runs: tuple[Run, ...]
    skipped: tuple[str, ...]
    without: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _JoinedRuns:
    """The runs of each model, joined.

    runs: runs by one of their results files.
    named: chosen names by results file.
    without: see `Runs`.
    """

    runs: dict[Path, Run]
    named: Mapping[Path, str]
    without: tuple[Path, ...]

    def with_unique_names(self, runs: Mapping[Path, Run], skipped: Iterable[str]) -> Runs:
        """Name the runs, which may have samples by now."""
        names = names_of(runs, self.named)
        for path, run in runs.items():
            subsets = dict.fromkeys(
                task_run.subset for task_run in run.tasks.values() if task_run.subset
            )
            names[path] += f" ({', '.join(subsets)})" if subsets else ""
        uniquely_named = tuple(replace(run, name=names[path]) for path, run in runs.items())
        return Runs(uniquely_named, tuple(dict.fromkeys(skipped)), self.without)


@dataclass(frozen=True)
class _RunFiles:
    """The runs at or below some paths, without samples.

    runs: runs by results file, or by file of judged answers.
    skipped: lines for `Runs.skipped` about files at these paths.
    orphans: lines for `Runs.skipped` about samples without results.
    remarks: lines for `Runs.skipped` about a run, used only if samples are read.
    paths: for each path that was passed, the paths of its runs.
    """

    runs: dict[Path, Run] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    remarks: dict[Path, list[str]] = field(default_factory=dict)
    paths: dict[Path, list[Path]] = field(default_factory=dict)

    def joined(
        self,
        runs: Mapping[Path, Run],
        skipped: Iterable[str],
        chosen: Mapping[Path, str],
        problem: str,
    ) -> _JoinedRuns:
        """Join the results files of one model.

        Args:
            runs: the runs to join, by results file.
            skipped: lines for the message if there are no runs.
            chosen: see `read_runs`.
            problem: what is missing if there are no runs.

        Raises:
            LmmsEgoplanError: there are no runs, or two runs with one chosen name contradict.
        """
        if not runs:
            lines = tuple(dict.fromkeys((*skipped, *self.orphans)))
            for folder in self.paths:
                _check_for_judged_answers(folder)
            lines = tuple(line for line in lines if not line.endswith(_NO_RESULTS))
            reasons = f"\n{listing(lines, _MOST_LINES)}" if lines else ""
            raise LmmsEgoplanError(f"{', '.join(map(str, self.paths))}: {problem}{reasons}")
        named = chosen_names(runs, chosen)
        without = tuple(
            path for path, run_paths in self.paths.items() if runs.keys().isdisjoint(run_paths)
        )
        self._check_models(runs, named)
        return _JoinedRuns(join_runs(runs, named), named, without)

    def _check_models(self, runs: Mapping[Path, Run], named: Mapping[Path, str]) -> None:
        """Check that one folder does not give one name to models of several names.

        Raises:
            LmmsEgoplanError: it does, and their weights are not recorded.
        """
        for folder, paths in self.paths.items():
            by_name: dict[str, set[str]] = {}
            for path in paths:
                if path in named and path in runs and not runs[path].checkpoint:
                    by_name.setdefault(named[path], set()).add(runs[path].name)
            for name, models in by_name.items():
                if len(models) > 1:
                    raise LmmsEgoplanError(
                        f"--name {name}: {folder} has runs of {join_list(sorted(models))}, whose "
                        "weights are not recorded; name the folder of each"
                    )


def read_runs(
    folders: Sequence[Path],
    names: Mapping[Path, str] = MappingProxyType({}),
    benchmarks: Iterable[Benchmark] = (),
) -> Runs:
    """Read all runs of this project's tasks at or below some paths, with their samples.

    The results files of one model are one run (`joining.join_runs`).

    Args:
        folders: results files, recognised by their content; folders with results files at any
            depth; files of judged answers (`read_judged`). The paths of `names` are read, too.
        names: names for the runs at or below a path. The deepest path counts. Default: the last
            part of the model's name, or the last two for checkpoints. Harness, time and folder are
            added to equal names as needed.
        benchmarks: benchmarks whose judged answers are read.

    Raises:
        LmmsEgoplanError: a path does not exist, a path with a name has no run, two runs with one
            name contradict, or there is no run at all.
    """
    files = _find(_all_paths(folders, names), benchmarks)
    of_project = {path: run for path, run in files.runs.items() if run.tasks}
    skipped = [*files.skipped]
    for path in files.runs:
        skipped += files.remarks.get(path, ())
    problem = f"no run of the project's tasks; {HOW_TO_LOG}"
    joined = files.joined(of_project, skipped, names, problem)
    runs: dict[Path, Run] = {}
    for path, run in joined.runs.items():
        runs[path], unusable = with_samples(run)
        skipped += unusable
    return joined.with_unique_names(runs, [*skipped, *files.orphans])


def read_run(
    paths: Sequence[Path],
    name: str,
    benchmarks: Iterable[Benchmark],
    names: Mapping[Path, str] = MappingProxyType({}),
) -> tuple[Run, tuple[str, ...]]:
    """Read the single run at or below some paths. Return it with the lines of `Runs.skipped`.

    Args:
        paths: see `read_runs`.
        name: name for the run.
        benchmarks: see `read_runs`.
        names: see `read_runs`.

    Raises:
        LmmsEgoplanError: there is no run or several, or the samples contradict the harness's own
            scores.
    """
    read = read_runs(paths, names, benchmarks)
    if len(read.runs) > 1:
        descriptions = [f"{run.folder} ({run.model}, {run.time})" for run in read.runs]
        runs = join_list(descriptions, _MOST_NAMES)
        raise LmmsEgoplanError(
            f"{', '.join(map(str, paths))}: expected one run; pass the folder or the results file "
            f"of one of {runs}"
        )
    (run,) = read.runs
    for task_run in run.tasks.values():
        check(run, task_run)
    return replace(run, name=name), read.skipped


def read_scores(
    folders: Sequence[Path],
    benchmarks: Iterable[Benchmark] = (),
    names: Mapping[Path, str] = MappingProxyType({}),
) -> Runs:
    """Read runs of any tasks as `read_runs` does, but without samples. `with_samples` adds them.

    Raises:
        LmmsEgoplanError: a path does not exist, two runs with one name contradict, or there are no
            results at all.
    """
    files = _find(_all_paths(folders, names), benchmarks)
    with_metrics = {path: run for path, run in files.runs.items() if _has_metrics(run)}
    joined = files.joined(with_metrics, files.skipped, names, "no results of a run")
    return joined.with_unique_names(joined.runs, [*files.skipped, *files.orphans])


def _all_paths(folders: Sequence[Path], names: Mapping[Path, str]) -> list[Path]:
    """Return the paths to read: the given ones, and those that only have a name."""
    paths = [*folders]
    given = {folder.resolve() for folder in folders}
    for path in names:
        if given.isdisjoint((path.resolve(), *path.resolve().parents)):
            paths.append(path)
    return paths


def _check_for_judged_answers(folder: Path) -> None:
    """Raise `LmmsEgoplanError` if a folder has files of judged answers; it names them."""
    files = sorted(folder.glob("*.jsonl"))
    judged = [path for path in files if is_judged(path)]
    if len(judged) > _MOST_NAMES and len(judged) == len(files):
        paths = f"{folder}/*.jsonl"
    else:
        paths = " ".join(map(str, judged))
    if judged:
        raise LmmsEgoplanError(
            f"{folder}: no runs in this folder, but {counted(len(judged), 'files')} of judged "
            f"answers; pass {'it' if len(judged) == 1 else 'them'}: {paths}"
        )


def _has_metrics(run: Run) -> bool:
    tasks = (*run.tasks.values(), *run.other_tasks.values())
    return any(task.metrics for task in tasks)


def with_samples(run: Run) -> tuple[Run, list[str]]:
    """Read a run's samples.

    Return the run with samples, and one line for each file that cannot be used.
    """
    tasks: dict[str, TaskRun] = {}
    unusable: list[str] = []
    for name, task_run in run.tasks.items():
        tasks[name] = task_run
        if name in run.files and task_run.scoring:
            try:
                samples = tuple(read_samples(run.files[name], [*task_run.scoring.metrics]))
                tasks[name] = replace(task_run, samples=samples)
            except UnusableSamplesError as error:
                unusable.append(str(error))
    return replace(run, tasks=tasks), unusable


def _find(folders: Sequence[Path], benchmarks: Iterable[Benchmark]) -> _RunFiles:
    run_files = _RunFiles()
    results: dict[Path, dict[str, Any]] = {}
    logs: dict[Path, SampleFile] = {}
    judged: dict[Path, Run] = {}
    for folder in folders:
        if not folder.exists():
            near = get_close_matches(folder.name, _names_in(folder.parent), n=1)
            hint = f"did you mean {folder.with_name(near[0])}?" if near else _WHAT_TO_PASS
            raise LmmsEgoplanError(f"{folder}: no such file or folder; {hint}")
        if holds_lines(folder):
            run_files.paths[folder] = [_resolved(folder)]
            try:
                judged[_resolved(folder)] = read_judged(folder, benchmarks)
            except DataMissingError as error:
                run_files.skipped.append(
                    f"{folder}: skipped; judged answers need the prepared data: {error}"
                )
            continue
        contents = _results(folder, run_files.skipped)
        results |= contents
        run_files.paths[folder] = list(contents)
        logs |= _sample_files(folder, contents, run_files.skipped)
    for path, content in results.items():
        files_of_run = {file.task: file.path for file in logs.values() if _belongs(file, path)}
        run_files.runs[path] = _run(path, content, files_of_run)
        run_files.skipped.extend(_earlier_tasks(path, run_files.runs[path]))
        run_files.remarks[path] = _remarks(path, content, run_files.runs[path])
    run_files.runs.update(judged)
    orphans = [file for file in logs.values() if not _belongs_to_any(file, results)]
    run_files.orphans.extend(_without_results(orphans))
    return run_files


def _names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def _sample_files(
    path: Path, results: Iterable[Path], skipped: list[str]
) -> dict[Path, SampleFile]:
    """Find the files with samples below a folder, or those of a results file next to it."""
    is_folder = path.is_dir()
    files: dict[Path, SampleFile] = {}
    foreign = []
    for lines_file in sorted(path.rglob("*.jsonl") if is_folder else path.parent.glob("*.jsonl")):
        if _CACHE.fullmatch(lines_file.name) or lines_file.name == MARKER:
            continue
        file = sample_file(_resolved(lines_file))
        if file is not None:
            if is_folder or _belongs_to_any(file, results):
                files[file.path] = file
        elif lines_file.is_file():
            foreign.append(f"{lines_file}: {_NO_SAMPLES}")
    if is_folder:
        skipped.extend(_first(foreign, path, "JSONL files that are not a harness's samples"))
    return files


def _belongs_to_any(file: SampleFile, results: Iterable[Path]) -> bool:
    return any(_belongs(file, path) for path in results)


def _results(folder: Path, skipped: list[str]) -> dict[Path, dict[str, Any]]:
    """Read the results files at or below a path."""
    results: dict[Path, dict[str, Any]] = {}
    foreign: list[str] = []
    for path in sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]:
        if not path.is_file():
            continue
        try:
            content = decode(path.read_bytes())
        except OSError as error:
            skipped.append(f"{path}: cannot be read: {error.strerror}")
        except ValueError as error:
            skipped.append(
                f"{path}: invalid JSON: {error}; if the run was interrupted, run it again"
            )
        else:
            parts = (
                [content.get(name) for name in ("results", "configs")]
                if isinstance(content, dict)
                else [None]
            )
            if all(isinstance(part, dict) for part in parts):
                results[_resolved(path)] = content
            elif member(content, "package", "name") != "lmms-egoplan":
                # Ignore the report.json of a report.
                foreign.append(f"{path}: not the results of a run")
    skipped += _first(foreign, folder, "JSON files that are not the results of a run")
    if folder.is_dir() and not results:
        skipped.append(f"{folder}: {_NO_RESULTS}")
    return results


def _first(lines: list[str], folder: Path, kind: str) -> list[str]:
    """Return the first `_MOST_LINES` lines.

    If there are more, add a line with the number of omitted ones.
    """
    summary = f"{folder}: {len(lines) - _MOST_LINES} more {kind}"
    return [*lines[:_MOST_LINES], summary] if len(lines) > _MOST_LINES else lines


def _resolved(path: Path) -> Path:
    """Resolve all symlinks except the last part of the path, whose name describes the file."""
    return path.parent.resolve() / path.name


def _belongs(file: SampleFile, results: Path) -> bool:
    """Return true if samples belong to a results file.

    In lm-eval, their names share only the time.
    """
    same_time = results.name == file.results.name or results.name.endswith(f"_{file.time}.json")
    return same_time and file.path.parent == results.parent


def _run(path: Path, content: dict[str, Any], files: dict[str, Path]) -> Run:
    """Return the run of a results file, without samples."""
    tasks: dict[str, TaskRun] = {}
    other_tasks: dict[str, TaskRun] = {}
    for task, entry in content["results"].items():
        config = content["configs"].get(task)
        if config is None:
            continue  # A group of tasks.
        details = member(content, DETAILS, task)
        if not isinstance(details, dict):
            details = {}
        metrics = {**details, **_metrics(entry)}
        scoring = scoring_of(task, config, metrics)
        version = logged_version(content, task)
        if scoring is not None and scoring.count in details:
            tasks[task] = TaskRun(task, metrics, config, None, version, scoring, details)
        else:
            other_tasks[task] = TaskRun(task, metrics, config, None, version, None)
    harness = "lmms-eval" if "lmms_eval_version" in content else "lm-eval"
    model = model_name(path, content)
    time = start_time(path, content)
    origin = provenance_of(content, model, harness, time, path.parent)
    run = Run(
        short_name(model), path.parent, harness, model, time, tasks, other_tasks, origin, files
    )
    record = content.get("record")
    return replace(
        run, record=record if isinstance(record, dict) else {}, identity=identity_of(content)
    )


def _remarks(path: Path, content: Mapping[str, Any], run: Run) -> list[str]:
    """Describe tasks and samples that a report does not show."""
    remarks = []
    unsupported = [task for task, other in run.other_tasks.items() if not _is_earlier(other)]
    if unsupported:
        remarks.append(
            f"{path}: skipped tasks that the report does not support: {', '.join(unsupported)}"
        )
    unknown = [
        task for task, task_run in run.other_tasks.items() if _looks_own(task, task_run.metrics)
    ]
    if unknown:
        names = ", ".join(unknown)
        remarks.append(
            f"{path}: to show {names}, add `benchmark: NAME` to the metadata of their "
            "YAML or their configs"
        )
    unknown = sorted(run.files.keys() - content["configs"].keys())
    if unknown:
        remarks.append(
            f"{path}: skipped the samples of {', '.join(unknown)}, which have no results "
            "in this file"
        )
    missing = [task for task in run.tasks if task not in run.files]
    if missing:
        remarks.append(
            f"{path}: no samples of {', '.join(missing)}, so the report has only their "
            f"scores; {HOW_TO_LOG}"
        )
    return remarks


def _earlier_tasks(path: Path, run: Run) -> list[str]:
    """Describe tasks whose version is too old: one line for tasks with the same versions."""
    tasks: dict[tuple[str | None, str | None], list[str]] = {}
    for task, task_run in run.other_tasks.items():
        if _is_earlier(task_run):
            tasks.setdefault((task_run.version, _package_version(task)), []).append(task)
    return [
        f"{path}: skipped {join_list(names, _MOST_NAMES)}: version {version}; this package reads "
        f"version {own_version} or newer. Run again"
        for (version, own_version), names in tasks.items()
    ]


def _is_earlier(task_run: TaskRun) -> bool:
    """Return true for a task of this package whose version is earlier than the package's."""
    own_version = _package_version(task_run.task)
    if own_version is None or task_run.version is None:
        return False
    return age(task_run.version) < age(own_version)


def _package_version(task: str) -> str | None:
    """Return the package's version of a task or of its variant; None for other tasks."""
    return package_versions().get(base_task(task) or "")


def _looks_own(task: str, metrics: Mapping[str, Any]) -> bool:
    """Return true if a task with an unknown name has most metrics of one of this project's tasks.

    The metric that counts questions must be among them.
    """
    likely = [scoring for scoring in scorings() if scoring.count in metrics]
    has_most = any(
        2 * len(scoring.metrics.keys() & metrics.keys()) > len(scoring.metrics)
        for scoring in likely
    )
    return has_most and base_task(task) is None


def _metrics(entry: Any) -> dict[str, Any]:
    """Return metrics by name, without the filter.

    ``acc,none`` is the metric ``acc`` after the filter ``none``.
    """
    named = entry.items() if isinstance(entry, dict) else ()
    bare = ((*name.partition(","), value) for name, value in named)
    return {
        metric: value for metric, comma, _, value in bare if comma and not _STDERR.fullmatch(metric)
    }


def _without_results(files: Iterable[SampleFile]) -> list[str]:
    tasks: dict[Path, list[str]] = {}
    for file in files:
        tasks.setdefault(file.results, []).append(file.task)
    return [
        f"{path}: {'cannot be used' if path.exists() else 'missing'}, so the samples of "
        f"{', '.join(task_names)} next to it are skipped; if the run was interrupted, run it again"
        for path, task_names in tasks.items()
    ]
