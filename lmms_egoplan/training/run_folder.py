"""Manage the folder of a training run: its settings, checkpoints and final scores."""

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import quoted

SETTINGS = "run.json"
_SCORES = "scores.json"
_COMPLETE = "complete.json"
_SHA256 = re.compile("[0-9a-f]{64}")
# Suffix of settings that are digests of files.
_DIGEST = "_sha256"


class RunFolder:
    """The folder of one run: new, or created earlier with the same settings.

    Args:
        settings: All settings that determine the outcome, JSON values by name; written to
            ``run.json``.
        free: Names of settings that may differ.
        resume: How to resume a run with other settings, for messages. By default the command's
            options, named after the settings.

    Raises:
        LmmsEgoplanError: The folder belongs to another run or contains other files.
        OSError: The folder cannot be written.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        free: Collection[str] = (),
        resume: str | None = None,
    ) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        stored = _read(path / SETTINGS)
        if stored is None:
            write_whole(path / SETTINGS, json.dumps(settings, indent=1) + "\n")
            return
        names = [
            name
            for name in {**stored, **settings}
            if name not in free and stored.get(name) != settings.get(name)
        ]
        if names:
            differing = "; ".join(
                line
                for name in names
                for line in _differences(name, stored.get(name), settings.get(name))
            )
            options = [
                f"--{name.replace('_', '-')} {stored.get(name)}"
                for name in names
                if not name.endswith(_DIGEST)
            ]
            same = []
            if len(options) < len(names):
                same.append("the same files and encoder")
            if options:
                same.append(" ".join(options))
            raise LmmsEgoplanError(
                f"{path}: contains a run with other settings ({differing}); use another --out, or "
                f"resume that run: {resume or ' and '.join(same)}"
            )

    def scores(self) -> dict[str, Any] | None:
        """Return the scores written by `finish`, or None if the run is not finished."""
        return _read(self.path / _SCORES)

    def last_checkpoint(self) -> tuple[Path | None, float]:
        """Return the newest complete checkpoint and its training time in seconds.

        Delete incomplete ones.

        An interruption may leave incomplete checkpoints. Without a complete one, returns None and
        0.
        """
        whole = []
        for folder in self.checkpoints.glob("checkpoint-*"):
            if self._is_whole(folder):
                whole.append(folder)
            else:
                shutil.rmtree(folder)
        last = max(whole, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)
        return last, (_read(last / _COMPLETE) or {})["seconds"] if last else 0.0

    def checkpoint(self, step: int) -> Path:
        """Return the folder of the checkpoint after `step` updates."""
        return self.checkpoints / f"checkpoint-{step}"

    def complete(self, step: int, best: int, seconds: float) -> None:
        """Mark a checkpoint as complete, with its training time in seconds.

        Keep only it and the best one.
        """
        folder = self.checkpoint(step)
        files = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        write_whole(folder / _COMPLETE, json.dumps({"seconds": seconds, "files": files}) + "\n")
        for other in self.checkpoints.glob("checkpoint-*"):
            if other not in (folder, self.checkpoint(best)):
                shutil.rmtree(other)

    def finish(self, scores: Mapping[str, Any]) -> None:
        """Write the scores and delete the checkpoints.

        The folder already contains the best model.
        """
        write_whole(self.path / _SCORES, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        shutil.rmtree(self.checkpoints)

    @staticmethod
    def _is_whole(folder: Path) -> bool:
        complete = _read(folder / _COMPLETE)
        return complete is not None and all(
            (folder / name).is_file() and (folder / name).stat().st_size == size
            for name, size in complete["files"].items()
        )


def render_card(template: Path, values: Mapping[str, Any]) -> str:
    """Render the card of a trained model as Markdown."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(template.read_text(encoding="utf-8")).render(values)


def _differences(name: str, stored: Any, current: Any) -> Iterator[str]:
    """Describe how two values of a setting differ. For digests, only say that they do."""
    if isinstance(stored, dict) and isinstance(current, dict):
        for key in {**stored, **current}:
            if stored.get(key) != current.get(key):
                yield from _differences(f"{name}: {key}", stored.get(key), current.get(key))
    elif all(isinstance(value, str) and _SHA256.fullmatch(value) for value in (stored, current)):
        yield f"{name}: contents differ"
    else:
        yield f"{name}: stored {quoted(stored)}, current {quoted(current)}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = decode(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
        return content
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(
            f"{path}: damaged ({error}); delete the folder {path.parent} and train again"
        ) from error
