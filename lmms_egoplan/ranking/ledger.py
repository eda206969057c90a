"""Record which computation paths produced a harness's cached responses, and which failed.

A response from a failed path must not be served again, and the path must not be used again. Each
entry is a separate empty file next to the cache. This way several processes can write at the same
time, and an interrupted process leaves no partial file.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.question import PathError

_FOLDER = "lmms_egoplan_paths"


class PathLedger:
    """Record of one model's paths.

    Args:
        cache: Folder of the harness's cache.
        identity: Identifies the model, its settings and the version of the ranking.
    """

    def __init__(self, cache: str | Path, identity: str) -> None:
        self._folder = Path(cache) / _FOLDER / _digest(identity)
        self._noted: set[tuple[str, str]] = set()

    def failed(self) -> list[str]:
        """Return the paths that have failed, sorted."""
        return sorted(file.name.removeprefix("failed-") for file in self._folder.glob("failed-*"))

    def exclude_failed(self, identity: str, *exclude: Callable[[Sequence[str]], None]) -> str:
        """Exclude failed paths; return the identity of responses without these paths."""
        failed = self.failed()
        for function in exclude:
            function(failed)
        return " without ".join([identity, *failed])

    def note(self, use: PathUse, question_id: str) -> None:
        """Record how a question was ranked.

        Raises:
            PathError: A path was used for questions of this kind and is inexact for another, in any
                process or earlier run.
            OSError: The ledger cannot be written.
        """
        kind = _digest(use.kind)
        if (use.kind, use.path) in self._noted and not use.rejected:
            return
        # Write before reading: if two processes do this at the same time, at least one sees the
        # other's entry.
        self._write(
            f"used-{kind}-{use.path}", *(f"rejected-{kind}-{path}" for path in use.rejected)
        )
        self._noted.add((use.kind, use.path))
        marks = sorted(file.name for file in self._folder.glob(f"rejected-{kind}-*"))
        rejected = [mark.removeprefix(f"rejected-{kind}-") for mark in marks]
        used_paths = [path for path in rejected if (self._folder / f"used-{kind}-{path}").exists()]
        inexact = [path for path in used_paths if path == use.path or path in use.rejected]
        if inexact:
            self.fail(rejected)
            raise PathError(
                inexact, use.kind, "its mean losses differ from those of full passes", question_id
            )

    def fail(self, paths: Sequence[str]) -> None:
        """Record that these paths are inexact. Later runs will not use them."""
        self._write(*(f"failed-{path}" for path in paths))

    def _write(self, *names: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self._folder / name).touch()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
