"""A run for a report: its tasks, their scores and their samples."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKPOINT = r"(?:checkpoint|ckpt|step|epoch|iter)[-_]?\d+"
"""The number of a checkpoint in the name of a model or a folder; ignore case."""

# At the end of a name or a folder's.
_CHECKPOINT = re.compile(rf"[-_/.]?{CHECKPOINT}(?=$|[/_-])", re.IGNORECASE)


@dataclass(frozen=True)
class Scoring:
    """How a task is scored: a file in ``tasks/shared``.

    name: the file's stem.
    metrics: in order, each with the dotted name of its aggregation; the last one counts questions, and every sample has
        a value for it.
    """

    name: str
    benchmark: str
    metrics: Mapping[str, str]

    @property
    def last(self) -> str:
        """The metric that counts questions."""
        return [*self.metrics][-1]


@dataclass(frozen=True)
class TaskRun:
    """One task of a run.

    metrics: the harness's own values by the metric's name, without standard errors.
    config: the task's, as the harness logs it.
    samples: one for each question, as logged, without raw responses, token counts and hashes; with the question itself,
        as ``doc``, only in lm-eval. None without readable samples.
    version: of the task, see `versions.logged_version`.
    scoring: None for tasks of other projects.
    """

    task: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    samples: tuple[dict[str, Any], ...] | None
    version: str | None = None
    scoring: Scoring | None = None

    def number(self, metric: str) -> int | float | None:
        """Return a metric's value; None for NaN, for other types and for missing ones."""
        value = self.metrics.get(metric)
        return value if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass(frozen=True)
class Run:
    """The content of a results file, and the samples next to it.

    name: unique among the runs that are read together.
    folder: of the files.
    harness: ``lmms-eval`` or ``lm-eval``, with a suffix for answers that were judged later.
    model: as the harness names it.
    time: see `samples.start_time`.
    tasks: this project's, by name, without groups. At least one, unless there are others.
    others: all other tasks with results, by name.
    provenance: see `provenance.provenance_of`.
    files: of samples, by task; see `runs.with_samples`.
    """

    name: str
    folder: Path
    harness: str
    model: str
    time: str
    tasks: dict[str, TaskRun]
    others: dict[str, TaskRun] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def base_model(self) -> str:
        """The model's name without the number of a checkpoint, and without parent folders.

        >>> names = "org/Model-7B", "out/Model-7B/checkpoint-200", "out/Model-7B_step400", "Model-7B/"
        >>> {Run("", Path(), "lm-eval", name, "", {}).base_model for name in names}
        {'Model-7B'}
        """
        return _CHECKPOINT.sub("", self.model.rstrip("/")).rstrip("/").rpartition("/")[2] or self.model


@dataclass(frozen=True)
class Runs:
    """The runs of some paths.

    runs: in the order of these paths; below a folder sorted by path.
    skipped: ignored or missing files, and why; a line each, which begins with the path.
    without: paths without a run.
    """

    runs: tuple[Run, ...]
    skipped: tuple[str, ...]
    without: tuple[Path, ...] = ()
