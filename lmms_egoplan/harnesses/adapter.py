"""Adapters of `lmms-egoplan train egoplan` on their base models: stored, checked and loaded."""

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
CONFIG, BASE, WEIGHTS = "adapter_config.json", "base.json", "adapter_model.safetensors"
# Of the base's frozen parameters so many are compared, at so many places; rounding to half precision may differ.
_PARAMETERS, _VALUES, _TOLERANCE = 64, 8, 2e-2


def load_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Put a stored adapter into its base model; LoRA stays separate from the weights, which do not change.

    Returns:
        The same model, of its own class, in evaluation mode.

    Raises:
        LmmsEgoplanError: peft is not installed, there is no adapter, or it belongs to another base.
    """
    return load_tuned(model, folder).get_base_model().eval()


def load_tuned(model: PreTrainedModel, folder: Path) -> "PeftModel":
    """Put a stored adapter on its base model as `load_adapter`, with peft around the model."""
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    if not (folder / CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: no adapter: there is no {CONFIG}")
    if not isinstance(read_json(folder / CONFIG, "adapter's settings"), dict):
        raise LmmsEgoplanError(f"{folder / CONFIG}: damaged: expected an object; train again, or copy it anew")
    if (folder / BASE).is_file():
        identity = read_json(folder / BASE, "adapter's base")
        read_as(_Identity, f"{folder / BASE}: damaged; train again, or copy it anew", identity)
        if difference := _difference(model, identity):
            raise LmmsEgoplanError(f"{folder}: an adapter for another base: {difference}")
    stored = stored_names(folder)
    try:
        tuned = PeftModel.from_pretrained(model, folder)
    except (RuntimeError, ValueError, TypeError, LookupError, OSError) as error:
        raise LmmsEgoplanError(f"{folder}: the adapter does not fit the base: {str(error).splitlines()[0]}") from error
    check_names(tuned, stored, folder)
    return tuned


def stored_names(folder: Path) -> set[str] | None:
    """Return the names of an adapter's tensors; None if they are in another file, which peft reads.

    Raises:
        LmmsEgoplanError: the file is damaged.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        if not (folder / "adapter_model.bin").is_file():
            raise LmmsEgoplanError(f"{path}: no such file; train again, or copy the adapter anew")
        return None
    try:
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise LmmsEgoplanError(f"{path}: damaged: {error}; train again, or copy it anew") from error


def check_names(tuned: "PeftModel", stored: set[str] | None, folder: Path) -> None:
    """Raise if an adapter's file has not just the tensors that the adapted model expects, which peft would ignore."""
    from peft import get_peft_model_state_dict

    if stored is None:
        return
    wanted = set(get_peft_model_state_dict(tuned))
    for what, names in (("lacks", wanted - stored), ("has unexpected", stored - wanted)):
        if names:
            raise LmmsEgoplanError(
                f"{folder / WEIGHTS}: {what} {len(names)} of {len(wanted)} tensors (e.g. {min(names)}); it does not "
                "belong to this adapter's settings or base"
            )


class _Identity(Checked):
    """What ``base.json`` holds."""

    name: str
    model_type: str
    values: dict[str, Annotated[list[list[float]], Field(min_length=2, max_length=2)]]


def identity(model: PreTrainedModel) -> dict[str, Any]:
    """Return what distinguishes a base model: its kind, and values of its frozen parameters."""
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad and ".lora_" not in name}
    step = max(1, len(frozen) // _PARAMETERS)
    return {
        "name": model.name_or_path,
        "model_type": model.config.model_type,
        "values": {
            name.replace(".base_layer.", ".").replace(".original_module.", "."): [list(p.shape), _some_values(p)]
            for name, p in list(frozen.items())[::step]
        },
    }


def _some_values(parameter: torch.Tensor) -> list[float]:
    values = parameter.detach().flatten()
    places = torch.linspace(0, len(values) - 1, min(_VALUES, len(values))).long()
    return values[places.to(values.device)].float().tolist()


def _difference(model: PreTrainedModel, identity: Any) -> str | None:
    """Return how a model differs from the one that an adapter was made for; None if it does not."""
    name, kind = identity["name"] or "unnamed", model.config.model_type
    if identity["model_type"] != kind:
        return f"it was trained on {name} ({identity['model_type']}), this is {model.name_or_path} ({kind})"
    parameters = dict(model.named_parameters())
    for place, (shape, values) in identity["values"].items():
        if place not in parameters or list(parameters[place].shape) != shape:
            return f"it was trained on {name}, whose {place} is of shape {shape}, unlike that of {model.name_or_path}"
        own = torch.tensor(_some_values(parameters[place]))
        if not torch.allclose(own, torch.tensor(values), rtol=_TOLERANCE, atol=1e-4):
            return f"it was trained on {name}, whose {place} has other values than that of {model.name_or_path}"
    return None
