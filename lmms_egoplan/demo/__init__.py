"""An evaluation on a fresh machine: rendered sets, a tiny random model and two scripted ones, up to the report.

The sets, the scripted replies and the verdicts of the scripted judge are data, in ``data``; ``perf/demo/render.py`` of
the project makes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class DemoSet:
    """A benchmark's small rendered set: files of the package, in the official layout.

    folder: of its files; not the name of a task, which lmms-eval would look for there.
    prepare: arguments of ``lmms-egoplan data prepare``, with paths relative to the folder of `sets.copy_set`.
    tasks: of lmms-eval, which the demo runs.
    scores: the metric that must be a number then, by task.
    """

    folder: str
    prepare: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: Mapping[str, str] = field(hash=False)
