"""Read the settings of the judge from the environment."""

import functools
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from loguru import logger

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL, DEMO, JudgeProtocol
from lmms_egoplan.judging.prices import read_prices
from lmms_egoplan.judging.usage import LlmOptions, LlmUsage
from lmms_egoplan.judging.variables import (
    MAX_COST,
    MAX_MIB,
    MAX_REQUESTS,
    MAX_TOKENS,
    PARAMETERS,
    PRICES,
    PROTOCOL,
    SERVER_KEY,
    TIMEOUT,
)
from lmms_egoplan.processes import num_processes

_MODEL = ("LMMS_EGOPLAN_JUDGE_MODEL", "MODEL_VERSION")
_BASE_URL = ("LMMS_EGOPLAN_JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL")
_API_KEY = ("LMMS_EGOPLAN_JUDGE_API_KEY", "OPENAI_API_KEY")
_AZURE_KEY = ("LMMS_EGOPLAN_JUDGE_API_KEY", "AZURE_API_KEY")
_AZURE_ENDPOINT = ("AZURE_ENDPOINT",)
_AZURE_VERSION = ("AZURE_API_VERSION", "API_VERSION")
# Request parameters that the user can change or remove. They are part of the cache key.
DEFAULT_PARAMETERS: Mapping[str, Any] = {"temperature": 0}
# OpenAI's newer models accept only the second name, most other servers only the first.
LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
# Parameters that would change the prompt or the form of the reply.
_FIXED = {
    "model",
    "messages",
    "n",
    "stream",
    "stream_options",
    "response_format",
    "tools",
    "functions",
}
# Setting -> (variable, maximum).
_NUMBERS = {
    "concurrency": ("LMMS_EGOPLAN_JUDGE_CONCURRENCY", 1000),  # the maximum of the openai library
    "timeout": (TIMEOUT, 86_400),
    "max_tokens": (MAX_TOKENS, 1_000_000),
    "max_mib": (MAX_MIB, 1024),
}
_MOST_REQUESTS = 99_999_999
# The default of lmms-eval's Azure judge.
_DEFAULT_AZURE_VERSION = "2024-02-15-preview"
# The openai library requires a key. Local servers ignore it.
NO_KEY = "none"
# Default of the commands that build questions, and of the judge of plans. The papers name ChatGPT
# or GPT-4 if any. `gpt-4` has 8,192 tokens for prompt and reply, too few for long videos. This
# model has 128,000, and reads images.
DEFAULT_MODEL = "gpt-4o-2024-11-20"

HOW_TO_SET = (
    "export LMMS_EGOPLAN_JUDGE_BASE_URL=https://api.openai.com/v1\n"
    "export LMMS_EGOPLAN_JUDGE_API_KEY=...\n"
    "export LMMS_EGOPLAN_JUDGE_MODEL=gpt-4o-2024-11-20   "
    "# replaces the default judge of every benchmark"
)


@dataclass(frozen=True)
class JudgeSettings:
    """A judge model and how to reach it.

    Attributes:
        model: Name at the endpoint (for Azure: the deployment), or ``"demo"`` for the judge without
            an endpoint.
        base_url: Address of an OpenAI-compatible API, without ``/chat/completions``; None for
            api.openai.com.
        api_key: The API key, a secret.
        concurrency: Maximum number of requests in flight, 1 to 1000.
        azure_endpoint: Address of the Azure endpoint. With Azure, `base_url` is None.
        azure_api_version: API version, set together with `azure_endpoint`.
        timeout: Seconds until a request times out, at least 1.
        max_tokens: Token limit of a reply, including reasoning, at least 1.
        limit_name: One of `LIMIT_NAMES`, the name under which `max_tokens` is sent; None to detect
            it.
        max_mib: Maximum size of a decompressed response body in MiB, at least 1.
        parameters: Parameters of each request, by name. Part of the cache key.
        usage: Options and counts of the command.
        ignores_cache: If True, ignore and replace cached replies.
        protocol: Name of the judge's protocol; "" for the environment's choice, see
            `chosen_protocol`.
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
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: dict(DEFAULT_PARAMETERS), hash=False
    )
    usage: LlmUsage = field(default_factory=LlmUsage, compare=False, repr=False)
    ignores_cache: bool = False
    protocol: str = ""

    @property
    def options(self) -> LlmOptions:
        """The options of the command."""
        return self.usage.options

    @property
    def where(self) -> str:
        """Address of the endpoint, for messages."""
        return self.azure_endpoint or self.base_url or "https://api.openai.com/v1"

    def name(self, model: str) -> str:
        """Return the name of a model that replied, with its special settings.

        These are the protocol and all parameters that differ from the default.

        >>> JudgeSettings("o3", parameters={"reasoning_effort": "high"}).name("o3-2025-04-16")
        'o3-2025-04-16 (reasoning_effort="high", temperature=null)'
        """
        sent = {**dict.fromkeys(DEFAULT_PARAMETERS), **self.parameters}
        if self.protocol not in ("", DEFAULT_PROTOCOL):
            sent["protocol"] = self.protocol
        changed = [
            f"{name}={json.dumps(sent[name])}"
            for name in sorted(sent)
            if sent[name] != DEFAULT_PARAMETERS.get(name)
        ]
        return f"{model} ({', '.join(changed)})" if changed else model

    def shared_by(self, processes: int) -> "JudgeSettings":
        """Return the same judge with the concurrency divided by the number of processes."""
        return replace(self, concurrency=max(1, self.concurrency // processes))

    def under(self, protocol: JudgeProtocol) -> "JudgeSettings":
        """Return the same judge under a protocol.

        Its parameters and token limit apply unless the environment sets them.

        Raises:
            LmmsEgoplanError: see `judge_settings`.
        """
        parameters = {**self.parameters, **protocol.parameters}
        set_limits = _limits(parameters)
        return replace(
            self,
            protocol=protocol.name,
            parameters=set_limits.get("parameters", parameters),
            max_tokens=set_limits.get("max_tokens", protocol.max_tokens or self.max_tokens),
        )


def chosen_protocol(
    protocols: Mapping[str, JudgeProtocol], name: str = "", default: str = DEFAULT_PROTOCOL
) -> JudgeProtocol:
    """Return the protocol with a name.

    Args:
        protocols: a benchmark's protocols by name.
        name: the name; "" for the value of ``LMMS_EGOPLAN_JUDGE_PROTOCOL``, or `default` without
            this variable.
        default: the name without both.

    Raises:
        LmmsEgoplanError: there is no protocol with this name. The message lists the names.
    """
    name = name or _first((PROTOCOL,)) or default
    if name not in protocols:
        raise LmmsEgoplanError(
            f"{PROTOCOL} or --protocol: {name!r} is unknown; use one of {', '.join(protocols)}"
        )
    return protocols[name]


def judge_settings(default_model: str, usage: LlmUsage | None = None) -> JudgeSettings | None:
    """Return the judge that the environment configures, or None without one.

    Each of our variables takes precedence over the harness's variables:

    - ``LMMS_EGOPLAN_JUDGE_MODEL``, then ``MODEL_VERSION``
    - ``LMMS_EGOPLAN_JUDGE_BASE_URL``, then ``OPENAI_API_URL``, then ``OPENAI_BASE_URL``
    - ``LMMS_EGOPLAN_JUDGE_API_KEY``, then ``OPENAI_API_KEY``

    A judge is configured if an address or a key is set, or if the model is ``demo``.
    ``API_TYPE=azure`` without ``LMMS_EGOPLAN_JUDGE_BASE_URL`` uses ``AZURE_ENDPOINT``,
    ``AZURE_API_KEY`` and ``AZURE_API_VERSION``, like lmms-eval's judges. A warning is logged if
    ``OPENAI_API_KEY`` goes to an address from ``LMMS_EGOPLAN_JUDGE_BASE_URL`` that is neither local
    nor OpenAI's.

    These variables, which begin with ``LMMS_EGOPLAN_JUDGE``, have defaults: ``_CONCURRENCY`` 32,
    ``_TIMEOUT`` 300 (seconds), ``_MAX_TOKENS`` 4096, ``_MAX_MIB`` 16. ``_PARAMETERS`` is a JSON
    object of parameters for each request; null removes a default parameter. ``_MAX_REQUESTS`` and
    ``_MAX_COST``, with the file ``_PRICES``, limit the requests of all tasks of a run together.
    Each of its processes has an equal share; see `forget_usage`.

    Args:
        default_model: the model if the environment names none.
        usage: options and counts of the command, instead of the limits in the environment.

    Raises:
        LmmsEgoplanError: an address, key, number, parameter or file of prices is malformed, or the
            settings for Azure are incomplete.
    """
    model = _first(_MODEL) or default_model
    if usage is None:
        usage = _usage_of_run(_first((PRICES,)), _first((MAX_REQUESTS,)), _first((MAX_COST,)))
    limits = {"usage": usage, **_limits()}
    if model == DEMO:
        return JudgeSettings(DEMO, **limits)
    api_type = os.environ.get("API_TYPE", "").strip().lower()
    is_azure = api_type == "azure" and not _first(_BASE_URL[:1])
    url = _url(_AZURE_ENDPOINT if is_azure else _BASE_URL)
    key = _key(_AZURE_KEY if is_azure else _API_KEY)
    if url is None and key is None:
        return None
    if is_azure:
        if url is None or key is None:
            raise LmmsEgoplanError(
                "API_TYPE=azure requires AZURE_ENDPOINT and AZURE_API_KEY; set both"
            )
        version = _first(_AZURE_VERSION) or _DEFAULT_AZURE_VERSION
        return JudgeSettings(
            model, api_key=key, azure_endpoint=url, azure_api_version=version, **limits
        )
    if url and key and _first(_BASE_URL[:1]) and not _first(_API_KEY[:1]):
        _warn_of_borrowed_key(urlsplit(url).hostname or "")
    return JudgeSettings(model, url, key or NO_KEY, **limits)


def language_model(
    default_model: str,
    name: str | None = None,
    usage: LlmUsage | None = None,
    concurrency: int | None = None,
) -> JudgeSettings:
    """Return the judge or other language model that the environment configures.

    Args:
        default_model: the model if neither `name` nor the environment names one.
        name: name of the model at the endpoint; overrides the environment.
        usage: options and counts of the command. An estimate needs no endpoint.
        concurrency: overrides the environment.

    Raises:
        LmmsEgoplanError: no model is configured, a setting is wrong, or the file of prices lacks
            the model.
    """
    settings = judge_settings(default_model, usage)
    if settings is None and usage is not None and usage.options.is_estimate:
        settings = JudgeSettings(set_model()[1] or default_model)
    if settings is None:
        raise LmmsEgoplanError(
            f"No language model is configured. Set one with the judge's variables:\n{HOW_TO_SET}"
        )
    if usage and usage.options.prices and settings.model != DEMO:
        usage.options.price(name or settings.model)
    return replace(
        settings,
        model=name or settings.model,
        usage=usage or settings.usage,
        concurrency=concurrency or settings.concurrency,
    )


def server_settings(base_url: str, model: str) -> JudgeSettings:
    """Return the settings of an inference server.

    Its optional key is ``LMMS_EGOPLAN_SERVER_API_KEY``.

    Args:
        base_url: address of the server.
        model: name of the model at the server.

    Raises:
        LmmsEgoplanError: the address or the key is malformed.
    """
    address = _address("base_url", base_url.strip())
    key = _key((SERVER_KEY,))
    # The limits of a judge are too low: long contexts are slow, and their log-probabilities are
    # large.
    return JudgeSettings(
        model,
        address,
        key or NO_KEY,
        timeout=_NUMBERS["timeout"][1],
        max_mib=_NUMBERS["max_mib"][1],
    )


def set_model() -> tuple[str, str]:
    """Return the environment variable that sets the judge's model, and its value.

    Returns empty strings if none is set.
    """
    return _named(_MODEL)


def _named(names: tuple[str, ...]) -> tuple[str, str]:
    """Return name and value of the first variable that is set; empty strings if none is."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if value:
            return (name, value)
    return ("", "")


def _first(names: tuple[str, ...]) -> str:
    """Return the value of the first variable that is set; "" if none is."""
    return _named(names)[1]


def _url(names: tuple[str, ...]) -> str | None:
    name, value = _named(names)
    return _address(name, value) if value else None


def _address(name: str, value: str) -> str:
    """Check an address; return it without the path of chat completions.

    Args:
        name: name of the setting, for messages.
        value: the address.
    """
    try:
        url = urlsplit(value)
        good = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        good = False
    if not good or "@" in url.netloc or url.query or url.fragment:
        raise LmmsEgoplanError(
            f"{name} must be an address like http://127.0.0.1:8000/v1: http or https, without "
            "user and query. Set a key in its own variable"
        )
    return value.rstrip("/").removesuffix("/chat/completions")


def _key(names: tuple[str, ...]) -> str | None:
    name, key = _named(names)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise LmmsEgoplanError(f"{name} must be printable ASCII without spaces")
    return key or None


@functools.cache
def _warn_of_borrowed_key(host: str) -> None:
    """Warn once that the key for OpenAI goes to another machine."""
    is_loopback = host == "localhost"
    with suppress(ValueError):  # not an IP address
        is_loopback = ip_address(host).is_loopback
    if not (is_loopback or host.endswith(".openai.com")):
        logger.warning(
            f"{_API_KEY[1]} is sent to {host} (from {_BASE_URL[0]}), because {_API_KEY[0]} is not "
            "set. Set it to this endpoint's key, or to any word if it needs none"
        )


def _limits(defaults: Mapping[str, Any] = DEFAULT_PARAMETERS) -> dict[str, Any]:
    """Return the numbers and parameters that the environment sets, by field name.

    Args:
        defaults: parameters that those of the environment are added to.
    """
    limits: dict[str, Any] = {}
    for setting, (variable, highest) in _NUMBERS.items():
        number = _first((variable,))
        if number:
            limits[setting] = _number(variable, number, highest)
    text = _first((PARAMETERS,))
    if text:
        parameters = _parameters(text)
        for name in LIMIT_NAMES:
            if name in parameters:
                _set_token_limit(limits, name, parameters.pop(name))
        merged = {**defaults, **parameters}
        limits["parameters"] = {name: value for name, value in merged.items() if value is not None}
    return limits


def _set_token_limit(limits: dict[str, Any], name: str, value: Any) -> None:
    """Set the token limit that the parameters contain under one of its names.

    Raises:
        LmmsEgoplanError: another limit is set.
    """
    number = _number(f"{PARAMETERS}: {name}", json.dumps(value), _NUMBERS["max_tokens"][1])
    same_number = limits.setdefault("max_tokens", number) == number
    if not same_number or limits.setdefault("limit_name", name) != name:
        raise LmmsEgoplanError(
            f"{PARAMETERS} sets {name} to {number}, but another limit is set; unset one"
        )


@functools.cache
def _usage_of_run(prices: str, requests: str, cost: str) -> LlmUsage:
    """Return the counts that all tasks of this process share, with its part of the limits."""
    processes = num_processes()
    max_requests = None
    if requests:
        max_requests = _number(MAX_REQUESTS, requests, _MOST_REQUESTS) // processes
    if max_requests is not None and max_requests < 2:
        raise LmmsEgoplanError(
            f"{MAX_REQUESTS} is {requests}; set at least {2 * processes}: 2 for each process "
            f"({processes}), since one is the test request"
        )
    try:
        max_cost = float(cost) / processes if cost else None
    except ValueError:
        max_cost = math.nan
    if max_cost is not None and not 0 <= max_cost < math.inf:
        raise LmmsEgoplanError(f"{MAX_COST} is {cost!r}; set a number from 0")
    options = LlmOptions(
        prices=read_prices(Path(prices) if prices else None),
        max_requests=max_requests,
        max_cost=max_cost,
    )
    return LlmUsage(options)


def forget_usage() -> None:
    """Start the counts of all tasks of this process anew, after a run has ended."""
    _usage_of_run.cache_clear()


def _parameters(text: str) -> dict[str, Any]:
    """Read a JSON object of parameters. Removed parameters have the value None."""
    how = 'set a JSON object such as {"temperature": null}'
    values = parse_record(PARAMETERS, text, how)
    if not isinstance(values, dict) or "" in values:
        raise LmmsEgoplanError(f"{PARAMETERS} is not a JSON object with nonempty names; {how}")
    fixed = sorted(_FIXED & values.keys())
    if fixed:
        raise LmmsEgoplanError(f"{PARAMETERS}: remove {', '.join(fixed)}, which cannot be set")
    try:
        json.dumps(values, allow_nan=False)
    except ValueError as error:
        raise LmmsEgoplanError(f"{PARAMETERS}: {error}; {how}") from error
    return values


def _number(name: str, text: str, highest: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 1 <= number <= highest:
        raise LmmsEgoplanError(f"{name} is {text!r}; set an integer from 1 to {highest}")
    return number
