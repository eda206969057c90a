"""Create, store and merge adapters.

An adapter is peft's LoRA on the language model, and modules that are trained fully.
"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.harnesses import adapter
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.outputs import results_of
from lmms_egoplan.progress import notify
from lmms_egoplan.training.parts import Parts, find_parts, layer_names, lora_pattern
from lmms_egoplan.training.settings import Lora
from lmms_egoplan.volumes import with_path_in_error

if TYPE_CHECKING:
    from peft import PeftModel

# Other names of Llama's layers: those of T5, of OPT (`out_proj`), and of Phi-3, which has one layer
# for queries, keys and values.
_ALIASES = {
    "q_proj": ("q", "qkv_proj"),
    "k_proj": ("k", "qkv_proj"),
    "v_proj": ("v", "qkv_proj"),
    "o_proj": ("o", "out_proj"),
}


def add_adapter(model: PreTrainedModel, lora: Lora | None) -> "PeftModel":
    """Freeze a model except its joining modules, and put LoRA on the language model.

    Without LoRA, only the joining modules are trained. Trained parameters are in float32.

    Raises:
        LmmsEgoplanError: peft is not installed, nothing would be trained, or no layer has a
            target's name.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from peft.utils.constants import DUMMY_TARGET_MODULES
    except ImportError as error:
        raise LmmsEgoplanError(adapter.INSTALL) from error
    parts = find_parts(model)
    targets = DUMMY_TARGET_MODULES
    if lora is not None:
        targets = lora_pattern(parts, _targets(model, parts, lora))
    elif not parts.joining:
        raise LmmsEgoplanError(
            f"{model.config.model_type}: no module joins its encoder and its language model, so "
            "there is nothing to train without LoRA"
        )
    size = lora or Lora(r=1, alpha=1, dropout=0.0)
    layers = {"target_modules": targets, "modules_to_save": list(parts.joining) or None}
    config = LoraConfig(r=size.r, lora_alpha=size.alpha, lora_dropout=size.dropout, **layers)
    tuned = get_peft_model(model, config)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    return tuned


def adapted_layers(tuned: "PeftModel") -> dict[str, int]:
    """Return the number of layers with LoRA, by layer name."""
    names = [
        name.rpartition(".")[2]
        for name, module in tuned.named_modules()
        if hasattr(module, "lora_A")
    ]
    return dict(sorted(Counter(names).items()))


def _targets(model: PreTrainedModel, parts: Parts, lora: Lora) -> list[str]:
    """Return the names of the layers for LoRA.

    The default targets may have other names in the model.
    """
    layers = layer_names(model, parts)
    absent = [name for name in lora.targets if name not in layers]
    if not absent:
        return lora.targets
    problem = (
        f"the language model of {model.config.model_type} has no layers named {', '.join(absent)}"
    )
    available = f"it has {', '.join(sorted(layers)) or 'no linear layers'}"
    if lora.targets != Lora().targets:
        raise LmmsEgoplanError(f"lora.targets: {problem}; {available}")
    names = [name for name in lora.targets if name in layers]
    for name in absent:
        alias = next((alias for alias in _ALIASES[name] if alias in layers), None)
        if alias is not None and alias not in names:
            names.append(alias)
    if not names:
        raise LmmsEgoplanError(
            f"lora.targets: {problem}; set its attention layers there: {available}"
        )
    notify(f"LoRA: {problem}; using {', '.join(names)} instead")
    return names


def save_adapter(
    tuned: "PeftModel",
    base: Mapping[str, Any],
    folder: Path,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write a peft folder: LoRA, the modules trained whole, and values that identify the base.

    Args:
        tuned: The model.
        base: The identity of its base (`adapter.identity`).
        folder: The folder.
        weights: The trained weights of the model that `tuned` contains, by name, if its own are
            only a process's share of them.
    """
    named = None
    if weights is not None:
        named = {f"base_model.model.{name}": values for name, values in weights.items()}
    with with_path_in_error(folder / adapter.WEIGHTS):
        tuned.save_pretrained(folder, state_dict=named)
    write_whole(folder / adapter.BASE, json.dumps(base, indent=1) + "\n")


def load_weights(tuned: "PeftModel", folder: Path) -> None:
    """Load what `save_adapter` wrote for the same model, to resume training."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    adapter.check_names(tuned, adapter.stored_names(folder), folder)
    set_peft_model_state_dict(tuned, load_file(folder / adapter.WEIGHTS))


def write_merged(folder: Path, name: str | None, out: Path) -> None:
    """Merge an adapter into its base model, and write the checkpoint and its processor.

    Args:
        folder: Folder of the adapter.
        name: Name or folder of the base checkpoint. By default, the one that the adapter names.
        out: Folder for the checkpoint.

    Raises:
        LmmsEgoplanError: There is no adapter, or it belongs to another base or names none.
    """
    from transformers import AutoModelForImageTextToText, AutoProcessor

    if not (folder / adapter.CONFIG).is_file():
        raise LmmsEgoplanError(f"{folder}: not an adapter: {adapter.CONFIG} is missing")
    name = name or read_json(folder / adapter.CONFIG, "adapter's settings").get(
        "base_model_name_or_path"
    )
    if not name:
        raise LmmsEgoplanError(
            f"{folder}: {adapter.CONFIG} names no base_model_name_or_path; pass the base "
            "with --model"
        )
    try:
        base = AutoModelForImageTextToText.from_pretrained(name, dtype="auto")
        processor = AutoProcessor.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(
            f"{name}: cannot load the base ({str(error).strip().splitlines()[0]}); pass "
            "its name or folder with --model"
        ) from error
    with results_of(out) as results:
        adapter.load_tuned(base, folder).merge_and_unload().eval().save_pretrained(results)
        processor.save_pretrained(results)
