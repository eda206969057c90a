"""Render training data and questions from the demo's videos.

These are an EgoPlan-IT, captions in LLaVA's layout, and questions about other worlds.
"""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import captions
from recoloured import (
    OBSERVATION_LEAD,
    STEP_FRAMES,
    Procedure,
    World,
    procedures,
    vary,
)

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS, QUESTION
from lmms_egoplan.benchmarks.egoplan.records import (
    CHOICES,
    EGO4D,
    EGO4D_FPS,
    EPIC_KITCHENS,
    FIRST_FRAME,
    RENDERED,
)
from lmms_egoplan.demo.sets import write_frames
from lmms_egoplan.media.frames import write_video

TUNING_DATA = "EgoPlan_IT.json"
CAPTIONS = "captions.json"
ANNOTATIONS = "EgoPlan_validation.json"
# Number of worlds per goal. In EgoPlan-Val, about 3 of 11 questions are Ego4D's.
_TUNED = 10
_ASKED = {EPIC_KITCHENS: 4, EGO4D: 2}
_CAPTIONS = 60


def write_tuning_data(root: Path, seed: int) -> None:
    """Write 300 records about 60 worlds of Epic-Kitchens, one per step, and 60 captioned images."""
    generator = random.Random(f"{seed} tuning")
    records: list[dict[str, Any]] = []
    for number, world in enumerate(_worlds(generator, _TUNED), 1):
        video_id = f"{RENDERED}_tuning_{number:02}"
        write_frames(root / "epic-kitchens", video_id, world.frames())
        for step, answer in enumerate(world.procedure.steps):
            negatives = [other for other in world.procedure.steps if other != answer]
            record = common_fields(len(records) + 1, EPIC_KITCHENS, video_id, world.procedure, step)
            records.append(record | {"answer": answer, "negative_answers": negatives})
    _write(root / TUNING_DATA, records)
    (root / "images").mkdir()
    dialogues = []
    for number in range(_CAPTIONS):
        caption = captions.draw(generator)
        caption.frames[0].save(root / "images" / f"{number:03}.jpg", quality=90)
        turns = [
            {"from": "human", "value": f"<image>\n{captions.QUESTION}"},
            {"from": "gpt", "value": caption.text},
        ]
        dialogues.append(
            {"id": f"{number:03}", "image": f"images/{number:03}.jpg", "conversations": turns}
        )
    _write(root / CAPTIONS, dialogues)


def write_questions(root: Path, seed: int) -> None:
    """Write 180 questions about 36 other worlds.

    24 are in the rooms of the tuning data; 12, of Ego4D, are in other rooms.
    """
    generator = random.Random(f"{seed} questions")
    records: list[dict[str, Any]] = []
    for source, count in _ASKED.items():
        for world in _worlds(generator, count, is_other_room=source == EGO4D):
            video_id = f"{RENDERED}_{len(records):03}"
            if source == EGO4D:
                write_video(root / "ego4d" / f"{video_id}.mp4", world.frames(), EGO4D_FPS)
            else:
                write_frames(root / "epic-kitchens", video_id, world.frames())
            for step in range(len(world.procedure.steps)):
                records.append(question(len(records) + 1, source, video_id, world.procedure, step))
    _write(root / ANNOTATIONS, records)


def question(
    sample_id: int | str, source: str, video_id: str, procedure: Procedure, step: int
) -> dict[str, Any]:
    """Return the record that asks for a step after all earlier ones.

    Three other steps are the wrong choices.
    """
    answer = procedure.steps[step]
    generator = random.Random(sample_id)
    choices = [
        answer,
        *generator.sample([other for other in procedure.steps if other != answer], 3),
    ]
    generator.shuffle(choices)
    return {
        **common_fields(sample_id, source, video_id, procedure, step),
        **dict(zip(CHOICES, choices, strict=True)),
        "golden_choice_idx": LETTERS[choices.index(answer)],
        "answer": answer,
    }


def common_fields(
    sample_id: int | str, source: str, video_id: str, procedure: Procedure, step: int
) -> dict[str, Any]:
    """Return the fields common to all records about a step: the goal and the visual input."""
    first = FIRST_FRAME[source]
    past = [(procedure.steps[number], procedure.starts[number] + first) for number in range(step)]
    return {
        "sample_id": sample_id,
        "video_source": source,
        "video_id": video_id,
        "task_goal": procedure.goal,
        "question": QUESTION.format(goal=procedure.goal),
        "current_observation_frame": procedure.starts[step] - OBSERVATION_LEAD + first,
        "task_progress_metadata": [
            {
                "narration_text": narration,
                "start_frame": start,
                "stop_frame": start + STEP_FRAMES - 1,
            }
            for narration, start in past
        ],
    }


def _worlds(
    generator: random.Random, count: int, *, is_other_room: bool = False
) -> Iterable[World]:
    """Draw `count` worlds for each goal."""
    goals = procedures()
    return (
        vary(procedure, generator, is_other_room=is_other_room)
        for _ in range(count)
        for procedure in goals
    )


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
