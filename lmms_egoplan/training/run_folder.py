"""The folder of a training run: what it was started with, its checkpoints, and its end."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode
from lmms_egoplan.storage import write_whole
from lmms_egoplan.validation import shown

SETTINGS = "run.json"
_SCORES = "scores.json"
_COMPLETE = "complete.json"
# Ends the names of settings that are digests of files.
_DIGEST = "_sha256"


class RunFolder:
    """A folder for one run: a new one, or one that the same command has made before.

    settings: all that decides the outcome, JSON values by name; written to ``run.json``.
    earlier: settings of runs that have none of that name there; they go on with these alone.

    Raises:
        LmmsEgoplanError: the folder belongs to another run, or has other files.
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], earlier: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._earlier = dict(earlier or {})
        self.checkpoints = path / "checkpoints"
        stored = self._stored()
        if stored is None:
            write_whole(path / SETTINGS, json.dumps(settings, indent=1) + "\n")
        elif stored != settings:
            names = [name for name in {**stored, **settings} if stored.get(name) != settings.get(name)]
            differing = "; ".join(
                f"{name}: {shown(stored.get(name))} there, {shown(settings.get(name))} now" for name in names
            )
            options = [f"--{name.replace('_', '-')} {stored.get(name)}" for name in names if not name.endswith(_DIGEST)]
            same = ["the same files and encoder"] * (len(options) < len(names)) + [" ".join(options)] * bool(options)
            raise LmmsEgoplanError(
                f"{path}: holds a run with other settings ({differing}); give another --out, or go on with that run: "
                f"{' and '.join(same)}"
            )

    def scores(self) -> dict[str, Any] | None:
        """What `finish` wrote; None while the run is not finished."""
        return _read(self.path / _SCORES)

    def last_checkpoint(self) -> Path | None:
        """The newest whole checkpoint; parts of others are removed, as an interruption may leave them."""
        whole = []
        for folder in self.checkpoints.glob("checkpoint-*"):
            if self._is_whole(folder):
                whole.append(folder)
            else:
                shutil.rmtree(folder)
        return max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint after `step` updates is."""
        return self.checkpoints / f"checkpoint-{step}"

    def complete(self, step: int, best: int, seconds: float) -> None:
        """Say that a checkpoint is whole, after how many seconds of training; keep only it and the best one."""
        folder = self.checkpoint(step)
        files = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        write_whole(folder / _COMPLETE, json.dumps({"seconds": seconds, "files": files}) + "\n")
        for other in self.checkpoints.glob("checkpoint-*"):
            if other not in (folder, self.checkpoint(best)):
                shutil.rmtree(other)

    def seconds(self, checkpoint: Path) -> float:
        """What `complete` was told."""
        return _read(checkpoint / _COMPLETE)["seconds"]

    def finish(self, scores: Mapping[str, Any]) -> None:
        """Write the scores and remove the checkpoints, of which the best is the folder's model by now."""
        write_whole(self.path / _SCORES, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        shutil.rmtree(self.checkpoints)

    def _stored(self) -> dict[str, Any] | None:
        stored = _read(self.path / SETTINGS)
        if stored is None and self.path.exists():
            if not self.path.is_dir():
                raise LmmsEgoplanError(f"{self.path}: is a file; give another --out")
            others = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
            if others:
                raise LmmsEgoplanError(f"{self.path}: holds other files ({', '.join(others[:3])}); give another --out")
        return None if stored is None else self._earlier | stored

    @staticmethod
    def _is_whole(folder: Path) -> bool:
        complete = _read(folder / _COMPLETE)
        return complete is not None and all(
            (folder / name).is_file() and (folder / name).stat().st_size == size
            for name, size in complete["files"].items()
        )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = decode(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
        return content
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(f"{path}: damaged; remove the folder {path.parent} and train again: {error}") from error
