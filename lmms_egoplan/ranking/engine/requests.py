"""Create an engine's requests for one question, and compute scores from its log-probabilities.

Needs no engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.methods import FORCED
from lmms_egoplan.ranking.question import CandidateTokens, RankingError, too_long
from lmms_egoplan.ranking.scores import CandidateScore

# Name of the argument with the tokens for `ForcedTokens` in vLLM's requests.
ARGUMENT = "forced_token_ids"

# The logits processor that vLLM loads.
PROCESSOR = "lmms_egoplan.ranking.engine.forced:ForcedTokens"

# Log-probability in nats, and rank among all tokens (1: most probable).
Token = tuple[float, int]


class EngineError(RankingError):
    """An engine's answer cannot be scored."""


class NotForcedError(EngineError):
    """An engine does not generate the forced tokens.

    It may still return the log-probabilities of a prompt.
    """


@dataclass(frozen=True)
class EngineQuestion:
    """A question for an engine.

    Attributes:
        question_id: ID for error messages.
        prefix: Token IDs of the shared context, with placeholders for the media. For a server, each
            placeholder is repeated as often as the medium has tokens.
        candidates: The candidates, in the caller's order; none if a reply is generated.
        media: The media of each kind, such as ``image``, in order.
        has_clips: Whether some images are the frames of clips.
        can_force: Whether the engine can generate these candidates.
        lengths: Length of the context in tokens, with its media, from each answer of the engine,
            the first one first.
    """

    question_id: str
    prefix: list[int]
    candidates: list[CandidateTokens]
    media: dict[str, list[Any]]
    has_clips: bool = False
    can_force: bool = True
    lengths: list[int] = field(default_factory=list, compare=False)

    @property
    def inputs(self) -> dict[str, Any]:
        """The media, which take memory. They count twice, because they are not yet encoded."""
        return {"media": [self.media, self.media]}

    @property
    def kind(self) -> str:
        """The media: ``image``, ``image (clips as images)`` or ``text``."""
        return (" and ".join(sorted(self.media)) or "text") + (
            " (clips as images)" if self.has_clips else ""
        )

    @property
    def longest_candidate(self) -> int:
        """Length of the longest candidate, in tokens.

        It is 1 without candidates: the first token of a reply.
        """
        return max((len(candidate.tokens) for candidate in self.candidates), default=1)


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request.

    Attributes:
        prompt: Token IDs, starting with the question's prefix.
        forced: Tokens to generate; empty if only the prompt is scored.
        candidate: Index of the candidate; None for the context.
        takes_prompt_logprobs: Whether to return log-probabilities of the prompt instead of the
            generated tokens.
    """

    prompt: list[int]
    forced: list[int]
    candidate: int | None
    takes_prompt_logprobs: bool = False


@dataclass(frozen=True, slots=True)
class EngineResponse:
    """Response to a request.

    Attributes:
        prompt_length: Length of the prompt in tokens, media included.
        tokens: The candidate's tokens, as generated or as the end of the prompt.
        logprobs: Raw log-probabilities of these tokens, in order.
    """

    prompt_length: int
    tokens: list[int]
    logprobs: list[Token]


def ranking_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Add the settings required for ranking to a user's ``LLM`` arguments.

    Raises:
        RankingError: The user has disabled the prefix cache.
    """
    if str(arguments.get("enable_prefix_caching", True)).lower() in ("false", "0"):
        raise RankingError(
            "enable_prefix_caching=False: ranking needs the prefix cache, in which candidates "
            "share a context; remove this argument"
        )
    processors = arguments.get("logits_processors") or []
    user_processors = [processors] if isinstance(processors, str) else [*processors]
    return {
        **arguments,
        "enable_prefix_caching": True,
        "logits_processors": [*user_processors, PROCESSOR],
    }


def token_question(
    encoder: QuestionEncoder,
    messages: Sequence[Message],
    candidates: Sequence[str],
    question_id: str,
) -> EngineQuestion:
    """Create a question for an engine that accepts tokens and images.

    Raise like `QuestionEncoder.split`.
    """
    split = encoder.split(messages, candidates, question_id)
    return EngineQuestion(question_id, split.prefix, split.candidates, media_of(messages))


def items_of(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the content items of a conversation, without messages that are plain text."""
    return [
        item
        for message in messages
        if not isinstance(message["content"], str)
        for item in message["content"]
    ]


def with_items(
    messages: Sequence[Message], convert: Callable[[dict[str, Any]], list[dict[str, Any]]]
) -> list[Message]:
    """Return a conversation with each content item replaced by what `convert` returns."""

    def converted(message: Message) -> Message:
        return message | {"content": [new for item in items_of([message]) for new in convert(item)]}

    return [
        message if isinstance(message["content"], str) else converted(message)
        for message in messages
    ]


def media_of(messages: Sequence[Message]) -> dict[str, list[Any]]:
    """Return the images of a conversation in the form of `EngineQuestion.media`."""
    images = [item["image"] for item in items_of(messages) if item["type"] == "image"]
    return {"image": images} if images else {}


def candidate_requests(question: EngineQuestion, method: str) -> list[EngineRequest]:
    """Return one request per candidate.

    forced: The prompt is the context, and the candidate's tokens are generated.
    prompt_logprobs: The prompt is the context and the candidate.

    >>> from lmms_egoplan.ranking.methods import PROMPT_LOGPROBS
    >>> question = EngineQuestion("q", [5, 6], [CandidateTokens([7, 8], first=1)], {})
    >>> [request] = candidate_requests(question, FORCED)
    >>> request.prompt, request.forced
    ([5, 6], [7, 8])
    >>> candidate_requests(question, PROMPT_LOGPROBS)[0].prompt
    [5, 6, 7, 8]
    """
    return [
        EngineRequest(question.prefix, candidate.tokens, index)
        if method == FORCED
        else EngineRequest(
            question.prefix + candidate.tokens, [], index, takes_prompt_logprobs=True
        )
        for index, candidate in enumerate(question.candidates)
    ]


def fold(
    question: EngineQuestion, request: EngineRequest, response: EngineResponse
) -> CandidateScore:
    """Score a request's candidate.

    Raises:
        EngineError: The engine's tokens differ from the request's, or some are missing.
    """
    assert request.candidate is not None
    candidate = question.candidates[request.candidate]
    if response.tokens != candidate.tokens or len(response.logprobs) != len(response.tokens):
        raise EngineError(
            f"question {question.question_id}: for candidate {request.candidate}, the engine "
            f"scored the tokens {response.tokens} instead of {candidate.tokens}"
        )
    scored = response.logprobs[candidate.first :]
    if any(logprob > 0 or logprob != logprob for logprob, _ in scored):
        raise EngineError(
            f"question {question.question_id}: the engine returned impossible "
            f"log-probabilities: {scored}"
        )
    return CandidateScore(
        token_logprobs=tuple(logprob for logprob, _ in scored),
        is_greedy=all(rank == 1 for _, rank in scored),
    )


def check_room(question: EngineQuestion, prompt_length: int, limit: int) -> None:
    """Raise `ContextTooLongError` if a question exceeds the engine's limit.

    It consists of the context, media included, and its longest candidate.

    Args:
        question: The question.
        prompt_length: Lower bound for the length of the context, in tokens.
        limit: The engine's ``max_model_len``.
    """
    longest = question.longest_candidate
    if prompt_length + longest > limit:
        raise too_long(
            question.question_id, prompt_length, longest, f"the engine's max_model_len is {limit}"
        )
