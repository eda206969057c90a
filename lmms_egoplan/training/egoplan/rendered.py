"""A rendered EgoPlan-IT, captions in LLaVA's layout, and questions about other worlds, from the demo's scenes."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.demo import answer_and_others, question, shown, write_footage
from lmms_egoplan.benchmarks.egoplan.protocol import QUESTION
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, RENDERED
from lmms_egoplan.demo.scenes import SCENES, Scene
from lmms_egoplan.training.egoplan import captions
from lmms_egoplan.training.egoplan.worlds import vary

TUNING_DATA, CAPTIONS, ANNOTATIONS = "EgoPlan_IT.json", "captions.json", "EgoPlan_validation.json"
QUESTIONS = tuple(QUESTION.format(goal=scene.goal) for scene in SCENES)
"""All questions of the rendered sets."""

# Worlds of each goal. In EgoPlan-Val about 3 of 11 questions are Ego4D's.
_TUNED, _ASKED = 10, {EPIC_KITCHENS: 4, EGO4D: 2}
_CAPTIONS = 60


def write_tuning_data(root: Path, seed: int) -> None:
    """Write 300 records about 60 worlds of Epic-Kitchens, one for each step, and 60 captioned images."""
    generator = random.Random(f"{seed} tuning")
    records: list[dict[str, Any]] = []
    for number, scene in enumerate(_worlds(generator, _TUNED), 1):
        video_id = f"{RENDERED}_tuning_{number:02}"
        write_footage(root, EPIC_KITCHENS, video_id, scene)
        for step in range(len(scene.steps)):
            answer, others = answer_and_others(scene, step)
            record = shown(len(records) + 1, EPIC_KITCHENS, video_id, scene, step)
            records.append(record | {"answer": answer, "negative_answers": others})
    _write(root / TUNING_DATA, records)
    (root / "images").mkdir()
    dialogues = []
    for number in range(_CAPTIONS):
        caption = captions.draw(generator)
        caption.frames[0].save(root / "images" / f"{number:03}.jpg", quality=90)
        turns = [{"from": "human", "value": f"<image>\n{captions.QUESTION}"}, {"from": "gpt", "value": caption.text}]
        dialogues.append({"id": f"{number:03}", "image": f"images/{number:03}.jpg", "conversations": turns})
    _write(root / CAPTIONS, dialogues)


def write_questions(root: Path, seed: int) -> None:
    """Write 180 questions about 36 other worlds: 24 in rooms as those of the tuning data, 12 of Ego4D in other ones."""
    generator = random.Random(f"{seed} questions")
    records: list[dict[str, Any]] = []
    for source, count in _ASKED.items():
        for scene in _worlds(generator, count, is_other_room=source == EGO4D):
            video_id = f"{RENDERED}_{len(records):03}"
            write_footage(root, source, video_id, scene)
            for step in range(len(scene.steps)):
                records.append(question(len(records) + 1, source, video_id, scene, step))
    _write(root / ANNOTATIONS, records)


def _worlds(generator: random.Random, count: int, *, is_other_room: bool = False) -> Iterable[Scene]:
    """Draw so many worlds of each goal."""
    return (vary(scene, generator, is_other_room=is_other_room) for _ in range(count) for scene in SCENES)


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
