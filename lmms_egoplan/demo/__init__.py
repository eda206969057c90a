"""An evaluation from images to scores on a fresh machine, with a tiny model and rendered scenes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class RenderedSet(Protocol):
    """A benchmark's small rendered set: its module ``demo``.

    FOLDER: the folder of its files; not the name of a task, which lmms-eval would look for here.
    TASKS: those of lmms-eval that are run.
    SCORES: the metric that must be a number then, by task.
    """

    FOLDER: str
    TASKS: tuple[str, ...]
    SCORES: Mapping[str, str]

    def write(self, folder: Path) -> list[str]:
        """Write the set into ``folder/FOLDER``.

        Returns:
            The arguments of ``lmms-egoplan data prepare`` for the set, with paths relative to `folder`.
        """
