"""Check a model's arguments and its checkpoint before the weights are loaded."""

import hashlib
import inspect
import json
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PreTrainedConfig

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_version
from lmms_egoplan.harnesses.requirements import require_vllm, unknown_arguments
from lmms_egoplan.harnesses.template_files import IN_LM_EVAL, stored_template
from lmms_egoplan.jsonl import decode
from lmms_egoplan.ranking.chat_templates import (
    template_problem,
    use_template_of_tokenizer,
    uses_template,
)

# Parameters that accept arbitrary names.
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def check_arguments(
    model: str, names: Iterable[str], *takers: Callable[..., Any], is_open: bool = False
) -> None:
    """Check the names of ``--model_args``.

    Args:
        model: The model's name in the harness.
        names: The argument names to check.
        takers: Classes or functions that accept these arguments.
        is_open: Whether the parent class accepts further names, so that only near misses of known
            ones are errors.

    Raises:
        LmmsEgoplanError: A name is unknown. The message suggests the nearest known one.
    """
    parameters = [
        parameter for taker in takers for parameter in inspect.signature(taker).parameters.values()
    ]
    valid_names = {parameter.name for parameter in parameters if parameter.kind not in _OPEN} - {
        "self"
    }
    for name, hint in unknown_arguments(names, valid_names, is_open=is_open):
        raise LmmsEgoplanError(f"{model}: --model_args has no argument {name}; {hint}")


def check_vllm_arguments(model: str, names: Iterable[str], *takers: Callable[..., Any]) -> None:
    """Check the names of ``--model_args`` like `check_arguments`, but accept vLLM's, too."""
    require_vllm(model)
    from vllm import LLM, EngineArgs

    check_arguments(model, names, *takers, LLM, EngineArgs)


def load_config(model: str, checkpoint: str, **loading: Any) -> tuple[PreTrainedConfig, Any]:
    """Load a vision-language checkpoint's configuration and processor.

    Args:
        model: The model's name in the harness.
        checkpoint: Name or folder of the checkpoint.
        loading: ``revision`` and ``trust_remote_code``, as in transformers.

    Raises:
        LmmsEgoplanError: The checkpoint is missing or damaged, or does not accept images.
    """
    if checkpoint.startswith((".", "/", "~")) and not Path(checkpoint).expanduser().is_dir():
        raise LmmsEgoplanError(f"{model}: {checkpoint}: no such folder")
    try:
        config = AutoConfig.from_pretrained(checkpoint, **loading)
    except Exception as error:  # libraries raise many types of errors
        raise LmmsEgoplanError(
            f"{model}: {checkpoint}: cannot load the checkpoint's configuration: {_line(error)}"
        ) from error
    takes_images = type(config) in AutoModelForImageTextToText._model_mapping
    if not takes_images and AutoModelForImageTextToText.__name__ not in getattr(
        config, "auto_map", {}
    ):
        raise LmmsEgoplanError(
            f"{model}: {checkpoint}: type {config.model_type} does not accept images; "
            "use a vision-language model"
        )
    try:
        return config, AutoProcessor.from_pretrained(checkpoint, **loading)
    except Exception as error:
        raise LmmsEgoplanError(
            f"{model}: {checkpoint}: cannot load the processor: {_line(error)}"
        ) from error


def check_template(
    model: str, checkpoint: str, processor: Any, way_out: str, revision: str = "main"
) -> None:
    """Check that the chat template of a checkpoint can render questions with images.

    Args:
        model: The model's name in the harness.
        checkpoint: Name or folder of the checkpoint.
        processor: Its processor. If it has no template, it gets that of its tokenizer.
        way_out: What else the user can do, for the message.
        revision: The checkpoint's revision.

    Raises:
        LmmsEgoplanError: There is no template, or it has no placeholder for images.
    """
    use_template_of_tokenizer(processor)
    name = f"of {type(processor).__name__}" if processor.chat_template else None
    if template_problem(name, processor.apply_chat_template) is None:
        return
    if name is not None:
        with suppress(LmmsEgoplanError):  # the file's name is only for the message
            stored = stored_template(checkpoint, revision)
            name = stored.name if stored else name
    problem = template_problem(name, processor.apply_chat_template)
    raise LmmsEgoplanError(f"{model}: {checkpoint}: {problem}; {way_out}")


def check_chat(
    model: str, checkpoint: str, config: PreTrainedConfig, processor: Any, revision: str = "main"
) -> None:
    """Check that lm-eval can apply a checkpoint's chat template.

    Raises:
        LmmsEgoplanError: As in `check_template`; also if the family has no template.
    """
    if not uses_template(config.to_dict(), processor):
        raise LmmsEgoplanError(
            f"{model}: {checkpoint}: {config.model_type} has no chat template; {IN_LM_EVAL}"
        )
    check_template(model, checkpoint, processor, IN_LM_EVAL, revision)


def _line(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())


def weights_version(pretrained: str, commit: str | None) -> str:
    """Return a text that changes with any file of the checkpoint.

    The weights are not read.

    Args:
        pretrained: Folder of the checkpoint, or its name on the hub.
        commit: Revision of the checkpoint on the hub (``model.config._commit_hash``); None for
            folders.

    Returns:
        The commit. For a folder, a digest of the names, sizes and times of its files; if it
        contains an adapter, also of the base model's folder or name. If neither is known, a unique
        text.
    """
    return folder_version(pretrained) or (
        f"{pretrained}@{commit}" if commit else f"unknown-{uuid.uuid4().hex}"
    )


def folder_version(value: Any) -> str | None:
    """Return a digest of a folder, such as a checkpoint's or an adapter's.

    None if the value is not a folder.
    """
    if not isinstance(value, str | Path):
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        return None
    entries = _files(folder)
    try:
        settings = (folder / "adapter_config.json").read_text(encoding="utf-8")
        base = decode(settings)["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        base = None
    if base is not None:
        entries += [[str(base), ""], *_files(Path(str(base)))]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:32]


def _files(folder: Path) -> list[list[str]]:
    """Return the name and version of each file in a folder tree, by name.

    Empty if the folder is missing.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [[str(path.relative_to(folder)), file_version(path.stat())] for path in files]
