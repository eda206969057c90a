"""Order the requests to an engine, and choose the ranking method. Needs no engine."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from loguru import logger

from lmms_egoplan.ranking.audits import is_audited
from lmms_egoplan.ranking.engine.requests import (
    EngineQuestion,
    EngineRequest,
    EngineResponse,
    NotForcedError,
    candidate_requests,
    check_room,
    fold,
)
from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.methods import AUTO, FORCED, METHODS, PROMPT_LOGPROBS
from lmms_egoplan.ranking.question import PathError, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, differences, is_near_tie

REMEDY = (
    "Repeat the run with --model_args ...,method=prompt_logprobs, which runs a separate "
    "prefill per candidate"
)


@dataclass
class _Kind:
    """State of one kind of questions.

    Attributes:
        method: The chosen method; None before the choice.
        count: Number of its questions so far.
        is_settling: Whether the question that decides the method is in progress.
    """

    method: str | None
    count: int = 0
    is_settling: bool = False


@dataclass
class _Open:
    """A question between its first request and its last response.

    Attributes:
        question: The question.
        methods: Methods that rank it. If there are two, the first is compared with the second.
        scores: Scores by method and index of the candidate.
    """

    question: EngineQuestion
    methods: list[str]
    scores: dict[str, dict[int, CandidateScore]] = field(default_factory=dict)

    def is_complete(self) -> bool:
        """Return whether every method has scored all candidates."""
        return all(
            len(self.scores.get(name, ())) == len(self.question.candidates) for name in self.methods
        )

    def scores_of(self, method: str) -> list[CandidateScore]:
        """Return a method's scores of all candidates, in their order."""
        by_index = self.scores[method]
        return [by_index[index] for index in range(len(self.question.candidates))]


class Schedule:
    """Plan the requests of questions, and choose the method that ranks them.

    With forced tokens, the candidates of a question share its context. With log-probabilities of
    the prompt, every candidate needs a separate pass over the context. With ``auto``, the first
    question of each kind of media is ranked by both methods, before any other question of its kind.
    If the mean losses agree, the whole kind is ranked with forced tokens. Audits then compare both
    methods on the 2nd, 4th, 8th, ..., 512th question, and on one in 512 after these, selected by a
    hash. Audits never change scores.

    Args:
        method: One of `METHODS`.
        limit: The engine's ``max_model_len``.
        note: Note about the engine for readers of the results.
        is_float32: Whether the engine is known to compute in float32. If so, mean losses may differ
            by 1e-4 nats. With ``auto``, a question is then ranked by the prompt's log-probabilities
            if the two best losses differ by less than twice that. If it is false, mean losses may
            differ by 1e-2 nats when the method is chosen, and by 2e-2 in an audit.

    Raises:
        ValueError: The method is unknown.
    """

    def __init__(
        self, method: str, limit: int, *, note: str | None = None, is_float32: bool = False
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method={method}: must be one of {', '.join(METHODS)}")
        self._method = None if method == AUTO else method
        self._limit = limit
        self._settling_tolerance, self._audit_tolerance = (
            (1e-4, 1e-4) if is_float32 else (1e-2, 2e-2)
        )
        self._note = note
        self._is_float32 = is_float32
        self._kinds: dict[str, _Kind] = {}
        self._open: dict[int, _Open] = {}
        self._fell_back = False

    @property
    def methods(self) -> dict[str, str]:
        """The chosen method of each kind of questions."""
        return {name: kind.method for name, kind in self._kinds.items() if kind.method is not None}

    def exclude(self, methods: Sequence[str]) -> None:
        """Never choose these methods, which are known to be inexact for this model."""
        if FORCED in methods and self._method is None:
            self._method = PROMPT_LOGPROBS

    def may_open(self, question: EngineQuestion) -> bool:
        """Return whether the question can start.

        It can if its kind has a method, or if it will decide the method.
        """
        return not self._kind(question).is_settling

    def open(self, number: int, question: EngineQuestion) -> list[EngineRequest]:
        """Return the first requests of a question: only its context, if later requests share it.

        Raises:
            ContextTooLongError: The question's text alone exceeds the engine's limit.
            RankingError: The method is ``forced``, and this question's candidates cannot be forced.
        """
        check_room(question, len(question.prefix), self._limit)
        kind = self._kind(question)
        if not question.can_force:
            if self._method == FORCED:
                raise RankingError(
                    f"question {question.question_id}: method=forced: the tokens at the end of the "
                    "context differ from those before an answer, or the server generates fewer "
                    "tokens than a candidate has. Remove method, or set method=prompt_logprobs"
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
        """Return the next requests after a response, or the scores after the last response.

        Raises:
            ContextTooLongError, EngineError: As in `check_room` and `fold`.
            PathError: An audit failed. Do not use scores from forced tokens.
        """
        state = self._open[number]
        question = state.question
        if request.candidate is None:
            check_room(question, response.prompt_length, self._limit)
            return [
                request
                for method in state.methods
                for request in candidate_requests(question, method)
            ], None
        method = PROMPT_LOGPROBS if request.takes_prompt_logprobs else FORCED
        state.scores.setdefault(method, {})[request.candidate] = fold(question, request, response)
        if (
            state.is_complete()
            and state.methods == [FORCED]
            and self._takes_prompts(state.scores[FORCED].values())
        ):
            state.methods.append(PROMPT_LOGPROBS)
            return candidate_requests(question, PROMPT_LOGPROBS), None
        return [], self._finished(number)

    def fall_back(
        self, number: int, request: EngineRequest, error: NotForcedError
    ) -> tuple[list[EngineRequest], list[CandidateScore] | None]:
        """Return the same as `receive`, for a question whose tokens the engine does not force.

        Raises:
            NotForcedError: The method is ``forced``.
        """
        if self._method == FORCED:
            raise error
        state = self._open[number]
        if not self._fell_back:
            logger.warning(
                f"{error}. Such questions are ranked by prompt_logprobs, with a prefill "
                "per candidate"
            )
        self._fell_back = True
        self._kind(state.question).is_settling = False
        is_planned = request.candidate is not None and PROMPT_LOGPROBS in state.methods
        state.methods = [PROMPT_LOGPROBS]
        if is_planned:  # All of its responses may have arrived before this one.
            return [], self._finished(number)
        return candidate_requests(state.question, PROMPT_LOGPROBS), None

    def _finished(self, number: int) -> list[CandidateScore] | None:
        """Close a question and return its scores; None if responses are missing."""
        state = self._open[number]
        if not state.is_complete():
            return None
        del self._open[number]
        question = state.question
        kind = self._kind(question)
        scores = [state.scores_of(method) for method in state.methods]
        if len(scores) == 1:
            return self._with_use(scores[0], PathUse(state.methods[0], question.kind))
        forced, reference = scores
        difference = max(differences(forced, reference))
        if kind.is_settling:
            kind.is_settling = False
            if not all(math.isfinite(score.logprob) for score in reference):
                # This question says nothing about forced tokens.
                return self._with_use(reference, PathUse(PROMPT_LOGPROBS, question.kind))
            if not difference <= self._settling_tolerance:
                kind.method = PROMPT_LOGPROBS
                logger.warning(
                    f"Forced tokens are not exact for this model ({question.kind}: mean losses "
                    f"differ by {difference:.2g} nats), so every candidate gets a separate prefill"
                )
                return self._with_use(
                    reference, PathUse(PROMPT_LOGPROBS, question.kind, rejected=(FORCED,))
                )
            kind.method = FORCED
        elif not difference <= self._audit_tolerance:
            self.exclude([FORCED])
            objection = f"mean losses differ by {difference:.2g} nats"
            raise PathError([FORCED], question.kind, objection, question.question_id, REMEDY)
        if self._takes_prompts(forced):
            return self._with_use(
                reference, PathUse(PROMPT_LOGPROBS, question.kind, audit=difference)
            )
        return self._with_use(forced, PathUse(FORCED, question.kind, audit=difference))

    def _takes_prompts(self, forced: Collection[CandidateScore]) -> bool:
        """Return whether the prompts' log-probabilities are needed to find the best candidate."""
        return self._method is None and self._is_float32 and self._is_near_tie(forced)

    def _is_near_tie(self, scores: Collection[CandidateScore]) -> bool:
        return is_near_tie(scores, 2 * self._audit_tolerance)

    def _with_use(self, scores: Sequence[CandidateScore], use: PathUse) -> list[CandidateScore]:
        is_exact = self._is_float32 and use.path == PROMPT_LOGPROBS
        near_tie = not is_exact and self._is_near_tie(scores)
        use = replace(use, tolerance=self._audit_tolerance, near_tie=near_tie, note=self._note)
        return [replace(score, use=use) for score in scores]

    def _kind(self, question: EngineQuestion) -> _Kind:
        return self._kinds.setdefault(question.kind, _Kind(self._method))
