"""Measure the memory of reading ahead, with images, videos and frame folders of random sizes.

python perf/reading_ahead.py --seed 1 --workers 16 --limit 256
"""

import json
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from PIL import Image

from lmms_egoplan.harnesses import prefetch
from lmms_egoplan.harnesses.prefetch import num_bytes
from lmms_egoplan.media.frames import frame_path, read_frame_folder, write_video
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.memory_ahead import PEAK

MIB = 2**20
MOST_FRAMES = 24


def main(
    seed: Annotated[int, typer.Option(help="Random seed for the sizes.")] = 1,
    count: Annotated[int, typer.Option(help="Number of questions.")] = 60,
    workers: Annotated[int, typer.Option(help="Number of threads that read ahead.")] = 16,
    limit: Annotated[int, typer.Option(help="Memory limit of all processes, in MiB.")] = 256,
    batch_size: Annotated[
        int, typer.Option(help="Questions per batch; 0 encodes each question separately.")
    ] = 0,
) -> None:
    """Print the memory of reading ahead, in MiB, as JSON."""
    prefetch.BYTES_AHEAD = limit * MIB
    with tempfile.TemporaryDirectory() as folder:
        rng = random.Random(seed)
        questions = [
            question(rng, Path(folder) / str(number), small=not number) for number in range(count)
        ]
        warm_up = [load_and_encode(visual) for visual in questions[: max(4, count // 10)]]
        del warm_up
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = resident("VmRSS")
        typer.echo("reading", err=True)
        PEAK.num_bytes = largest = 0
        for size in read_ahead(questions, workers, batch_size):
            largest = max(largest, size)
            time.sleep(0.002)
    figures = {
        "accounted": PEAK.num_bytes,
        "resident": resident("VmHWM") - before,
        "largest": largest,
    }
    print(json.dumps({name: round(value / MIB, 1) for name, value in figures.items()}))


def read_ahead(questions: list[Any], workers: int, batch_size: int) -> Any:
    """Yield the bytes of loaded and encoded data, per question or per batch."""
    if batch_size:
        batching = prefetch.Batching(
            lambda *_: True,
            batch_size,
            lambda batch: (
                num_bytes([messages for _, messages in batch]),
                encode([messages for _, messages in batch]),
            ),
            num_bytes,
        )
        batches = prefetch.prefetch(questions, load, workers, size=num_bytes, batching=batching)
        for pixels, tensors in batches:
            yield pixels + num_bytes(tensors)
    else:
        for _, (pixels, tensors) in prefetch.prefetch(
            questions, load_and_encode, workers, size=num_bytes
        ):
            yield pixels + num_bytes(tensors)


def load(visual: Any) -> list[dict[str, Any]]:
    """Return the content items that a model sees for a question."""
    visuals = visual() if callable(visual) else [visual]
    return MediaLoader(MOST_FRAMES, takes_video=True).messages("question", visuals)[0]["content"]


def encode(value: Any) -> list[torch.Tensor]:
    """Return all images as float32 tensors, like a processor that does not shrink images."""
    if isinstance(value, Image.Image):
        return [torch.from_numpy(np.array(value)).float()]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [tensor for item in value for tensor in encode(item)]
        if isinstance(value, list | tuple)
        else []
    )


def load_and_encode(visual: Any) -> tuple[int, list[torch.Tensor]]:
    """Return the bytes of a question's pixels, and its encoded images."""
    content = load(visual)
    return num_bytes(content), encode(content)


def question(rng: random.Random, path: Path, small: bool) -> Any:
    """Write an image file, a video file or a frame folder of random size; return the question's
    visual.
    """
    width, height = (16, 16) if small else (2 * rng.randint(16, 320), 2 * rng.randint(16, 240))
    color = tuple(rng.randrange(256) for _ in range(3))
    kind = "image" if small else rng.choice(["image", "video", "folder"])
    if kind == "image":
        file = path.with_suffix(rng.choice([".png", ".jpg"]))
        Image.new("RGB", (width * 2, height * 2), color).save(file)
        return file
    frames = [Image.new("RGB", (width, height), color)] * rng.choice(
        [1, 4, rng.randint(1, MOST_FRAMES)]
    )
    if kind == "video":
        write_video(path.with_suffix(".mp4"), frames, 8)
        return path.with_suffix(".mp4")
    path.mkdir()
    for number, frame in enumerate(frames, 1):
        frame.save(frame_path(path, number))
    return partial(read_frame_folder, path, range(1, len(frames) + 1))


def resident(field: str) -> int:
    """Return this process's resident memory in bytes: ``VmRSS`` for now, ``VmHWM`` for the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    typer.run(main)
