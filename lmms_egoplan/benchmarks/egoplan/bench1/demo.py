"""The demo's EgoPlan: the rendered scenes as videos, with questions in the official layout."""

import json
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, RENDERED
from lmms_egoplan.benchmarks.egoplan.rendered import question, write_footage
from lmms_egoplan.demo.scenes import SCENES

TASKS = ("egoplan_val", "egoplan_val_clips", "egoplan_val_generate")
SCORES = dict.fromkeys(TASKS, "acc")

FOLDER = "egoplan"
ANNOTATIONS, EPIC_KITCHENS_FOLDER, EGO4D_FOLDER = "EgoPlan_validation.json", "epic-kitchens", "ego4d"
_VIDEOS = tuple(
    (source, f"{RENDERED}_{number:02}") for number, source in enumerate((*[EPIC_KITCHENS] * 3, *[EGO4D] * 3), 1)
)


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egoplan``.

    There are 24 questions of six goals: ``EgoPlan_validation.json``, ``epic-kitchens/`` with frame folders
    and ``ego4d/`` with H.264 videos.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    root = folder / FOLDER
    questions: list[dict[str, Any]] = []
    for (source, video_id), scene in zip(_VIDEOS, SCENES, strict=True):
        write_footage(root, source, video_id, scene)
        for step in range(1, len(scene.steps)):
            questions.append(question(len(questions) + 1, source, video_id, scene, step))
    annotations = root / ANNOTATIONS
    annotations.write_text(json.dumps(questions, indent=2) + "\n", encoding="utf-8")
    return [
        "egoplan",
        *(f"{FOLDER}/{ANNOTATIONS}", "--split", "val"),
        *("--epic-kitchens", f"{FOLDER}/{EPIC_KITCHENS_FOLDER}", "--ego4d", f"{FOLDER}/{EGO4D_FOLDER}"),
    ]
