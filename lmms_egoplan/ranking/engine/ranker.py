"""Rank many questions concurrently with an engine, each context before its candidates."""

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from loguru import logger

from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.engine.requests import (
    EngineQuestion,
    EngineRequest,
    EngineResponse,
    NotForcedError,
    items_of,
    media_of,
    with_items,
)
from lmms_egoplan.ranking.engine.schedule import Schedule
from lmms_egoplan.ranking.methods import AUTO, FORCED, IN_FLIGHT
from lmms_egoplan.ranking.question import RankingError
from lmms_egoplan.ranking.scores import CandidateScore
from lmms_egoplan.ranking.thread_copies import ThreadCopies

Question = TypeVar("Question", bound=EngineQuestion)


class Engine(Protocol[Question]):
    """Computes many requests concurrently.

    Attributes:
        limit: Maximum number of tokens of a request, prompt and generated ones.
        is_float32: Whether the engine computes in float32; False if unknown.
        forces: Whether the engine can generate forced tokens.
        how_to_force: How to enable forced tokens, if the engine cannot generate them.
        description: Text that distinguishes this engine's responses from those of others with the
            same weights.
    """

    limit: int
    is_float32: bool
    forces: bool
    how_to_force: str
    description: str

    def to_question(
        self,
        encoder: QuestionEncoder,
        messages: Sequence[Message],
        candidates: Sequence[str],
        question_id: str,
    ) -> Question:
        """Create a question from text and images.

        Thread-safe; raises like `QuestionEncoder.encode`.
        """

    def submit(self, name: str, question: Question, request: EngineRequest) -> None:
        """Start a request.

        Raises:
            ContextTooLongError, RankingError: The engine rejects it.
        """

    def poll(self) -> list[tuple[str, EngineResponse | RankingError]]:
        """Wait for at least one response or error; return them with the names of their requests.

        Raises:
            EngineError: No more responses will arrive.
        """

    def abort(self, names: Sequence[str]) -> None:
        """Cancel requests."""


class EngineRanker:
    """Rank with an engine, like `CandidateRanker` with transformers, and with the same tokens.

    Args:
        engine: The engine that computes the requests.
        processor: The model's transformers processor. The engine processes images itself.
        score_eos: Append the token that ends the assistant's turn to every candidate.
        method: How to score candidates; see `Schedule`.
        in_flight: Number of concurrent questions.
        note: Note about the engine for readers of the results.

    Attributes:
        takes_video: Whether the model accepts a clip as a video. This ranker shows its frames as
            images anyway: vLLM and transformers compute different positions for a video's tokens
            and the text after them.

    Raises:
        RankingError: The method requires forced tokens, which the engine cannot generate.
    """

    def __init__(
        self,
        engine: Engine[Any],
        processor: Any,
        *,
        score_eos: bool = False,
        method: str = AUTO,
        in_flight: int = IN_FLIGHT,
        note: str | None = None,
    ) -> None:
        self._engine = engine
        self._encoder = QuestionEncoder(processor, score_eos=score_eos)
        self._encoders = ThreadCopies(self._encoder)
        self._schedule = Schedule(method, engine.limit, note=note, is_float32=engine.is_float32)
        if not engine.forces:
            if method == FORCED:
                raise RankingError(f"method=forced: {engine.how_to_force}")
            self._schedule.exclude([FORCED])
        self._in_flight = in_flight
        self._has_warned_of_clips = threading.Event()
        self.takes_video = self._encoder.takes_video
        self.has_system_turn = self._encoder.has_system_turn
        self.exclude = self._schedule.exclude

    @property
    def methods(self) -> dict[str, str]:
        """The chosen method of each kind of questions."""
        return self._schedule.methods

    def encode(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> EngineQuestion:
        """Tokenise a question; the engine processes the images itself. Thread-safe.

        Raises:
            RankingError: As in `QuestionEncoder.split`; also if the content is not text, images or
                clips.
        """
        converted, has_clips = self._with_images(messages, question_id)
        with self._encoders.borrow() as encoder:
            question = self._engine.to_question(encoder, converted, candidates, question_id)
        return replace(question, has_clips=has_clips)

    encode_ahead = encode  # as `CandidateRanker` calls it

    def encode_context(self, messages: Sequence[Message], question_id: str) -> EngineQuestion:
        """Tokenise a context whose reply the engine generates. Thread-safe.

        Raises:
            RankingError: There is no chat template, or the content is not text, images or clips.
        """
        converted, has_clips = self._with_images(messages, question_id)
        with self._encoders.borrow() as encoder:
            if not encoder.applies_chat_template:
                raise RankingError(f"question {question_id}: the checkpoint has no chat template")
            tokens, _ = encoder.prompt(converted)
        return EngineQuestion(question_id, tokens, [], media_of(converted), has_clips)

    def _with_images(
        self, messages: Sequence[Message], question_id: str
    ) -> tuple[list[Message], bool]:
        """Replace clips by their frames, and warn of the first one.

        Also return whether there are clips.
        """
        converted, has_clips = _clips_as_images(messages, question_id)
        if has_clips and not self._has_warned_of_clips.is_set():
            self._has_warned_of_clips.set()
            logger.warning(
                "Clips are shown as images: vLLM and transformers compute different positions for "
                "videos. Compare these results only with those of models that see the same images, "
                "not videos"
            )
        return converted, has_clips

    def scores(
        self, questions: Iterable[EngineQuestion]
    ) -> Generator[list[CandidateScore], None, None]:
        """Yield the candidates' scores of each question, in order.

        Raises:
            ContextTooLongError: A question exceeds the engine's limit.
            PathError: An audit failed.
            RankingError: The engine rejects a question, or its answer cannot be scored.
        """
        run = _Run(self._engine, self._schedule, iter(questions))
        try:
            while not run.is_finished():
                run.submit_ahead(self._in_flight)
                yield from run.take_scores()
                if run.waits_for_responses():
                    run.receive()
        finally:
            self._engine.abort(list(run.requests))


class _Run:
    """The questions of one call of `EngineRanker.scores`, numbered in order.

    Attributes:
        requests: Open requests by name: the question's number, the request and the question.
    """

    def __init__(
        self, engine: Engine[Any], schedule: Schedule, source: Iterator[EngineQuestion]
    ) -> None:
        self._engine = engine
        self._schedule = schedule
        self._source = source
        self._next_question = next(source, None)
        # Numbers of the next question to submit, and of the next one to return.
        self._number = 0
        self._first = 0
        self._done: dict[int, list[CandidateScore] | Exception] = {}
        self.requests: dict[str, tuple[int, EngineRequest, EngineQuestion]] = {}

    def is_finished(self) -> bool:
        """Return whether all questions have been returned."""
        return self._next_question is None and self._number == self._first

    def submit_ahead(self, in_flight: int) -> None:
        """Open questions until `in_flight` are open, one has failed, or the next one must wait."""
        while self._next_question is not None and self._number - self._first < in_flight:
            has_failed = any(isinstance(outcome, Exception) for outcome in self._done.values())
            if has_failed or not self._schedule.may_open(self._next_question):
                return
            question = self._next_question
            try:
                planned = self._schedule.open(self._number, question)
                self._submit(self._number, question, planned)
            except Exception as error:
                self._done[self._number] = error
            self._number += 1
            self._next_question = next(self._source, None)

    def take_scores(self) -> Iterator[list[CandidateScore]]:
        """Yield the scores of the next questions that are done; raise the error of a failed one."""
        while self._first in self._done:
            outcome = self._done.pop(self._first)
            self._first += 1
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    def waits_for_responses(self) -> bool:
        """Return whether the next question to return is open."""
        return self._number > self._first and self._first not in self._done

    def receive(self) -> None:
        """Wait for responses, and submit the requests that follow."""
        for name, response in self._engine.poll():
            number, request, question = self.requests.pop(name)
            if number in self._done or number < self._first:
                continue
            try:
                planned, scores = self._follow(number, request, question, response)
                self._submit(number, question, planned)
                if scores is not None:
                    self._done[number] = scores
            except Exception as error:
                self._done[number] = error

    def _follow(
        self,
        number: int,
        request: EngineRequest,
        question: EngineQuestion,
        response: EngineResponse | RankingError,
    ) -> tuple[list[EngineRequest], list[CandidateScore] | None]:
        """Return the next requests after a response, or the scores after the last response."""
        if isinstance(response, NotForcedError):
            return self._schedule.fall_back(number, request, response)
        if isinstance(response, RankingError):
            raise response
        answer = request.prompt[len(question.prefix) :]
        question.lengths.append(response.prompt_length - len(answer))
        return self._schedule.receive(number, request, response)

    def _submit(
        self, number: int, question: EngineQuestion, planned: Sequence[EngineRequest]
    ) -> None:
        for request in planned:
            name = f"{number}-context"
            if request.candidate is not None:
                name = f"{number}-candidate-{request.candidate}"
            if request.takes_prompt_logprobs:
                name += "-prompt"
            self._engine.submit(name, question, request)
            self.requests[name] = number, request, question


def _clips_as_images(messages: Sequence[Message], question_id: str) -> tuple[list[Message], bool]:
    """Replace each clip with its frames; also return whether the messages contain a clip."""
    kinds = {item["type"] for item in items_of(messages)}
    unknown = kinds - {"image", "text", "video"}
    if unknown:
        raise RankingError(
            f"question {question_id}: content of type {', '.join(sorted(unknown))}; an engine "
            "accepts only text, images and clips"
        )
    return with_items(messages, _frames), "video" in kinds


def _frames(item: dict[str, Any]) -> list[dict[str, Any]]:
    if item["type"] == "video":
        return [{"type": "image", "image": frame} for frame in item["video"]]
    return [item]
