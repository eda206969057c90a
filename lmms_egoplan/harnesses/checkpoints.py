"""Check a model's arguments and its checkpoint before weights load."""

import difflib
import hashlib
import inspect
import json
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PreTrainedConfig

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.harnesses.requirements import require_vllm
from lmms_egoplan.jsonl import decode

# A function that takes any names does not know them.
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_arguments(model: str, given: Iterable[str], *takers: Callable[..., Any], is_open: bool = False) -> None:
    """Check the names of ``--model_args``.

    Args:
        model: its name in the harness.
        given: the names.
        takers: classes or functions that take arguments of these names.
        is_open: the parent class takes further names, so only near misses of known ones are errors.

    Raises:
        LmmsEgoplanError: one is unknown; names the nearest known one.
    """
    parameters = [parameter for taker in takers for parameter in inspect.signature(taker).parameters.values()]
    known = {parameter.name for parameter in parameters if parameter.kind not in _OPEN} - {"self"}
    for name in sorted({*given} - known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8 if is_open else 0.6)
        if near or not is_open:
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise LmmsEgoplanError(f"{model}: --model_args has no argument {name}; {hint}")


def check_vllm_arguments(model: str, given: Iterable[str], *takers: Callable[..., Any]) -> None:
    """Check the names of ``--model_args`` as `check_arguments`, with those that vLLM takes."""
    require_vllm(model)
    from vllm import LLM, EngineArgs

    check_arguments(model, given, *takers, LLM, EngineArgs)


def load_config(model: str, checkpoint: str, **loading: Any) -> tuple[PreTrainedConfig, Any]:
    """Load a vision-language checkpoint's configuration and processor.

    Args:
        model: its name in the harness.
        checkpoint: name or folder.
        loading: ``revision`` and ``trust_remote_code``, as transformers takes them.

    Raises:
        LmmsEgoplanError: there is no such checkpoint, it is damaged, or it takes no images.
    """
    if checkpoint.startswith((".", "/", "~")) and not Path(checkpoint).expanduser().is_dir():
        raise LmmsEgoplanError(f"{model}: {checkpoint}: no such folder")
    try:
        config = AutoConfig.from_pretrained(checkpoint, **loading)
    except Exception as error:  # each library fails in its own way
        raise LmmsEgoplanError(f"{model}: {checkpoint}: no configuration of a checkpoint: {_line(error)}") from error
    takes_images = type(config) in AutoModelForImageTextToText._model_mapping
    if not takes_images and AutoModelForImageTextToText.__name__ not in getattr(config, "auto_map", {}):
        raise LmmsEgoplanError(
            f"{model}: {checkpoint}: takes no images, being of type {config.model_type}; give a vision-language model"
        )
    try:
        return config, AutoProcessor.from_pretrained(checkpoint, **loading)
    except Exception as error:
        raise LmmsEgoplanError(f"{model}: {checkpoint}: its processor cannot be loaded: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())


def weights_version(pretrained: str, commit: str | None) -> str:
    """Return a text that changes with the weights, or any other file of the checkpoint, without reading them.

    Args:
        pretrained: a checkpoint's folder, or its name on the hub.
        commit: the revision that the hub's name was resolved to (``model.config._commit_hash``); None for folders.

    Returns:
        The commit; for a folder a digest of the names, sizes and times of its files, and the same of the folder or the
        name of the model that an adapter in it belongs to. A text that never comes again where neither is known.
    """
    return folder_version(pretrained) or (f"{pretrained}@{commit}" if commit else f"unknown-{uuid.uuid4().hex}")


def folder_version(value: Any) -> str | None:
    """Return a digest of a folder, such as a checkpoint's or an adapter's; None if the value names no folder."""
    if not isinstance(value, str | Path) or not (folder := Path(value).expanduser()).is_dir():
        return None
    entries = _files(folder)
    try:
        base = decode((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        base = None
    if base is not None:
        entries += [[str(base), ""], *_files(Path(str(base)))]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:32]


def _files(folder: Path) -> list[list[str]]:
    """Return name and version of each file below a folder, by name; none if there is no folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [[str(path.relative_to(folder)), file_version(path.stat())] for path in files]
