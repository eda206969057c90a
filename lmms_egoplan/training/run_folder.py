"""The folder of a training run: what it was started with, its checkpoints, and its end."""

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
from lmms_egoplan.validation import shown

SETTINGS = "run.json"
_SCORES = "scores.json"
_COMPLETE = "complete.json"
_SHA256 = re.compile("[0-9a-f]{64}")
# Ends the names of settings that are digests of files.
_DIGEST = "_sha256"


class RunFolder:
    """A folder for one run: a new one, or one that the same command has made before.

    settings: all that decides the outcome, JSON values by name; written to ``run.json``.
    free: names of settings that may differ.
    resume: how to go on with another run; by default the command's options, which are named as the settings.

    Raises:
        LmmsEgoplanError: the folder belongs to another run, or has other files.
        OSError: it cannot be written.
    """

    def __init__(
        self, path: Path, settings: Mapping[str, Any], free: Collection[str] = (), resume: str | None = None
    ) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        stored = _read(path / SETTINGS)
        if stored is None:
            write_whole(path / SETTINGS, json.dumps(settings, indent=1) + "\n")
            return
        if names := [
            name for name in {**stored, **settings} if name not in free and stored.get(name) != settings.get(name)
        ]:
            differing = "; ".join(
                line for name in names for line in _differences(name, stored.get(name), settings.get(name))
            )
            options = [f"--{name.replace('_', '-')} {stored.get(name)}" for name in names if not name.endswith(_DIGEST)]
            same = ["the same files and encoder"] * (len(options) < len(names)) + [" ".join(options)] * bool(options)
            raise LmmsEgoplanError(
                f"{path}: holds a run with other settings ({differing}); give another --out, or go on with that run: "
                f"{resume or ' and '.join(same)}"
            )

    def scores(self) -> dict[str, Any] | None:
        """Return what `finish` wrote; None while the run is not finished."""
        return _read(self.path / _SCORES)

    def last_checkpoint(self) -> tuple[Path | None, float]:
        """Return the newest whole checkpoint and its seconds of training; remove parts of others.

        An interruption may leave such parts. Without a whole checkpoint: None, and no seconds.
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
        """Say that a checkpoint is whole, after how many seconds of training; keep only it and the best one."""
        folder = self.checkpoint(step)
        files = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        write_whole(folder / _COMPLETE, json.dumps({"seconds": seconds, "files": files}) + "\n")
        for other in self.checkpoints.glob("checkpoint-*"):
            if other not in (folder, self.checkpoint(best)):
                shutil.rmtree(other)

    def finish(self, scores: Mapping[str, Any]) -> None:
        """Write the scores and remove the checkpoints, of which the best is the folder's model by now."""
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
    """Return the card of a trained model as Markdown."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(template.read_text(encoding="utf-8")).render(values)


def _differences(name: str, there: Any, now: Any) -> Iterator[str]:
    """Describe what differs between two values of a setting; of digests only that they do."""
    if isinstance(there, dict) and isinstance(now, dict):
        for key in {**there, **now}:
            if there.get(key) != now.get(key):
                yield from _differences(f"{name}: {key}", there.get(key), now.get(key))
    elif all(isinstance(value, str) and _SHA256.fullmatch(value) for value in (there, now)):
        yield f"{name}: other contents"
    else:
        yield f"{name}: {shown(there)} there, {shown(now)} now"


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
