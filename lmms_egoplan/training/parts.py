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

_MODALITIES = ("image", "video", "audio")
# Families whose parts transformers' `get_encoder` and `get_decoder` do not return, with the paths
# of their encoders and of their language model.
_NAMED = {
    # `get_encoder` returns the image tower for videos, too.
    "video_llava": (("model.image_tower", "model.video_tower"), "model.language_model"),
    # `get_decoder` returns a part of the language model.
    "instructblip": (("vision_model",), "language_model"),
    "instructblipvideo": (("vision_model",), "language_model"),
}
# Modules between encoder and language model, in transformers' names.
_JOINING = (
    "multi_modal_projector",
    "projector",
    "mm_projector",
    "aligner",
    "connector",
    "qformer",
    "language_projection",
    "embed_vision",
    "embed_audio",
)
# Joining modules inside an encoder: those of Qwen's models, and the list that Qwen3-VL adds.
_MERGERS = ("merger", "deepstack_merger_list")
# Words in the names of modules that join, wherever they are.
_JOINING_WORDS = ("merger", "projector", "connector", "qformer")


@dataclass(frozen=True)
class Parts:
    """Module names, as in ``named_modules``.

    Every module with parameters belongs to exactly one part. A joining module may be inside an
    encoder.

    Attributes:
        encoders: Frozen modules: vision and audio encoders.
        joining: Projector, merger, Q-Former and similar modules.
        language: The language model and its output layer.
    """

    encoders: tuple[str, ...]
    joining: tuple[str, ...]
    language: tuple[str, ...]


def find_parts(model: PreTrainedModel) -> Parts:
    """Find the parts of a transformers vision-language model.

    Raises:
        LmmsEgoplanError: Encoder and language model are not separate modules, or a further module
            is not known to join them.
    """
    encoders, decoder = _encoders_and_decoder(model)
    language = [decoder, *_ends(model)]
    if not encoders or _overlap(encoders, language):
        raise _unknown_parts(
            model, "transformers finds no encoder that is separate from the decoder"
        )
    paths: dict[str, list[str]] = {"encoders": [], "joining": [], "language": []}
    for path, module in _outermost(model, "", [*encoders, *language]):
        name = path.rpartition(".")[2]
        if any(module is encoder for encoder in encoders):
            paths["encoders"].append(path)
            mergers = _mergers(path, module)
            paths["joining"] += mergers
            unknown = _unknown_inside(path, module, mergers)
            if unknown is not None:
                raise _unknown_parts(model, f"{unknown} is inside an encoder, but may join it")
        elif any(module is part for part in language):
            paths["language"].append(path)
        elif name in _JOINING:
            paths["joining"].append(path)
        else:
            raise _unknown_parts(model, f"{path} is not known to join encoder and decoder")
    return Parts(**{part: tuple(modules) for part, modules in paths.items()})


def _encoders_and_decoder(model: PreTrainedModel) -> tuple[list[nn.Module], nn.Module]:
    """Return the encoders of all modalities, and the decoder."""
    if model.config.model_type in _NAMED:
        encoder_paths, decoder_path = _NAMED[model.config.model_type]
        return [model.get_submodule(path) for path in encoder_paths], model.get_submodule(
            decoder_path
        )
    decoder = model.get_decoder()
    encoders: list[nn.Module] = []
    for modality in _MODALITIES:
        encoder = model.get_encoder(modality)
        # Without an encoder of the modality, transformers returns the model, or the one inside.
        is_new = not any(encoder is other for other in encoders)
        if encoder is not None and is_new and not _is_inside(decoder, encoder):
            encoders.append(encoder)
    return encoders, decoder


def _unknown_parts(model: PreTrainedModel, problem: str) -> LmmsEgoplanError:
    return LmmsEgoplanError(
        f"{model.config.model_type}: cannot identify its parts: {problem}; this type of model "
        "cannot be tuned"
    )


def _outermost(
    module: nn.Module, prefix: str, parts: Sequence[nn.Module]
) -> Iterator[tuple[str, nn.Module]]:
    """Yield parts, and the outermost modules with parameters that contain none, with their paths.

    Args:
        prefix: The module's path with a dot at the end; "" for the model.
    """
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        if not _has_parameters(child):
            continue
        is_part = any(child is part for part in parts)
        if not is_part and any(_is_inside(part, child) for part in parts):
            yield from _outermost(child, f"{path}.", parts)
        else:
            yield path, child


def _mergers(path: str, encoder: nn.Module) -> list[str]:
    """Return the paths of the joining modules inside an encoder, or of the members of a list."""
    mergers = []
    for name in _MERGERS:
        merger = getattr(encoder, name, None)
        if isinstance(merger, nn.ModuleList):
            mergers += [f"{path}.{name}.{member}" for member, _ in merger.named_children()]
        elif merger is not None:
            mergers.append(f"{path}.{name}")
    return mergers


def _unknown_inside(path: str, encoder: nn.Module, mergers: Sequence[str]) -> str | None:
    """Return the path of a module inside an encoder that has a joining name, but is no merger."""
    for inner_path, _ in encoder.named_modules(prefix=path):
        name = inner_path.removeprefix(path).rpartition(".")[2]
        is_joining = any(word in name for word in _JOINING_WORDS)
        contains_merger = any(merger.startswith(f"{inner_path}.") for merger in mergers)
        in_merger = any(f"{inner_path}.".startswith(f"{merger}.") for merger in mergers)
        if is_joining and not contains_merger and not in_merger:
            return inner_path
    return None


def _overlap(encoders: Sequence[nn.Module], language: Sequence[nn.Module]) -> bool:
    """Return True if an encoder is inside the language model, or contains a part of it."""
    return any(
        _is_inside(encoder, part) or _is_inside(part, encoder)
        for encoder in encoders
        for part in language
    )


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _is_inside(module: nn.Module, outer: nn.Module) -> bool:
    """Return True if a module is another one, or inside of it."""
    return any(inner is module for inner in outer.modules())


def _ends(model: PreTrainedModel) -> list[nn.Module]:
    """Return the token embeddings and the output layer, if the model has them."""
    ends = []
    for get in (model.get_output_embeddings, model.get_input_embeddings):
        with suppress(NotImplementedError):
            end = get()
            if end is not None:
                ends.append(end)
    return ends


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
