"""Check a checkpoint's files and architecture without loading transformers or torch."""

import shutil
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from safetensors import SafetensorError, safe_open

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import literal
from lmms_egoplan.harnesses.template_files import stored_template
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.ranking.chat_templates import may_lack_template, template_problem
from lmms_egoplan.report.run import member

_WEIGHTS = (".safetensors", ".bin")
_PROCESSORS = ("processor_config.json", "preprocessor_config.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
_LFS = b"version https://git-lfs"
# Bytes per parameter. A checkpoint without a stored type counts as it is.
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_TIMEOUT_S = 4
_GIB = 2**30


class _Checkpoint(NamedTuple):
    """The files of a checkpoint.

    folder: folder with the files; None if they must be downloaded.
    sizes: size of each file in bytes, by name.
    config: content of its ``config.json``.
    """

    folder: Path | None
    sizes: Mapping[str, int]
    config: Mapping[str, Any]

    @property
    def weights(self) -> dict[str, int]:
        """Sizes of the weights: safetensors if there are any, but not a second copy in Mistral's
        own format.
        """
        sizes = {
            name: size
            for name, size in self.sizes.items()
            if not name.startswith(("consolidated", "training"))
        }
        kinds = [
            {name: size for name, size in sizes.items() if name.endswith(kind)} for kind in _WEIGHTS
        ]
        return kinds[0] or kinds[1]


def trusts_code(arguments: Mapping[str, str]) -> bool:
    """Return whether ``--model_args`` allow the checkpoint's own code to run."""
    return arguments.get("trust_remote_code", "").lower() in ("true", "1")


def check_checkpoint(model: str, arguments: Mapping[str, str], *, is_own: bool) -> Iterator[str]:
    """Yield the problems of a checkpoint, one line each.

    Args:
        model: Folder, or name on the hub.
        arguments: ``--model_args``: ``revision`` and ``trust_remote_code`` are used.
        is_own: Whether a backend of this package loads it, which needs a vision-language model of
            transformers.

    Raises:
        LmmsEgoplanError: The checkpoint does not exist, or has no readable configuration.
    """
    checkpoint = _read(model, arguments.get("revision", "main"))
    yield from _architecture(model, checkpoint.config, arguments) if is_own else ()
    for kind, names in (("processor", _PROCESSORS), ("tokenizer", _TOKENIZERS)):
        if is_own and not any(name in checkpoint.sizes for name in names):
            yield f"{model}: no {kind} ({' or '.join(names)}); copy it from the base model"
    yield from _weights(model, checkpoint)


def check_chat_template(
    model: str, arguments: Mapping[str, str], way_out: str, *, is_required: bool
) -> Iterator[str]:
    """Yield the problem of a checkpoint's chat template, as the backends of this package report it.

    Args:
        model: Folder, or name on the hub.
        arguments: ``--model_args``: ``revision`` is used.
        way_out: What else the user can do, for the message.
        is_required: Whether families that never had a chat template need one, too.

    Raises:
        LmmsEgoplanError: The checkpoint does not exist, or has no readable configuration.
    """
    revision = arguments.get("revision", "main")
    config = _read(model, revision).config
    # A checkpoint's own processor may have a template that is in no file.
    if config.get("auto_map") or (may_lack_template(config) and not is_required):
        return
    template = stored_template(model, revision)
    name, render = (None, str) if template is None else (template.name, template.render)
    if problem := template_problem(name, render):
        yield f"{model}: {problem}; {way_out}"


def weight_bytes(model: str, arguments: Mapping[str, str]) -> float:
    """Return the memory of the weights in bytes if they are loaded with the ``dtype`` of
    ``--model_args``.
    """
    checkpoint = _read(model, arguments.get("revision", "main"))
    config, dtype = checkpoint.config, arguments.get("dtype")
    stored = (
        config.get("dtype") or config.get("torch_dtype") or member(config, "text_config", "dtype")
    )
    factor = _BYTES[dtype] / _BYTES[stored] if dtype in _BYTES and stored in _BYTES else 1.0
    return sum(checkpoint.weights.values()) * factor


def _read(model: str, revision: str) -> _Checkpoint:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _in_folder(model, folder)
    if folder.exists():
        raise LmmsEgoplanError(f"{model}: is a file; pass the folder of a checkpoint")
    near = get_close_matches(folder.name, [path.name for path in folder.parent.glob("*/")], n=1)
    hint = (
        f"did you mean {folder.parent / near[0]}?"
        if near
        else "pass a checkpoint's folder or its name on the hub"
    )
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise LmmsEgoplanError(f"{model}: no such folder; {hint}")
    cached = try_to_load_from_cache(model, "config.json", revision=revision)
    if isinstance(cached, str) and any(
        path.suffix in _WEIGHTS for path in Path(cached).parent.iterdir()
    ):
        return _in_folder(model, Path(cached).parent)
    if constants.HF_HUB_OFFLINE:
        raise LmmsEgoplanError(
            f"{model}: no such folder, and not in the hub's cache (HF_HUB_OFFLINE is set); {hint}"
        )
    try:
        info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
        path = hf_hub_download(model, "config.json", revision=revision, etag_timeout=_TIMEOUT_S)
    except Exception as error:  # libraries raise many types of errors
        reason = " ".join(str(error).split(". ")[0].split())
        raise LmmsEgoplanError(
            f"{model}: no such folder, and the hub lacks it ({reason}); {hint}"
        ) from error
    return _Checkpoint(
        None,
        {file.rfilename: file.size or 0 for file in info.siblings or ()},
        _config(model, Path(path)),
    )


def _in_folder(model: str, folder: Path) -> _Checkpoint:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    if "config.json" not in sizes:
        inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
        if "adapter_config.json" in sizes:
            base = member(read_json(folder / "adapter_config.json"), "base_model_name_or_path")
            hint = (
                f"this is an adapter; run its base model: lmms-egoplan run {base} "
                f"--model-args peft={model}"
            )
        else:
            hint = (
                f"did you mean {folder / inside[-1]}?"
                if inside
                else "pass the folder of a whole checkpoint"
            )
        raise LmmsEgoplanError(f"{model}: no config.json in this folder; {hint}")
    return _Checkpoint(folder, sizes, _config(model, folder / "config.json"))


def _config(model: str, path: Path) -> Mapping[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("model_type"), str):
        raise LmmsEgoplanError(
            f"{model}: config.json: no model_type; pass the folder of a transformers checkpoint"
        )
    return content


def _architecture(
    model: str, config: Mapping[str, Any], arguments: Mapping[str, str]
) -> Iterator[str]:
    auto_map = config.get("auto_map") or {}
    if "AutoModelForImageTextToText" in auto_map:
        if not trusts_code(arguments):
            yield (
                f"{model}: contains its own code; if you trust it, add --model-args "
                "trust_remote_code=True"
            )
        return
    names = dict(
        literal(
            "transformers.models.auto.modeling_auto", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"
        )
    )
    if config["model_type"] not in names:
        yield (
            f"{model}: type {config['model_type']} does not accept images, or your version of "
            "transformers does not "
            "know it; use a vision-language checkpoint, or a newer transformers"
        )


def _weights(model: str, checkpoint: _Checkpoint) -> Iterator[str]:
    if checkpoint.folder is None:
        needed, free = sum(checkpoint.weights.values()), _free(Path(constants.HF_HUB_CACHE))
        if needed > free:
            yield (
                f"{model}: the download needs {needed / _GIB:.1f} GiB, {constants.HF_HUB_CACHE} "
                "has "
                f"{free / _GIB:.1f} GiB free; free some space, or set HF_HOME"
            )
        return
    index = next((name for name in checkpoint.sizes if name.endswith(".index.json")), None)
    shards = {*checkpoint.weights}
    if index is not None:
        names = member(read_json(checkpoint.folder / index), "weight_map")
        shards = {*names.values()} if isinstance(names, dict) else shards
    missing = sorted(shards - checkpoint.sizes.keys())
    if missing or not shards:
        names = ", ".join(missing) or "no .safetensors or .bin file"
        yield f"{model}: missing weights: {names}; copy the checkpoint again"
    for name in sorted(shards & checkpoint.sizes.keys()):
        path = checkpoint.folder / name
        with path.open("rb") as file:
            is_pointer = file.read(len(_LFS)) == _LFS
        if is_pointer:
            yield f"{path}: only a Git LFS pointer; run git lfs pull in the checkpoint's repository"
        elif name.endswith(".safetensors"):
            try:
                with safe_open(path, framework="numpy"):
                    pass
            except SafetensorError as error:
                yield f"{path}: damaged or incomplete ({error}); copy the checkpoint again"


def _free(path: Path) -> int:
    return shutil.disk_usage(
        next(folder for folder in (path, *path.parents) if folder.exists())
    ).free
