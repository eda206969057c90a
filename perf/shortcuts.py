"""Measure a run of all shortcut conditions, whose questions share decoding, encoding and scores.

    python perf/shortcuts.py --questions 12

The model is LLaVA-1.5-shaped, but each ranking only waits `COMPUTE_S` and uses no CPU time, like a
model on a GPU. The conditions are those in `SHORTCUTS`, except those of images and views. Every
question has three past actions, so that `last_4_actions` is equal to the question itself.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from lmms_eval.api.instance import Instance
from models import build_small
from PIL import Image
from pipeline import CANDIDATES, COMPUTE_S, FRAMES, _cpu_seconds, _sleep, _views

from lmms_egoplan.benchmarks.conditions import SHORTCUTS, apply_condition
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.media.frames import read_video_frames, write_video

SIZE, FPS = (854, 480), 24
PARTNERS = ("same_goal_video", "other_goal_video", "other_video")
CONDITIONS = (
    "whole",
    *(name for name in SHORTCUTS if name not in ("other_image", "marked", "views_swapped")),
)
ACTIONS = ("take a bowl", "open the fridge", "take the milk")

Doc = dict[str, Any]


def main(
    questions: Annotated[int, typer.Option(help="Number of questions.")] = 12,
    shape: Annotated[
        str, typer.Option(help="Shape of the model, as in perf/models.py.")
    ] = "llava-1.5-7b",
) -> None:
    """Print the times of a run of all conditions, with and without sharing, and their ratio to the
    bound.
    """
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(4):
            write_video(folder / f"{number}.mp4", _views(number, SIZE), FPS)
        backend = _backend(folder / "checkpoint", shape)
        requests = _requests(backend, [_question(folder, number) for number in range(questions)])
        list(backend.loglikelihood(requests[: len(CANDIDATES)]))  # imports, threads
        sets = {
            frozenset(_frames(doc)): doc for docs in _docs(backend) for doc in docs if _frames(doc)
        }
        torch.set_num_threads(1)
        whole = backend.task_dict["perf_whole"]["val"]
        decoding = _cpu_seconds(
            lambda: [read_video_frames(doc["path"], doc["numbers"]) for doc in whole]
        )
        processor = backend._generator._encoder._processor.image_processor
        encoding = sum(_encoding_seconds(processor, doc) for doc in sets.values())
        texts = {
            (doc["sample_id"], *map(str, _frames(doc)), _text(doc))
            for docs in _docs(backend)
            for doc in docs
        }
        compute, together = COMPUTE_S * len(texts), (decoding + encoding) / cores
        bound = max(compute, together)
        print(
            f"{len(requests) // len(CANDIDATES)} rankings of {questions} questions, "
            f"{len(CONDITIONS)} conditions"
        )
        print(
            f"{len(texts)} of them differ, {len(sets)} frame sets; {cores} cores, {shape}",
            flush=True,
        )
        print(
            f"decode {decoding:.1f} s, encode {encoding:.1f} s of CPU time; over the "
            f"cores {together:.1f} s"
        )
        print(f"compute {compute:.1f} s, bound {bound:.1f} s", flush=True)
        for name in ("shared", "not shared"):
            if name == "not shared":
                backend._shown_of = lambda: lambda request: request.args[3:6]
            cpu, start = time.process_time(), time.perf_counter()
            list(backend.loglikelihood(requests))
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            print(
                (
                    f"{name:10}  {seconds:.1f} s, {cpu:.1f} s of CPU time, "
                    f"{seconds / bound:.2f} of the bound"
                ),
                flush=True,
            )


def _encoding_seconds(processor: Any, doc: Doc) -> float:
    images = _visuals(doc)
    return _cpu_seconds(lambda: processor(images, return_tensors="pt"))


def _question(folder: Path, number: int) -> Doc:
    last = 200 + 7 * (number % 20)
    numbers = np.linspace(last - 180, last, FRAMES).round().astype(int).tolist()
    return {"sample_id": number, "path": str(folder / f"{number % 4}.mp4"), "numbers": numbers}


def _frames(doc: Doc) -> list[tuple[str, int]]:
    """Return the frames that a condition shows: their file and number."""
    row, condition = doc.get("partner", doc), doc["condition"]
    if condition in ("blind", "candidates_only"):
        return []
    frames = apply_condition(
        [(row["path"], number) for number in row["numbers"]], condition, str(row["sample_id"])
    )
    cut = {"last_quarter": slice(-FRAMES // 4, None), "without_boundary": slice(-FRAMES // 4)}
    return frames[cut.get(condition, slice(None))]


def _visuals(doc: Doc) -> list[Image.Image]:
    frames = _frames(doc)
    row = doc.get("partner", doc)
    images = (
        dict(zip(row["numbers"], read_video_frames(row["path"], row["numbers"]), strict=True))
        if frames
        else {}
    )
    return [images[number] for _, number in frames]


def _text(doc: Doc) -> str:
    condition = doc["condition"]
    if condition == "candidates_only":
        return ""
    count = (
        int(condition.split("_")[1])
        if condition.endswith(("_action", "_actions"))
        else len(ACTIONS)
    )
    goal = "" if condition == "without_goal" else f" in order to store cereal {doc['sample_id']}"
    return f"I have: {', '.join(ACTIONS[-count:])}. What action should I take next{goal}?"


def _docs(backend: Any) -> list[list[Doc]]:
    return [docs["val"] for docs in backend.task_dict.values()]


def _requests(backend: Any, rows: list[Doc]) -> list[Instance]:
    """Return the requests of all conditions, task by task, as lmms-eval does."""
    for condition in CONDITIONS:
        docs = [{**row, "condition": condition} for row in rows]
        if condition in PARTNERS:
            step = 1 + PARTNERS.index(condition)
            docs = [
                {**doc, "partner": rows[(number + step) % len(rows)]}
                for number, doc in enumerate(docs)
            ]
        backend.task_dict[f"perf_{condition}"] = {"val": docs}
    return [
        Instance(
            "loglikelihood",
            (_text(doc), candidate, _visuals, number, task, "val"),
            0,
            {"task": task, "doc_id": number, "repeats": 1},
        )
        for task, docs in backend.task_dict.items()
        for number, doc in enumerate(docs["val"])
        for candidate in CANDIDATES
    ]


def _backend(folder: Path, shape: str) -> Any:
    model, processor, _ = build_small(shape)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    backend = HFVLM(str(folder), dtype="float32", device="cpu")
    backend._rank = 1  # hides the progress bar
    backend._ranker.score_encoded = _sleep
    return backend


if __name__ == "__main__":
    typer.run(main)
