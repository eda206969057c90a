"""Which modules of a vision-language model are its encoders, its language model, and what joins the two."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

_ENCODER = re.compile(r"vision|visual|image_tower|video_tower|audio")
# Qwen's mergers stand inside the encoder.
_JOINING_INSIDE = re.compile(r"merger|q_?former|resampler|abstractor|perceiver|multi_modal_projector")
_JOINING = re.compile(rf"{_JOINING_INSIDE.pattern}|projector|projection|connector|aligner")


@dataclass(frozen=True)
class Parts:
    """Names of modules, as in ``named_modules``; every parameter but single ones lies in just one of them.

    encoders: vision encoders; they may hold joining modules.
    joining: projector, merger, Q-Former and the like.
    language: the language model, and its output layer.
    """

    encoders: tuple[str, ...]
    joining: tuple[str, ...]
    language: tuple[str, ...]


def find_parts(model: PreTrainedModel) -> Parts:
    """Tell the parts of a transformers vision-language model apart, by where its decoder stands and by names."""
    decoder, head = model.get_decoder(), model.get_output_embeddings()
    encoders: list[str] = []
    joining: list[str] = []
    language: list[str] = []

    def sort(module: nn.Module, path: str) -> None:
        for name, child in module.named_children():
            place = f"{path}{name}"
            if not any(True for _ in child.parameters()):
                continue
            if any(inside is decoder for inside in child.modules()):
                if any(_ENCODER.search(inside) for inside, _ in child.named_modules()):
                    sort(child, f"{place}.")
                else:
                    language.append(place)
            elif child is head:
                language.append(place)
            elif _ENCODER.search(name) and not _JOINING.search(name):
                encoders.append(place)
                joining.extend(f"{place}.{inside}" for inside in _joining_inside(child))
            else:
                joining.extend(f"{place}.{inside}".rstrip(".") for inside in _units(child))

    sort(model, "")
    return Parts(tuple(encoders), tuple(joining), tuple(language))


def lora_pattern(model: PreTrainedModel, parts: Parts, targets: list[str]) -> str | None:
    """A regular expression of the language model's layers with these names; None if there are none.

    What joins it with the encoder is trained whole and not among them.
    """
    roots = "|".join(map(re.escape, parts.language))
    pattern = rf"(?:{roots})\.(?:.*\.)?(?:{'|'.join(map(re.escape, targets))})"
    return pattern if any(re.fullmatch(pattern, name) for name, _ in model.named_modules()) else None


def _joining_inside(module: nn.Module) -> Iterator[str]:
    for name, child in module.named_children():
        if _JOINING_INSIDE.search(name):
            yield from (f"{name}.{unit}".rstrip(".") for unit in _units(child))
        else:
            yield from (f"{name}.{inside}" for inside in _joining_inside(child))


def _units(module: nn.Module) -> list[str]:
    """The names, within a module, of what is called as a whole: itself, or the members of a list."""
    return [name for name, _ in module.named_children()] if isinstance(module, nn.ModuleList) else [""]
