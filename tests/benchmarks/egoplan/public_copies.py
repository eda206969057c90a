"""Write questions in the official layout, with small videos, and public copies of them."""

import io
import json
import random
import shutil
from functools import cache

import pyarrow as pa
from pyarrow import parquet
from typer.testing import CliRunner

from benchmarks.egoplan.bench2_questions import as_bench2
from benchmarks.egoplan.derived_questions import render_media
from lmms_egoplan.cli import app
from lmms_egoplan.media.frames import read_frame_folder, read_video_frames, write_video

CHOICES = [f"choice_{letter}" for letter in "abcd"]
RATES = {"Ego4D": 30, "EpicKitchens": 60}
# Source, video, goal and steps. Step 5 of the flatbread is a step that was done before.
TASKS = [
    (
        *("Ego4D", "28bc1ee7-b0c1-4f30", "adding cabbage to the vegetables in the baking pan"),
        [
            "cut out the leaves",
            "wash the cabbage",
            "peel the cabbage",
            "slice the cabbage",
            "add it to the pan",
        ],
    ),
    (
        *("Ego4D", "b2a1b8ca-99d6-4f26", "prepare flatbread"),
        [
            "mold dough with flour",
            "roll out the dough",
            "flip flatbread",
            "cook flatbread",
            "roll out the dough",
        ],
    ),
    (
        *("EpicKitchens", "P27_05", "deal with wash knife and knife"),
        [
            "take and wash knives",
            "put down knives",
            "wash spoons",
            "put down spoons",
            "pick up baking pan",
        ],
    ),
    (
        *("EpicKitchens", "P20_07", "deal with bowl and fork"),
        [
            "wipe fork with rag",
            "put down fork",
            "pick up bowls",
            "wipe bowl with rag",
            "put down bowl",
        ],
    ),
]
COUNT = 20


def official_records():
    """Return questions after zero to four steps of each task, with other steps of the task as wrong
    choices.
    """
    records = []
    for source, video, goal, steps in TASKS:
        for number, answer in enumerate(steps):
            chance = random.Random(f"{video} {answer}")
            choices = chance.sample(
                [answer, *chance.sample(sorted({*steps, "clean the table"} - {answer}), 3)], 4
            )
            records.append(
                {
                    "sample_id": len(records),
                    "video_source": source,
                    "video_id": video,
                    "task_goal": goal,
                    "question": f"What action should I take next in order to {goal}?",
                    **dict(zip(CHOICES, choices, strict=True)),
                    "golden_choice_idx": "ABCD"[choices.index(answer)],
                    "answer": answer,
                    "current_observation_frame": 100 * number + 1,
                    "task_progress_metadata": [
                        {
                            "narration_text": step,
                            "start_frame": 100 * i + 2,
                            "stop_frame": 100 * i + 70,
                        }
                        for i, step in enumerate(steps[:number])
                    ],
                }
            )
    return records


def write_official(folder):
    """Write questions in the official layout, with their videos."""
    return render_media(official_records(), folder)


def without(record, *names):
    return {name: value for name, value in record.items() if name not in names}


def first_frame(record):
    actions = record["task_progress_metadata"]
    return record.get(
        "task_start_frame",
        actions[0]["start_frame"] if actions else record["current_observation_frame"],
    )


def source_frames(official, record):
    """Return the source's frames from the question's first frame to its observation."""
    numbers = range(first_frame(record), record["current_observation_frame"] + 1)
    if record.get("video_source") == "EpicKitchens":
        video = record["video_id"]
        return read_frames(
            official.epic_kitchens / video.split("_")[0] / "rgb_frames" / video, numbers
        )
    video = record.get("video_id") or record["sample_id"].split("_")[0]
    return read_frames(official.ego4d / f"{video}.mp4", numbers)


@cache
def read_frames(path, numbers):
    return (read_frame_folder if path.is_dir() else read_video_frames)(path, numbers)


def observation_of(official, record):
    """The observation as a copy has it: larger than the video, and marked, so that it can be
    recognised.
    """
    image = source_frames(official, record)[-1].resize((96, 72))
    image.putpixel((95, 71), (1, 2, 3))
    return image


def encoded(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), path)


def seed_bench_rows(records):
    return [
        record
        | {
            "video_basename": f"{record['sample_id']}.mp4",
            "current_observation_basename": f"{record['sample_id']}.png",
        }
        for record in (without(record, "current_observation_frame") for record in records)
    ]


def write_seed_bench(folder, official, rows):
    """Write levels 1 and 2. Questions without past actions have no video."""
    for level, source in (("L1", "EpicKitchens"), ("L2", "Ego4D")):
        of_source = [row for row in rows if row.get("video_source") == source]
        write_lines(folder / "annotations" / f"validation_{level}.jsonl", of_source)
    for record in official.records:
        name, source = record["sample_id"], record["video_source"]
        if record["task_progress_metadata"]:
            frames = source_frames(official, record)
            write_video(folder / "videos" / source / f"{name}.mp4", frames, RATES[source])
        image = folder / "images" / source / f"{name}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        observation_of(official, record).save(image)
    return folder


def with_rows(folder, seed_bench, rows):
    """Return a copy with the same media and other rows."""
    copy = folder / "copy"
    shutil.copytree(seed_bench, copy)
    write_lines(copy / "annotations" / "validation_L1.jsonl", rows)
    (copy / "annotations" / "validation_L2.jsonl").unlink()
    return copy


def prepare(official, name, copy, *options, benchmark="egoplan", annotations=None):
    split = ["--split", "val"] if benchmark == "egoplan" else []
    arguments = ["data", "prepare", benchmark, str(annotations or official.annotations), *split]
    return CliRunner().invoke(
        app, [*arguments, "--copy", name, str(copy), *options], env={"COLUMNS": "200"}
    )


def write_egolife(folder, official, rows):
    write_parquet(folder / "data" / "validation-00000-of-00001.parquet", rows)
    for record in official.records:
        path = folder / "videos" / f"{record['sample_id']}.mp4"
        write_video(path, source_frames(official, record), RATES[record["video_source"]])
    return folder


def bench2(official, folder):
    """Write and return questions of EgoPlan-Bench2 on the same videos."""
    records = [
        as_bench2(record) for record in official.records if record["video_source"] == "Ego4D"
    ]
    (folder / "bench2.json").write_text(json.dumps(records))
    return records


def images_of(official, record):
    """Return the images of a copy: three of the progress, and the observation."""
    frames = source_frames(official, record)
    return [frames[number * (len(frames) - 1) // 3] for number in range(3)], observation_of(
        official, record
    )


def iffyuan_row(official, record, number):
    progress, observation = images_of(official, record)
    return {
        "id": number,
        "video": [encoded(image) for image in progress],
        "image": encoded(observation),
        "question": f"Given the video, what should I do next in order to {record['task_goal']}?",
        "options": [f"{letter.upper()}. {record[f'choice_{letter}']}" for letter in "abcd"],
        "answer": record["golden_choice_idx"],
        "domain": record["domain"],
        "scenario": record["scenario"],
        "video_source": "ego4d",
    }


def nv_njb_row(official, record, number):
    progress, observation = images_of(official, record)
    fields = (
        "sample_id",
        "domain",
        "task_goal",
        "task_start_frame",
        "current_observation_frame",
        *CHOICES,
    )
    return {name: record[name] for name in fields} | {
        "formatted_question": "What next?",
        "ground_truth": record["golden_choice_idx"],
        "video_file": f"{number}.mp4",
        "keyframes": [encoded(image) for image in (*progress, observation)],
    }
