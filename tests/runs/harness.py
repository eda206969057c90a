"""Run lmms-eval as a user does, and read its output."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from judge_server import JudgeServer
from patience import FOREVER_S

LMMS_EVAL = [sys.executable, "-m", "lmms_eval"]
TWO_PROCESSES = [
    *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"),
    *("--master_port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "-m", "lmms_eval"),
]


class Run(NamedTuple):
    """Results per task as in the table, and the logged samples per task by document."""

    results: dict[str, dict[str, Any]]
    samples: dict[str, list[dict[str, Any]]]


# What sets a judge, or once did, and what sets another model that scores.
_JUDGE = (
    *("LMMS_EGOPLAN_JUDGE_", "OPENAI_", "AZURE_", "API_TYPE", "MODEL_VERSION"),
    *("LMMS_EGOPLAN_BLEURT", "LMMS_EGOPLAN_ENCODER"),
)


def start(
    data: Path, *arguments: str | Path, launcher: list[str] = LMMS_EVAL, judge: Mapping[str, str] | None = None
) -> subprocess.Popen:
    """The command on the prepared data below `data`; its words go to ``data/log.txt``.

    `judge` has the variables that set a judge; the caller's own do not count.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_JUDGE)}
    environment = inherited | {
        "LMMS_EGOPLAN_DATA": str(data),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        **(judge or {}),
    }
    environment.pop("LMMS_CACHE_RUN_ID", None)
    with (data / "log.txt").open("w") as log:
        return subprocess.Popen(
            [*launcher, *map(str, arguments)], env=environment, cwd=data.parent, stdout=log, stderr=subprocess.STDOUT
        )


def run(
    data: Path,
    output: Path,
    *arguments: str | Path,
    launcher: list[str] = LMMS_EVAL,
    judge: Mapping[str, str] | None = None,
) -> Run:
    """Run to the end and read what was written; fails with the command's words."""
    process = start(data, *arguments, "--output_path", output, "--log_samples", launcher=launcher, judge=judge)
    returncode = process.wait(FOREVER_S)
    # lmms-eval says 0 though it has failed.
    assert returncode == 0, log(data)
    assert any(output.rglob("*_results.json")), log(data)
    return read(output)


def hf_vlm(checkpoint: Path, tasks: str, *more: str | Path) -> list[str | Path]:
    """Arguments of a run in float32, in batches of 8."""
    arguments = f"pretrained={checkpoint},dtype=float32"
    return ["--tasks", tasks, "--model", "hf_vlm", "--model_args", arguments, "--batch_size", "8", *more]


def judge_at(server: JudgeServer, model: str, **more: str) -> dict[str, str]:
    """A judge of a name of its own, so that nothing comes from the cache of another test."""
    return {"LMMS_EGOPLAN_JUDGE_BASE_URL": server.url, "LMMS_EGOPLAN_JUDGE_MODEL": model, **more}


def log(data: Path) -> str:
    """The last words of the last command."""
    return (data / "log.txt").read_text(encoding="utf-8")[-8000:]


def read(output: Path) -> Run:
    (results,) = output.rglob("*_results.json")
    samples = {}
    for path in output.rglob("*_samples_*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        samples[path.stem.split("_samples_")[1]] = rows
    return Run(json.loads(results.read_text(encoding="utf-8"))["results"], samples)


def metric(results: dict[str, Any], name: str) -> float:
    return results[f"{name},none"]
