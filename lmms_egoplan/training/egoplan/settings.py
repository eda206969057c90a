"""Settings of EgoPlan-IT's tuning: those of any tuning, the data, and what a model is shown."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from lmms_egoplan.benchmarks.egoplan.visuals import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.training.settings import Positive, Share, TuningSettings
from lmms_egoplan.validation import read_as

PLAN, RECOGNITION = "egoplan", "recognition"


class EgoPlanTuning(TuningSettings):
    """Settings of a run.

    data: EgoPlan-IT's file. epic_kitchens, ego4d: as for preparing the benchmark.
    num_clips, frames_per_clip: what is shown (C.1).
    recognition: whether action recognition on the same clips is mixed in.
    recognition_data: its file, as ``data build egoplan`` writes it; None to make it of `data`.
    instructions: files of `read_instructions`; `instruction_media` has their images and videos.
    proportions: of the mix, by part (see `parts`).
    held_out: share of the data, whole videos, that is not trained on.
    """

    model: str
    data: Path
    epic_kitchens: Path | None = None
    ego4d: Path | None = None
    num_clips: Positive = NUM_CLIPS
    frames_per_clip: Positive = FRAMES_PER_CLIP
    recognition: bool = True
    recognition_data: Path | None = None
    instructions: list[Path] = Field(default=[])
    instruction_media: Path | None = None
    proportions: dict[str, float] | None = None
    held_out: Share = 0.01

    @property
    def visuals(self) -> dict[str, Any]:
        """The settings of `visual_input`."""
        return {"media": "clips", "num_clips": self.num_clips, "frames_per_clip": self.frames_per_clip}

    @property
    def parts(self) -> list[str]:
        """The parts of the mix: ``egoplan``, ``recognition``, and the instruction files' names without suffix."""
        return [PLAN, *([RECOGNITION] if self.recognition else []), *(path.stem for path in self.instructions)]

    def changed(self, changes: Mapping[str, Any]) -> "EgoPlanTuning":
        """Change some settings; parts that this removes have no proportion."""
        changed = self.model_copy(update=changes)
        removed = {*self.parts} - {*changed.parts}
        if self.proportions is None or not removed:
            return changed
        shares = {name: share for name, share in self.proportions.items() if name not in removed}
        return changed.model_copy(update={"proportions": shares})


def read_settings(path: Path | None, values: Mapping[str, Any], assignments: Iterable[str] = ()) -> EgoPlanTuning:
    """Read settings from a YAML file.

    Args:
        values: replace the file's.
        assignments: ``KEY=VALUE``, with the value as YAML; replace both.

    Raises:
        LmmsEgoplanError: the file cannot be read, or a setting is wrong or unknown.
    """
    stored = {} if path is None else _yaml(str(path), read_text(path, "configuration")) or {}
    if not isinstance(stored, dict):
        raise LmmsEgoplanError(f"{path}: expected settings by name, found {type(stored).__name__}")
    assigned = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise LmmsEgoplanError(f"--set {assignment}: expected KEY=VALUE")
        assigned[key] = _yaml(f"--set {key}", value)
    return read_as(EgoPlanTuning, str(path or "settings"), {**stored, **values, **assigned})


def settings_text(settings: EgoPlanTuning) -> str:
    """Write all settings as YAML, including defaults; `read_settings` reads them."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _yaml(where: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LmmsEgoplanError(f"{where}: no YAML: {' '.join(str(error).split())}") from error
