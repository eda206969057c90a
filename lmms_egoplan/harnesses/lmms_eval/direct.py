"""Ask a model through a backend of lmms-eval, without a task of the harness."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from lmms_eval.api.instance import Instance, unwrap_generation_output
from lmms_eval.models import get_model
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood

# lmms-eval's backends for APIs return a text that begins with this if the server sent no reply.
_FAILED = "[LMMS_EVAL_"


class Request(NamedTuple):
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
    if isinstance(client := getattr(model, "client", None), AsyncOpenAI):
        # Its open connections belong to the event loop of the previous call.
        model.client = client.copy(http_client=DefaultAsyncHttpxClient())
    for ask, is_ranking in ((model.generate_until, False), (model.loglikelihood, True)):
        asked = [
            (number, request)
            for number, request in enumerate(requests)
            if bool(request.choices) == is_ranking
        ]
        instances = [
            _instance(model, *pair, choice) for pair in asked for choice in pair[1].choices or ("",)
        ]
        answers = (
            unwrap_generation_output(answer) for answer in (ask(instances) if instances else ())
        )
        for number, request in asked:
            texts, counts = zip(*islice(answers, len(request.choices) or 1), strict=True)
            if is_ranking:
                yield (
                    number,
                    tuple(
                        (score.loss, score.num_tokens) for score in map(parse_loglikelihood, texts)
                    ),
                    None,
                )
            elif texts[0].startswith(_FAILED):
                yield number, LmmsEgoplanError(f"sample_id {request.sample_id}: {texts[0]}"), None
            else:
                tokens = None if counts[0] is None else counts[0].output_tokens
                is_truncated = (
                    None if tokens is None else tokens >= request.arguments["max_new_tokens"]
                )
                yield number, texts[0], is_truncated


def _instance(model: Any, number: int, request: Request, choice: str) -> Instance:
    arguments = {**request.arguments}  # some backends change it
    media = [
        {"type": "video" if isinstance(item, str) else "image", "url": item}
        for item in request.visuals
    ]
    messages = [{"role": "user", "content": [*media, {"type": "text", "text": request.text}]}]
    is_chat = not (request.choices or model.is_simple)
    middle = (
        (lambda _: messages, arguments)
        if is_chat
        else (choice or arguments, lambda _: [*request.visuals])
    )
    kind: Any = "loglikelihood" if request.choices else "generate_until"
    metadata = {"task": "sensitivity", "doc_id": number, "repeats": 1}
    return Instance(
        kind, (request.text, *middle, number, "sensitivity", "sample"), number, metadata
    )
