"""What an engine is asked for one question, and how its log-probabilities become scores; no engine is needed for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.question import CandidateTokens, RankingError, too_long
from lmms_egoplan.ranking.scores import CandidateScore

FORCED, PROMPT_LOGPROBS = "forced", "prompt_logprobs"

# By this name vLLM's requests carry tokens for `ForcedTokens`.
ARGUMENT = "forced_token_ids"

# What vLLM loads for them.
PROCESSOR = "lmms_egoplan.ranking.engine.forced:ForcedTokens"

# Log-probability, nats, and rank among all tokens, 1 for the most probable.
Token = tuple[float, int]


class EngineError(RankingError):
    """An engine has answered a request in a way that cannot be scored."""


class NotForcedError(EngineError):
    """An engine does not generate the tokens of a request; it may still give log-probabilities of a prompt."""


@dataclass(frozen=True)
class EngineQuestion:
    """A question for an engine.

    prefix: token ids of the shared context, with placeholders for the media; for a server, as many as it makes of them.
    candidates: in the caller's order.
    media: by kind, such as ``image``, in order.
    has_clips: whether some images are the frames of clips.
    can_force: whether the engine can be asked to generate its candidates.
    """

    question_id: str
    prefix: list[int]
    candidates: list[CandidateTokens]
    media: dict[str, list[Any]]
    has_clips: bool = False
    can_force: bool = True

    @property
    def kind(self) -> str:
        """What is shown: ``image``, ``image (clips as images)``, ``text``."""
        return (" and ".join(sorted(self.media)) or "text") + (" (clips as images)" if self.has_clips else "")

    @property
    def longest_candidate(self) -> int:
        """Tokens of the longest candidate."""
        return max(len(candidate.tokens) for candidate in self.candidates)


@dataclass(frozen=True)
class EngineRequest:
    """One request.

    prompt: token ids, the question's prefix first.
    forced: the tokens that must be generated; none where only the prompt counts, or is to be cached.
    candidate: index; None for the context.
    takes_prompt_logprobs: whether those of the prompt are wanted; else those of the generated tokens.
    """

    prompt: list[int]
    forced: list[int]
    candidate: int | None
    takes_prompt_logprobs: bool = False


@dataclass(frozen=True)
class EngineResponse:
    """What came back.

    prompt_length: tokens, media included.
    tokens: the candidate's, as they were generated, or as the prompt ends with them where its numbers were wanted.
    logprobs: of these tokens, raw, in order.
    """

    prompt_length: int
    tokens: list[int]
    logprobs: list[Token]


def ranking_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Add what ranking needs to a user's arguments of an ``LLM``.

    Raises:
        RankingError: the user switches the prefix cache off.
    """
    if str(given.get("enable_prefix_caching", True)).lower() in ("false", "0"):
        raise RankingError("enable_prefix_caching=False: candidates share a context in the prefix cache; remove it")
    processors = given.get("logits_processors") or []
    others = [processors] if isinstance(processors, str) else [*processors]
    return {**given, "enable_prefix_caching": True, "logits_processors": [*others, PROCESSOR]}


def token_question(
    encoder: QuestionEncoder, messages: Sequence[Message], candidates: Sequence[str], question_id: str
) -> EngineQuestion:
    """Make a question for an engine that takes tokens and images; raise as `QuestionEncoder.split`."""
    split = encoder.split(messages, candidates, question_id)
    return EngineQuestion(question_id, split.prefix, split.candidates, media_of(messages))


def media_of(messages: Sequence[Message]) -> dict[str, list[Any]]:
    """Return the images of a conversation, as `EngineQuestion.media`."""
    items = [item for message in messages if not isinstance(message["content"], str) for item in message["content"]]
    images = [item["image"] for item in items if item["type"] == "image"]
    return {"image": images} if images else {}


def candidate_requests(question: EngineQuestion, method: str) -> list[EngineRequest]:
    """Return one request for each candidate.

    forced: the prompt is the context, and the candidate's tokens are generated.
    prompt_logprobs: the prompt is the context and the candidate.

    >>> question = EngineQuestion("q", [5, 6], [CandidateTokens([7, 8], first=1)], {})
    >>> [request] = candidate_requests(question, FORCED)
    >>> request.prompt, request.forced
    ([5, 6], [7, 8])
    >>> candidate_requests(question, PROMPT_LOGPROBS)[0].prompt
    [5, 6, 7, 8]
    """
    if method == FORCED:
        return [
            EngineRequest(question.prefix, candidate.tokens, index)
            for index, candidate in enumerate(question.candidates)
        ]
    return [
        EngineRequest(question.prefix + candidate.tokens, [], index, takes_prompt_logprobs=True)
        for index, candidate in enumerate(question.candidates)
    ]


def fold(question: EngineQuestion, request: EngineRequest, response: EngineResponse) -> CandidateScore:
    """Score a request's candidate.

    Raises:
        EngineError: the engine has generated or read other tokens than it was given, or left some out.
    """
    assert request.candidate is not None
    candidate = question.candidates[request.candidate]
    if response.tokens != candidate.tokens or len(response.logprobs) != len(response.tokens):
        raise EngineError(
            f"question {question.question_id}: for candidate {request.candidate} the engine gave log-probabilities of "
            f"the tokens {response.tokens}, not of {candidate.tokens}"
        )
    scored = response.logprobs[candidate.first :]
    if any(logprob > 0 or logprob != logprob for logprob, _ in scored):
        raise EngineError(f"question {question.question_id}: the engine gave impossible log-probabilities: {scored}")
    return CandidateScore(
        token_logprobs=tuple(logprob for logprob, _ in scored), is_greedy=all(rank == 1 for _, rank in scored)
    )


def check_room(question: EngineQuestion, prompt_length: int, limit: int) -> None:
    """Raise `ContextTooLongError` if the context, media included, and its longest candidate exceed the engine's limit.

    Args:
        prompt_length: tokens of the context, at least.
        limit: the engine's ``max_model_len``.
    """
    longest = question.longest_candidate
    if prompt_length + longest > limit:
        raise too_long(question.question_id, prompt_length, longest, f"the engine's max_model_len is {limit}")
