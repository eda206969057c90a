"""Tiny checkpoints that vLLM's CPU build runs, with heads of 64."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

from zoo import FAMILIES

WIDTH = 128


def save(name: str, folder: Path) -> Path:
    """Write a widened model of a family of the zoo, with seeded weights."""
    config, processor = FAMILIES[name].parts()
    text, vision = config.text_config, config.vision_config
    text.hidden_size, text.num_attention_heads, text.num_key_value_heads, text.head_dim = (
        WIDTH,
        2,
        2,
        64,
    )
    if hasattr(vision, "out_hidden_size"):
        vision.out_hidden_size = WIDTH
    if "mrope_section" in (getattr(text, "rope_parameters", None) or {}):
        text.rope_parameters["mrope_section"] = [8, 12, 12]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 2 / parameter.shape[1:].numel() ** 0.5)
    model.eval().save_pretrained(folder)
    if name == "llava":
        _rename_as_published(folder / "model.safetensors")
    processor.save_pretrained(folder)
    return folder


def _rename_as_published(file: Path) -> None:
    """Rename LLaVA's vision tower as in its published checkpoints, which vLLM reads."""
    weights = load_file(file)
    save_file(
        {
            name.replace("vision_tower.", "vision_tower.vision_model.")
            if "vision_model" not in name
            else name: value
            for name, value in weights.items()
        },
        file,
        {"format": "pt"},
    )
