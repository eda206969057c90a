"""Identify a checkpoint by the content of its weights, whatever its folder is called.

Neither torch nor a harness is loaded.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, read_json

NOT_KNOWN = "not known"
"""Value of a setting that is not known."""
NO_ADAPTER = "none"
"""Digest of the adapter of a model without one."""

# The files that transformers loads: the first of these, or those that it lists.
_OF_MODEL = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_OF_ADAPTER = ("adapter_model.safetensors", "adapter_model.bin")
_ADAPTER_SETTINGS = "adapter_config.json"
_OTHER_WEIGHTS = {".bin", ".gguf", ".pt", ".pth", ".safetensors"}
# Files of a training run next to its weights.
_OF_TRAINING = re.compile(r"(optimizer|rng_state|scaler|scheduler|training_args).*")
# Large files in the hub's cache are links to blobs named by their SHA-256; others have a SHA-1.
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NUM_THREADS = 2
_CHUNK_BYTES = 1 << 20


class _StoppedError(Exception):
    """The evaluation ended before all files were read."""


@dataclass(frozen=True)
class WeightsSource:
    """Where the weights of a model come from.

    Attributes:
        model: Folder of the checkpoint, or its name on the hub. A folder with only an adapter
            names its base model.
        revision: Revision or commit of the checkpoint on the hub.
        adapter: Folder of the adapter, or its name on the hub; None without an adapter.
        files: Names of the files in the folder; None for those that transformers loads.
    """

    model: str
    revision: str = "main"
    adapter: str | None = None
    files: tuple[str, ...] | None = None


@dataclass(frozen=True)
class WeightsDigest:
    """The content of a model's weights.

    Attributes:
        weights: Digest of the checkpoint's weights, 64 hexadecimal digits; or `NOT_KNOWN`.
        adapter: Digest of the adapter's weights, `NO_ADAPTER`, or `NOT_KNOWN`.
    """

    weights: str = NOT_KNOWN
    adapter: str = NOT_KNOWN


def weights_digest(
    source: WeightsSource, is_stopped: Callable[[], bool] = lambda: False
) -> WeightsDigest:
    """Return the digest of a model's weights.

    It is the SHA-256 of the sorted SHA-256 of the weights' files. Their names do not count. Files
    in the hub's cache that are named by their SHA-256 are not read; all others are.

    Args:
        source: The model.
        is_stopped: Returns true if nobody needs the digest any more.
    """
    folder = _folder(source.model, source.revision)
    adapter = source.adapter
    if folder is not None and adapter is None and _is_only_adapter(folder):
        adapter = str(folder)
        base = member(read_json(folder / _ADAPTER_SETTINGS), "base_model_name_or_path")
        revision = member(read_json(folder / _ADAPTER_SETTINGS), "revision") or "main"
        folder = _folder(str(base), str(revision))
    adapter_digest = NO_ADAPTER
    if adapter is not None:
        adapter_folder = _folder(adapter, "main", _ADAPTER_SETTINGS)
        adapter_digest = _digest(_first(adapter_folder, _OF_ADAPTER), is_stopped)
    if source.files is not None and folder is not None:
        files = [folder / name for name in source.files]
    else:
        files = _model_files(folder)
    return WeightsDigest(_digest(files, is_stopped), adapter_digest)


@contextmanager
def digest_in_background(source: WeightsSource | None) -> Iterator[Callable[[], WeightsDigest]]:
    """Compute the digest of a model's weights in other threads while the body runs.

    Args:
        source: The model; None if its weights are not known.

    Yields:
        A function that waits for the digest and returns it. A file that cannot be read makes it
        not known. At the end of the body, reading stops.
    """
    if source is None:
        yield WeightsDigest
        return
    stop = threading.Event()
    with ThreadPoolExecutor(1, "weights-digest") as executor:
        digest = executor.submit(weights_digest, source, stop.is_set)

        def wait() -> WeightsDigest:
            try:
                return digest.result()
            except (LmmsEgoplanError, OSError):
                return WeightsDigest()

        try:
            yield wait
        finally:
            stop.set()


def _folder(model: str, revision: str, file: str = "config.json") -> Path | None:
    """Return the folder of a checkpoint, also of one in the hub's cache; None if unknown.

    Args:
        model: Folder, or name on the hub.
        revision: Revision on the hub.
        file: Name of a file that the snapshot in the cache has.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    try:
        cached = try_to_load_from_cache(model, file, revision=revision)
    except ValueError:  # not a name on the hub
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def _is_only_adapter(folder: Path) -> bool:
    """Return true for the folder of an adapter without its base model."""
    has_settings = (folder / _ADAPTER_SETTINGS).is_file()
    return has_settings and not any((folder / name).is_file() for name in _OF_MODEL)


def _model_files(folder: Path | None) -> list[Path]:
    """Return the files of a checkpoint's weights; empty if there are none."""
    files = _first(folder, _OF_MODEL)
    if files or folder is None:
        return files
    others = []
    for path in folder.iterdir():
        is_weights = path.suffix in _OTHER_WEIGHTS and path.name not in _OF_ADAPTER
        if is_weights and not _OF_TRAINING.fullmatch(path.name):
            others.append(path)
    return others


def _first(folder: Path | None, names: tuple[str, ...]) -> list[Path]:
    """Return the first file that exists, or the files that it lists; empty if there is none."""
    if folder is None:
        return []
    for name in names:
        path = folder / name
        if not path.is_file():
            continue
        if path.suffix != ".json":
            return [path]
        shards = member(read_json(path), "weight_map")
        if isinstance(shards, dict):
            return [folder / str(shard) for shard in set(shards.values())]
    return []


def _digest(files: list[Path], is_stopped: Callable[[], bool]) -> str:
    """Return the digest of some files; `NOT_KNOWN` without files."""
    if not files:
        return NOT_KNOWN
    with ThreadPoolExecutor(_NUM_THREADS, "weights-digest") as executor:
        digests = list(executor.map(lambda path: _file_digest(path, is_stopped), files))
    return hashlib.sha256(json.dumps(sorted(digests)).encode()).hexdigest()


def _file_digest(path: Path, is_stopped: Callable[[], bool]) -> str:
    """Return the SHA-256 of a file.

    Raises:
        OSError: The file is missing or cannot be read.
    """
    blob = path.resolve()
    if blob.parent.name == "blobs" and _SHA256.fullmatch(blob.name) and blob.is_file():
        return blob.name
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            if is_stopped():
                raise _StoppedError
            digest.update(chunk)
    return digest.hexdigest()
