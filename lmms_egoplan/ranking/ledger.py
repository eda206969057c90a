"""Which computation paths gave the responses in a harness's cache, and which of them have failed.

A response that came on a failed path must not be served again, and the path must not be taken again. Each entry is an
empty file of its own beside the cache, so that several processes can write at once and a killed one leaves no half of a
file.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from lmms_egoplan.loglikelihood import PathUse
from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.question import PathError
from lmms_egoplan.ranking.ranker import CandidateRanker
from lmms_egoplan.ranking.scores import CandidateScore

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
        """The paths that have failed, sorted."""
        return sorted(file.name.removeprefix("failed-") for file in self._folder.glob("failed-*"))

    def score(
        self, ranker: CandidateRanker, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> list[CandidateScore]:
        """`CandidateRanker.score`, remembered.

        Raises:
            PathError: an audit failed; or the question shows a path to be inexact on which another process, or an
                earlier run, has ranked questions of its kind.
            OSError: the ledger cannot be written.
        """
        try:
            scores = ranker.score(messages, candidates, question_id)
        except PathError as error:
            self._fail(error.paths)
            raise
        if (use := scores[0].use) is not None:
            self._note(use, question_id)
        return scores

    def _note(self, use: PathUse, question_id: str) -> None:
        used = [path for path in use.rejected if (self._folder / f"used-{_digest(use.kind)}-{path}").exists()]
        if used:
            self._fail(use.rejected)
            raise PathError(used, use.kind, "its mean losses differ from those of full passes", question_id)
        if (use.kind, use.path) not in self._noted:
            self._write(f"used-{_digest(use.kind)}-{use.path}")
            self._noted.add((use.kind, use.path))

    def _fail(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._write(f"failed-{path}")

    def _write(self, name: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).touch()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
