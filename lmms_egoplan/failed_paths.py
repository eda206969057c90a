"""Computation paths that failed an audit, kept beside a harness's cache of responses.

A response that came on such a path must not be served again, and the path must not be taken again. Each failure is an
empty file of its own, so that several processes can report at once and a killed one leaves no half of a file.
"""

import hashlib
from pathlib import Path

_FOLDER = "lmms_egoplan_failed_paths"


class FailedPaths:
    """The failures of one model.

    Args:
        cache: the folder of the harness's cache.
        identity: tells the model, its settings and the version of the ranking.
    """

    def __init__(self, cache: str | Path, identity: str) -> None:
        self._folder = Path(cache) / _FOLDER / hashlib.sha256(identity.encode()).hexdigest()[:32]

    def names(self) -> list[str]:
        """The paths that have failed, sorted."""
        return sorted(path.name for path in self._folder.glob("*"))

    def add(self, path: str) -> None:
        """Remember a failure.

        Raises:
            OSError: the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / path).touch()
