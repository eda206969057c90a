"""Versions of a model's weights: its revision on the hub, or a fingerprint of its folder."""

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from lmms_egoplan.files import file_version
from lmms_egoplan.jsonl import decode


def weights_version(pretrained: str, commit: str | None) -> str:
    """Return a text that changes with the weights, or any other file of the checkpoint, without reading them.

    Args:
        pretrained: a checkpoint's folder, or its name on the hub.
        commit: the revision that the hub's name was resolved to (``model.config._commit_hash``); None for folders.

    Returns:
        The commit; for a folder a digest of the names, sizes and times of its files, and the same of the folder or the
        name of the model that an adapter in it belongs to. A text that never comes again where neither is known.
    """
    return folder_version(pretrained) or (f"{pretrained}@{commit}" if commit else f"unknown-{uuid.uuid4().hex}")


def folder_version(value: Any) -> str | None:
    """Return a digest of a folder, such as a checkpoint's or an adapter's; None if the value names no folder."""
    if not isinstance(value, str | Path) or not (folder := Path(value).expanduser()).is_dir():
        return None
    entries = _files(folder)
    try:
        base = decode((folder / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError):
        base = None
    if base is not None:
        entries += [[str(base), ""], *_files(Path(str(base)))]
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:32]


def _files(folder: Path) -> list[list[str]]:
    """Return name and version of each file below a folder, by name; none if there is no folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [[str(path.relative_to(folder)), file_version(path.stat())] for path in files]
