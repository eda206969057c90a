"""Store, check and load the adapters of `lmms-egoplan train egoplan` on their base models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.validation import Checked, read_as

if TYPE_CHECKING:
    from peft import PeftModel

INSTALL = 'peft is not installed: pip install "lmms-egoplan[train]"'
CONFIG = "adapter_config.json"
BASE = "base.json"
WEIGHTS = "adapter_model.safetensors"
# Number of frozen base parameters to compare, values of each, and tolerance for half-precision
# rounding.
_PARAMETERS = 64
_VALUES = 8
_TOLERANCE = 2e-2


def load_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Load a stored adapter into its base model.

    LoRA weights stay separate; the base's weights do not change.

    Returns:
        The same model, with its original class, in evaluation mode.

    Raises:
        LmmsEgoplanError: peft is not installed, the adapter is missing, or it belongs to another
            base.
    """
    return load_tuned(model, folder).get_base_model().eval()


def load_tuned(model: PreTrainedModel, folder: Path) -> "PeftModel":
    """Load a stored adapter like `load_adapter`, but return peft's wrapper around the model."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    if not (folder / CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: not an adapter: {CONFIG} is missing; check the path")
    if not isinstance(read_json(folder / CONFIG, "adapter's settings"), dict):
        raise LmmsEgoplanError(
            f"{folder / CONFIG}: damaged: expected an object; train again, or copy it again"
        )
    if (folder / BASE).is_file():
        identity = read_json(folder / BASE, "adapter's base")
        read_as(_Identity, f"{folder / BASE}: damaged; train again, or copy it again", identity)
        difference = _difference(model, identity)
        if difference:
            raise LmmsEgoplanError(f"{folder}: the adapter belongs to another base: {difference}")
    stored = stored_names(folder)
    try:
        tuned = PeftModel.from_pretrained(model, folder)
    except (RuntimeError, ValueError, TypeError, LookupError, OSError) as error:
        raise LmmsEgoplanError(
            f"{folder}: the adapter does not fit the base: {str(error).splitlines()[0]}"
        ) from error
    check_names(tuned, stored, folder)
    return tuned


def stored_names(folder: Path) -> set[str] | None:
    """Return the names of an adapter's tensors.

    None if they are in another file, which only peft reads.

    Raises:
        LmmsEgoplanError: The file is damaged or missing.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        if not (folder / "adapter_model.bin").is_file():
            raise LmmsEgoplanError(f"{path}: no such file; train again, or copy the adapter again")
        return None
    try:
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise LmmsEgoplanError(
            f"{path}: damaged: {error}; train again, or copy it again"
        ) from error


def check_names(tuned: "PeftModel", stored: set[str] | None, folder: Path) -> None:
    """Raise if an adapter's file lacks tensors or contains unexpected ones.

    Peft would ignore this.
    """
    from peft import get_peft_model_state_dict

    if stored is None:
        return
    expected = set(get_peft_model_state_dict(tuned))
    for problem, names in (("lacks", expected - stored), ("has unexpected", stored - expected)):
        if names:
            raise LmmsEgoplanError(
                f"{folder / WEIGHTS}: {problem} {len(names)} of {len(expected)} tensors (e.g. "
                f"{min(names)}); it does not belong to this adapter's settings or base"
            )


class _Identity(Checked):
    """Contents of ``base.json``."""

    name: str
    model_type: str
    values: dict[str, Annotated[list[list[float]], Field(min_length=2, max_length=2)]]


def identity(model: PreTrainedModel) -> dict[str, Any]:
    """Return a base model's name, its type, and some values of its frozen parameters.

    Quantised parameters are omitted, because the adapter is also used on the original base.
    """
    frozen = {
        name: p
        for name, p in model.named_parameters()
        if not p.requires_grad and p.is_floating_point() and ".lora_" not in name
    }
    step = max(1, len(frozen) // _PARAMETERS)
    return {
        "name": model.name_or_path,
        "model_type": model.config.model_type,
        "values": {
            name.replace(".base_layer.", ".").replace(".original_module.", "."): [
                list(p.shape),
                _some_values(p),
            ]
            for name, p in list(frozen.items())[::step]
        },
    }


def _some_values(parameter: torch.Tensor) -> list[float]:
    values = parameter.detach().flatten()
    indices = torch.linspace(0, len(values) - 1, min(_VALUES, len(values))).long()
    return values[indices.to(values.device)].float().tolist()


def _difference(model: PreTrainedModel, identity: Any) -> str | None:
    """Return how a model differs from an adapter's base; None if it does not."""
    name = identity["name"] or "unnamed"
    model_type = model.config.model_type
    if identity["model_type"] != model_type:
        return (
            f"it was trained on {name} ({identity['model_type']}), but this is "
            f"{model.name_or_path} ({model_type})"
        )
    parameters = dict(model.named_parameters())
    for key, (shape, values) in identity["values"].items():
        if key not in parameters or list(parameters[key].shape) != shape:
            return (
                f"it was trained on {name}, whose {key} has shape {shape}, unlike that of "
                f"{model.name_or_path}"
            )
        model_values = torch.tensor(_some_values(parameters[key]))
        if not torch.allclose(model_values, torch.tensor(values), rtol=_TOLERANCE, atol=1e-4):
            return (
                f"it was trained on {name}, whose {key} has values different from those of "
                f"{model.name_or_path}"
            )
    return None
