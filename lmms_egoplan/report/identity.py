"""Identify the model of a run, and how it was asked, by what its results file records.

Two runs with equal identities are runs of one model. Harness, backend, machine, folder, time, batch
size and device do not matter.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lmms_egoplan.harnesses.arguments import MODEL_NAMES, WITHOUT_INFLUENCE
from lmms_egoplan.harnesses.backends import default_arguments
from lmms_egoplan.harnesses.template_files import NONE as PLAIN_TEXT
from lmms_egoplan.harnesses.weights import NO_ADAPTER, NO_CONFIGURATION, NOT_KNOWN
from lmms_egoplan.jsonl import member
from lmms_egoplan.secret_values import HIDDEN, SECRET_NAME, without_secrets

WEIGHTS = "weights"
"""The part of an identity with the model's weights."""

_ADAPTER = "adapter"
_CONFIGURATION = "configuration"
_MODEL = (WEIGHTS, _ADAPTER, _CONFIGURATION)
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Arguments with other weights than those that the model's name and commit stand for.
_OTHER_WEIGHTS = re.compile(
    r"delta\w*|\w*lora\w*|\w*adapter\w*|subfolder|gguf\w*|autogptq|gptqmodel|model_base"
)
_PEFT = "peft"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Values contain commas, such as those of a system prompt.
_NEXT_ARGUMENT = re.compile(r",(?=\s*\w+=)")
_DTYPES = ("dtype", "torch_dtype")
_PIXELS = ("min_pixels", "max_pixels", "video_min_pixels", "video_max_pixels")
_EMPTY = ("", "None", "none", "{}", "[]")
_NO_VALUE = "none"
_TEMPLATE = "chat template"
# In values that are no digest of this package: between a name on the hub and its commit, and
# between lm-eval's digest of a chat template and its name.
_FORM = "@"
_DIGEST_SHOWN = 12

Identity = Mapping[str, str]
"""What identifies a model and how it was asked, as texts by name, in the order of `identity_of`."""


def identity_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the identity of a run's model.

    ``weights``, ``adapter`` and ``configuration`` are digests of the files
    (`harnesses.weights.weights_digest`). Results without them have the hub's name and commit, if
    the harness logged both, and no argument names other weights. What is not known is `NOT_KNOWN`.

    Arguments of the model count unless they are known to change no answer. Secrets are hidden.

    Args:
        content: Content of the results file.
    """
    model = member(content, "record", "model")
    arguments = _arguments(member(content, "config", "model_args"))
    weights, adapter, configuration = _model_files(content, arguments)
    precision = _known(member(model, "dtype"))
    pixels = member(content, "record", "pixels")
    recorded: set[str] = set()
    if precision != NOT_KNOWN:
        recorded.update(_DTYPES)
    if _known(pixels) != NOT_KNOWN:
        recorded.update(_PIXELS)
    if adapter != NOT_KNOWN:
        recorded.add(_PEFT)
    backend = str(member(content, "config", "model"))
    parts = {
        WEIGHTS: weights,
        _ADAPTER: adapter,
        _CONFIGURATION: configuration,
        _TEMPLATE: _chat_template(content),
        "precision": precision.removeprefix("torch."),
        "quantisation": _known(member(model, "quantisation")),
        "pixel limits": _known(pixels),
        "system instruction": _system_instruction(content),
        "decoding": _listed(_arguments(member(content, "config", "gen_kwargs")).items()),
        "examples": _known(_run_setting(content, "num_fewshot"), _NO_VALUE),
        "model arguments": _listed(_that_count(arguments, backend, recorded)),
    }
    return {name: without_secrets(value) for name, value in parts.items()}


def is_known(identity: Identity) -> bool:
    """Return true if weights, adapter and configuration of the model are known."""
    return all(identity.get(name, NOT_KNOWN) != NOT_KNOWN for name in _MODEL)


def is_same_model(first: Identity, second: Identity) -> bool | None:
    """Return true for equal weights and adapters; None if they are not known."""
    names = (WEIGHTS, _ADAPTER)
    if any(_differs(name, first, second) for name in names):
        return False
    is_equal = all(first.get(name, NOT_KNOWN) == second.get(name) != NOT_KNOWN for name in names)
    return True if is_equal else None


def contradictions(first: Identity, second: Identity) -> list[str]:
    """Describe the parts that both identities know and that differ."""
    lines = []
    for name in {**first, **second}:
        if _differs(name, first, second):
            lines.append(f"{name} {_shown(name, first[name])} and {_shown(name, second[name])}")
    return lines


def _differs(name: str, first: Identity, second: Identity) -> bool:
    """Return true if both identities know a part, in a form that can be compared, and it differs.

    A digest of files cannot be compared with a commit on the hub, nor this package's digest of a
    chat template with lm-eval's.
    """
    value = first.get(name, NOT_KNOWN)
    other = second.get(name, NOT_KNOWN)
    if NOT_KNOWN in (value, other):
        return False
    if name in (WEIGHTS, _CONFIGURATION, _TEMPLATE) and (_FORM in value) != (_FORM in other):
        return False
    return value != other


def _shown(name: str, value: str) -> str:
    """Shorten a digest for a message."""
    is_digest = name in (*_MODEL, _TEMPLATE) and len(value) > _DIGEST_SHOWN
    return value[:_DIGEST_SHOWN] if is_digest and _FORM not in value else value


def _known(value: Any, unknown: str = NOT_KNOWN) -> str:
    """Return a recorded value as text."""
    if value is None:
        return unknown
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _model_files(content: Mapping[str, Any], arguments: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the digests of weights, adapter and configuration, or the hub's name and commit."""
    given = [name for name, value in arguments.items() if value not in (*_EMPTY, "False", "false")]
    if any(_OTHER_WEIGHTS.fullmatch(name) for name in given):
        return NOT_KNOWN, NOT_KNOWN, NOT_KNOWN
    model = member(content, "record", "model")
    weights = _digest(member(model, WEIGHTS))
    if weights != NOT_KNOWN:
        adapter = _digest(member(model, _ADAPTER), NO_ADAPTER)
        return weights, adapter, _digest(member(model, _CONFIGURATION), NO_CONFIGURATION)
    commit = NOT_KNOWN if _PEFT in given else _hub_commit(content, arguments)
    return commit, NOT_KNOWN if commit == NOT_KNOWN else NO_ADAPTER, commit


def _digest(value: Any, absent: str = "") -> str:
    """Return a recorded digest, or the mark of absent files; `NOT_KNOWN` for any other value."""
    is_digest = isinstance(value, str) and (value == absent != "" or _DIGEST.fullmatch(value))
    return value if is_digest else NOT_KNOWN


def _hub_commit(content: Mapping[str, Any], arguments: Mapping[str, str]) -> str:
    """Return the hub's name and commit of a model that the harness logged."""
    commit = member(content, "config", "model_sha")
    name = arguments.get("pretrained", "")
    is_logged = isinstance(commit, str) and _COMMIT.fullmatch(commit)
    return f"{name}{_FORM}{commit}" if is_logged and _HUB_NAME.fullmatch(name) else NOT_KNOWN


def _chat_template(content: Mapping[str, Any]) -> str:
    """Return the digest of the chat template, or the mark of a run without one."""
    configs = content.get("configs")
    for config in configs.values() if isinstance(configs, dict) else ():
        mark = member(config, "metadata", "chat_template")
        if mark is not None:
            return str(mark)
    digest = member(content, "record", "processor", "chat_template_sha256")
    if digest is None and isinstance(content.get("chat_template_sha"), str):
        return f"{content['chat_template_sha']}{_FORM}lm-eval"
    return _known(digest)


def _system_instruction(content: Mapping[str, Any]) -> str:
    """Return ``--system_instruction``, which both harnesses store outside the configuration."""
    text = content.get("system_instruction") or _run_setting(content, "system_instruction")
    return _known(text or None, _NO_VALUE)


def _run_setting(content: Mapping[str, Any], name: str) -> Any:
    """Return an option of the harness's command; None if it was not given."""
    value = member(content, "config", name)
    if value is None:
        value = member(content, "config", "resolved_cli_args", name)
    return value


def _arguments(value: Any) -> dict[str, str]:
    """Return arguments as texts by name, from a dict or from ``name=value,name=value``."""
    if isinstance(value, Mapping):
        by_name = {}
        for name, argument in value.items():
            is_nested = isinstance(argument, dict | list)
            by_name[str(name)] = _known(argument) if is_nested else str(argument)
        return by_name
    arguments = {}
    for text in _NEXT_ARGUMENT.split(value) if isinstance(value, str) else ():
        name, equals, argument = text.partition("=")
        if equals:
            arguments[name.strip()] = argument.strip()
    return arguments


def _that_count(
    arguments: Mapping[str, str], backend: str, recorded: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the model's arguments that may change an answer and are not recorded otherwise."""
    defaults = default_arguments(backend)
    for name, value in arguments.items():
        if name in MODEL_NAMES or name in WITHOUT_INFLUENCE or name in recorded:
            continue
        is_default = value.casefold() == defaults.get(name, "").casefold()
        is_mark = name == "chat_template" and value == PLAIN_TEXT  # see `_chat_template`
        if not (value in _EMPTY or is_default or is_mark):
            yield name, value


def _listed(arguments: Iterable[tuple[str, str]]) -> str:
    """Return arguments as one text, without the values of those that are named like secrets."""
    texts = []
    for name, value in sorted(arguments):
        texts.append(f"{name}={HIDDEN if SECRET_NAME.fullmatch(name) else value}")
    return ", ".join(texts) or _NO_VALUE
