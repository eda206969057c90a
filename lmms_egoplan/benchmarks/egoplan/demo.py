"""The demo's EgoPlan: the rendered scenes as videos, with questions in the official layout."""

import json
import random
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, FIRST_FRAME, LETTERS
from lmms_egoplan.demo.scenes import FPS, SCENES, Scene
from lmms_egoplan.media.frames import frame_path, write_video

TASKS = ("egoplan_val", "egoplan_val_clips", "egoplan_val_generate")
SCORES = dict.fromkeys(TASKS, "acc")

FOLDER = "egoplan"
ANNOTATIONS, EPIC_KITCHENS_FOLDER, EGO4D_FOLDER = "EgoPlan_validation.json", "epic-kitchens", "ego4d"
_VIDEOS = (
    (EPIC_KITCHENS, "P01_01"),
    (EPIC_KITCHENS, "P01_02"),
    (EPIC_KITCHENS, "P02_01"),
    (EGO4D, "fry-an-egg"),
    (EGO4D, "paint-a-board"),
    (EGO4D, "plant-a-seedling"),
)
# An observation lies 0.5 s before the next action (sec. 3.3).
_OBSERVATION_LEAD = FPS // 2


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egoplan``.

    There are 24 questions of six goals: ``EgoPlan_validation.json``, ``epic-kitchens/`` with frame folders
    and ``ego4d/`` with H.264 videos.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    root = folder / FOLDER
    records: list[dict[str, Any]] = []
    for (source, video_id), scene in zip(_VIDEOS, SCENES, strict=True):
        if source == EPIC_KITCHENS:
            _write_frame_folder(root / EPIC_KITCHENS_FOLDER / video_id[:3] / "rgb_frames" / video_id, scene)
        else:
            write_video(root / EGO4D_FOLDER / f"{video_id}.mp4", scene.frames(), FPS)
        for step in range(1, len(scene.steps)):
            records.append(_question(len(records) + 1, source, video_id, scene, step))
    annotations = root / ANNOTATIONS
    annotations.write_text(json.dumps(records, indent=2) + "\n", encoding="utf-8")
    return [
        "egoplan",
        *(f"{FOLDER}/{ANNOTATIONS}", "--split", "val"),
        *("--epic-kitchens", f"{FOLDER}/{EPIC_KITCHENS_FOLDER}", "--ego4d", f"{FOLDER}/{EGO4D_FOLDER}"),
    ]


def _write_frame_folder(folder: Path, scene: Scene) -> None:
    folder.mkdir(parents=True)
    for number, image in enumerate(scene.frames(), FIRST_FRAME[EPIC_KITCHENS]):
        image.save(frame_path(folder, number), quality=90)


def _question(sample_id: int, source: str, video_id: str, scene: Scene, step: int) -> dict[str, Any]:
    """The record that asks for a step after all earlier ones; three other steps are the wrong choices."""
    first = FIRST_FRAME[source]
    narrations = [step.narration for step in scene.steps]
    answer = narrations[step]
    generator = random.Random(sample_id)
    choices = [answer, *generator.sample(narrations[:step] + narrations[step + 1 :], 3)]
    generator.shuffle(choices)
    spans = [scene.span(past) for past in range(step)]
    return {
        "sample_id": sample_id,
        "video_source": source,
        "video_id": video_id,
        "task_goal": scene.goal,
        "question": (
            "Considering the progress shown in the video and my current observation in the last frame, "
            f"what action should I take next in order to {scene.goal}?"
        ),
        **{f"choice_{letter.lower()}": choice for letter, choice in zip(LETTERS, choices, strict=True)},
        "golden_choice_idx": LETTERS[choices.index(answer)],
        "answer": answer,
        "current_observation_frame": scene.span(step)[0] - _OBSERVATION_LEAD + first,
        "task_progress_metadata": [
            {"narration_text": narration, "start_frame": start + first, "stop_frame": stop + first}
            for narration, (start, stop) in zip(narrations, spans, strict=False)
        ],
    }
