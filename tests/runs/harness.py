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


EGOTHINK_ROWS = ("score", "judge_coverage", "truncated", "suspect", "coverage", "question_set")
"""Metrics of a dimension of EgoThink in the table that a harness prints."""


class Run(NamedTuple):
    """Results as in the table, logged samples by document, and details, each per task."""

    results: dict[str, dict[str, Any]]
    samples: dict[str, list[dict[str, Any]]]
    details: dict[str, dict[str, Any]]


# Beginnings of variables that set a judge or another scoring model, in this version or an earlier
# one.
_JUDGE = (
    *("LMMS_EGOPLAN_JUDGE_", "OPENAI_", "AZURE_", "API_TYPE", "MODEL_VERSION"),
    *("LMMS_EGOPLAN_BLEURT", "LMMS_EGOPLAN_ENCODER"),
)


def start(
    data: Path,
    *arguments: str | Path,
    launcher: list[str] = LMMS_EVAL,
    judge: Mapping[str, str] | None = None,
) -> subprocess.Popen:
    """Start lmms-eval, or another launcher, on the prepared data in `data`.

    Its output goes to ``data/log.txt``.

    `judge` contains the variables that set a judge. The caller's own variables are ignored.
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
            [*launcher, *map(str, arguments)],
            env=environment,
            cwd=data.parent,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def run(
    data: Path,
    output: Path,
    *arguments: str | Path,
    launcher: list[str] = LMMS_EVAL,
    judge: Mapping[str, str] | None = None,
) -> Run:
    """Run lmms-eval to the end, and return its results.

    After a failure, the assertion shows the log.
    """
    process = start(
        data, *arguments, "--output_path", output, "--log_samples", launcher=launcher, judge=judge
    )
    returncode = process.wait(FOREVER_S)
    # lmms-eval may exit with 0 after a failure, so the results are checked, too.
    assert returncode == 0, log(data)
    assert any(output.rglob("*_results.json")), log(data)
    return read(output)


def hf_vlm(checkpoint: Path, tasks: str, *arguments: str | Path) -> list[str | Path]:
    """Return the arguments of a run in float32, in batches of 8."""
    model = f"pretrained={checkpoint},dtype=float32"
    return [
        "--tasks",
        tasks,
        "--model",
        "hf_vlm",
        "--model_args",
        model,
        "--batch_size",
        "8",
        *arguments,
    ]


def judge_at(server: JudgeServer, model: str, **variables: str) -> dict[str, str]:
    """Return the variables of a judge.

    Use a unique model name: the cache must not answer from another test.
    """
    return {
        "LMMS_EGOPLAN_JUDGE_BASE_URL": server.url,
        "LMMS_EGOPLAN_JUDGE_MODEL": model,
        **variables,
    }


def log(data: Path) -> str:
    """Return the end of the last command's output."""
    return (data / "log.txt").read_text(encoding="utf-8")[-8000:]


def read(output: Path) -> Run:
    (results,) = output.rglob("*_results.json")
    samples = {}
    for path in output.rglob("*_samples_*.jsonl"):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        samples[path.stem.split("_samples_")[1]] = rows
    content = json.loads(results.read_text(encoding="utf-8"))
    return Run(content["results"], samples, content.get("details", {}))


def printed_metrics(output: str, task: str) -> list[str]:
    """Return the metrics of a task in the table that a harness prints."""
    metrics = []
    column = 0
    name = ""
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if "Metric" in cells:
            column = cells.index("Metric")
        elif len(cells) > column > 0:
            # lm-eval prints a task's name in its first row only.
            name = cells[1].lstrip("- ") or name
            if name == task:
                metrics.append(cells[column])
    return metrics


def metric(results: dict[str, Any], name: str) -> float:
    return results[f"{name},none"]


def reported(run: Run, task: str, name: str) -> Any:
    """Return a metric of a task, or an entry of its details."""
    details = run.details[task]
    return details[name] if name in details else metric(run.results[task], name)
