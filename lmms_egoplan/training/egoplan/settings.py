"""Settings of EgoPlan-IT's tuning: those of any tuning, the data, and what a model is shown."""

from pathlib import Path

from pydantic import Field

from lmms_egoplan.benchmarks.egoplan.visuals import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.training.settings import Positive, Share, TuningSettings

PLAN, RECOGNITION = "egoplan", "recognition"


class EgoPlanTuning(TuningSettings):
    """Settings of a run.

    data: EgoPlan-IT's file. epic_kitchens, ego4d: as for preparing the benchmark.
    num_clips, frames_per_clip: what is shown (C.1).
    recognition: whether action recognition on the same clips is mixed in.
    recognition_data: its file, as ``data build egoplan`` writes it; None to make it of `data`.
    instructions: files of `read_instructions`; `instruction_media` holds their images and videos.
    proportions: of the mix, by part: ``egoplan``, ``recognition``, and the instruction files' names without suffix.
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
    def visuals(self) -> dict[str, object]:
        """Settings of `visual_input`."""
        return {"media": "clips", "num_clips": self.num_clips, "frames_per_clip": self.frames_per_clip}
