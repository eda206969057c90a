"""Identify a checkpoint by the content of its files, whatever its folder is called.

Neither torch nor a harness is loaded.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, member, read_json, read_text

NOT_KNOWN = "not known"
"""Value of a setting that is not known."""
NO_ADAPTER = "none"
"""Digest of the adapter of a model without one."""
NO_CONFIGURATION = "none"
"""Digest of the configuration of a model that is no checkpoint."""

# The files that transformers loads: the first of these, or those that it lists.
_OF_MODEL = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_OF_ADAPTER = ("adapter_model.safetensors", "adapter_model.bin")
_ADAPTER_SETTINGS = "adapter_config.json"
_CONFIGURATION = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)
# Names in settings files that do not change the model. The data type is recorded as loaded.
_NO_SETTINGS = {
    "_name_or_path",
    "base_model_name_or_path",
    "dtype",
    "name_or_path",
    "peft_version",
    "revision",
    "special_tokens_map_file",
    "tokenizer_file",
    "tokenizer_name_or_path",
    "torch_dtype",
    "transformers_version",
}
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
class _FoundFiles:
    """The files of a model.

    Attributes:
        weights: Files of the weights.
        adapter: File of the adapter's weights, and its settings; empty without an adapter.
        configuration: Files in `_CONFIGURATION`; empty for a model that is no checkpoint.
        states: State of each file, see `_state`.
    """

    weights: list[Path]
    adapter: list[Path]
    configuration: list[Path]
    states: Mapping[Path, object]


@dataclass(frozen=True)
class WeightsSource:
    """Where the weights of a model come from; made as soon as they are loaded.

    Attributes:
        model: Folder of the checkpoint, or its name on the hub. A folder with only an adapter
            names its base model.
        revision: Revision or commit of the checkpoint on the hub.
        adapter: Folder of the adapter, or its name on the hub; None without an adapter.
        files: Names of the files in the folder, for a model that is no checkpoint; None for those
            that transformers loads.
        found: The files at this time; None if some are not known or cannot be read.
    """

    model: str
    revision: str = "main"
    adapter: str | None = None
    files: tuple[str, ...] | None = None
    found: _FoundFiles | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find the files."""
        try:
            found = _find(self)
        except (LmmsEgoplanError, OSError):
            found = None
        object.__setattr__(self, "found", found)


@dataclass(frozen=True)
class WeightsDigest:
    """The content of a model. All of its digests are known, or none.

    Attributes:
        weights: Digest of the checkpoint's weights, 64 hexadecimal digits; or `NOT_KNOWN`.
        adapter: Digest of the adapter's weights and settings, `NO_ADAPTER`, or `NOT_KNOWN`.
        configuration: Digest of the settings of model, processor and tokenizer,
            `NO_CONFIGURATION`, or `NOT_KNOWN`.
    """

    weights: str = NOT_KNOWN
    adapter: str = NOT_KNOWN
    configuration: str = NOT_KNOWN


def weights_digest(
    source: WeightsSource, is_stopped: Callable[[], bool] = lambda: False
) -> WeightsDigest:
    """Return the digests of a model; not known if a file changed since the source was made.

    That of the weights is the SHA-256 of the sorted SHA-256 of their files. Names of files do not
    count. Weights in the hub's cache that are named by their SHA-256 are not read; all other files
    are. The form of JSON files does not count, nor do their paths, data types and versions of
    packages.

    Args:
        source: The model.
        is_stopped: Returns true if nobody needs the digest any more.

    Raises:
        LmmsEgoplanError: A file is not JSON.
        OSError: A file is missing or cannot be read.
    """
    found = source.found
    if found is None:
        return WeightsDigest()
    with ThreadPoolExecutor(_NUM_THREADS, "weights-digest") as executor:
        digests = list(executor.map(lambda path: _file_digest(path, is_stopped), found.weights))
    adapter = NO_ADAPTER
    if found.adapter:
        adapter = _named_digest(found.adapter, is_stopped)
    configuration = NO_CONFIGURATION
    if found.configuration:
        configuration = _named_digest(found.configuration, is_stopped)
    if any(_state(path) != state for path, state in found.states.items()):
        return WeightsDigest()
    return WeightsDigest(_text_digest(json.dumps(sorted(digests))), adapter, configuration)


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


def _find(source: WeightsSource) -> _FoundFiles | None:
    """Find the files of a model; None if some are not known.

    If a folder has a whole model and an adapter, it depends on the library, its version and
    the installed packages whether the adapter, the model or the adapter's base model is loaded.

    Raises:
        LmmsEgoplanError: A list of files is not JSON.
        OSError: A file is missing.
    """
    folder = _folder(source.model, source.revision)
    adapter = None if source.adapter is None else _folder(source.adapter, "main", _ADAPTER_SETTINGS)
    if folder is not None and (folder / _ADAPTER_SETTINGS).is_file():
        if source.adapter is not None or _model_files(folder):
            return None
        adapter = folder
        settings = read_json(folder / _ADAPTER_SETTINGS)
        revision = member(settings, "revision") or "main"
        folder = _folder(str(member(settings, "base_model_name_or_path")), str(revision))
    if folder is None or (adapter is None and source.adapter is not None):
        return None
    if source.files is not None:
        weights = [folder / name for name in source.files]
        configuration = []
    else:
        weights = _model_files(folder)
        configuration = [folder / name for name in _CONFIGURATION if (folder / name).is_file()]
        if not configuration:
            return None
    adapter_files = []
    if adapter is not None:
        adapter_files = [*_first(adapter, _OF_ADAPTER), adapter / _ADAPTER_SETTINGS]
    if not weights or len(adapter_files) == 1:
        return None
    states = {path: _state(path) for path in (*weights, *adapter_files, *configuration)}
    return _FoundFiles(weights, adapter_files, configuration, states)


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


def _model_files(folder: Path) -> list[Path]:
    """Return the files of a checkpoint's weights; empty if there are none."""
    files = _first(folder, _OF_MODEL)
    if files:
        return files
    others = []
    for path in folder.iterdir():
        is_weights = path.suffix in _OTHER_WEIGHTS and path.name not in _OF_ADAPTER
        if is_weights and not _OF_TRAINING.fullmatch(path.name):
            others.append(path)
    return others


def _first(folder: Path, names: tuple[str, ...]) -> list[Path]:
    """Return the first file that exists, or the files that it lists; empty if there is none."""
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


def _named_digest(files: list[Path], is_stopped: Callable[[], bool]) -> str:
    """Return the digest of some files and their names."""
    digests = {}
    for path in files:
        is_json = path.suffix == ".json"
        digests[path.name] = _json_digest(path) if is_json else _file_digest(path, is_stopped)
    return _text_digest(json.dumps(digests, sort_keys=True))


def _json_digest(path: Path) -> str:
    """Return the digest of a JSON file's content, whatever its form.

    Raises:
        LmmsEgoplanError: The file is not JSON.
    """
    try:
        content = decode(read_text(path))
    except ValueError as error:
        raise LmmsEgoplanError(f"{path}: invalid JSON: {error}") from error
    if path.name.endswith("config.json"):  # in a vocabulary, each name is a token
        content = _settings(content)
    return _text_digest(json.dumps(content, sort_keys=True))


def _settings(value: Any) -> Any:
    """Return a value of a settings file without `_NO_SETTINGS`."""
    if isinstance(value, dict):
        return {name: _settings(x) for name, x in value.items() if name not in _NO_SETTINGS}
    return [_settings(x) for x in value] if isinstance(value, list) else value


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _state(path: Path) -> object:
    """Return what changes if a file, or the file that it links to, is written or replaced.

    Raises:
        OSError: The file is missing.
    """
    status = path.stat()
    return path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns


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
