"""The type of the evaluated checkpoint, which lm-eval names in a task's metadata."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from loguru import logger
from transformers import AutoConfig


def model_type(metadata: Mapping[str, Any]) -> str | None:
    """As transformers' configuration has it; None where the model is no checkpoint that it can read.

    Args:
        metadata: a task's, which holds the command line's ``--model_args``: ``pretrained``, and ``revision``,
            ``subfolder`` and ``trust_remote_code``.
    """
    name = metadata.get("pretrained")
    if not isinstance(name, str):
        return None
    subfolder, revision = str(metadata.get("subfolder") or ""), str(metadata.get("revision", "main"))
    return _read(name, revision, subfolder, bool(metadata.get("trust_remote_code", False)))


@cache
def _read(name: str, revision: str, subfolder: str, trust_remote_code: bool) -> str | None:
    try:
        config = AutoConfig.from_pretrained(
            name, revision=revision, subfolder=subfolder, trust_remote_code=trust_remote_code
        )
    except Exception as error:  # whatever a library makes of a name that need not be a checkpoint's
        logger.warning(f"No model type for {name}: {error}")
        return None
    return config.model_type
