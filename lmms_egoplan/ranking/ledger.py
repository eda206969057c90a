"""Which computation paths gave the responses in a harness's cache, and which of them have failed.

A response that came on a failed path must not be served again, and the path must not be taken again. Each entry is an
empty file of its own beside the cache, so that several processes can write at once and a killed one leaves no half of a
file.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.question import EncodedQuestion, PathError
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
        """`CandidateRanker.score`, remembered; raises as `score_encoded`."""
        return self.score_encoded(ranker, ranker.encode(messages, candidates, question_id))

    def score_encoded(self, ranker: CandidateRanker, question: EncodedQuestion) -> list[CandidateScore]:
        """`CandidateRanker.score_encoded`, remembered.

        Raises:
            PathError: an audit failed; or one path was taken for questions of this kind, and found to be inexact for
                another, whichever process or earlier run did either first.
            OSError: the ledger cannot be written.
        """
        try:
            scores = ranker.score_encoded(question)
        except PathError as error:
            self.fail(error.paths)
            raise
        if (use := scores[0].use) is not None:
            self.note(use, question.question_id)
        return scores

    def note(self, use: PathUse, question_id: str) -> None:
        """A question was ranked on this path; raises `PathError` as `score_encoded`."""
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
        """These paths are inexact, and no later run is to take them."""
        self._write(*(f"failed-{path}" for path in paths))

    def _write(self, *names: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self._folder / name).touch()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
