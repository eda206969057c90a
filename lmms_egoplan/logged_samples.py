"""The files in which the harnesses log a run's samples (``--log_samples --output_path DIR``)."""

import re
from dataclasses import dataclass
from pathlib import Path

_LMMS_EVAL = re.compile(r"(?P<time>.+?)_samples_(?P<task>.+)\.jsonl")
_LM_EVAL = re.compile(r"samples_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")

HOW_TO_LOG = "lmms-eval and lm-eval write them with --log_samples --output_path DIR"


@dataclass(frozen=True)
class SampleFile:
    """A file with the samples of one task in one run.

    time: of the run, as the harness writes it.
    results: the run's results, whether or not they are there.
    """

    path: Path
    task: str
    time: str
    results: Path


def sample_file(path: Path) -> SampleFile | None:
    """What a file's name tells; None if it is not named like a file of samples."""
    if match := _LM_EVAL.fullmatch(path.name):
        ending = f"_{match['time']}.json"  # behind "results", or the name that --output_path gives
        named = sorted(path.parent.glob(f"*{ending}"))
        return SampleFile(path, match["task"], match["time"], named[0] if named else path.with_name(f"results{ending}"))
    if match := _LMMS_EVAL.fullmatch(path.name):
        return SampleFile(path, match["task"], match["time"], path.with_name(f"{match['time']}_results.json"))
    return None


def find_sample_files(folder: Path, prefix: str) -> list[SampleFile]:
    """Files of samples below a folder, of tasks whose name begins so, sorted by path."""
    named = (sample_file(path) for path in sorted(folder.rglob(f"*samples_{prefix}*.jsonl")))
    return [file for file in named if file is not None and file.task.startswith(prefix)]
