"""Write a small EgoPlan-IT over three rendered videos, and define settings for runs of seconds."""

import json
from pathlib import Path

from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.training.egoplan.settings import EgoPlanTuning
from media.files import write_epic_folder

ACTIONS = [
    "open the cupboard",
    "take a bowl",
    "pour milk into the bowl",
    "stir it with the spoon",
    "wash the cup",
]


def records():
    """Return five questions for each of three videos, with 0 to 4 past actions."""
    return [
        {
            "sample_id": 10 * video + step,
            "video_source": "EpicKitchens",
            "video_id": f"P01_{video:02}",
            "task_goal": "eat cereal",
            "question": "What action should I take next in order to eat cereal?",
            "answer": action,
            "negative_answers": [other for other in ACTIONS if other != action],
            "current_observation_frame": 8 * step + 4,
            "task_progress_metadata": [
                {
                    "narration_text": ACTIONS[past],
                    "start_frame": 8 * past + 2,
                    "stop_frame": 8 * past + 7,
                }
                for past in range(step)
            ],
        }
        for video in (1, 2, 3)
        for step, action in enumerate(ACTIONS)
    ]


def write_set(folder: Path, changes=None, without=None) -> Path:
    """Write `EgoPlan_IT.json`, frames into ``epic`` and a checkpoint into ``model``.

    Args:
        changes: New values of record 3's fields.
        without: Number of a frame of the first video to omit.
    """
    rows = records()
    rows[3] |= changes or {}
    (folder / "EgoPlan_IT.json").write_text(json.dumps(rows), encoding="utf-8")
    for video in (1, 2, 3):
        write_epic_folder(folder / "epic" / "P01" / "rgb_frames" / f"P01_{video:02}", 1, 40)
    if without:
        (folder / "epic/P01/rgb_frames/P01_01" / f"frame_{without:010}.jpg").unlink()
    if not (folder / "model").exists():
        from lmms_egoplan.demo.checkpoint import write_checkpoint

        write_checkpoint(folder / "model")
    return folder


def tuning(folder: Path, **settings) -> EgoPlanTuning:
    """Return float32 settings for a few updates of four samples."""
    small = {
        "model": str(folder / "model"),
        "data": folder / "EgoPlan_IT.json",
        "epic_kitchens": folder / "epic",
        "num_clips": 2,
        "frames_per_clip": 2,
        "steps": 6,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "precision": "float32",
        "workers": 0,
        "log_every": 1,
        "save_every": 2,
        "evaluate_every": 6,
        "held_out": 0.2,
    }
    return EgoPlanTuning.model_validate(small | settings)


def export(folder: Path, form: str, *options: str):
    """Export the set of a folder in a form for another trainer.

    Return the command's result and the new folder.
    """
    out = folder / form
    result = CliRunner().invoke(
        app,
        [
            *("data", "export", "egoplan-it", str(folder / "EgoPlan_IT.json"), "--format", form),
            *("--epic-kitchens", str(folder / "epic"), "--out", str(out), *options),
        ],
    )
    return result, out
