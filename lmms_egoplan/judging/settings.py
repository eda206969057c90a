"""Which judge to ask, from the environment."""

import functools
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record
from lmms_egoplan.judging.asking import Asking
from lmms_egoplan.judging.judgement import DEMO

_MODEL = ("LMMS_EGOPLAN_JUDGE_MODEL", "MODEL_VERSION")
_BASE_URL = ("LMMS_EGOPLAN_JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL")
_API_KEY = ("LMMS_EGOPLAN_JUDGE_API_KEY", "OPENAI_API_KEY")
SERVER_KEY = "LMMS_EGOPLAN_SERVER_API_KEY"
_AZURE_KEY = ("LMMS_EGOPLAN_JUDGE_API_KEY", "AZURE_API_KEY")
_AZURE_ENDPOINT = ("AZURE_ENDPOINT",)
_AZURE_VERSION = ("AZURE_API_VERSION", "API_VERSION")
TIMEOUT = "LMMS_EGOPLAN_JUDGE_TIMEOUT"
MAX_TOKENS = "LMMS_EGOPLAN_JUDGE_MAX_TOKENS"
MAX_MIB = "LMMS_EGOPLAN_JUDGE_MAX_MIB"
PARAMETERS = "LMMS_EGOPLAN_JUDGE_PARAMETERS"
# Parameters of a request that the user can change or remove; with others, the question is another one.
DEFAULT_PARAMETERS: Mapping[str, Any] = {"temperature": 0}
# OpenAI's newer models accept only the second, most other servers only the first. The limit is no part of a question.
LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
# Parameters that would change what is asked or how the reply arrives.
_FIXED = {"model", "messages", "n", "stream", "stream_options", "response_format", "tools", "functions"}
# Of each number its variable, and the highest.
_NUMBERS = {
    "concurrency": ("LMMS_EGOPLAN_JUDGE_CONCURRENCY", 1000),  # the openai library keeps no more connections
    "timeout": (TIMEOUT, 86_400),
    "max_tokens": (MAX_TOKENS, 1_000_000),
    "max_mib": (MAX_MIB, 1024),
}
# What lmms-eval's Azure judge takes where none is set.
_DEFAULT_AZURE_VERSION = "2024-02-15-preview"
# The openai library wants a key; local servers do not read it.
NO_KEY = "none"

HOW_TO_SET = """\
export LMMS_EGOPLAN_JUDGE_BASE_URL=https://api.openai.com/v1
export LMMS_EGOPLAN_JUDGE_API_KEY=...
export LMMS_EGOPLAN_JUDGE_MODEL=gpt-4o-2024-11-20   # replaces the default judge of every benchmark"""


@dataclass(frozen=True)
class JudgeSettings:
    """A judge model and how to reach it.

    model: as the endpoint names it (for Azure: the deployment), or ``"demo"`` for the judge in the process.
    base_url: of an OpenAI-compatible API, without ``/chat/completions``; None is api.openai.com.
    api_key: a secret.
    concurrency: most requests in flight at once, 1 to 1000.
    azure_endpoint, azure_api_version: both set for Azure, `base_url` then being None.
    timeout: seconds that one request may take, at least 1.
    max_tokens: most tokens of a reply, reasoning included, at least 1.
    limit_name: one of `LIMIT_NAMES`, under which `max_tokens` is sent; None for the one that the endpoint accepts.
    max_mib: most MiB of a response's body, decompressed, at least 1.
    parameters: sent with each request, by name; they distinguish a question from others.
    asking: the options and counts of the command that asks.
    is_afresh: whether replies in the cache are replaced.
    """

    model: str
    base_url: str | None = None
    api_key: str = field(default=NO_KEY, repr=False)
    concurrency: int = 32
    azure_endpoint: str | None = None
    azure_api_version: str | None = None
    timeout: int = 300
    max_tokens: int = 4096
    limit_name: str | None = None
    max_mib: int = 16
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULT_PARAMETERS), hash=False)
    asking: Asking = field(default_factory=Asking, compare=False, repr=False)
    is_afresh: bool = False

    @property
    def where(self) -> str:
        """The endpoint's address, for messages."""
        return self.azure_endpoint or self.base_url or "https://api.openai.com/v1"

    def name(self, model: str) -> str:
        """Name a model that answered, with the parameters that are not the default ones.

        >>> JudgeSettings("o3", parameters={"reasoning_effort": "high"}).name("o3-2025-04-16")
        'o3-2025-04-16 (reasoning_effort="high", temperature=null)'
        """
        sent = {**dict.fromkeys(DEFAULT_PARAMETERS), **self.parameters}
        changed = [
            f"{name}={json.dumps(sent[name])}" for name in sorted(sent) if sent[name] != DEFAULT_PARAMETERS.get(name)
        ]
        return f"{model} ({', '.join(changed)})" if changed else model

    def shared_by(self, processes: int) -> "JudgeSettings":
        """Return the same judge with one process's share of the concurrency, at least 1."""
        return replace(self, concurrency=max(1, self.concurrency // processes))


def judge_settings(default_model: str) -> JudgeSettings | None:
    """Return the judge that the environment sets; None if it sets none.

    ``LMMS_EGOPLAN_JUDGE_MODEL``, ``_BASE_URL`` and ``_API_KEY``, each with the harness's variables behind it:
    ``MODEL_VERSION``, ``OPENAI_API_URL`` or ``OPENAI_BASE_URL``, ``OPENAI_API_KEY``. A judge is set if there is an
    address or a key, or the model is ``demo``. ``API_TYPE=azure`` without an address of our own takes
    ``AZURE_ENDPOINT``, ``AZURE_API_KEY`` and ``AZURE_API_VERSION``, as lmms-eval's judges do. Where an address of our
    own, on another machine and not OpenAI's, gets ``OPENAI_API_KEY`` for want of a key of our own, a warning tells.
    ``LMMS_EGOPLAN_JUDGE_CONCURRENCY`` is 32 by default, ``_TIMEOUT`` 300 (seconds), ``_MAX_TOKENS`` 4096, ``_MAX_MIB``
    16. ``_PARAMETERS`` is a JSON object of parameters that are sent with each request; null removes one.

    Args:
        default_model: asked where no model is set.

    Raises:
        LmmsEgoplanError: an address, key, number or parameter is malformed, or Azure's are incomplete.
    """
    model = _first(_MODEL) or default_model
    if model == DEMO:
        return JudgeSettings(DEMO, **_limits())
    is_azure = os.environ.get("API_TYPE", "").strip().lower() == "azure" and not _first(_BASE_URL[:1])
    url, key = (_url(_AZURE_ENDPOINT), _key(_AZURE_KEY)) if is_azure else (_url(_BASE_URL), _key(_API_KEY))
    if url is None and key is None:
        return None
    if is_azure:
        if url is None or key is None:
            raise LmmsEgoplanError("API_TYPE=azure needs both AZURE_ENDPOINT and AZURE_API_KEY; one of them is not set")
        version = _first(_AZURE_VERSION) or _DEFAULT_AZURE_VERSION
        return JudgeSettings(model, api_key=key, azure_endpoint=url, azure_api_version=version, **_limits())
    if url and key and _first(_BASE_URL[:1]) and not _first(_API_KEY[:1]):
        _tell_of_borrowed_key(urlsplit(url).hostname or "")
    return JudgeSettings(model, url, key or NO_KEY, **_limits())


def language_model(
    default_model: str, name: str | None = None, asking: Asking | None = None, concurrency: int | None = None
) -> JudgeSettings:
    """Return the judge or other language model to ask, as the environment sets it.

    Args:
        default_model: asked where neither `name` nor the environment names one.
        name: of the model, as the endpoint has it.
        asking: options of the command; an estimate needs no endpoint.
        concurrency: in place of the environment's.

    Raises:
        LmmsEgoplanError: the environment sets none, or sets it wrongly.
    """
    settings = judge_settings(default_model)
    if settings is None and asking is not None and asking.is_estimate:
        settings = JudgeSettings(set_model()[1] or default_model)
    if settings is None:
        raise LmmsEgoplanError(f"no language model is set to ask. Set one as a judge is set:\n{HOW_TO_SET}")
    return replace(
        settings,
        model=name or settings.model,
        asking=asking or settings.asking,
        concurrency=concurrency or settings.concurrency,
    )


def server_settings(base_url: str, model: str) -> JudgeSettings:
    """Return a server at an address of a command; its key is ``LMMS_EGOPLAN_SERVER_API_KEY``, or none.

    Args:
        model: as the server names it.

    Raises:
        LmmsEgoplanError: the address or the key is malformed.
    """
    address = _address("base_url", base_url.strip())
    key = _key((SERVER_KEY,))
    # None of a judge's limits: a long context takes its time, and the log-probabilities of its tokens much room.
    return JudgeSettings(model, address, key or NO_KEY, timeout=_NUMBERS["timeout"][1], max_mib=_NUMBERS["max_mib"][1])


def set_model() -> tuple[str, str]:
    """Return the variable of the environment that sets the judge's model, and the model; empty texts if none does."""
    return _named(_MODEL)


def _named(names: tuple[str, ...]) -> tuple[str, str]:
    """Return name and value of the first variable that is set; empty texts if none is."""
    values = ((name, os.environ.get(name, "").strip()) for name in names)
    return next(((name, value) for name, value in values if value), ("", ""))


def _first(names: tuple[str, ...]) -> str:
    return _named(names)[1]


def _url(names: tuple[str, ...]) -> str | None:
    name, value = _named(names)
    return _address(name, value) if value else None


def _address(name: str, value: str) -> str:
    """Check an address; return it without the path of chat completions.

    Args:
        name: of the setting, for messages.
    """
    try:
        url = urlsplit(value)
        good = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        good = False
    if not good or "@" in url.netloc or url.query or url.fragment:
        raise LmmsEgoplanError(
            f"{name} is not an address like http://127.0.0.1:8000/v1 (http or https, no user, no query; a key goes "
            "into its own variable)"
        )
    return value.rstrip("/").removesuffix("/chat/completions")


def _key(names: tuple[str, ...]) -> str | None:
    name, key = _named(names)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise LmmsEgoplanError(f"{name} must be printable ASCII without spaces")
    return key or None


@functools.cache
def _tell_of_borrowed_key(host: str) -> None:
    """Warn once that the key for OpenAI goes to another machine."""
    is_loopback = host == "localhost"
    with suppress(ValueError):  # no number
        is_loopback = ip_address(host).is_loopback
    if not (is_loopback or host.endswith(".openai.com")):
        logger.warning(
            f"{_API_KEY[1]} is sent to {host} (from {_BASE_URL[0]}), because {_API_KEY[0]} is not set. Set it "
            "to the key of this endpoint, or to any word if it needs none"
        )


def _limits() -> dict[str, Any]:
    """Return the numbers and parameters that are set, by the names of their settings."""
    limits: dict[str, Any] = {}
    for setting, (name, highest) in _NUMBERS.items():
        if text := _first((name,)):
            limits[setting] = _number(name, text, highest)
    if text := _first((PARAMETERS,)):
        parameters = _parameters(text)
        for name in LIMIT_NAMES:
            if name in parameters:
                number = _number(f"{PARAMETERS}: {name}", json.dumps(parameters.pop(name)), _NUMBERS["max_tokens"][1])
                if limits.setdefault("max_tokens", number) != number or limits.setdefault("limit_name", name) != name:
                    raise LmmsEgoplanError(f"{PARAMETERS} sets {name} to {number}, but another limit is set; unset one")
        limits["parameters"] = {name: value for name, value in parameters.items() if value is not None}
    return limits


def _parameters(text: str) -> dict[str, Any]:
    """Return the default parameters with those of a JSON object, None for those that it removes."""
    how = 'set a JSON object such as {"temperature": null}'
    given = parse_record(PARAMETERS, text, how)
    if not isinstance(given, dict) or "" in given:
        raise LmmsEgoplanError(f"{PARAMETERS} is no JSON object with names; {how}")
    if fixed := sorted(_FIXED & given.keys()):
        raise LmmsEgoplanError(f"{PARAMETERS}: remove {', '.join(fixed)}, which cannot be set")
    try:
        json.dumps(given, allow_nan=False)
    except ValueError as error:
        raise LmmsEgoplanError(f"{PARAMETERS}: {error}; {how}") from error
    return {**DEFAULT_PARAMETERS, **given}


def _number(name: str, text: str, highest: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= highest:
        raise LmmsEgoplanError(f"{name} is {text!r}; set a whole number from 1 to {highest}")
    return number
