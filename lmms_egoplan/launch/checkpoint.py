"""Check a checkpoint's files and architecture without loading transformers or torch."""

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError, safe_open

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.source_literals import read_literal
from lmms_egoplan.harnesses.template_files import stored_template
from lmms_egoplan.jsonl import member, read_json
from lmms_egoplan.ranking.chat_templates import may_lack_template, template_problem

_WEIGHTS = (".safetensors", ".bin")
_PROCESSORS = ("processor_config.json", "preprocessor_config.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
_LFS = b"version https://git-lfs"
# Names of the token embeddings, whose rows are the ids that a model has.
_EMBEDDINGS = re.compile(
    r"(embed_tokens|tok_embeddings|word_embeddings|wte|embed_in|shared|additional_embedding)"
    r"\.weight$"
)
# Bytes per parameter. A checkpoint without a stored type counts as it is.
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_TIMEOUT_S = 4
_GIB = 2**30


@dataclass(frozen=True)
class _Checkpoint:
    """The files of a checkpoint.

    Attributes:
        folder: Folder with the files; None if they must be downloaded.
        sizes: Size of each file in bytes, by name.
        config: Content of its ``config.json``.
    """

    folder: Path | None
    sizes: Mapping[str, int]
    config: Mapping[str, Any]

    @property
    def weights(self) -> dict[str, int]:
        """Sizes of the weights: safetensors if there are any, else other files.

        A second copy in Mistral's own format does not count.
        """
        for suffix in _WEIGHTS:
            sizes = {
                name: size
                for name, size in self.sizes.items()
                if name.endswith(suffix) and not name.startswith(("consolidated", "training"))
            }
            if sizes:
                return sizes
        return {}


def trusts_code(arguments: Mapping[str, str]) -> bool:
    """Return whether ``--model_args`` allow the checkpoint's own code to run."""
    return arguments.get("trust_remote_code", "").lower() in ("true", "1")


def check_checkpoint(model: str, arguments: Mapping[str, str], *, is_ours: bool) -> Iterator[str]:
    """Yield the problems of a checkpoint, one line each.

    Args:
        model: Folder, or name on the hub.
        arguments: ``--model_args``: ``revision`` and ``trust_remote_code`` are used.
        is_ours: True if a backend of this package loads it, which needs a vision-language model of
            transformers.

    Raises:
        LmmsEgoplanError: The checkpoint does not exist, or has no readable configuration.
    """
    checkpoint = _read(model, arguments.get("revision", "main"))
    if is_ours:
        yield from _architecture(model, checkpoint.config, arguments)
        for part, names in (("processor", _PROCESSORS), ("tokenizer", _TOKENIZERS)):
            if not any(name in checkpoint.sizes for name in names):
                yield f"{model}: no {part} ({' or '.join(names)}); copy it from the base model"
    problems = [*_weights(model, checkpoint)]
    yield from problems
    if is_ours and not problems and checkpoint.folder is not None:
        yield from _tokenizer(model, checkpoint, checkpoint.folder)


def check_chat_template(
    model: str, arguments: Mapping[str, str], way_out: str, *, is_required: bool
) -> Iterator[str]:
    """Yield the problem of a checkpoint's chat template, as the backends of this package report it.

    Args:
        model: Folder, or name on the hub.
        arguments: ``--model_args``: ``revision`` is used.
        way_out: What else the user can do, for the message.
        is_required: True if families that never had a chat template need one, too.

    Raises:
        LmmsEgoplanError: The checkpoint does not exist, or has no readable configuration.
    """
    revision = arguments.get("revision", "main")
    config = _read(model, revision).config
    # A checkpoint's own processor may have a template that is in no file.
    if config.get("auto_map") or (may_lack_template(config) and not is_required):
        return
    template = stored_template(model, revision)
    if template is None:
        problem = template_problem(None, str)
    else:
        problem = template_problem(template.name, template.render)
    if problem:
        yield f"{model}: {problem}; {way_out}"


def weight_bytes(model: str, arguments: Mapping[str, str]) -> float:
    """Return the memory of the weights in bytes with the ``dtype`` of ``--model_args``."""
    checkpoint = _read(model, arguments.get("revision", "main"))
    config = checkpoint.config
    stored = (
        config.get("dtype") or config.get("torch_dtype") or member(config, "text_config", "dtype")
    )
    loaded = arguments.get("dtype")
    size = sum(checkpoint.weights.values())
    if loaded in _BYTES and stored in _BYTES:
        return size * (_BYTES[loaded] / _BYTES[stored])
    return float(size)


def _read(model: str, revision: str) -> _Checkpoint:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _in_folder(model, folder)
    if folder.exists():
        raise LmmsEgoplanError(f"{model}: is a file; pass the folder of a checkpoint")
    hint = _similar_folder(folder)
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise LmmsEgoplanError(f"{model}: no such folder; {hint}")
    cached = try_to_load_from_cache(model, "config.json", revision=revision)
    if isinstance(cached, str):
        snapshot = Path(cached).parent
        if any(path.suffix in _WEIGHTS for path in snapshot.iterdir()):
            return _in_folder(model, snapshot)
    return _on_hub(model, revision, hint)


def _similar_folder(folder: Path) -> str:
    """Return what to pass instead of a folder that does not exist."""
    neighbours = [path.name for path in folder.parent.glob("*/")]
    similar = get_close_matches(folder.name, neighbours, n=1)
    if similar:
        return f"did you mean {folder.parent / similar[0]}?"
    return "pass a checkpoint's folder or its name on the hub"


def _on_hub(model: str, revision: str, hint: str) -> _Checkpoint:
    if constants.HF_HUB_OFFLINE:
        raise LmmsEgoplanError(
            f"{model}: no such folder, and not in the hub's cache (HF_HUB_OFFLINE is set); {hint}"
        )
    try:
        info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
        path = hf_hub_download(model, "config.json", revision=revision, etag_timeout=_TIMEOUT_S)
    except Exception as error:  # libraries raise many types of errors
        raise LmmsEgoplanError(f"{model}: {_hub_problem(model, error, hint)}") from error
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    return _Checkpoint(folder=None, sizes=sizes, config=_config(model, Path(path)))


def _hub_problem(model: str, error: Exception, hint: str) -> str:
    """Return why a checkpoint cannot be read from the hub, and what to do.

    Args:
        model: Name on the hub.
        error: The error of ``huggingface_hub``.
        hint: What to do if the hub does not have it.
    """
    hub = constants.ENDPOINT
    reason = " ".join(str(error).split(". ")[0].split()) or type(error).__name__
    if isinstance(error, GatedRepoError):
        return (
            f"gated: accept its licence at {hub}/{model}, then log in with the same account: "
            "hf auth login"
        )
    if isinstance(error, RevisionNotFoundError):
        return "the hub has no such revision; correct --model-args revision=NAME"
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"no such folder, and not on the hub; {hint}. If it is private, log in: hf auth login"
        )
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return "has no config.json on the hub; pass a checkpoint of transformers"
    if isinstance(error, HfHubHTTPError):
        status = getattr(error.response, "status_code", None)
        remedy = "log in: hf auth login" if status in (401, 403) else "try again later"
        return f"no such folder, and {hub} answers with HTTP status {status}; {remedy}"
    return (
        f"no such folder, and {hub} cannot be reached ({reason}); check the network and its proxy, "
        "or copy the checkpoint and pass its folder"
    )


def _in_folder(model: str, folder: Path) -> _Checkpoint:
    sizes = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
    if "config.json" not in sizes:
        hint = _checkpoint_near(model, folder)
        raise LmmsEgoplanError(f"{model}: no config.json in this folder; {hint}")
    config = _config(model, folder / "config.json")
    return _Checkpoint(folder=folder, sizes=sizes, config=config)


def _checkpoint_near(model: str, folder: Path) -> str:
    """Return what to pass instead of a folder without a configuration."""
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        base = member(read_json(adapter), "base_model_name_or_path")
        return (
            f"this is an adapter; run its base model: lmms-egoplan run {base} "
            f"--model-args peft={model}"
        )
    inside = sorted(path.parent.name for path in folder.glob("*/config.json"))
    if inside:
        return f"did you mean {folder / inside[-1]}?"
    return "pass the folder of a whole checkpoint"


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
        read_literal(
            "transformers.models.auto.modeling_auto", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"
        )
    )
    if config["model_type"] not in names:
        yield (
            f"{model}: type {config['model_type']} does not accept images, or your version of "
            "transformers does not know it; use a vision-language checkpoint, or a newer "
            "transformers"
        )


def _weights(model: str, checkpoint: _Checkpoint) -> Iterator[str]:
    if checkpoint.folder is None:
        needed = sum(checkpoint.weights.values())
        free = _free(Path(constants.HF_HUB_CACHE))
        if needed > free:
            yield (
                f"{model}: the download needs {needed / _GIB:.1f} GiB, {constants.HF_HUB_CACHE} "
                f"has {free / _GIB:.1f} GiB free; free some space, or set HF_HOME"
            )
        return
    shards = _shards(checkpoint, checkpoint.folder)
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


def _tokenizer(model: str, checkpoint: _Checkpoint, folder: Path) -> Iterator[str]:
    """Compare the ids of the tokenizer with the rows of the token embeddings.

    Checkpoints in other formats than ``tokenizer.json`` and safetensors are not checked.
    """
    path = folder / "tokenizer.json"
    rows = _embedding_rows(checkpoint, folder)
    if not path.is_file() or not rows:
        return
    largest = _largest_id(path)
    if largest >= rows:
        yield (
            f"{path}: has tokens up to id {largest}, but the embeddings of {model} have {rows} "
            "rows; copy the tokenizer of the same checkpoint"
        )


def _largest_id(path: Path) -> int:
    """Return the largest id in a file of a fast tokenizer; -1 if it has none.

    Raises:
        LmmsEgoplanError: The file is damaged.
    """
    content = read_json(path)
    vocabulary = member(content, "model", "vocab")
    if isinstance(vocabulary, dict):
        ids = [number for number in vocabulary.values() if isinstance(number, int)]
    else:  # a list in the order of ids
        ids = [len(vocabulary or ()) - 1]
    for token in member(content, "added_tokens") or ():
        number = member(token, "id")
        if isinstance(number, int):
            ids.append(number)
    return max(ids, default=-1)


def _embedding_rows(checkpoint: _Checkpoint, folder: Path) -> int:
    """Return the number of rows of the largest token embeddings; 0 if there are none.

    Rows for additional tokens are added.
    """
    rows = [0]
    additional = 0
    for name in _shards(checkpoint, folder):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(folder / name, framework="numpy") as tensors:
            for tensor in tensors.keys():  # noqa: SIM118 - it is no dictionary
                if _EMBEDDINGS.search(tensor):
                    size = tensors.get_slice(tensor).get_shape()[0]
                    if tensor.endswith("additional_embedding.weight"):
                        additional += size
                    else:
                        rows.append(size)
    return max(rows) + additional


def _shards(checkpoint: _Checkpoint, folder: Path) -> set[str]:
    """Return the names of the files of weights: those in the index, if there is one."""
    for name in checkpoint.sizes:
        if name.endswith(".index.json"):
            files = member(read_json(folder / name), "weight_map")
            if isinstance(files, dict):
                return {*files.values()}
            break
    return {*checkpoint.weights}


def _free(path: Path) -> int:
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    return shutil.disk_usage(existing).free
