"""The demo's EgoPlan: the rendered scenes as videos, with questions in the official layout."""

import json
import random
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, FIRST_FRAME, LETTERS, RENDERED
from lmms_egoplan.demo.scenes import FPS, SCENES, Scene
from lmms_egoplan.media.frames import frame_path, write_video

TASKS = ("egoplan_val", "egoplan_val_clips", "egoplan_val_generate")
SCORES = dict.fromkeys(TASKS, "acc")

FOLDER = "egoplan"
ANNOTATIONS, EPIC_KITCHENS_FOLDER, EGO4D_FOLDER = "EgoPlan_validation.json", "epic-kitchens", "ego4d"
_VIDEOS = tuple(
    (source, f"{RENDERED}_{number:02}") for number, source in enumerate((*[EPIC_KITCHENS] * 3, *[EGO4D] * 3), 1)
)
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {goal}?"
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


def write_footage(root: Path, source: str, video_id: str, scene: Scene) -> None:
    """Write a scene as a frame folder below ``epic-kitchens``, or as a video below ``ego4d``."""
    if source == EGO4D:
        write_video(root / "ego4d" / f"{video_id}.mp4", scene.frames(), FPS)
        return
    folder = root / "epic-kitchens" / video_id.split("_")[0] / "rgb_frames" / video_id
    folder.mkdir(parents=True)
    for number, image in enumerate(scene.frames(), FIRST_FRAME[EPIC_KITCHENS]):
        image.save(frame_path(folder, number), quality=90)


def question(sample_id: int, source: str, video_id: str, scene: Scene, step: int) -> dict[str, Any]:
    """The record that asks for a step after all earlier ones; three other steps are the wrong choices."""
    answer, others = answer_and_others(scene, step)
    generator = random.Random(sample_id)
    choices = [answer, *generator.sample(others, 3)]
    generator.shuffle(choices)
    return {
        **shown(sample_id, source, video_id, scene, step),
        **{f"choice_{letter.lower()}": choice for letter, choice in zip(LETTERS, choices, strict=True)},
        "golden_choice_idx": LETTERS[choices.index(answer)],
        "answer": answer,
    }


def answer_and_others(scene: Scene, step: int) -> tuple[str, list[str]]:
    """What a step is called, and what the scene's other steps are."""
    narrations = [step.narration for step in scene.steps]
    return narrations.pop(step), narrations


def shown(sample_id: int, source: str, video_id: str, scene: Scene, step: int) -> dict[str, Any]:
    """What records of all kinds say of a question about a step: the goal, and what is shown."""
    first = FIRST_FRAME[source]
    past = [(scene.steps[number].narration, *scene.span(number)) for number in range(step)]
    return {
        "sample_id": sample_id,
        "video_source": source,
        "video_id": video_id,
        "task_goal": scene.goal,
        "question": QUESTION.format(goal=scene.goal),
        "current_observation_frame": scene.span(step)[0] - _OBSERVATION_LEAD + first,
        "task_progress_metadata": [
            {"narration_text": narration, "start_frame": start + first, "stop_frame": stop + first}
            for narration, start, stop in past
        ],
    }
