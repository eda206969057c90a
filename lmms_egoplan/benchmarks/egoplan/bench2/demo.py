"""The demo's EgoPlan-Bench2: rendered scenes as videos, with questions in the official layout."""

import json
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench2.records import DOMAINS, FILE
from lmms_egoplan.benchmarks.egoplan.records import CHOICES, EGO4D, RENDERED
from lmms_egoplan.benchmarks.egoplan.rendered import question, write_footage
from lmms_egoplan.demo.scenes import SCENES

TASKS = ("egoplan_bench2", "egoplan_bench2_generate")
SCORES = dict.fromkeys(TASKS, "acc")

FOLDER = "egoplan-bench2"
_VIDEOS = 4
_FIELDS = ("task_goal", *CHOICES, "golden_choice_idx", "answer", "current_observation_frame", "task_progress_metadata")


def write(folder: Path) -> list[str]:
    """Write the set into ``folder/egoplan-bench2``.

    There are 16 questions of four goals, a domain each: ``EgoPlan-Bench2.json`` and ``ego4d/`` with H.264 videos.

    Returns:
        What follows ``lmms-egoplan data prepare`` to prepare the set, with paths relative to `folder`.
    """
    root = folder / FOLDER
    questions: list[dict[str, Any]] = []
    for number, (domain, scene) in enumerate(zip(DOMAINS, SCENES[:_VIDEOS], strict=True), 1):
        video_id = f"{RENDERED}-{number:02}"
        write_footage(root, EGO4D, video_id, scene)
        for step in range(1, len(scene.steps)):
            sample_id = f"{video_id}_{step}"
            record = question(sample_id, EGO4D, video_id, scene, step)
            questions.append(
                {"sample_id": sample_id, "domain": domain, "scenario": f"scene {number}", "task_start_frame": 0}
                | {field: record[field] for field in _FIELDS}
            )
    (root / FILE).write_text(json.dumps(questions, indent=2) + "\n", encoding="utf-8")
    return ["egoplan_bench2", "--annotations", f"{FOLDER}/{FILE}", "--ego4d", f"{FOLDER}/ego4d"]
