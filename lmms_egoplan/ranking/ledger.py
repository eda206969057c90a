"""Which computation paths gave the responses in a harness's cache, and which of them have failed.

A response that came on a failed path must not be served again, and the path must not be taken again. Each entry is an
empty file of its own beside the cache, so that several processes can write at once and a killed one leaves no half of a
file.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.question import PathError

_FOLDER = "lmms_egoplan_paths"


class PathLedger:
    """The paths of one model.

    Args:
        cache: the folder of the harness's cache.
        identity: tells the model, its settings and the version of the ranking.
    """

    def __init__(self, cache: str | Path, identity: str) -> None:
        self._folder = Path(cache) / _FOLDER / _digest(identity)
        self._noted: set[tuple[str, str]] = set()

    def failed(self) -> list[str]:
        """Return the paths that have failed, sorted."""
        return sorted(file.name.removeprefix("failed-") for file in self._folder.glob("failed-*"))

    def exclude_failed(self, identity: str, *exclude: Callable[[Sequence[str]], None]) -> str:
        """Exclude the paths that have failed; return the identity of responses without these paths."""
        failed = self.failed()
        for function in exclude:
            function(failed)
        return " without ".join([identity, *failed])

    def note(self, use: PathUse, question_id: str) -> None:
        """Remember how a question was ranked.

        Raises:
            PathError: one path was taken for questions of this kind, and is inexact for another, whichever process or
                earlier run did either first.
            OSError: the ledger cannot be written.
        """
        kind = _digest(use.kind)
        if (use.kind, use.path) in self._noted and not use.rejected:
            return
        # Written before it is read: of two processes at once, one sees the other's.
        self._write(f"used-{kind}-{use.path}", *(f"rejected-{kind}-{path}" for path in use.rejected))
        self._noted.add((use.kind, use.path))
        marks = sorted(file.name for file in self._folder.glob(f"rejected-{kind}-*"))
        rejected = [mark.removeprefix(f"rejected-{kind}-") for mark in marks]
        taken = [path for path in rejected if (self._folder / f"used-{kind}-{path}").exists()]
        inexact = [path for path in taken if path == use.path or path in use.rejected]
        if inexact:  # not so where they failed in an earlier run, and are taken no more
            self.fail(rejected)
            raise PathError(inexact, use.kind, "its mean losses differ from those of full passes", question_id)

    def fail(self, paths: Sequence[str]) -> None:
        """Remember that these paths are inexact, so that no later run takes them."""
        self._write(*(f"failed-{path}" for path in paths))

    def _write(self, *names: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self._folder / name).touch()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
