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
        return self._paths("failed-")

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
        is_noted = (use.kind, use.path) in self._noted
        if is_noted and not use.rejected:
            return
        kind = _digest(use.kind)
        used_prefix = f"used-{kind}-"
        rejected_prefix = f"rejected-{kind}-"
        # Write before reading: if two processes do this at the same time, at least one sees the
        # other's entry.
        self._write(used_prefix, [use.path])
        self._write(rejected_prefix, use.rejected)
        self._noted.add((use.kind, use.path))
        used = self._paths(used_prefix)
        rejected = self._paths(rejected_prefix)
        tried = (use.path, *use.rejected)
        inexact = [path for path in rejected if path in used and path in tried]
        if inexact:
            self.fail(rejected)
            raise PathError(
                inexact, use.kind, "its mean losses differ from those of full passes", question_id
            )

    def fail(self, paths: Sequence[str]) -> None:
        """Record that these paths are inexact. Later runs will not use them."""
        self._write("failed-", paths)

    def _write(self, prefix: str, paths: Sequence[str]) -> None:
        """Write an entry with this prefix for each path."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            (self._folder / f"{prefix}{path}").touch()

    def _paths(self, prefix: str) -> list[str]:
        """Return the paths that have an entry with this prefix, sorted."""
        return sorted(file.name.removeprefix(prefix) for file in self._folder.glob(f"{prefix}*"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
