"""Records and footage of the rendered scenes, for demos: a question about each step."""

import random
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.protocol import QUESTION
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, FIRST_FRAME, LETTERS
from lmms_egoplan.demo.scenes import FPS, Scene
from lmms_egoplan.media.frames import frame_path, write_video

# An observation lies 0.5 s before the next action (arXiv 2312.06722, sec. 3.3).
_OBSERVATION_LEAD = FPS // 2


def write_footage(root: Path, source: str, video_id: str, scene: Scene) -> None:
    """Write a scene as a frame folder below ``epic-kitchens``, or as a video below ``ego4d``."""
    if source == EGO4D:
        write_video(root / "ego4d" / f"{video_id}.mp4", scene.frames(), FPS)
        return
    folder = root / "epic-kitchens" / video_id.split("_")[0] / "rgb_frames" / video_id
    folder.mkdir(parents=True)
    for number, image in enumerate(scene.frames(), FIRST_FRAME[EPIC_KITCHENS]):
        image.save(frame_path(folder, number), quality=90)


def question(sample_id: int | str, source: str, video_id: str, scene: Scene, step: int) -> dict[str, Any]:
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


def shown(sample_id: int | str, source: str, video_id: str, scene: Scene, step: int) -> dict[str, Any]:
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
