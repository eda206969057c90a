"""The demo: a full evaluation on rendered sets, with a tiny random model and two scripted ones.

``data`` contains the sets, the scripted replies and the scripted judge's verdicts.
``perf/demo/render.py`` in the repository generates them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True)
class DemoSet:
    """A benchmark's small rendered set in the official layout. Its files are part of the package.

    Attributes:
        folder: folder of the files. It must not have the name of a task, or lmms-eval would look
            for the task there.
        prepare: arguments of ``lmms-egoplan data prepare``, with paths relative to the folder of
            `sets.copy_set`.
        tasks: lmms-eval tasks that the demo runs.
        scores: for each task, the metric that must be a number after the run.
    """

    folder: str
    prepare: tuple[str, ...]
    tasks: tuple[str, ...]
    scores: Mapping[str, str] = field(hash=False)
