"""Questions ranked by an engine, many at once, each context before its candidates."""

import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from loguru import logger

from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.engine.requests import FORCED, EngineQuestion, EngineRequest, EngineResponse, NotForcedError
from lmms_egoplan.ranking.engine.schedule import AUTO, Schedule
from lmms_egoplan.ranking.question import RankingError
from lmms_egoplan.ranking.scores import CandidateScore
from lmms_egoplan.ranking.thread_copies import ThreadCopies

Asked = TypeVar("Asked", bound=EngineQuestion)

# Questions at once: contexts that were prefilled must still be cached when their candidates come.
IN_FLIGHT = 8


class Engine(Protocol[Asked]):
    """What computes requests, many at once.

    limit: most tokens of a request, prompt and generated ones.
    is_float32: whether it computes in float32; False where that is unknown.
    forces: whether it can generate given tokens; otherwise, `how_to_force` says what to do for it.
    description: distinguishes its responses from those of others with the same weights.
    """

    limit: int
    is_float32: bool
    forces: bool
    how_to_force: str
    description: str

    def to_question(
        self, encoder: QuestionEncoder, messages: Sequence[Message], candidates: Sequence[str], question_id: str
    ) -> Asked:
        """Make a question of text and images; raise as `QuestionEncoder.encode`. Several threads may call it."""

    def submit(self, name: str, question: Asked, request: EngineRequest) -> None:
        """Begin a request.

        Raises:
            ContextTooLongError, RankingError: the engine refuses it.
        """

    def poll(self) -> list[tuple[str, EngineResponse | RankingError]]:
        """Wait for responses, or for what has become of requests instead, at least one, by the names of the requests.

        Raises:
            EngineError: nothing more will come.
        """

    def abort(self, names: Sequence[str]) -> None:
        """Forget requests."""


class EngineRanker:
    """Ranks with an engine what `CandidateRanker` ranks with transformers, with the same tokens.

    Args:
        engine: computes the requests.
        processor: the model's, from transformers; images are processed by the engine.
        score_eos: add the token that ends the assistant's turn to every candidate.
        method: how candidates are scored; see `Schedule`.
        in_flight: questions at once.
        note: what readers of the results must know of the engine.

    Attributes:
        takes_video: whether the model would take a clip as a video. Its frames are images here: vLLM gives a video's
            tokens, and the text behind them, other positions than transformers does.

    Raises:
        RankingError: the engine cannot force tokens, as the method asks.
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
        self._is_told = threading.Event()
        self.takes_video = self._encoder.takes_video
        self.has_system_turn = self._encoder.has_system_turn
        self.exclude = self._schedule.exclude

    @property
    def methods(self) -> dict[str, str]:
        """The method of each kind of questions that has one."""
        return self._schedule.methods

    def encode(self, messages: Sequence[Message], candidates: Sequence[str], question_id: str) -> EngineQuestion:
        """Tokenise a question; the engine processes the images itself. Several threads may call it.

        Raises:
            RankingError: as `QuestionEncoder.split`; or something else than text, images and clips is shown.
        """
        shown, has_clips = _clips_as_images(messages, question_id)
        if has_clips and not self._is_told.is_set():
            self._is_told.set()
            logger.warning(
                "Clips are shown as images: vLLM gives videos other positions than transformers does. Likelihoods are "
                "comparable with those of a model that is shown the same images, and not with those of videos"
            )
        with self._encoders.borrow() as encoder:
            question = self._engine.to_question(encoder, shown, candidates, question_id)
        return replace(question, has_clips=has_clips)

    encode_ahead = encode  # as `CandidateRanker` calls it

    def scores(self, questions: Iterable[EngineQuestion]) -> Generator[list[CandidateScore], None, None]:
        """Yield the candidates' scores of each question, in order.

        Raises:
            ContextTooLongError: a question exceeds the engine's limit.
            PathError: an audit failed.
            RankingError: the engine refuses a question, or answers what cannot be scored.
        """
        source = iter(questions)
        following = next(source, None)
        first = number = 0
        done: dict[int, list[CandidateScore] | Exception] = {}
        requests: dict[str, tuple[int, EngineRequest, EngineQuestion]] = {}

        def submit(number: int, question: EngineQuestion, planned: Sequence[EngineRequest]) -> None:
            for request in planned:
                kind = "context" if request.candidate is None else f"candidate-{request.candidate}"
                name = f"{number}-{kind}{'-prompt' if request.takes_prompt_logprobs else ''}"
                self._engine.submit(name, question, request)
                requests[name] = number, request, question

        try:
            while following is not None or number > first:
                while following is not None and number - first < self._in_flight and not _failed(done):
                    if not self._schedule.may_open(following):
                        break
                    try:
                        submit(number, following, self._schedule.open(number, following))
                    except Exception as error:
                        done[number] = error
                    number, following = number + 1, next(source, None)
                while first in done:
                    outcome = done.pop(first)
                    first += 1
                    if isinstance(outcome, Exception):
                        raise outcome
                    yield outcome
                if number > first and first not in done:
                    for name, response in self._engine.poll():
                        place, request, question = requests.pop(name)
                        if place in done or place < first:
                            continue
                        try:
                            if isinstance(response, NotForcedError):
                                planned, scores = self._schedule.fall_back(place, request, response)
                            elif isinstance(response, RankingError):
                                raise response
                            else:
                                planned, scores = self._schedule.receive(place, request, response)
                            submit(place, question, planned)
                            if scores is not None:
                                done[place] = scores
                        except Exception as error:
                            done[place] = error
        finally:
            self._engine.abort(list(requests))


def _clips_as_images(messages: Sequence[Message], question_id: str) -> tuple[list[Message], bool]:
    """Put the frames of each clip in its place; return also whether there was one."""
    has_clips = False
    shown = []
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            items = []
            for item in content:
                if item["type"] == "video":
                    has_clips = True
                    items += [{"type": "image", "image": frame} for frame in item["video"]]
                elif item["type"] in ("image", "text"):
                    items.append(item)
                else:
                    raise RankingError(f"question {question_id}: an engine ranks behind text, images and clips only")
            content = items
        shown.append({**message, "content": content})
    return shown, has_clips


def _failed(done: dict[int, Any]) -> bool:
    return any(isinstance(value, Exception) for value in done.values())
