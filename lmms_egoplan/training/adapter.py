"""Adapters: peft's LoRA on the language model, with the modules trained whole; made, stored, loaded, merged."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.storage import write_whole
from lmms_egoplan.training.parts import find_parts, lora_pattern
from lmms_egoplan.training.settings import Lora

if TYPE_CHECKING:
    from peft import PeftModel

INSTALL = 'peft is not installed: pip install "lmms-egoplan[train]"'
_CONFIG, _BASE = "adapter_config.json", "base.json"
# Of the base's frozen parameters so many are compared, at so many places; rounding to half precision may differ.
_PARAMETERS, _VALUES, _TOLERANCE = 64, 8, 2e-2


def add_adapter(model: PreTrainedModel, lora: Lora | None) -> "PeftModel":
    """Freeze a model but for what joins encoder and language model, and put LoRA on the language model.

    Without LoRA, only what joins the two is trained. Trained parameters are in float32.

    Raises:
        LmmsEgoplanError: peft is not installed, there is nothing to train, or no layer has a target's name.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from peft.utils.constants import DUMMY_TARGET_MODULES, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    parts = find_parts(model)
    targets = DUMMY_TARGET_MODULES
    if lora is not None:
        kind = model.config.get_text_config(decoder=True).model_type
        names = [lora.targets]
        if lora == Lora():  # T5's layers have other names
            names.append(list(TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(kind, [])))
        patterns = [lora_pattern(model, parts, own) for own in names if own]
        targets = next((pattern for pattern in patterns if pattern), None)
        if targets is None:
            raise LmmsEgoplanError(
                f"lora.targets: {', '.join(lora.targets)}: the language model of {model.config.model_type} has no such "
                "layers; name its attention layers there"
            )
    elif not parts.joining:
        raise LmmsEgoplanError(
            f"{model.config.model_type}: nothing joins its encoder and its language model; without LoRA there is "
            "nothing to train"
        )
    r, alpha = (lora.r, lora.alpha) if lora else (1, 1)
    config = LoraConfig(
        r=r,
        lora_alpha=alpha,
        lora_dropout=lora.dropout if lora else 0.0,
        target_modules=targets,
        modules_to_save=list(parts.joining) or None,
    )
    tuned = get_peft_model(model, config)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return tuned


def save_adapter(tuned: "PeftModel", folder: Path) -> None:
    """Write a peft folder: LoRA, the modules trained whole, and what tells the base from others."""
    tuned.save_pretrained(folder)
    write_whole(folder / _BASE, json.dumps(_identity(tuned.get_base_model()), indent=1) + "\n")


def load_weights(tuned: "PeftModel", folder: Path) -> None:
    """Read back what `save_adapter` wrote of the same model, to go on training."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    set_peft_model_state_dict(tuned, load_file(folder / "adapter_model.safetensors"))


def load_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """Put a stored adapter into its base model; LoRA stays beside the weights, which are not changed.

    Returns:
        The same model, of its own class, in evaluation mode.

    Raises:
        LmmsEgoplanError: peft is not installed, there is no adapter, or it belongs to another base.
    """
    return _loaded(model, folder).get_base_model().eval()


def merge(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """As `load_adapter`, with LoRA added to the weights: a plain model without peft."""
    return _loaded(model, folder).merge_and_unload().eval()


def write_merged(folder: Path, name: str | None, out: Path) -> None:
    """Write the checkpoint of a base model with an adapter merged into it, and its processor.

    Args:
        folder: of the adapter.
        name: the base, a checkpoint's name or folder; by default what the adapter names.

    Raises:
        LmmsEgoplanError: there is no adapter, it belongs to another base or names none, or `out` is not empty.
    """
    from transformers import AutoModelForImageTextToText, AutoProcessor

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LmmsEgoplanError(f"{out}: is not empty; give another --out")
    if not (folder / _CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: no adapter: there is no {_CONFIG}")
    name = name or read_json(folder / _CONFIG, "adapter's settings").get("base_model_name_or_path")
    if not name:
        raise LmmsEgoplanError(f"{folder}: {_CONFIG} names no base_model_name_or_path; give the base with --model")
    merge(AutoModelForImageTextToText.from_pretrained(name, dtype="auto"), folder).save_pretrained(out)
    AutoProcessor.from_pretrained(name).save_pretrained(out)


def _loaded(model: PreTrainedModel, folder: Path) -> "PeftModel":
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    if not (folder / _CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: no adapter: there is no {_CONFIG}")
    if (folder / _BASE).is_file() and (difference := _difference(model, read_json(folder / _BASE, "adapter's base"))):
        raise LmmsEgoplanError(f"{folder}: an adapter for another base: {difference}")
    try:
        return PeftModel.from_pretrained(model, folder)
    except (RuntimeError, ValueError, OSError) as error:
        raise LmmsEgoplanError(f"{folder}: the adapter does not fit the base: {str(error).splitlines()[0]}") from error


def _identity(model: PreTrainedModel) -> dict[str, Any]:
    """What tells a base model from others: its kind, and values of its frozen parameters."""
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
    """How a model differs from the one that an adapter was made for; None if it does not."""
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
