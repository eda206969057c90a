"""What a benchmark brings to the demo."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class RenderedSet(Protocol):
    """A benchmark's small rendered set: its module ``demo``.

    FOLDER: the folder that it fills; no task's name, which lmms-eval would look for here, too.
    TASKS: of lmms-eval, that are run.
    SCORES: the metrics that must be numbers then, by task.
    """

    FOLDER: str
    TASKS: tuple[str, ...]
    SCORES: Mapping[str, str]

    def write(self, folder: Path) -> list[str]:
        """Write the set into ``folder/FOLDER``.

        Returns:
            What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
        """
