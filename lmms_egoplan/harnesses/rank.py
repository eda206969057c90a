"""Rank the candidates of a harness's requests.

Load questions in advance, and record failed paths.
"""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.prefetch import prefetch_conditions
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.audits import PathLedger
from lmms_egoplan.ranking.encoding import Message
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.question import EncodedQuestion, PathError
from lmms_egoplan.ranking.scores import CandidateScore

Request = TypeVar("Request")


Ranker = CandidateRanker | EngineRanker


@dataclass(frozen=True)
class RequestReader(Generic[Request]):
    """Read a harness's requests.

    Attributes:
        load: Loads the question of a request; runs in the workers.
        question_of: Returns a key that is equal for requests about the same question.
        shown_of: Returns the key of the question whose media a request shows.
        candidate_of: Returns the candidate of a request; runs in the workers.
        whole_of: Returns the requests about the question of a request, also those whose responses
            are cached.
    """

    load: Callable[[Request], Question]
    question_of: Callable[[Request], Any]
    shown_of: Callable[[Request], Any]
    candidate_of: Callable[[Request], str]
    whole_of: Callable[[Request], Sequence[Request]] = lambda request: (request,)


def rank(
    requests: Sequence[Request],
    ranker: Ranker,
    reader: RequestReader[Request],
    *,
    workers: int,
    ledger: PathLedger | None,
) -> Generator[tuple[int, CandidateScore], None, None]:
    """Yield the index of each request and the score of its candidate.

    The order is that of `group_by_media`.

    Consecutive requests of one question are ranked together, with its candidates whose responses
    are cached: a candidate's loss may depend on the others in half precision. Questions that show
    the same media, as in several conditions, share decoding and encoding. Of those that are equal,
    only the first one is ranked.

    Args:
        requests: The harness's requests.
        ranker: Scores the candidates.
        reader: Reads the requests.
        workers: Number of threads.
        ledger: Record of the paths, if responses are cached.

    Raises:
        PathError: An audit failed.
    """
    indices = range(len(requests))
    groups = [
        [*group]
        for _, group in itertools.groupby(
            indices, key=lambda index: reader.question_of(requests[index])
        )
    ]
    candidates: dict[int, str] = {}
    ranked: dict[int, list[str]] = {}
    pending: deque[tuple[list[list[int]], str, list[int]]] = deque()

    def load_group(group: list[int]) -> tuple[tuple[list[Message], list[str]], str]:
        messages, question_id = reader.load(requests[group[0]])
        candidates.update({index: reader.candidate_of(requests[index]) for index in group})
        whole = [reader.candidate_of(request) for request in reader.whole_of(requests[group[0]])]
        ranked[group[0]] = list(dict.fromkeys([*whole, *(candidates[index] for index in group)]))
        return (messages, ranked[group[0]]), question_id

    def questions() -> Iterator[Any]:
        for question, equal in encoded:
            lengths = (
                [question.prefix_length]
                if isinstance(question, EncodedQuestion)
                else question.lengths
            )
            pending.append((equal, question.question_id, lengths))
            yield question

    encoded = prefetch_conditions(
        groups,
        lambda group: reader.shown_of(requests[group[0]]),
        load_group,
        lambda content, question_id: ranker.encode_ahead(content[0], content[1], question_id),
        workers,
    )
    scored = ranker.scores(questions())
    with closing(encoded), closing(scored), progress_bar(len(groups), "Ranking", "question") as bar:
        try:
            for scores in scored:
                equal, question_id, lengths = pending.popleft()
                use = scores[0].use
                if ledger is not None and use is not None:
                    ledger.note(use, question_id)
                for group in equal:
                    record.note(requests[group[0]], tokens=lengths[0])
                    by_text = dict(zip(ranked.pop(group[0]), scores, strict=True))
                    bar.update()
                    for index in group:
                        yield index, by_text[candidates.pop(index)]
        except PathError as error:
            if ledger is not None:
                ledger.fail(error.paths)
            raise
