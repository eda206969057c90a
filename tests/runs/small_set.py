"""Prepare a few questions in EgoPlan's format on rendered frames."""

import json
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from media.files import write_epic_folder, write_numbered_video

EPIC_VIDEO, EGO4D_VIDEO = "P01_02", "0a1b-2c"
LAST = 40


def prepare_small_set(folder: Path, count: int = 8) -> list[dict[str, Any]]:
    """Prepare the validation split in `folder`, which ``LMMS_EGOPLAN_DATA`` must name; return its
    records.

    Frames show their own number. Questions alternate between the sources, and pairs of questions
    between two goals. Each has two past actions. The first observation is frame `LAST` - 1; each
    later observation is one frame earlier.
    """
    write_epic_folder(folder / "epic" / "P01" / "rgb_frames" / EPIC_VIDEO, 1, LAST)
    write_numbered_video(folder / "ego4d" / f"{EGO4D_VIDEO}.mp4", LAST)
    records = [_record(number) for number in range(count)]
    annotations = folder / "annotations.json"
    annotations.write_text(json.dumps(records), encoding="utf-8")
    prepare_egoplan(
        annotations, "val", Media({"EpicKitchens": folder / "epic", "Ego4D": folder / "ego4d"})
    )
    return records


def _record(number: int) -> dict[str, Any]:
    choices = ["pour water", "wash the cup", "open the drawer", "take"]
    gold, goal = number % 3, ("brew tea", "fry an egg")[number // 2 % 2]
    return {
        "sample_id": 100 + number,
        "video_source": ("EpicKitchens", "Ego4D")[number % 2],
        "video_id": (EPIC_VIDEO, EGO4D_VIDEO)[number % 2],
        "task_goal": goal,
        "question": f"What should I do next, after step {number}, in order to {goal}?",
        **{f"choice_{letter}": choice for letter, choice in zip("abcd", choices, strict=True)},
        "golden_choice_idx": ("A", "B", "D")[gold],
        "answer": choices[(0, 1, 3)[gold]],
        "current_observation_frame": LAST - 1 - number,
        "task_progress_metadata": [
            {
                "narration_text": "fill the kettle",
                "start_frame": 1 + number,
                "stop_frame": 12 + number,
            },
            {
                "narration_text": "switch it on",
                "start_frame": 13 + number,
                "stop_frame": 20 + number,
            },
        ],
    }
