"""What a report knows of a run: its tasks, their scores and their samples."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

CHECKPOINT = r"(?:checkpoint|ckpt|step|epoch|iter)[-_]?\d+"
"""What tells two checkpoints of a training run apart, in the name of a model or a folder, in any case."""


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    metrics: the harness's own values by the metric's name, without standard errors.
    config: the task's, as the harness logs it.
    samples: one for each question, as logged, but metrics under their present names, without prompts, raw responses,
        token counts and hashes; with the question itself, as ``doc``, in lm-eval alone. None where there are none that
        can be read.
    version: of the task, see `task_versions.logged_version`.
    """

    task: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    samples: tuple[dict[str, Any], ...] | None
    version: str | None = None

    def number(self, metric: str) -> int | float | None:
        """A metric's value; None for NaN, for what is no number and for what is not there."""
        value = self.metrics.get(metric)
        return value if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass(frozen=True)
class Run:
    """What one results file tells, and the samples beside it.

    name: different from those of the other runs read with it.
    folder: where the files are.
    model: as the harness names it.
    time: see `logged_samples.start_time`.
    tasks: those of this project by name; groups of tasks are left out. At least one, unless there are others.
    others: all other tasks with results, by name; see `runs.read_scores`.
    provenance: see `provenance.provenance_of`.
    """

    name: str
    folder: Path
    harness: Literal["lmms-eval", "lm-eval"]
    model: str
    time: str
    tasks: dict[str, TaskRun]
    others: dict[str, TaskRun] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Runs:
    """What was read.

    runs: in the order of the paths that were given; below a folder by path.
    skipped: what was left out or is missing, and why; a line each, which begins with the path.
    without: the paths that were given and have no run.
    """

    runs: tuple[Run, ...]
    skipped: tuple[str, ...]
    without: tuple[Path, ...] = ()
