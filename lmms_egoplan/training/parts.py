"""Find the parts of a vision-language model.

These are its encoders, its language model, and the modules that join them.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from lmms_egoplan.errors import LmmsEgoplanError

_ENCODER = re.compile(r"vision|visual|image_tower|video_tower|image_encoder|audio")
# The encoder's name in models without any of the names above (Pix2Struct).
_ONLY_ENCODER = re.compile(r"^encoder$")
# Modules that generate images or speech do not affect text and stay unchanged.
_GENERATOR = re.compile(r"vq_?model|vq_?vae|^generation_|talker|token2wav")
# Qwen's mergers are inside the encoder.
_JOINING_INSIDE = re.compile(
    r"merger|q_?former|resampler|abstractor|perceiver|multi_modal_projector"
)
_JOINING = re.compile(rf"{_JOINING_INSIDE.pattern}|projector|projection|connector|aligner")


class Parts(NamedTuple):
    """Module names, as in ``named_modules``.

    Every parameter inside a module belongs to exactly one part.

    Attributes:
        encoders: Frozen modules: vision encoders, which may contain joining modules, and image
            generators.
        joining: Projector, merger, Q-Former, embeddings of visual tokens and similar modules.
        language: The language model and its output layer.
    """

    encoders: tuple[str, ...]
    joining: tuple[str, ...]
    language: tuple[str, ...]


def find_parts(model: PreTrainedModel) -> Parts:
    """Find the parts of a transformers vision-language model.

    They are found by the position of its decoder and by module names.

    An encoder has an encoder's name and contains layers. A module that has such a name but no
    layers embeds visual tokens and is a joining module.

    Raises:
        LmmsEgoplanError: A joining module lies in the decoder's layers, or there is no language
            model.
    """
    decoder = model.get_decoder()
    ends = _ends(model)
    pattern = _ENCODER if _contains_encoder(model, _ENCODER) else _ONLY_ENCODER
    encoders: list[str] = []
    joining: list[str] = []
    language: list[str] = []

    def sort(module: nn.Module, parent: str, *, is_language: bool) -> None:
        for name, child in module.named_children():
            path = f"{parent}{name}"
            if not any(True for _ in child.parameters()):
                continue
            has_decoder = any(inner is decoder for inner in child.modules())
            if _is_encoder(name, child, pattern) and not has_decoder:
                encoders.append(path)
                joining.extend(f"{path}.{inner}" for inner in _joining_inside(child))
            elif _contains_encoder(child, pattern) and not (
                child is decoder and pattern is _ONLY_ENCODER
            ):
                is_inside = is_language or child is decoder or not has_decoder
                sort(child, f"{path}.", is_language=is_inside)
            elif has_decoder and child is not decoder and _has_encoder_name_inside(child):
                # no encoder, but embedded patches (Fuyu)
                sort(child, f"{path}.", is_language=is_language)
            elif has_decoder or any(inner is end for inner in child.modules() for end in ends):
                language.append(path)
            elif _GENERATOR.search(name):
                encoders.append(path)
            elif is_language and not (_JOINING.search(name) or pattern.search(name)):
                language.append(path)
            else:
                joining.extend(f"{path}.{inner}".rstrip(".") for inner in _units(child))

    sort(model, "", is_language=model is decoder)
    parts = Parts(tuple(encoders), tuple(joining), tuple(language))
    _check_parts(model, parts, pattern)
    return parts


def _check_parts(model: PreTrainedModel, parts: Parts, pattern: re.Pattern[str]) -> None:
    """Raise if a joining module lies in the decoder's layers, or if there is no language model."""
    decoder = model.get_decoder()
    layers = {id(module) for stack in _stacks(decoder, pattern) for module in stack.modules()}
    misplaced = [name for name in parts.joining if id(model.get_submodule(name)) in layers]
    if misplaced or not parts.language:
        raise LmmsEgoplanError(
            f"{model.config.model_type}: cannot identify its parts: "
            f"{', '.join(misplaced[:3]) or 'nothing'} "
            f"{'would be trained whole, but belongs to' if misplaced else 'is'} the language model "
            f"(encoders: {', '.join(parts.encoders) or 'none'}; language model: "
            f"{', '.join(parts.language) or 'none'}); this type of model cannot be tuned"
        )


def _ends(model: PreTrainedModel) -> list[nn.Module]:
    """Return the token embeddings and the output layer, if the model has them."""
    ends = []
    for get in (model.get_output_embeddings, model.get_input_embeddings):
        with suppress(NotImplementedError):
            ends.append(get())
    return [end for end in ends if end is not None]


def _has_encoder_name_inside(module: nn.Module) -> bool:
    return any(_ENCODER.search(name) for name, _ in module.named_children())


def _is_encoder(name: str, module: nn.Module, pattern: re.Pattern[str]) -> bool:
    if not pattern.search(name) or _JOINING.search(name):
        return False
    return any(isinstance(inside, (nn.ModuleList, nn.Sequential)) for inside in module.modules())


def _contains_encoder(module: nn.Module, pattern: re.Pattern[str]) -> bool:
    """Return whether a module contains an encoder.

    Layers in lists are ignored; they may have an encoder's name.
    """
    return not isinstance(module, nn.ModuleList) and any(
        _is_encoder(name, child, pattern) or _contains_encoder(child, pattern)
        for name, child in module.named_children()
    )


def _stacks(module: nn.Module, pattern: re.Pattern[str]) -> Iterator[nn.ModuleList]:
    """Yield a decoder's lists of layers.

    Those of encoders and joining modules inside the decoder are excluded.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList):
            yield child
        elif not (_is_encoder(name, child, pattern) or _JOINING.search(name)):
            yield from _stacks(child, pattern)


def layer_names(model: PreTrainedModel, parts: Parts) -> set[str]:
    """Return the last name components of the language model's linear layers.

    The output layer is excluded.
    """
    head = model.get_output_embeddings()
    roots = tuple(f"{root}." for root in parts.language)
    return {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if name.startswith(roots) and module is not head and _is_linear(module)
    }


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module, (nn.Linear, Conv1D)) or hasattr(module, "qweight")  # quantised


def lora_pattern(parts: Parts, targets: Sequence[str]) -> str:
    """Return a regular expression for the language model's layers with these names.

    It excludes the joining modules, which are trained whole.
    """
    roots = "|".join(map(re.escape, parts.language))
    return rf"(?:{roots})\.(?:.*\.)?(?:{'|'.join(map(re.escape, targets))})"


def _joining_inside(module: nn.Module) -> Iterator[str]:
    for name, child in module.named_children():
        if _JOINING_INSIDE.search(name):
            yield from (f"{name}.{unit}".rstrip(".") for unit in _units(child))
        else:
            yield from (f"{name}.{inside}" for inside in _joining_inside(child))


def _units(module: nn.Module) -> list[str]:
    """Return the names of a module's units, relative to it.

    They are the members of a list, or else the module itself.
    """
    return (
        [name for name, _ in module.named_children()] if isinstance(module, nn.ModuleList) else [""]
    )
