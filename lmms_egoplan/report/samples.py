"""Read and write files of answers.

These are samples of the harnesses, judged answers, and folders of labels.
"""

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol, TypeVar
from zoneinfo import ZoneInfo

from loguru import logger
from pydantic import Field

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import decode, member, parse_record, read_json, read_lines
from lmms_egoplan.outputs import results_of
from lmms_egoplan.report.identity import identity_of
from lmms_egoplan.report.run import logged_version
from lmms_egoplan.secret_values import without_secrets
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import AnyText, Checked, read_as

_LMMS_EVAL = re.compile(r"(?P<time>.+?)_samples_(?P<task>.+)\.jsonl")
_LM_EVAL = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_RESULTS_TIME = re.compile(r"(?:(?P<first>.+)_results|.+_(?P<last>\d{4}-\d\d-\d\dT[\d.-]+))\.json")
_LMMS_EVAL_TIME = "%Y%m%d_%H%M%S"
_LM_EVAL_TIMES = ("%Y-%m-%dT%H-%M-%S.%f", "%Y-%m-%dT%H-%M-%S")
# lmms-eval's default --timezone is Asia/Singapore.
_LMMS_EVAL_ZONE = timezone(timedelta(hours=8))
_CONFIG = ("metadata", "filter_list", "generation_kwargs")
HOW_TO_LOG = "lmms-eval and lm-eval write them with --log_samples --output_path DIR"
# The file in a folder of labels that names the benchmark.
MARK = "annotation.json"


class LabelledItem(Protocol):
    """A line of a file of labels.

    model: the model whose item was labelled.
    """

    id: str
    model: str

    @property
    def key(self) -> Hashable:
        """Values that identify the item among those of all folders."""


Label = TypeVar("Label", bound=LabelledItem)


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file with the samples of one task in one run.

    time: time of the run, as the harness writes it.
    results: the run's results file, which may not exist.
    """

    path: Path
    task: str
    time: str
    results: Path


def is_sample(where: str, record: Any, main_metric: str) -> bool:
    """Return true for a line that a harness logged for a question of one of this project's tasks.

    Args:
        where: File and line, for messages.
        record: The line's content.
        main_metric: Main metric of the tasks.

    Raises:
        LmmsEgoplanError: An earlier version of the task wrote the line.
    """
    if not isinstance(member(record, main_metric), dict):
        return False
    if not isinstance(member(record, DETAILS), dict):
        raise LmmsEgoplanError(
            f"{where}: no details: an earlier version of the task wrote this file; run it again"
        )
    return True


def sample_file(path: Path) -> SampleFile | None:
    """Parse the name of a sample file; None for other names."""
    match = _LM_EVAL.fullmatch(path.name)
    if match:
        ending = f"_{match['time']}.json"  # after "results", or the name from --output_path
        named = sorted(path.parent.glob(f"*{ending}"))
        return SampleFile(
            path,
            match["task"],
            match["time"],
            named[0] if named else path.with_name(f"results{ending}"),
        )
    match = _LMMS_EVAL.fullmatch(path.name)
    if match:
        return SampleFile(
            path, match["task"], match["time"], path.with_name(f"{match['time']}_results.json")
        )
    return None


class Origin(Checked):
    """The run that judged answers belong to, as its results file describes it.

    Judged answers store it as ``run``.

    Attributes:
        identity: See `identity.identity_of`; empty in files of earlier versions.
    """

    model: AnyText
    harness: AnyText
    time: AnyText
    task: AnyText
    version: AnyText | None = None
    config: dict[str, Any]
    identity: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class JudgedSample:
    """A judged answer, scored like a harness's task.

    Attributes:
        task: name of the task.
        config: the known part of the task's config.
        values: the sample, as a harness logs it.
    """

    task: str
    config: Mapping[str, Any]
    values: dict[str, Any]


def origin_of(path: Path) -> Origin | None:
    """Return the run of a sample file; None without readable results next to it."""
    file = sample_file(path)
    if file is None:
        return None
    try:
        results = decode(file.results.read_bytes())
        config = results.get("configs", {}).get(file.task, {})
        return Origin(
            model=model_name(file.results, results),
            harness="lmms-eval" if "lmms_eval_version" in results else "lm-eval",
            time=start_time(file.results, results),
            task=file.task,
            version=logged_version(results, file.task),
            config={name: config[name] for name in _CONFIG if name in config},
            identity=identity_of(results),
        )
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def find_sample_files(folder: Path, prefix: str) -> list[SampleFile]:
    """Find the sample files below a folder for tasks with a prefix, sorted by path."""
    named = (sample_file(path) for path in sorted(folder.rglob(f"*samples_{prefix}*.jsonl")))
    return [file for file in named if file is not None and file.task.startswith(prefix)]


def stored_lines(path: Path, prefix: str) -> list[tuple[str, str, Origin | None]]:
    """Return location, text and run of each line of a file of answers.

    For a folder, read all sample files below it.

    Samples of tasks under a shortcut condition are skipped with a warning: their scores are not the
    benchmark's.

    Args:
        path: the file or folder.
        prefix: prefix of the names of tasks whose samples are read; see `find_sample_files`.

    Raises:
        LmmsEgoplanError: there are no lines, or a file cannot be read.
    """
    files = [file.path for file in find_sample_files(path, prefix)] if path.is_dir() else [path]
    runs = {file: origin_of(file) for file in files}
    shortcuts = {
        file for file, run in runs.items() if run and member(run.config, "metadata", "shortcut")
    }
    if shortcuts:
        how = "to judge them, set a judge and repeat the run with --use_cache"
        logger.warning(
            f"{path}: skipped {len(shortcuts)} files of shortcut tasks, such as "
            f"{min(shortcuts).name}; {how}"
        )
    lines = [
        (where, line, runs[file])
        for file in files
        if file not in shortcuts
        for where, line in read_lines(file)
    ]
    if not lines:
        problem = "no answers in this file"
        if path.is_dir():
            problem = f"no samples of {prefix}* in this folder"
            others = [str(file) for file in sorted(path.glob("*.jsonl"))]
            if others and not files:
                raise LmmsEgoplanError(f"{path}: {problem}; pass files: {join_list(others, 3)}")
        raise LmmsEgoplanError(f"{path}: {problem}; {HOW_TO_LOG}")
    return lines


def write_lines(
    path: Path, records: Iterable[dict[str, Any]], runs: Iterable[Origin | None]
) -> None:
    """Write judged answers as JSON lines, each with its run if it is known."""
    padded = chain(runs, repeat(None))
    lines = (
        record | ({"run": run.model_dump()} if run else {})
        for record, run in zip(records, padded, strict=False)
    )
    write_whole(path, "".join(f"{json.dumps(line)}\n" for line in lines))


def start_time(path: Path, results: Mapping[str, Any]) -> str:
    """Return the start of a run, as ``2026-01-31 12:00:00 UTC``.

    Both harnesses write the start to the results: lm-eval in seconds since 1970, lmms-eval in the
    zone of its ``--timezone``. lmms-eval's file names contain the start, too. lm-eval's contain the
    end, in the machine's zone.

    Args:
        path: path of the results file, which may not exist.
        results: content of the results file.

    Returns:
        The start in UTC, or as ``2026-01-31 12:00:00 (time zone unknown)``. A text that is not a
        time is returned as it is: the date in the results, or the part of the file name that should
        be a time.
    """
    started = results.get("date")
    if isinstance(started, int | float) and not isinstance(started, bool):
        try:
            return _utc(datetime.fromtimestamp(started, timezone.utc))
        except (OverflowError, OSError, ValueError):
            pass
    match = _RESULTS_TIME.fullmatch(path.name)
    named = (match["first"] or match["last"]) if match else path.stem
    text = started if isinstance(started, str) and started.strip() else named
    for pattern in (_LMMS_EVAL_TIME, *_LM_EVAL_TIMES):
        try:
            time = datetime.strptime(text, pattern)
            zone = _lmms_eval_zone(results) if pattern == _LMMS_EVAL_TIME else None
            return (
                _utc(time.replace(tzinfo=zone))
                if zone
                else f"{time:%Y-%m-%d %H:%M:%S} (time zone unknown)"
            )
        except (OverflowError, ValueError):
            continue
    return text


def model_name(path: Path, content: Mapping[str, Any]) -> str:
    """Return the name of a run's model, without secrets.

    It comes from the path and content of its results file.
    """
    names = (content.get("model_name"), member(content, "config", "model"), path.parent.name)
    texts = (
        name.strip().rstrip("/") for name in names if isinstance(name, str) and name.strip(" /")
    )
    return without_secrets(next(texts, "model"))


def _lmms_eval_zone(results: Mapping[str, Any]) -> tzinfo | None:
    """Return the run's time zone; None if its name is unknown."""
    name = member(results, "config", "resolved_cli_args", "timezone")
    try:
        return ZoneInfo(name) if isinstance(name, str) else _LMMS_EVAL_ZONE
    except (KeyError, OSError, ValueError):
        return None


def _utc(time: datetime) -> str:
    return f"{time.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of a folder's mark.

    files: names of the export's files; None if unknown.
    is_finished: false while an export is being written.
    """

    benchmark: str
    files: tuple[str, ...] | None
    is_finished: bool


def read_mark(folder: Path) -> Mark | None:
    """Read a folder's mark; None if it has none.

    Raises:
        LmmsEgoplanError: the mark cannot be read.
    """
    path = folder / MARK
    if not path.is_file():
        return None
    mark = read_json(path)
    if not isinstance(mark, dict) or not isinstance(mark.get("benchmark"), str):
        raise LmmsEgoplanError(
            f"{path}: expected an object with benchmark; export the labels again"
        )
    files = mark.get("files")
    if files is not None and not (isinstance(files, list) and all(map(_is_name, files))):
        raise LmmsEgoplanError(
            f"{path}: files: expected names of files; export the labels again into another folder"
        )
    return Mark(
        mark["benchmark"],
        None if files is None else tuple(files),
        mark.get("finished", True) is True,
    )


def write_folder(out: Path, benchmark: str, texts: Mapping[str, str]) -> None:
    """Write a folder of labels for reports, and replace the files of an earlier export.

    If the process is killed, the mark records that the export is not finished.

    Raises:
        LmmsEgoplanError: the folder has another benchmark's labels, or a file that no export wrote.
        OSError: the folder is not writable.
    """
    mark = read_mark(out)
    if mark is not None and mark.benchmark != benchmark:
        raise LmmsEgoplanError(
            f"--out {out}: contains labels of {mark.benchmark}, not {benchmark}; use a new folder"
        )
    earlier = (mark and mark.files) or ()
    content = {"benchmark": benchmark, "files": sorted({*texts, *earlier}), "finished": False}
    with results_of(out, MARK, json.dumps(content) + "\n") as folder:
        for name, text in texts.items():
            write_whole(folder / name, text)
        content |= {"files": sorted(texts), "finished": True}
        write_whole(folder / MARK, json.dumps(content) + "\n")


def labelled_folders(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the folders of labels among the paths, with their benchmarks.

    Raises:
        LmmsEgoplanError: a folder's mark cannot be read, or its export was not finished.
    """
    benchmarks = {}
    for path in paths:
        mark = read_mark(path)
        if mark is not None:
            if not mark.is_finished:
                raise LmmsEgoplanError(
                    f"{path}: the export was not finished; export the labels again"
                )
            benchmarks[path] = mark.benchmark
    return benchmarks


def read_labels(folders: Sequence[Path], name: str, label_type: type[Label]) -> list[Label]:
    """Read the labelled items of all folders that have a file of this name.

    Args:
        folders: folders of `labelled_folders`.
        name: name of the file, with one item per line.
        label_type: type of an item.

    Raises:
        LmmsEgoplanError: a file cannot be read or is malformed, or two folders have the same item,
            which would count twice. The message names the line.
    """
    items: list[Label] = []
    folder_of: dict[Hashable, Path] = {}
    for path in (folder / name for folder in folders if (folder / name).is_file()):
        for where, line in read_lines(path):
            item = read_as(label_type, where, parse_record(where, line))
            first = folder_of.setdefault(item.key, path.parent)
            if first != path.parent:
                raise LmmsEgoplanError(
                    f"{where}: duplicate label: {item.id} of {item.model} is labelled in {first}, "
                    "too. Pass only one of the two folders."
                )
            items.append(item)
    return items


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name not in ("", ".", "..") and Path(name).name == name
