"""Order of requests to an engine, and choice of the method that ranks: bookkeeping that needs no engine."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from loguru import logger

from lmms_egoplan.ranking.engine.requests import (
    FORCED,
    PROMPT_LOGPROBS,
    EngineQuestion,
    EngineRequest,
    EngineResponse,
    NotForcedError,
    candidate_requests,
    check_room,
    fold,
)
from lmms_egoplan.ranking.kinds import is_audited
from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.question import PathError, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, differences, lead

AUTO = "auto"
METHODS = (AUTO, FORCED, PROMPT_LOGPROBS)

REMEDY = "Run again with --model_args ...,method=prompt_logprobs, where each candidate takes a prefill of its own"


@dataclass
class _Kind:
    """What is known of one kind of questions.

    method: the one that was chosen; None before that.
    is_settling: whether the question that it is chosen by is open.
    """

    method: str | None
    count: int = 0
    is_settling: bool = False


@dataclass
class _Open:
    """A question between its first request and its last response.

    methods: those that it is ranked by; with two, the first is compared with the second.
    """

    question: EngineQuestion
    methods: list[str]
    scores: dict[str, dict[int, CandidateScore]] = field(default_factory=dict)

    def is_complete(self) -> bool:
        """Return whether all candidates have a score by each method."""
        return all(len(self.scores.get(name, ())) == len(self.question.candidates) for name in self.methods)


class Schedule:
    """Plans the requests of questions, and chooses the method that ranks them.

    Forced tokens share the context of a question between its candidates, and the engine's own log-probabilities of a
    prompt do not. With ``auto``, the first question of each kind of media is ranked by both, before any other of its
    kind; if the mean losses agree, all are ranked by forced tokens. The 2nd, 4th, 8th, ..., 512th and one of 512 later
    questions, chosen by a hash, are audited by both. Audits only compare.

    Args:
        method: one of `METHODS`.
        limit: the engine's ``max_model_len``.
        note: what readers of the results must know of the engine.
        is_float32: whether the engine is known to compute in float32. Then mean losses may differ by 1e-4 nats, and
            with ``auto`` the prompts' numbers count if the two best ones differ by less than twice that. Else they may
            differ by 1e-2 nats where the method is chosen, and by 2e-2 in an audit.

    Raises:
        ValueError: an unknown method.
    """

    def __init__(self, method: str, limit: int, *, note: str | None = None, is_float32: bool = False) -> None:
        if method not in METHODS:
            raise ValueError(f"method={method}: one of {', '.join(METHODS)}")
        self._method = None if method == AUTO else method
        self._limit = limit
        self._settling_tolerance, self._audit_tolerance = (1e-4, 1e-4) if is_float32 else (1e-2, 2e-2)
        self._note, self._is_float32 = note, is_float32
        self._kinds: dict[str, _Kind] = {}
        self._open: dict[int, _Open] = {}
        self._fell_back = False

    @property
    def methods(self) -> dict[str, str]:
        """The method of each kind of questions that has one."""
        return {name: kind.method for name, kind in self._kinds.items() if kind.method is not None}

    def exclude(self, methods: Sequence[str]) -> None:
        """Never choose these, which are known to be inexact for this model."""
        if FORCED in methods and self._method is None:
            self._method = PROMPT_LOGPROBS

    def may_open(self, question: EngineQuestion) -> bool:
        """Return whether the method of its kind is known, or this question is to find it."""
        return not self._kind(question).is_settling

    def open(self, number: int, question: EngineQuestion) -> list[EngineRequest]:
        """Return the first requests of a question: its context alone, if later requests share it.

        Raises:
            ContextTooLongError: already its text exceeds the engine's limit.
            RankingError: the method is ``forced``, and this question's candidates cannot be.
        """
        check_room(question, len(question.prefix), self._limit)
        kind = self._kind(question)
        if not question.can_force:
            if self._method == FORCED:
                raise RankingError(
                    f"question {question.question_id}: method=forced: the chat template ends the context in other "
                    "tokens than those before an answer, or the server generates fewer tokens than a candidate has. "
                    "Leave method out, or set method=prompt_logprobs"
                )
            self._open[number] = _Open(question, [PROMPT_LOGPROBS])
            return candidate_requests(question, PROMPT_LOGPROBS)
        kind.count += 1
        if kind.method is None:
            kind.is_settling = True
        may_audit = kind.method == FORCED and self._method is None
        both = kind.method is None or (may_audit and is_audited(kind.count, question.candidates))
        methods = [FORCED, PROMPT_LOGPROBS] if both else [kind.method or FORCED]
        self._open[number] = _Open(question, methods)
        if FORCED not in methods:
            return candidate_requests(question, PROMPT_LOGPROBS)
        return [EngineRequest(question.prefix, question.candidates[0].tokens[:1], candidate=None)]

    def receive(
        self, number: int, request: EngineRequest, response: EngineResponse
    ) -> tuple[list[EngineRequest], list[CandidateScore] | None]:
        """Return the requests that follow a response; and the question's scores, if it was the last one.

        Raises:
            ContextTooLongError, EngineError: as `check_room`, `fold`.
            PathError: an audit failed: what was ranked by forced tokens is not to be used.
        """
        state = self._open[number]
        question = state.question
        if request.candidate is None:
            check_room(question, response.prompt_length, self._limit)
            return [each for method in state.methods for each in candidate_requests(question, method)], None
        method = PROMPT_LOGPROBS if request.takes_prompt_logprobs else FORCED
        state.scores.setdefault(method, {})[request.candidate] = fold(question, request, response)
        if state.is_complete() and state.methods == [FORCED] and self._takes_prompts(state.scores[FORCED].values()):
            state.methods.append(PROMPT_LOGPROBS)
            return candidate_requests(question, PROMPT_LOGPROBS), None
        return [], self._finished(number)

    def fall_back(
        self, number: int, request: EngineRequest, error: NotForcedError
    ) -> tuple[list[EngineRequest], list[CandidateScore] | None]:
        """Return what `receive` returns, for a question whose tokens the engine does not force.

        Raises:
            NotForcedError: the method is ``forced``.
        """
        if self._method == FORCED:
            raise error
        state = self._open[number]
        if not self._fell_back:
            logger.warning(f"{error}. Such questions are ranked by prompt_logprobs, a prefill for each candidate")
        self._fell_back = True
        self._kind(state.question).is_settling = False
        is_planned = request.candidate is not None and PROMPT_LOGPROBS in state.methods
        state.methods = [PROMPT_LOGPROBS]
        if is_planned:  # All their responses may have come before this one.
            return [], self._finished(number)
        return candidate_requests(state.question, PROMPT_LOGPROBS), None

    def _finished(self, number: int) -> list[CandidateScore] | None:
        """Return the scores of a question, which is then closed; None if responses are missing."""
        state = self._open[number]
        if not state.is_complete():
            return None
        del self._open[number]
        candidates = range(len(state.question.candidates))
        scores = [[state.scores[name][index] for index in candidates] for name in state.methods]
        return self._decided(state.question, state.methods, scores)

    def _decided(
        self, question: EngineQuestion, methods: Sequence[str], scores: list[list[CandidateScore]]
    ) -> list[CandidateScore]:
        kind = self._kind(question)
        if len(scores) == 1:
            return self._with_use(scores[0], PathUse(methods[0], question.kind))
        forced, reference = scores
        difference = max(differences(forced, reference))
        if kind.is_settling:
            kind.is_settling = False
            if not all(math.isfinite(score.logprob) for score in reference):
                # Nothing is known of forced tokens.
                return self._with_use(reference, PathUse(PROMPT_LOGPROBS, question.kind))
            if not difference <= self._settling_tolerance:
                kind.method = PROMPT_LOGPROBS
                logger.warning(
                    f"Forced tokens are not exact for this model ({question.kind}: mean losses differ by "
                    f"{difference:.2g} nats), so every candidate takes a prefill of its own"
                )
                return self._with_use(reference, PathUse(PROMPT_LOGPROBS, question.kind, rejected=(FORCED,)))
            kind.method = FORCED
        elif not difference <= self._audit_tolerance:
            self.exclude([FORCED])
            objection = f"mean losses differ by {difference:.2g} nats"
            raise PathError([FORCED], question.kind, objection, question.question_id, REMEDY)
        if self._takes_prompts(forced):
            return self._with_use(reference, PathUse(PROMPT_LOGPROBS, question.kind, audit=difference))
        return self._with_use(forced, PathUse(FORCED, question.kind, audit=difference))

    def _takes_prompts(self, forced: Iterable[CandidateScore]) -> bool:
        """Return whether only the prompts' log-probabilities decide which candidate is the best."""
        return self._method is None and self._is_float32 and self._is_near_tie(forced)

    def _is_near_tie(self, scores: Iterable[CandidateScore]) -> bool:
        return not lead(scores) >= 2 * self._audit_tolerance

    def _with_use(self, scores: Sequence[CandidateScore], use: PathUse) -> list[CandidateScore]:
        is_exact = self._is_float32 and use.path == PROMPT_LOGPROBS
        near_tie = not is_exact and self._is_near_tie(scores)
        use = replace(use, tolerance=self._audit_tolerance, near_tie=near_tie, note=self._note)
        return [replace(score, use=use) for score in scores]

    def _kind(self, question: EngineQuestion) -> _Kind:
        return self._kinds.setdefault(question.kind, _Kind(self._method))
