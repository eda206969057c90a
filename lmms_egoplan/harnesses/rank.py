"""Rank the candidates of a harness's requests: questions load ahead, and paths that fail are remembered."""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.prefetch import num_bytes, prefetch
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.question import EncodedQuestion, PathError
from lmms_egoplan.ranking.scores import CandidateScore

Request = TypeVar("Request")


class Ranker(Protocol):
    """`CandidateRanker`, or `EngineRanker`."""

    def encode_ahead(self, messages: Sequence[Message], candidates: Sequence[str], question_id: str) -> Any:
        """Encode a question. Several threads may call it."""

    def scores(self, questions: Iterable[Any]) -> Generator[list[CandidateScore], None, None]:
        """Yield the candidates' scores of each encoded question, in order."""

    def exclude(self, paths: Sequence[str]) -> None:
        """Never take these paths, which are known to be inexact for this model."""


def rank(
    requests: Iterable[Request],
    ranker: Ranker,
    load: Callable[[Request], Question],
    *,
    question_of: Callable[[Request], Any],
    candidate_of: Callable[[Request], str],
    workers: int,
    ledger: PathLedger | None,
) -> Generator[tuple[Request, CandidateScore], None, None]:
    """Yield each request with the score of its candidate; consecutive requests of one question are ranked together.

    Args:
        load, candidate_of: Run in ``workers`` threads.
        question_of: Equal for requests about the same question.
        ledger: With a cache of responses: the paths that gave them.

    Raises:
        PathError: An audit failed.
    """
    groups = [list(group) for _, group in itertools.groupby(requests, key=question_of)]
    pending: deque[tuple[list[Request], list[str], str]] = deque()

    def encode(group: list[Request]) -> tuple[Any, list[str], str, int]:
        messages, question_id = load(group[0])
        candidates = [candidate_of(request) for request in group]
        question = ranker.encode_ahead(messages, list(dict.fromkeys(candidates)), question_id)
        return question, candidates, question_id, _size(question)

    def questions() -> Iterator[Any]:
        for group, (question, candidates, question_id, _) in encoded:
            pending.append((group, candidates, question_id))
            yield question

    encoded = prefetch(groups, encode, workers, size=itemgetter(3))
    scored = ranker.scores(questions())
    with closing(encoded), closing(scored), progress_bar(len(groups), "Ranking", "question") as bar:
        try:
            for scores in scored:
                group, candidates, question_id = pending.popleft()
                if ledger is not None and (use := scores[0].use) is not None:
                    ledger.note(use, question_id)
                by_text = dict(zip(dict.fromkeys(candidates), scores, strict=True))
                bar.update()
                for request, candidate in zip(group, candidates, strict=True):
                    yield request, by_text[candidate]
        except PathError as error:
            if ledger is not None:
                ledger.fail(error.paths)
            raise


def _size(question: Any) -> int:
    """Return the memory of a question; an engine still makes numbers of its media."""
    return num_bytes(question.inputs) if isinstance(question, EncodedQuestion) else 2 * num_bytes(question.media)
