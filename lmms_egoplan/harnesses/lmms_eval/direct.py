"""Ask a model through a backend of lmms-eval, without a task of the harness."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lmms_eval.api.instance import Instance, unwrap_generation_output
from lmms_eval.models import get_model
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood

# lmms-eval's backends for APIs return a text that begins with this if the server sent no reply.
_FAILED = "[LMMS_EVAL_"


@dataclass(frozen=True)
class Request:
    """One request to a model.

    Attributes:
        sample_id: Names the question in messages.
        text: The prompt, after the media.
        visuals: The media.
        arguments: Generation arguments.
        choices: Choices to rank instead of generating a reply.
    """

    sample_id: str
    text: str
    visuals: VisualInput
    arguments: Mapping[str, Any]
    choices: Sequence[str] = ()


def load_model(backend: str, arguments: Mapping[str, str]) -> Any:
    """Load a model as lmms-eval does, with ``--model`` and ``--model_args``."""
    return get_model(backend).create_from_arg_string(
        ",".join(f"{name}={value}" for name, value in arguments.items())
    )


def replies_to(model: Any, requests: Sequence[Request]) -> Iterator[tuple[int, Any, bool | None]]:
    """Yield each request's position, its reply, and whether the token limit ended it.

    Rankings come last.

    Yields:
        The reply as generated. For choices, a tuple with the mean loss in nats and the number of
        tokens of each one; None if unknown. An `LmmsEgoplanError` if the server sent no reply. The
        last value is None for rankings, and if the backend counts no tokens.
    """
    model.task_dict["sensitivity"] = {
        "sample": [{"sample_id": request.sample_id} for request in requests]
    }
    client = getattr(model, "client", None)
    if isinstance(client, AsyncOpenAI):
        # Its open connections belong to the event loop of the previous call.
        model.client = client.copy(http_client=DefaultAsyncHttpxClient())
    generating = [
        (number, request) for number, request in enumerate(requests) if not request.choices
    ]
    ranking = [(number, request) for number, request in enumerate(requests) if request.choices]
    for number, request, answers in _answers(model, model.generate_until, generating):
        yield number, *_reply(request, *answers[0])
    for number, _, answers in _answers(model, model.loglikelihood, ranking):
        scores = [parse_loglikelihood(text) for text, _ in answers]
        yield number, tuple((score.loss, score.num_tokens) for score in scores), None


def _answers(
    model: Any,
    ask: Callable[[list[Instance]], Sequence[Any]],
    requests: Sequence[tuple[int, Request]],
) -> Iterator[tuple[int, Request, list[tuple[str, Any]]]]:
    """Yield each request's position, the request, and texts and counts of tokens of its answers.

    A request to rank choices has one answer per choice.
    """
    if not requests:
        return
    instances = []
    for number, request in requests:
        for choice in request.choices or ("",):
            instances.append(_instance(model, number, request, choice))
    answers = map(unwrap_generation_output, ask(instances))
    for number, request in requests:
        answers_of_request = list(islice(answers, len(request.choices) or 1))
        if not answers_of_request:
            raise ValueError(f"sample_id {request.sample_id}: the backend returned no answer")
        yield number, request, answers_of_request


def _reply(request: Request, text: str, counts: Any) -> tuple[Any, bool | None]:
    """Return a reply, or the error if the server sent none, and whether the limit ended it."""
    if text.startswith(_FAILED):
        return LmmsEgoplanError(f"sample_id {request.sample_id}: {text}"), None
    if counts is None or counts.output_tokens is None:
        return text, None
    return text, counts.output_tokens >= request.arguments["max_new_tokens"]


def _instance(model: Any, number: int, request: Request, choice: str) -> Instance:
    arguments = {**request.arguments}  # some backends change it
    media = [
        {"type": "video" if isinstance(item, str) else "image", "url": item}
        for item in request.visuals
    ]
    messages = [{"role": "user", "content": [*media, {"type": "text", "text": request.text}]}]
    middle: tuple[Any, Any]
    if request.choices or model.is_simple:
        middle = (choice or arguments, lambda _: [*request.visuals])
    else:
        middle = (lambda _: messages, arguments)
    kind: Any = "loglikelihood" if request.choices else "generate_until"
    metadata = {"task": "sensitivity", "doc_id": number, "repeats": 1}
    return Instance(
        kind, (request.text, *middle, number, "sensitivity", "sample"), number, metadata
    )
