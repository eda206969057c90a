"""Convert ranking requests to chat completions of a vLLM server, and parse its answers.

Nothing is sent here.
"""

import asyncio
import base64
import io
import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pydantic import BaseModel, ValidationError

from lmms_egoplan.ranking.encoding import Message, QuestionEncoder
from lmms_egoplan.ranking.engine.requests import (
    ARGUMENT,
    EngineError,
    EngineQuestion,
    EngineRequest,
    EngineResponse,
    Token,
    items_of,
    media_of,
    with_items,
)
from lmms_egoplan.validation import problems_in

# Largest effect of rounding on log-probabilities and sums of probabilities.
_ROUNDING = 1e-3

# Part of the IDs of images. A server silently uses the image stored under a known ID, so IDs must
# be unguessable.
_RUN = secrets.token_bytes(32)

# vLLM's servers write this value for minus infinity, which JSON does not support.
_LOWEST = -9999.0

_REMEDY = (
    "Start the server with the checkpoint's own chat template, --chat-template-content-format "
    "openai and the checkpoint's own settings for images, or rank without base_url"
)


@dataclass(frozen=True)
class ChatQuestion(EngineQuestion):
    """A question for a server, which tokenises it itself. ``prefix`` contains the expected tokens.

    Attributes:
        messages: The context, with images as data URLs.
        texts: The candidates.
        is_closed: Whether the scored text includes the end of the assistant's turn (``score_eos``,
            `END_OF_ANSWER`).
        adds_special_tokens: Whether the tokenizer adds special tokens before the template's text.
        surplus: Number of tokens by which the prompt for an answer exceeds the prefix shared by the
            candidates; may be negative.
        first_answer: Empty until the first request is sent. Then contains a future, which is done
            once the server has answered and stored the images.
    """

    messages: tuple[Message, ...] = ()
    texts: tuple[str, ...] = ()
    is_closed: bool = False
    adds_special_tokens: bool = False
    surplus: int = 0
    first_answer: list[asyncio.Future[None]] = field(default_factory=list, compare=False)

    @property
    def image_bytes(self) -> int:
        """Size of the images as sent."""
        return sum(
            len(item["image_url"]["url"]) for item in items_of(self.messages) if "image_url" in item
        )


class UnreadableError(EngineError):
    """An answer is not a chat completion. A retry may succeed."""


def chat_question(
    encoder: QuestionEncoder,
    messages: Sequence[Message],
    candidates: Sequence[str],
    question_id: str,
) -> ChatQuestion:
    """Create a question for a server from text and images; raise like `QuestionEncoder.encode`.

    The model's processor also encodes the images: their tokens show whether the server processes
    them the same way.
    """
    split = encoder.split(messages, candidates, question_id)
    encoded = encoder.encode(messages, candidates, question_id)
    texts, is_closed = encoder.closed(candidates, question_id)
    prompt, adds_special_tokens = encoder.prompt(messages)
    surplus = len(prompt) - len(split.prefix)
    return ChatQuestion(
        question_id,
        encoded.inputs["input_ids"][0].tolist(),
        encoded.candidates,
        media_of(messages),
        lengths=[encoded.prefix_length],
        can_force=all(
            (split.prefix + candidate.tokens)[: len(prompt)] == prompt
            and surplus <= candidate.first
            for candidate in split.candidates
        ),
        messages=tuple(with_items(messages, _with_id)),
        texts=tuple(texts),
        is_closed=is_closed,
        adds_special_tokens=adds_special_tokens,
        surplus=surplus,
    )


def probe_body(model: str, forced: Sequence[int]) -> dict[str, Any]:
    """Return a short request that tests whether a server forces tokens."""
    return _body(model, [{"role": "user", "content": "What next?"}]) | _forced(forced)


def read_probe(forced: Sequence[int], answer: str) -> tuple[bool, int | None]:
    """Parse the answer to `probe_body`.

    Returns:
        Whether the answer consists of these tokens, with log-probabilities from before they were
        forced. Also the maximum number of tokens that the server generates; None if it generated
        all requested ones.

    Raises:
        UnreadableError: The answer is not a chat completion.
        EngineError: The answer has logits instead of log-probabilities.
    """
    (choice, *_) = _read(answer, "the first request").choices
    content = (choice.logprobs.content if choice.logprobs else None) or []
    for token in content:
        tops = [top.logprob for top in token.top_logprobs]
        highest = max([token.logprob, *tops])
        if highest > _ROUNDING or sum(map(math.exp, tops)) > 1 + _ROUNDING:
            raise EngineError(
                f"the server returns logits, not log-probabilities ({highest:.4g}); "
                "start it without --logprobs-mode"
            )
    tokens = choice.token_ids or []
    is_forced = (
        len(tokens) > 1
        and tokens == list(forced[: len(tokens)])
        and any(token.logprob < 0 for token in content)
    )
    return is_forced, len(tokens) if len(tokens) < len(forced) else None


def body_of(
    question: ChatQuestion, request: EngineRequest, model: str, *, is_stored: bool = False
) -> dict[str, Any]:
    """Return the body of a chat completion.

    Args:
        question: The question.
        request: The request for one of its candidates or its context.
        model: The server's name for the model.
        is_stored: Whether to send only the IDs of the images.
    """
    messages = with_items(question.messages, _only_id) if is_stored else question.messages
    settings = {"add_special_tokens": question.adds_special_tokens}
    if not request.takes_prompt_logprobs:
        return _body(model, messages) | settings | _forced(_prompt_and_forced(question, request)[1])
    assert request.candidate is not None
    answer = {"role": "assistant", "content": question.texts[request.candidate]}
    settings |= {"add_generation_prompt": False, "continue_final_message": not question.is_closed}
    return _body(model, [*messages, answer]) | settings | {"prompt_logprobs": 0, "max_tokens": 1}


def response_of(question: ChatQuestion, request: EngineRequest, answer: str) -> EngineResponse:
    """Parse a server's answer to `body_of`.

    Raises:
        UnreadableError: The answer is not a chat completion.
        EngineError: The server's tokens differ from those of the checkpoint's processor and chat
            template, or the answer is incomplete.
    """
    name = f"question {question.question_id}"
    completion = _read(answer, name)
    if completion.prompt_token_ids is None:
        raise EngineError(
            f"{name}: the server returned no prompt_token_ids; ranking needs vLLM's own "
            "server, 0.11 or newer"
        )
    (choice, *_) = completion.choices
    if request.takes_prompt_logprobs:
        prompt = request.prompt
        _check_tokens(question, completion.prompt_token_ids[: len(prompt)], prompt)
        rows = completion.prompt_logprobs
        if rows is None or len(rows) < len(prompt):
            raise EngineError(
                f"{name}: the server did not return prompt_logprobs for the whole prompt. vLLM's "
                "own server does; check whether a proxy drops them"
            )
        tokens = prompt[len(question.prefix) :]
        entries = zip(rows[len(question.prefix) :], tokens, strict=False)
        return EngineResponse(
            len(prompt), tokens, [_entry(row, token, name) for row, token in entries]
        )
    prompt, forced = _prompt_and_forced(question, request)
    _check_tokens(question, completion.prompt_token_ids, prompt)
    if request.candidate is None:
        return EngineResponse(len(prompt), [], [])
    if choice.token_ids != forced:
        raise EngineError(
            f"{name}: the server generated {choice.token_ids} instead of the requested tokens"
        )
    content = choice.logprobs.content if choice.logprobs else None
    if content is None or len(content) != len(forced):
        raise EngineError(f"{name}: the server returned no logprobs for the generated tokens")
    scored = [(_finite(token.logprob), _rank(token)) for token in content][
        max(0, -question.surplus) :
    ]
    context: list[Token] = [
        (0.0, 1)
    ] * question.surplus  # tokens of the prompt, which are never scored
    return EngineResponse(len(prompt), request.forced, context + scored)


class _Top(BaseModel):
    logprob: float


class _Entry(_Top):
    rank: int


class _Generated(_Top):
    top_logprobs: list[_Top]


class _Logprobs(BaseModel):
    content: list[_Generated] | None = None


class _Choice(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None


class _Answer(BaseModel):
    error: Any = None
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: list[dict[int, _Entry] | None] | None = None


def _read(answer: str, name: str) -> _Answer:
    try:
        completion = _Answer.model_validate_json(answer)
    except ValidationError as error:
        problem = problems_in(error)[0]
        raise UnreadableError(
            f"{name}: the server's answer is not a vLLM chat completion: {problem}"
        ) from None
    if completion.error:
        raise UnreadableError(f"{name}: the server returned an error: {completion.error!s:.300}")
    if not completion.choices:
        raise UnreadableError(f"{name}: the server's answer has no choices")
    return completion


def _body(model: str, messages: Sequence[Message]) -> dict[str, Any]:
    return {"model": model, "messages": list(messages), "temperature": 0, "return_token_ids": True}


def _forced(tokens: Sequence[int]) -> dict[str, Any]:
    return {
        "max_tokens": len(tokens),
        "logprobs": True,
        "top_logprobs": 2,  # vLLM counts the generated token among them
        "ignore_eos": True,
        "vllm_xargs": {ARGUMENT: list(tokens)},
    }


def _prompt_and_forced(
    question: ChatQuestion, request: EngineRequest
) -> tuple[list[int], list[int]]:
    """Return the tokens of the server's prompt, and the tokens that it must generate after it.

    The prompt ends before the prefix's end if `question.surplus` is negative. A request without a
    candidate asks for the prompt only. It has the first candidate's prompt, which all share, and
    one forced token, since a server generates at least one.
    """
    candidate = question.candidates[0 if request.candidate is None else request.candidate]
    tokens = question.prefix + candidate.tokens
    start = len(question.prefix) + question.surplus
    prompt = tokens[:start]
    if request.candidate is None:
        return prompt, tokens[start : start + 1]
    return prompt, tokens[start:]


def _check_tokens(question: ChatQuestion, tokens: list[int], expected: list[int]) -> None:
    if tokens == expected:
        return
    pairs = zip(tokens, expected, strict=False)
    index = next(
        (index for index, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(expected))
    )
    raise EngineError(
        f"question {question.question_id}: the server's tokens differ from the checkpoint's, "
        f"starting at token {index + 1}: {tokens[index : index + 3]} instead of "
        f"{expected[index : index + 3]}. {_REMEDY}"
        + (
            ", or without score_eos and tasks that score the end of the turn"
            if question.is_closed
            else ""
        )
    )


def _entry(row: dict[int, _Entry] | None, token: int, name: str) -> Token:
    if row is None or token not in row:
        raise EngineError(f"{name}: the server returned no log-probability for token {token}")
    return _finite(row[token].logprob), row[token].rank


def _finite(logprob: float) -> float:
    return -float("inf") if logprob <= _LOWEST else logprob


def _rank(generated: _Generated) -> int:
    """Return 1 for the most probable token, else 2: the server does not return the exact rank."""
    return 1 if all(generated.logprob >= top.logprob for top in generated.top_logprobs) else 2


def _with_id(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an image as sent, with an ID for the server's cache.

    The ID is derived from the image's bytes and this run.
    """
    if item["type"] != "image":
        return [item]
    file = io.BytesIO()
    item["image"].convert("RGB").save(file, "PNG", compress_level=1)  # lossless and fast
    url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    return [
        {
            "type": "image_url",
            "image_url": {"url": url},
            "uuid": sha256(_RUN + url.encode()).hexdigest(),
        }
    ]


def _only_id(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [item | {"image_url": None} if item["type"] == "image_url" else item]
