"""Write the demo's data: a small set for each benchmark, two scripted models' replies, and a
judge's verdicts.

python perf/demo/render.py lmms_egoplan/demo/data

The texts are deterministic. The bytes of videos depend on the encoder's version.
"""

import argparse
import json
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from PIL import Image
from recoloured import Procedure
from scenes import FPS, PAUSE_FRAMES, SCENES, Scene
from tuning_set import question
from worlds import vary

from lmms_egoplan.benchmarks.actplan.instances import ORIGIN
from lmms_egoplan.benchmarks.egointent.prompts import RELEASE_NAMES
from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import (
    BENCH2_FILE,
    CHOICES,
    EGO4D,
    EGO4D_FPS,
    EPIC_KITCHENS,
    LIST_KEYS,
    RENDERED,
)
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME
from lmms_egoplan.coverage import RENDERED_SCENES
from lmms_egoplan.media.frames import write_video

# The smallest quality at which things and hands are easy to see.
CRF = 34
QUALITY = 85
IN_KITCHENS = ("Daily life", "Recreation")
BENCH2_FIELDS = (
    *(
        "sample_id",
        "domain",
        "scenario",
        "task_start_frame",
        "task_goal",
        *CHOICES,
        "golden_choice_idx",
        "answer",
    ),
    *("current_observation_frame", "task_progress_metadata"),
)
# Offsets in frames from a step's first frame: before it nothing happens, during it a hand acts.
MOMENTS = {"before": -4, "during": 7}
# The last sentences of ActPlan-1K's task descriptions.
INSTRUCTION = (
    "Generate admissible procedural plans without natural language using the planning steps "
    "described with action(object). The available actions include walk_to, place_on_top, grab, "
    "place_inside, open/close, and switch-on/off."
)
# The scripted models, and the fraction of EgoPlan's questions that each answers correctly.
MODELS = {"good": 0.8, "poor": 0.4}

Record = dict[str, Any]
BY_GOAL = {scene.goal: scene for scene in SCENES}


class Demo:
    """The demo's data in a folder.

    Attributes:
        root: The folder.
        replies: The scripted models' replies, by model, task and question.
        verdicts: The judge's verdicts, by reference and answer.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.replies: dict[str, dict[str, dict[str, str]]] = {
            model: defaultdict(dict) for model in MODELS
        }
        self.verdicts: dict[tuple[str, str], str] = {}

    def write(self) -> None:
        """Write all files."""
        self.write_egoplan()
        self.write_bench2()
        self.write_egothink()
        self.write_egointent()
        self.write_actplan()
        for model, replies in self.replies.items():
            write_json(self.root / f"scripted-{model}" / "replies.json", replies)
        verdicts = [
            {"reference": reference, "answer": answer, "verdict": verdict}
            for (reference, answer), verdict in self.verdicts.items()
        ]
        write_json(self.root / "verdicts.json", verdicts)

    def write_egoplan(self) -> None:
        """Write 24 questions about twelve videos; EPIC-KITCHENS videos are converted to frame
        folders on use.
        """
        root, records = self.root / "egoplan", []
        for number, scene in enumerate(SCENES, 1):
            source = EPIC_KITCHENS if scene.domain in IN_KITCHENS else EGO4D
            video_id = f"{RENDERED}_{number:02}"
            folder, rate = {EPIC_KITCHENS: ("epic-kitchens", FPS), EGO4D: ("ego4d", EGO4D_FPS)}[
                source
            ]
            write_video(root / folder / f"{video_id}.mp4", scene.frames(), rate, crf=CRF, threads=1)
            for step in (1 + number % 3, 4):
                records.append(
                    question(len(records) + 1, source, video_id, procedure_of(scene), step)
                )
        write_json(root / f"{LIST_KEYS['val']}.json", records)
        self.answer_choices(records, "egoplan_val")

    def write_bench2(self) -> None:
        """Write 24 questions about twelve other videos, three per domain."""
        root, records = self.root / "egoplan-bench2", []
        for number, scene in enumerate(SCENES, 1):
            video_id = f"{RENDERED}-{number:02}"
            world = vary(scene, random.Random(f"bench2 {number}"))
            write_video(
                root / "ego4d" / f"{video_id}.mp4", world.frames(), EGO4D_FPS, crf=CRF, threads=1
            )
            for step in (1 + number % 2, 3 + number % 2):
                record = question(f"{video_id}_{step}", EGO4D, video_id, procedure_of(scene), step)
                record |= {
                    "domain": scene.domain,
                    "scenario": f"scene {number}",
                    "task_start_frame": 0,
                }
                records.append({field: record[field] for field in BENCH2_FIELDS})
        write_json(root / BENCH2_FILE, records)
        self.answer_choices(records, "egoplan_bench2")

    def answer_choices(self, records: Sequence[Record], task: str) -> None:
        """Write each model's choices; the fraction in `MODELS` is correct, and the rest are random
        wrong choices.
        """
        for model, share in MODELS.items():
            generator = random.Random(f"{model} {task}")
            correct = set(generator.sample(range(len(records)), round(share * len(records))))
            for number, record in enumerate(records):
                wrong_letters = [
                    letter for letter in LETTERS if letter != record["golden_choice_idx"]
                ]
                letter = (
                    record["golden_choice_idx"]
                    if number in correct
                    else generator.choice(wrong_letters)
                )
                question_id = str(record["sample_id"])
                self.replies[model][f"{task}_generate"][question_id] = letter
                self.replies[model][task][question_id] = record[f"choice_{letter.lower()}"]

    def write_egothink(self) -> None:
        """Write two questions per dimension, with their images."""
        records = defaultdict(list)
        for row in read_yaml("egothink"):
            goal, step, moment = row["scene"]
            dimension = BY_NAME[row["dimension"]]
            dimension_records = records[dimension]
            name = f"{len(dimension_records) + 1}.jpg"
            image = BY_GOAL[goal].frame(BY_GOAL[goal].span(step)[0] + MOMENTS[moment])
            save(
                image, self.root / "egothink" / dimension.folder / "images" / name, quality=QUALITY
            )
            for model in MODELS:
                answer, rating, reason = row[model]
                self.replies[model][dimension.task][
                    f"{dimension.name}/{len(dimension_records) + 1}"
                ] = answer
                self.verdicts[row["answer"], answer] = f"{reason}\nRating: [[{rating}]]"
            texts = {"question": row["question"], "answer": row["answer"]}
            dimension_records.append({"source_dataset": "rendered", "image_path": [name], **texts})
        for dimension, dimension_records in records.items():
            write_json(
                self.root / "egothink" / dimension.folder / "annotations.json", dimension_records
            )

    def write_egointent(self) -> None:
        """Write one step of each of twelve videos, in the project's format.

        A step's clip starts with the pause before the step. It ends when the hand arrives, before
        anything changes (sec. 3.3).
        """
        root, records = self.root / "egointent-steps", []
        for number, row in enumerate(read_yaml("egointent"), 1):
            scene, step = BY_GOAL[row["scene"][0]], row["scene"][1]
            step_id, video_id = f"demo-{number:02}", scene.goal.replace(" ", "-")
            world = vary(scene, random.Random(f"egointent {number}"))
            write_video(
                root / "videos" / f"{video_id}.mp4", world.frames(), FPS, crf=CRF, threads=1
            )
            labels = {name: row[name] for name in ("local_intent", "global_intent")}
            labels["next_step_plan"] = scene.steps[step + 1].narration
            scenario, environment = row["place"]
            records.append(
                {
                    "step_id": step_id,
                    "video_id": video_id,
                    "start_sec": (scene.span(step)[0] - PAUSE_FRAMES) / FPS,
                    # Half a frame before the change, which is robust to rounded time stamps.
                    "end_sec": (scene.first_change(step) - 0.5) / FPS,
                    **labels,
                    "scenario": scenario,
                    "environment": environment,
                    "goal": scene.goal,
                    "origin": RENDERED_SCENES,
                }
            )
            for model in MODELS:
                reply = {RELEASE_NAMES[field]: text for field, (text, _, _) in row[model].items()}
                self.replies[model]["egointent"][step_id] = json.dumps(reply)
                for field, (text, rating, reason) in row[model].items():
                    self.verdicts[labels[field], text] = f"{reason}\n[[{rating}]]"
        path = root / "steps.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    def write_actplan(self) -> None:
        """Write 14 instances of twelve activities, with three views each, in the full release's
        layout.
        """
        root = self.root / "actplan-annotation"
        for row in read_yaml("actplan"):
            room, number = "Rendered_0_int", row["description"]
            description = root / room / row["activity"] / str(number)
            sample = description / "sample_0"
            for view, image in enumerate(views(BY_GOAL[row["scene"]].frame(0))):
                save(image, sample / f"{view:05}.png", optimize=True)
            text = f"{row['task']}\n{INSTRUCTION}\n"
            (description / f"task_description_{number}.txt").write_text(text, encoding="utf-8")
            for gold in (1, 2):
                (sample / f"plan_gold_{gold}.txt").write_text(
                    lines_of(row[f"gold_{gold}"]) + "\n", encoding="utf-8"
                )
            for model in MODELS:
                for task in ("actplan", "actplan_text_only"):
                    question_id = f"{room}/{row['activity']}/{number}/sample_0"
                    self.replies[model][task][question_id] = lines_of(row[model])
        (root / ORIGIN).write_text(f"{RENDERED_SCENES}\n", encoding="utf-8")


def procedure_of(scene: Scene) -> Procedure:
    """Return a scene's goal and steps."""
    steps = range(len(scene.steps))
    return Procedure(
        scene.goal,
        tuple(step.narration for step in scene.steps),
        tuple(scene.span(step)[0] for step in steps),
    )


def lines_of(plan: str) -> str:
    """Return a plan with one step per line."""
    return re.sub(r"\) ", ")\n", plan)


def views(room: Image.Image) -> list[Image.Image]:
    """Return the whole room, its left half and its right half."""
    half, height = room.width // 2, room.height
    return [room, *(room.crop((x, 0, x + half, height)) for x in (0, half))]


def save(image: Image.Image, path: Path, **options: Any) -> None:
    """Write an image, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)


def read_yaml(name: str) -> list[Record]:
    """Read a YAML file next to this one."""
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))


def write_json(path: Path, content: Any) -> None:
    """Write JSON, and create the file's folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Delete the output folder and write it anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="Output folder. Its content is deleted first.")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    Demo(out).write()


if __name__ == "__main__":
    main()
