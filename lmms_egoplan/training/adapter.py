"""Adapters: peft's LoRA on the language model, with the modules trained whole; made, stored, loaded, merged."""

import json
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from pydantic import Field, ValidationError
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.outputs import naming
from lmms_egoplan.storage import write_whole
from lmms_egoplan.training.parts import Parts, find_parts, layer_names, lora_pattern
from lmms_egoplan.training.settings import Lora
from lmms_egoplan.validation import Checked, problems_in, validate

if TYPE_CHECKING:
    from peft import PeftModel

logger = logging.getLogger(__name__)

INSTALL = 'peft is not installed: pip install "lmms-egoplan[train]"'
_CONFIG, _BASE, _WEIGHTS = "adapter_config.json", "base.json", "adapter_model.safetensors"
# What models call the layers that Llama calls so: one for each, or queries, keys and values in one layer.
_FUSED = ("qkv_proj", "query_key_value", "c_attn", "Wqkv", "W_pack", "att_proj", "in_proj", "qkv")
_ALIASES = {
    "q_proj": ("q", "query", "wq", *_FUSED),
    "k_proj": ("k", "key", "wk", *_FUSED),
    "v_proj": ("v", "value", "wv", *_FUSED),
    "o_proj": ("out_proj", "o", "wo", "attn_out", "dense", "c_proj"),
}
# Of the base's frozen parameters so many are compared, at so many places; rounding to half precision may differ.
_PARAMETERS, _VALUES, _TOLERANCE = 64, 8, 2e-2


def add_adapter(model: PreTrainedModel, lora: Lora | None, tell: Callable[[str], None] = logger.warning) -> "PeftModel":
    """Freeze a model but for what joins encoder and language model, and put LoRA on the language model.

    Without LoRA, only what joins the two is trained. Trained parameters are in float32.

    Args:
        tell: takes a remark where the default targets have other names in the model.

    Raises:
        LmmsEgoplanError: peft is not installed, there is nothing to train, or no layer has a target's name.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from peft.utils.constants import DUMMY_TARGET_MODULES
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    parts = find_parts(model)
    targets = DUMMY_TARGET_MODULES
    if lora is not None:
        targets = lora_pattern(parts, _targets(model, parts, lora, tell))
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


def adapted_layers(tuned: "PeftModel") -> dict[str, int]:
    """How many layers have LoRA, by their name."""
    names = [name.rpartition(".")[2] for name, module in tuned.named_modules() if hasattr(module, "lora_A")]
    return dict(sorted(Counter(names).items()))


def _targets(model: PreTrainedModel, parts: Parts, lora: Lora, tell: Callable[[str], None]) -> list[str]:
    """The names of the layers that get LoRA; the default ones may have others in the model."""
    layers = layer_names(model, parts)
    if absent := [name for name in lora.targets if name not in layers]:
        names = [name for name in lora.targets if name in layers]
        told = f"the language model of {model.config.model_type} has no layers named {', '.join(absent)}"
        if lora.targets != Lora().targets:
            raise LmmsEgoplanError(f"lora.targets: {told}; it has {', '.join(sorted(layers)) or 'no linear layers'}")
        others = [next((alias for alias in _ALIASES[name] if alias in layers), None) for name in absent]
        names = list(dict.fromkeys([*names, *filter(None, others)]))
        if not names:
            raise LmmsEgoplanError(
                f"lora.targets: {told}; name its attention layers there: it has "
                f"{', '.join(sorted(layers)) or 'no linear layers'}"
            )
        tell(f"LoRA: {told}; it is put on {', '.join(names)}")
        return names
    return lora.targets


def save_adapter(tuned: "PeftModel", folder: Path) -> None:
    """Write a peft folder: LoRA, the modules trained whole, and what tells the base from others."""
    with naming(folder / _WEIGHTS):
        tuned.save_pretrained(folder)
    write_whole(folder / _BASE, json.dumps(_identity(tuned.get_base_model()), indent=1) + "\n")


def load_weights(tuned: "PeftModel", folder: Path) -> None:
    """Read back what `save_adapter` wrote of the same model, to go on training."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    _check_names(tuned, _stored_names(folder), folder)
    set_peft_model_state_dict(tuned, load_file(folder / _WEIGHTS))


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
        LmmsEgoplanError: there is no adapter, or it belongs to another base or names none.
    """
    from transformers import AutoModelForImageTextToText, AutoProcessor

    if not (folder / _CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: no adapter: there is no {_CONFIG}")
    name = name or read_json(folder / _CONFIG, "adapter's settings").get("base_model_name_or_path")
    if not name:
        raise LmmsEgoplanError(f"{folder}: {_CONFIG} names no base_model_name_or_path; give the base with --model")
    try:
        base = AutoModelForImageTextToText.from_pretrained(name, dtype="auto")
        processor = AutoProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(
            f"{name}: the base cannot be loaded ({str(error).strip().splitlines()[0]}); give its name or folder with "
            "--model"
        ) from error
    merge(base, folder).save_pretrained(out)
    processor.save_pretrained(out)


def _loaded(model: PreTrainedModel, folder: Path) -> "PeftModel":
    try:
        from peft import PeftModel
    except ImportError as error:
        raise LmmsEgoplanError(INSTALL) from error
    if not (folder / _CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: no adapter: there is no {_CONFIG}")
    if not isinstance(read_json(folder / _CONFIG, "adapter's settings"), dict):
        raise LmmsEgoplanError(f"{folder / _CONFIG}: damaged: expected an object; train again, or copy it anew")
    if (folder / _BASE).is_file():
        identity = read_json(folder / _BASE, "adapter's base")
        try:
            validate(_Identity, identity)
        except ValidationError as error:
            problems = "; ".join(problems_in(error))
            raise LmmsEgoplanError(f"{folder / _BASE}: damaged: {problems}; train again, or copy it anew") from error
        if difference := _difference(model, identity):
            raise LmmsEgoplanError(f"{folder}: an adapter for another base: {difference}")
    stored = _stored_names(folder)
    try:
        tuned = PeftModel.from_pretrained(model, folder)
    except (RuntimeError, ValueError, TypeError, LookupError, OSError) as error:
        raise LmmsEgoplanError(f"{folder}: the adapter does not fit the base: {str(error).splitlines()[0]}") from error
    _check_names(tuned, stored, folder)
    return tuned


def _stored_names(folder: Path) -> set[str] | None:
    """The names of an adapter's tensors; None where they are in another file, which peft reads.

    Raises:
        LmmsEgoplanError: the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = folder / _WEIGHTS
    if not path.is_file():
        if not (folder / "adapter_model.bin").is_file():
            raise LmmsEgoplanError(f"{path}: no such file; train again, or copy the adapter anew")
        return None
    try:
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except (SafetensorError, OSError) as error:
        raise LmmsEgoplanError(f"{path}: damaged: {error}; train again, or copy it anew") from error


def _check_names(tuned: "PeftModel", stored: set[str] | None, folder: Path) -> None:
    """Raise if an adapter's file has not just the tensors that the adapted model expects, which peft would ignore."""
    from peft import get_peft_model_state_dict

    if stored is None:
        return
    wanted = set(get_peft_model_state_dict(tuned))
    for what, names in (("lacks", wanted - stored), ("has unexpected", stored - wanted)):
        if names:
            raise LmmsEgoplanError(
                f"{folder / _WEIGHTS}: {what} {len(names)} of {len(wanted)} tensors (e.g. {min(names)}); it does not "
                "belong to this adapter's settings or base"
            )


class _Identity(Checked):
    """What ``base.json`` holds."""

    name: str
    model_type: str
    values: dict[str, Annotated[list[list[float]], Field(min_length=2, max_length=2)]]


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
