"""Find the parts of a vision-language model.

These are its encoders, its language model, and the modules that join them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Parts:
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
    sorter = _PartSorter(model)
    sorter.sort_children(model, "", is_language=model is sorter.decoder)
    parts = Parts(
        encoders=tuple(sorter.encoders),
        joining=tuple(sorter.joining),
        language=tuple(sorter.language),
    )
    _check_parts(model, parts, sorter.pattern)
    return parts


class _PartSorter:
    """Sort the modules of a model into its parts.

    Attributes:
        decoder: The model's decoder.
        ends: Its token embeddings and its output layer.
        pattern: Names of encoders.
        encoders: Paths of the encoders and generators found so far.
        joining: Paths of the joining modules.
        language: Paths of the language model's modules.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.decoder = model.get_decoder()
        self.ends = _ends(model)
        self.pattern = _ENCODER if _contains_encoder(model, _ENCODER) else _ONLY_ENCODER
        self.encoders: list[str] = []
        self.joining: list[str] = []
        self.language: list[str] = []

    def sort_children(self, module: nn.Module, prefix: str, *, is_language: bool) -> None:
        """Sort the modules inside a module.

        Args:
            module: The module.
            prefix: Its path with a dot at the end; "" for the model.
            is_language: True if modules without a telling name belong to the language model.
        """
        for name, child in module.named_children():
            if _has_parameters(child):
                self._sort(name, child, f"{prefix}{name}", is_language=is_language)

    def _sort(self, name: str, module: nn.Module, path: str, *, is_language: bool) -> None:
        has_decoder = _is_inside(self.decoder, module)
        if _is_encoder(name, module, self.pattern) and not has_decoder:
            self.encoders.append(path)
            self.joining.extend(_joining_inside(path, module))
        elif self._has_encoder_inside(module):
            is_inside = is_language or module is self.decoder or not has_decoder
            self.sort_children(module, f"{path}.", is_language=is_inside)
        elif has_decoder and self._has_embedded_patches(module):
            self.sort_children(module, f"{path}.", is_language=is_language)
        elif has_decoder or any(_is_inside(end, module) for end in self.ends):
            self.language.append(path)
        elif _GENERATOR.search(name):
            self.encoders.append(path)
        elif is_language and not self._has_telling_name(name):
            self.language.append(path)
        else:
            self.joining.extend(_units(path, module))

    def _has_encoder_inside(self, module: nn.Module) -> bool:
        if module is self.decoder and self.pattern is _ONLY_ENCODER:
            return False
        return _contains_encoder(module, self.pattern)

    def _has_embedded_patches(self, module: nn.Module) -> bool:
        """Return True if a module has no encoder, but embeds patches (Fuyu)."""
        return module is not self.decoder and _has_encoder_name_inside(module)

    def _has_telling_name(self, name: str) -> bool:
        """Return True for the name of a joining module or an encoder."""
        return bool(_JOINING.search(name) or self.pattern.search(name))


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _is_inside(module: nn.Module, outer: nn.Module) -> bool:
    """Return True if a module is another one, or inside of it."""
    return any(inner is module for inner in outer.modules())


def _check_parts(model: PreTrainedModel, parts: Parts, pattern: re.Pattern[str]) -> None:
    """Raise if a joining module lies in the decoder's layers, or if there is no language model."""
    layers: set[nn.Module] = set()
    for stack in _stacks(model.get_decoder(), pattern):
        layers.update(stack.modules())
    misplaced = [name for name in parts.joining if model.get_submodule(name) in layers]
    if misplaced:
        names = ", ".join(misplaced[:3])
        problem = f"{names} would be trained whole, but belongs to the language model"
    elif not parts.language:
        problem = "nothing is the language model"
    else:
        return
    encoders = ", ".join(parts.encoders) or "none"
    language = ", ".join(parts.language) or "none"
    raise LmmsEgoplanError(
        f"{model.config.model_type}: cannot identify its parts: {problem} "
        f"(encoders: {encoders}; language model: {language}); "
        "this type of model cannot be tuned"
    )


def _ends(model: PreTrainedModel) -> list[nn.Module]:
    """Return the token embeddings and the output layer, if the model has them."""
    ends = []
    for get in (model.get_output_embeddings, model.get_input_embeddings):
        with suppress(NotImplementedError):
            end = get()
            if end is not None:
                ends.append(end)
    return ends


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
    if isinstance(module, nn.ModuleList):
        return False
    return any(
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
            continue
        is_other_part = _is_encoder(name, child, pattern) or _JOINING.search(name)
        if not is_other_part:
            yield from _stacks(child, pattern)


def layer_names(model: PreTrainedModel, parts: Parts) -> set[str]:
    """Return the last name components of the language model's linear layers.

    The output layer is excluded.
    """
    output_layer = model.get_output_embeddings()
    prefixes = tuple(f"{path}." for path in parts.language)
    names = set()
    for path, module in model.named_modules():
        is_layer = _is_linear(module) and module is not output_layer
        if is_layer and path.startswith(prefixes):
            names.add(path.rpartition(".")[2])
    return names


def _is_linear(module: nn.Module) -> bool:
    is_quantised = hasattr(module, "qweight")
    return is_quantised or isinstance(module, (nn.Linear, Conv1D))


def lora_pattern(parts: Parts, targets: Sequence[str]) -> str:
    """Return a regular expression for the language model's layers with these names.

    It excludes the joining modules, which are trained whole.
    """
    roots = _any_of(parts.language)
    names = _any_of(targets)
    return rf"{roots}\.(?:.*\.)?{names}"


def _any_of(texts: Iterable[str]) -> str:
    """Return a regular expression that matches each of these texts."""
    alternatives = "|".join(re.escape(text) for text in texts)
    return f"(?:{alternatives})"


def _joining_inside(path: str, module: nn.Module) -> Iterator[str]:
    """Yield the paths of the joining modules inside an encoder."""
    for name, child in module.named_children():
        child_path = f"{path}.{name}"
        if _JOINING_INSIDE.search(name):
            yield from _units(child_path, child)
        else:
            yield from _joining_inside(child_path, child)


def _units(path: str, module: nn.Module) -> list[str]:
    """Return the paths of the members of a list, or else of the module itself."""
    if not isinstance(module, nn.ModuleList):
        return [path]
    return [f"{path}.{name}" for name, _ in module.named_children()]
