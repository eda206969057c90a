"""Rank the candidates of a harness's requests: load questions in advance, and record failed paths."""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.prefetch import num_bytes, prefetch
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.ledger import PathLedger
from lmms_egoplan.ranking.question import EncodedQuestion, PathError
from lmms_egoplan.ranking.scores import CandidateScore

Request = TypeVar("Request")


class Ranker(Protocol):
    """A `CandidateRanker` or an `EngineRanker`."""

    def encode_ahead(self, messages: Sequence[Message], candidates: Sequence[str], question_id: str) -> Any:
        """Encode a question. Thread-safe."""

    def scores(self, questions: Iterable[Any]) -> Generator[list[CandidateScore], None, None]:
        """Yield the candidates' scores of each encoded question, in order."""

    def exclude(self, paths: Sequence[str]) -> None:
        """Never use these paths, which are known to be inexact for this model."""


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
    """Yield each request with the score of its candidate. Consecutive requests of one question are ranked together.

    Args:
        requests: The harness's requests.
        ranker: Scores the candidates.
        load: Loads the question of a request; runs in the workers.
        question_of: Returns a key that is equal for requests about the same question.
        candidate_of: Returns the candidate of a request; runs in the workers.
        workers: Number of threads.
        ledger: Record of the paths, if responses are cached.

    Raises:
        PathError: An audit failed.
    """
    groups = [list(group) for _, group in itertools.groupby(requests, key=question_of)]
    pending: deque[tuple[list[Request], list[str], str, list[int]]] = deque()

    def encode(group: list[Request]) -> tuple[Any, list[str], int]:
        messages, question_id = load(group[0])
        candidates = [candidate_of(request) for request in group]
        question = ranker.encode_ahead(messages, list(dict.fromkeys(candidates)), question_id)
        return question, candidates, _size(question)

    def questions() -> Iterator[Any]:
        for group, (question, candidates, _) in encoded:
            lengths = [question.prefix_length] if isinstance(question, EncodedQuestion) else question.lengths
            pending.append((group, candidates, question.question_id, lengths))
            yield question

    encoded = prefetch(groups, encode, workers, size=itemgetter(2))
    scored = ranker.scores(questions())
    with closing(encoded), closing(scored), progress_bar(len(groups), "Ranking", "question") as bar:
        try:
            for scores in scored:
                group, candidates, question_id, lengths = pending.popleft()
                record.note(group[0], tokens=lengths[0])
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
    """Return the memory of a question in bytes. For an engine, it is doubled: the media are not yet encoded."""
    return num_bytes(question.inputs) if isinstance(question, EncodedQuestion) else 2 * num_bytes(question.media)
