"""Define the settings of tuning on EgoPlan-IT: general settings, data and visual input."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from lmms_egoplan.benchmarks.egoplan.frames import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.training.settings import Positive, Share, TuningSettings
from lmms_egoplan.validation import read_as

PLAN = "egoplan"
RECOGNITION = "recognition"


class EgoPlanTuning(TuningSettings, frozen=True):
    """Settings of a run.

    Attributes:
        model: Name or folder of the checkpoint.
        data: EgoPlan-IT's file.
        epic_kitchens: Folder with EPIC-KITCHENS' RGB frames, as for preparing the benchmark.
        ego4d: Folder with Ego4D's videos, as for preparing the benchmark.
        num_clips: Number of past actions to show (C.1).
        frames_per_clip: Number of frames per action (C.1).
        clip_marks: Whether to mark clips and observation in the prompt (C.1), as in
            ``egoplan_val_clips_marked``.
        recognition: Whether to add action recognition on the same clips.
        recognition_data: File of action recognition, as written by ``data build egoplan``; None to
            derive the records from `data`.
        instructions: Files of instruction data, for `read_instructions`.
        instruction_media: Folder with the images and videos of the instruction data.
        proportions: Proportions of the mix by part (see `parts`).
        held_out: Fraction of the data that is not trained on, in whole videos.
    """

    model: str
    data: Path
    epic_kitchens: Path | None = None
    ego4d: Path | None = None
    num_clips: Positive = NUM_CLIPS
    frames_per_clip: Positive = FRAMES_PER_CLIP
    clip_marks: bool = False
    recognition: bool = True
    recognition_data: Path | None = None
    instructions: list[Path] = Field(default=[])
    instruction_media: Path | None = None
    proportions: dict[str, float] | None = None
    held_out: Share = 0.01

    @property
    def visuals(self) -> dict[str, Any]:
        """The settings for `visual_input`."""
        return {
            "media": "clips",
            "num_clips": self.num_clips,
            "frames_per_clip": self.frames_per_clip,
            "clip_marks": self.clip_marks,
        }

    @property
    def parts(self) -> list[str]:
        """Names of the parts of the mix.

        These are ``egoplan``, ``recognition``, and the instruction files' names without suffix.
        """
        return [
            PLAN,
            *([RECOGNITION] if self.recognition else []),
            *(path.stem for path in self.instructions),
        ]

    def without(self, parts: Collection[str]) -> "EgoPlanTuning":
        """Return a copy without parts of the method, for the ablations of Table 3.

        Parts of the mix that are removed also lose their proportions.

        Args:
            parts: Among ``lora``, ``contrastive``, ``instructions`` and ``recognition``.
        """
        without_all: dict[str, Any] = {
            "lora": None,
            "contrastive": False,
            "instructions": [],
            "recognition": False,
        }
        changed = self.model_copy(update={name: without_all[name] for name in parts})
        removed = {*self.parts} - {*changed.parts}
        shares = self.proportions and {
            name: share for name, share in self.proportions.items() if name not in removed
        }
        return changed.model_copy(update={"proportions": shares})


def read_settings(
    path: Path | None, values: Mapping[str, Any], assignments: Iterable[str] = ()
) -> EgoPlanTuning:
    """Read settings from a YAML file.

    Args:
        path: The file; None for no file.
        values: Values that override the file.
        assignments: ``KEY=VALUE`` texts with YAML values; they override both.

    Raises:
        LmmsEgoplanError: The file cannot be read, or a setting is invalid or unknown.
    """
    stored = {} if path is None else _yaml(str(path), read_text(path, "configuration")) or {}
    if not isinstance(stored, dict):
        raise LmmsEgoplanError(
            f"{path}: expected a mapping of settings, found {type(stored).__name__}"
        )
    assigned = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise LmmsEgoplanError(f"--set {assignment}: expected KEY=VALUE")
        assigned[key] = _yaml(f"--set {key}", value)
    return read_as(EgoPlanTuning, str(path or "settings"), {**stored, **values, **assigned})


def settings_text(settings: EgoPlanTuning) -> str:
    """Return all settings as YAML, including defaults, for `read_settings`."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _yaml(where: str, text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LmmsEgoplanError(f"{where}: invalid YAML: {' '.join(str(error).split())}") from error
