"""Read the facts of Table 2 of arXiv 2311.15596 about runs' models.

Sources are results, checkpoints and names.

Nothing is downloaded, and no weights are loaded. What is not known is None or `UNKNOWN`.
"""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from safetensors import SafetensorError, safe_open

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, read_json
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.tables import Value
from lmms_egoplan.validation import read_as

UNKNOWN = "unknown"

# Where configurations of checkpoints have the facts of Table 2 of arXiv 2311.15596, by column. The
# first field that exists is used. "config.json" is the configuration itself, if it describes a
# language model. No configuration states facts about training.
_COLUMNS = {
    "image_encoder": ("mm_vision_tower", "vision_config", "vision_cfg"),
    "llm": ("text_config", "llm_config", "language_config", "config.json"),
    "alignment_module": (
        "qformer_config",
        "perceiver_config",
        "mm_projector_type",
        "projector_type",
        "projector_hidden_act",
    ),
    "trainable_parameters": (),
    "image_text_data": (),
    "instruction_data": (),
    "egocentric_data": (),
    "video_data": (),
}
# Fields that describe a part, each with a word for its value.
_UNITS = {
    "_name_or_path": "",
    "model_name": "",
    "model_type": "",
    "num_hidden_layers": "layers",
    "depth": "layers",
    "num_layers": "layers",
    "hidden_size": "wide",
    "embed_dim": "wide inside",
    "image_size": "px",
}
_SIZE = re.compile(r"(?<![a-z\d.])(\d+(?:\.\d+)?)([bm])(?![a-z])")
_TUNING = re.compile(r"(?<![a-z])(instruct|chat|it|base|pt)(?![a-z])")


def parse_name(model: str) -> tuple[str, float | None, str]:
    """Return what a model's name states: family, billions of parameters, and tuning.

    None or `UNKNOWN` if it does not state it.

    The family is the rest of the name, in lower case. InstructBLIP is of BLIP-2's family, as in
    Fig. 8 there.

    >>> parse_name("Qwen2.5-VL-7B-Instruct"), parse_name("SmolVLM-500M-Base")
    (('qwen2.5-vl', 7.0, 'instruction'), ('smolvlm', 0.5, 'base'))
    >>> parse_name("instructblip-flan-t5-xxl"), parse_name("blip2-flan-t5-xxl")
    (('blip2-flan-t5-xxl', None, 'instruction'), ('blip2-flan-t5-xxl', None, 'unknown'))
    """
    name = re.sub("^instructblip", "blip2-instruct", model.lower())
    size = _SIZE.search(name)
    words = set(_TUNING.findall(name))
    rest = _TUNING.sub("", _SIZE.sub("", name, count=1))
    billions = None
    if size:
        billions = float(size[1]) / (1000 if size[2] == "m" else 1)
    if words & {"base", "pt"}:
        tuning = "base"
    elif words:
        tuning = "instruction"
    else:
        tuning = UNKNOWN
    return "-".join(re.findall(r"[^-_ ]+", rest)), billions, tuning


def model_facts(run: Run, tasks: Iterable[str]) -> dict[str, Value]:
    """Return the facts about a run's model, by column.

    Args:
        run: the run. Its checkpoint is read if the model is a folder on this machine, or in the
            hub's cache.
        tasks: tasks whose numbers of images are meant.

    Returns:
        ``image_encoder``, ``llm``, ``alignment_module``: name and size in the checkpoint's
        configuration. ``trainable_parameters`` and the other columns of Table 2 about training:
        `UNKNOWN`. ``total_billions``: parameters as the harness counted them, else those in the
        headers of the safetensors files;
            None for quantised checkpoints, whose files and modules pack several weights in one
            number.
        ``images``: mean number of images per question, including frames, that the harness logged.
        ``facts_from``: folder of the checkpoint, and the reason why something is unknown.
        ``family``, ``named_billions``, ``tuned``: see `parse_name`.
    """
    logged = str(member(run.record, "model", "parameters") or run.provenance.get("parameters"))
    count = int(logged) if logged.isdecimal() else 0
    config = None
    facts_from = ""
    newest = (run.parts or (run,))[0]
    revision = newest.provenance.get("revision", "main")
    try:
        path = Path(run.model).expanduser() / "config.json"
        if not path.exists():
            cached = try_to_load_from_cache(run.model, path.name, revision=revision)
            if isinstance(cached, str):
                path = Path(cached)
        config = read_json(path)
        facts_from = f"{path.parent}; "
        if "quantization_config" in str(config):  # harnesses count packed weights
            count = 0
        count = count or _stored_parameters(path.parent, config)
    except (LmmsEgoplanError, OSError, RuntimeError, SafetensorError, ValueError) as error:
        facts_from += str(error)
    family, named_billions, tuned = parse_name(run.base_model)
    means = (member(run.record, "tasks", task, "images", "mean") for task in tasks)
    images = dict.fromkeys(str(mean).replace("None", UNKNOWN) for mean in means)
    facts: dict[str, Value] = {
        "family": family,
        "named_billions": named_billions,
        "tuned": tuned,
        "total_billions": count / 1e9 or None,
        "images": ", ".join(images),
        "facts_from": facts_from.strip("; "),
    }
    for column, names in _COLUMNS.items():
        facts[column] = _described(config, names)
    return facts


def _stored_parameters(folder: Path, config: Any) -> int:
    """Count the parameters of a checkpoint's floating-point tensors.

    The headers of its safetensors files have their sizes.

    Raises:
        LmmsEgoplanError: there are none, or they are quantised, so that their shapes are not those
            of the parameters. OSError, SafetensorError: a file is missing or damaged.
    """
    index = folder / "model.safetensors.index.json"
    total = 0
    is_packed = "quantization_config" in str(config)
    shards = member(read_json(index), "weight_map") if index.exists() else {"": "model.safetensors"}
    for name in set(read_as(dict[str, str], f"{index}, weight_map", shards).values()):
        with safe_open(folder / name, framework="numpy") as file:
            for tensor in map(file.get_slice, file.keys()):
                is_packed |= tensor.get_dtype() in ("I8", "U8", "I32")
                if tensor.get_dtype().startswith(("F", "BF")):
                    total += math.prod(tensor.get_shape())
    if not total or is_packed:
        raise LmmsEgoplanError("parameters unknown, since the weights are quantised or missing")
    return total


def _described(config: Any, names: Iterable[str]) -> str:
    """Describe the first part of a configuration that exists, with the field's name.

    `UNKNOWN` without any.
    """
    for name in names:
        part = member(config, name)
        if name == "config.json" and member(config, "num_hidden_layers"):
            part = config
        if part:
            words = []
            for key, unit in _UNITS.items():
                value = member(part, key)
                if value:
                    words.append(f"{value} {unit}".strip())
            return f"{', '.join(words) or part} ({name})"
    return UNKNOWN
