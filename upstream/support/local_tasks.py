"""Small tasks on rendered local data: choices after an image or a text, and free-text answers to an
image.
"""

import json
from pathlib import Path

from datasets import Dataset, DatasetDict
from PIL import Image, ImageDraw

PLACES = ["in the upper left corner", "in the lower right corner", "in the middle"]
CENTERS = [(20, 20), (76, 76), (48, 48)]
COUNTS = ["one", "two", "three", "four"]

TASK = """
task: {name}
dataset_path: {data}
dataset_kwargs:
  load_from_disk: true
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_visual: !function utils.{visuals}
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - metric: acc
  - metric: acc_norm
"""

UTILS = """
from PIL import Image


def images(doc):
    return [Image.open(doc["image"]).convert("RGB")]


def nothing(doc):
    return []
"""

WRITTEN = """
task: image_answer
dataset_path: {data}
dataset_kwargs:
  load_from_disk: true
test_split: test
output_type: generate_until
doc_to_text: question
doc_to_visual: !function utils.images
doc_to_target: "{{{{choices[gold]}}}}"
generation_kwargs:
  max_new_tokens: 6
metric_list:
  - metric: exact_match
"""


def write_tasks(folder: Path, num_questions: int = 6) -> None:
    """Write the tasks ``image_choice``, ``image_answer`` and ``text_choice`` to `tasks/`, and their
    data next to it.
    """
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "utils.py").write_text(UTILS)
    image_rows, text_rows = [], []
    for number in range(num_questions):
        corner = number % len(PLACES)
        picture = Image.new("RGB", (96, 96), (40 * number, 120, 200))
        x, y = CENTERS[corner]
        ImageDraw.Draw(picture).ellipse(
            (x - 12, y - 12, x + 12, y + 12), fill=(240, 200 - 30 * number, 20)
        )
        picture.save(folder / f"{number}.png")
        question = "Where is the round shape?"
        row = {
            "question": question,
            "choices": PLACES,
            "gold": corner,
            "image": str(folder / f"{number}.png"),
        }
        image_rows.append(row)
        count = number % len(COUNTS)
        words = " ".join(["cup"] * (count + 1))
        text_rows.append(
            {
                "question": f"How often does cup stand here: {words}?",
                "choices": COUNTS,
                "gold": count,
            }
        )
    for name, rows, visuals in (
        ("image_choice", image_rows, "images"),
        ("text_choice", text_rows, "nothing"),
    ):
        data = folder / name
        DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(data)
        (folder / "tasks" / f"{name}.yaml").write_text(
            TASK.format(name=name, data=data, visuals=visuals)
        )
        (folder / f"{name}.json").write_text(json.dumps(rows))
    (folder / "tasks" / "image_answer.yaml").write_text(
        WRITTEN.format(data=folder / "image_choice")
    )
