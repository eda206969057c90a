"""The demo's sets of both benchmarks: rendered scenes as videos, with questions in the official layouts."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan import records
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS, QUESTION
from lmms_egoplan.benchmarks.egoplan.records import CHOICES, EGO4D, EPIC_KITCHENS, FIRST_FRAME, RENDERED
from lmms_egoplan.demo.scenes import FPS, SCENES, Scene
from lmms_egoplan.media.frames import frame_path, write_video

ANNOTATIONS = f"{records.LIST_KEYS['val']}.json"
# Below the folder of a set, by source.
FOOTAGE_FOLDERS = {EPIC_KITCHENS: "epic-kitchens", EGO4D: "ego4d"}
# An observation is 0.5 s before the next action (arXiv 2312.06722, sec. 3.3).
_OBSERVATION_LEAD = FPS // 2
_BENCH2_FIELDS = (
    *("sample_id", "domain", "scenario", "task_start_frame", "task_goal", *CHOICES, "golden_choice_idx", "answer"),
    *("current_observation_frame", "task_progress_metadata"),
)

Record = dict[str, Any]


@dataclass(frozen=True)
class _Set:
    """One of the sets, as `RenderedSet` describes them."""

    FOLDER: str
    TASKS: tuple[str, ...]
    SCORES: Mapping[str, str]
    write: Callable[[Path], list[str]]


def _write_egoplan(folder: Path) -> list[str]:
    """Write 24 questions of six goals with frame folders and H.264 videos."""
    root = folder / EGOPLAN.FOLDER
    questions: list[Record] = []
    for number, (source, scene) in enumerate(zip((*[EPIC_KITCHENS] * 3, *[EGO4D] * 3), SCENES, strict=True), 1):
        video_id = f"{RENDERED}_{number:02}"
        write_footage(root, source, video_id, scene)
        for step in range(1, len(scene.steps)):
            questions.append(question(len(questions) + 1, source, video_id, scene, step))
    _write_records(root / ANNOTATIONS, questions)
    options = "--split val --epic-kitchens egoplan/epic-kitchens --ego4d egoplan/ego4d"
    return ["egoplan", f"egoplan/{ANNOTATIONS}", *options.split()]


def _write_bench2(folder: Path) -> list[str]:
    """Write 16 questions of four goals, a domain each, with H.264 videos."""
    root = folder / EGOPLAN_BENCH2.FOLDER
    questions: list[Record] = []
    for number, (domain, scene) in enumerate(zip(records.DOMAINS, SCENES, strict=False), 1):
        video_id = f"{RENDERED}-{number:02}"
        write_footage(root, EGO4D, video_id, scene)
        for step in range(1, len(scene.steps)):
            record = question(f"{video_id}_{step}", EGO4D, video_id, scene, step)
            record |= {"domain": domain, "scenario": f"scene {number}", "task_start_frame": 0}
            questions.append({field: record[field] for field in _BENCH2_FIELDS})
    _write_records(root / records.BENCH2_FILE, questions)
    return ["egoplan_bench2", f"egoplan-bench2/{records.BENCH2_FILE}", "--ego4d", "egoplan-bench2/ego4d"]


_TASKS = ("egoplan_val", "egoplan_val_clips", "egoplan_val_generate")
_BENCH2_TASKS = ("egoplan_bench2", "egoplan_bench2_generate")
EGOPLAN = _Set("egoplan", _TASKS, dict.fromkeys(_TASKS, "acc"), _write_egoplan)
EGOPLAN_BENCH2 = _Set("egoplan-bench2", _BENCH2_TASKS, dict.fromkeys(_BENCH2_TASKS, "acc"), _write_bench2)


def write_footage(root: Path, source: str, video_id: str, scene: Scene) -> None:
    """Write a scene as a frame folder below ``epic-kitchens``, or as a video below ``ego4d``."""
    folder = root / FOOTAGE_FOLDERS[source]
    if source == EGO4D:
        write_video(folder / f"{video_id}.mp4", scene.frames(), FPS)
        return
    frames = folder / video_id.split("_")[0] / "rgb_frames" / video_id
    frames.mkdir(parents=True)
    for number, image in enumerate(scene.frames(), FIRST_FRAME[EPIC_KITCHENS]):
        image.save(frame_path(frames, number), quality=90)


def question(sample_id: int | str, source: str, video_id: str, scene: Scene, step: int) -> Record:
    """Return the record that asks for a step after all earlier ones; three other steps are the wrong choices."""
    answer, others = answer_and_others(scene, step)
    generator = random.Random(sample_id)
    choices = [answer, *generator.sample(others, 3)]
    generator.shuffle(choices)
    return {
        **shown(sample_id, source, video_id, scene, step),
        **dict(zip(CHOICES, choices, strict=True)),
        "golden_choice_idx": LETTERS[choices.index(answer)],
        "answer": answer,
    }


def answer_and_others(scene: Scene, step: int) -> tuple[str, list[str]]:
    """Return the narration of a step, and those of the scene's other steps."""
    narrations = [step.narration for step in scene.steps]
    return narrations.pop(step), narrations


def shown(sample_id: int | str, source: str, video_id: str, scene: Scene, step: int) -> Record:
    """Return the fields that records of all kinds have, of a question about a step: the goal, and what is shown."""
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


def _write_records(path: Path, questions: list[Record]) -> None:
    path.write_text(json.dumps(questions, indent=2) + "\n", encoding="utf-8")
