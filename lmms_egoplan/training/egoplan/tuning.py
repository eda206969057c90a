"""Run one tuning on EgoPlan-IT, from files to an adapter with its model card."""

from pathlib import Path
from typing import Any

from accelerate import PartialState

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_digest, write_whole
from lmms_egoplan.progress import notify
from lmms_egoplan.training import instructions
from lmms_egoplan.training.egoplan import data
from lmms_egoplan.training.egoplan.settings import PLAN, RECOGNITION, EgoPlanTuning, settings_text
from lmms_egoplan.training.run import tune
from lmms_egoplan.training.run_folder import render_card
from lmms_egoplan.training.samples import Mix

CONFIG = "config.yaml"
FILES = (
    "README.md",
    "adapter_config.json",
    "adapter_model.safetensors",
    CONFIG,
    "history.json",
)
"""Files of a finished run."""
_CARD = Path(__file__).with_name("card.md")


def tune_egoplan(settings: EgoPlanTuning, out: Path, *, resume: bool = False) -> dict[str, Any]:
    """Tune a model on EgoPlan-IT (sec. 5.2).

    Args:
        settings: Settings of the run.
        out: Folder for the adapter, ``config.yaml`` with all settings, ``history.json`` and a model
            card.
        resume: As for `tune`.

    Returns:
        ``samples`` by part, the number of ``held_out`` questions, and the values of `tune`.

    Raises:
        LmmsEgoplanError: A file is invalid, frames are missing, or as for `tune`.
    """
    records = data.read_instructions(settings.data)
    where = str(settings.data)
    roots = {EPIC_KITCHENS: settings.epic_kitchens, EGO4D: settings.ego4d}
    footage = data.find_frames(records, roots, settings.num_clips, where)
    trained, withheld = data.hold_out(records, settings.held_out, settings.seed)
    if withheld:
        share = len(withheld) / len(records)
        notify(
            f"Held out: {len(withheld)} of {len(records)} questions ({share:.1%}), in whole videos"
        )
    parts = {PLAN: data.plan_samples(trained, footage, settings.visuals, where)}
    recorded = settings.recognition_data
    if settings.recognition and recorded is None:
        clips = data.recognition_of(trained, settings.num_clips)
        parts[RECOGNITION] = data.recognition_samples(
            clips, footage, settings.visuals, f"{where}, recognition"
        )
    elif settings.recognition and recorded is not None:
        withheld_videos = {*map(data.video_of, withheld)}
        clips = [
            record
            for record in data.read_recognition(recorded)
            if data.video_of(record) not in withheld_videos
        ]
        frames = data.find_frames(clips, roots, settings.num_clips, str(recorded))
        parts[RECOGNITION] = data.recognition_samples(
            clips, frames, settings.visuals, str(recorded)
        )
    for path in settings.instructions:
        if path.stem in parts:
            raise LmmsEgoplanError(
                f"instructions: {path}: duplicate name {path.stem} in the mix; rename the file"
            )
        parts[path.stem] = instructions.read_instructions(path, settings.instruction_media)
    held_out = data.plan_samples(withheld, footage, settings.visuals, where)
    mix = Mix(parts, settings.proportions, settings.seed)
    tuned = tune(settings.model, mix, held_out, settings, out, _identity(settings), resume=resume)
    counts = {name: len(samples) for name, samples in parts.items()}
    summary = {"samples": counts, "held_out": len(held_out), **tuned}
    evaluations = [entry for entry in tuned["history"] if "eval_accuracy" in entry]
    accuracies = None
    if evaluations:
        adapter_step = tuned["best_step"] or evaluations[-1]["step"]
        *_, after = (entry for entry in evaluations if entry["step"] == adapter_step)
        accuracies = evaluations[0]["eval_accuracy"], after["eval_accuracy"]
    if PartialState().is_main_process:
        write_whole(out / CONFIG, settings_text(settings))
        values = {**settings.model_dump(), **summary, "accuracies": accuracies}
        write_whole(out / "README.md", render_card(_CARD, values))
    if accuracies:
        notify(
            f"Accuracy on held-out questions: {accuracies[0]:.1%} before, {accuracies[1]:.1%} after"
        )
    notify(f"Written to {out}")
    return summary


def _identity(settings: EgoPlanTuning) -> dict[str, Any]:
    """Return the values that identify a run's data and visual input.

    Files are identified by their contents.
    """
    paths = (settings.data, *filter(None, [settings.recognition_data]), *settings.instructions)
    files = {str(path): file_digest(path) for path in paths}
    return {
        "files": files,
        "num_clips": settings.num_clips,
        "frames_per_clip": settings.frames_per_clip,
        "clip_marks": settings.clip_marks,
        "recognition": settings.recognition,
        "held_out": settings.held_out,
    }
