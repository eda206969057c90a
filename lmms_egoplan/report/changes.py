"""Pairs of runs of one model: changed settings, and questions won and lost."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from lmms_egoplan.report.document import Change, Difference
from lmms_egoplan.report.run import CHECKPOINT, Run
from lmms_egoplan.report.scored import Scored

Task = TypeVar("Task", bound=Scored)

# At the end of a name or a folder's.
_CHECKPOINT = re.compile(rf"[-_/.]?{CHECKPOINT}(?=$|[/_-])", re.IGNORECASE)
# They differ between any two runs.
_NO_SETTINGS = ("started", "seconds", "command", "folder")


def changes(
    tasks: Sequence[Task], difference: Callable[[Task, Task], Difference | None], gallery_name: Callable[[Task], str]
) -> Iterator[Change]:
    """Yield every two comparable runs of one model in one task, the earlier one first.

    Args:
        tasks: of one part of a report, so of one version of each task.
        difference: of the main score, first minus second.
        gallery_name: of a task's answers.
    """
    ordered = sorted(tasks, key=lambda task: task.run.time)
    for earlier, later in combinations(ordered, 2):
        is_pair = earlier.run is not later.run and model_of(earlier.run) == model_of(later.run)
        is_usable = not any(task.is_demo or task.inexact for task in (earlier, later))
        if is_pair and is_usable and earlier.conditions == later.conditions:
            won = difference(later, earlier)
            if won is not None:
                yield Change(
                    task=later.task,
                    difference=won,
                    earlier=(earlier.run.time, earlier.main.value),
                    later=(later.run.time, later.main.value),
                    changed=tuple(_changed(earlier.run.provenance, later.run.provenance)),
                    gallery=(gallery_name(earlier), gallery_name(later)),
                )


def model_of(run: Run) -> str:
    """Return the model's name without the number of a checkpoint, and without parent folders.

    >>> from pathlib import Path
    >>> names = "org/Model-7B", "out/Model-7B/checkpoint-200", "out/Model-7B_step400", "Model-7B/"
    >>> {model_of(Run("", Path(), "lm-eval", name, "", {})) for name in names}
    {'Model-7B'}
    """
    return _CHECKPOINT.sub("", run.model.rstrip("/")).rstrip("/").rpartition("/")[2] or run.model


def _changed(earlier: Mapping[str, str], later: Mapping[str, str]) -> Iterator[str]:
    for name in {**earlier, **later}:
        before, after = earlier.get(name, "none"), later.get(name, "none")
        if before != after and name not in _NO_SETTINGS:
            yield f"{name}: {before} → {after}"
