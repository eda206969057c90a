"""A model to plan with, from a name or a folder."""

from pathlib import Path
from typing import Any

from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel

from lmms_egoplan.encoder import default_device
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.adapter import load_adapter


def load_model(name: str, peft: Path | None) -> tuple[PreTrainedModel, Any]:
    """Load a checkpoint in its own precision, in eval mode, on this process's GPU or the CPU; and its processor.

    Args:
        peft: folder of an adapter for it.

    Raises:
        LmmsEgoplanError: there is no such checkpoint, transformers cannot load it, or the adapter is for another.
    """
    try:
        model = AutoModelForImageTextToText.from_pretrained(name, dtype="auto", device_map={"": default_device()})
        processor = AutoProcessor.from_pretrained(name)
    except Exception as error:  # a damaged checkpoint makes each of its libraries fail in its own way
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise LmmsEgoplanError(f"--model {name}: {problem}") from error
    return (load_adapter(model, peft) if peft else model.eval()), processor
