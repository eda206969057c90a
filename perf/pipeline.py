"""Measure how long the model waits in the `hf_vlm` backend, which reads frames and encodes
questions ahead.

On a CPU, the model only waits `COMPUTE_S` and uses no CPU time, like a model on a GPU. On a GPU, it
is a model of the given shape.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from models import build, build_small
from PIL import Image

from lmms_egoplan.ranking.scores import CandidateScore

COMPUTE_S = 0.07
SHAPES = ("llava-1.5-7b", "qwen2.5-vl-7b", "internvl3-8b")
FRAMES = 8
EPIC_SIZE, VIDEO_SIZE = (456, 256), (512, 288)
QUESTION = "What action should I take next in order to store cereal?"
CANDIDATES = ["put down cereal box", "open cupboard", "wash spoon", "take bowl of milk"]
ENCODINGS = 24
"""Number of questions over which times are averaged."""


def measure_pipeline(arguments: argparse.Namespace) -> None:
    cores = len(os.sched_getaffinity(0))
    print(
        f"\n{arguments.questions} questions of {FRAMES} frames, {cores} cores; ms per question, "
        "load and encode in CPU time; '1 to N threads': speedup of encoding with one thread per "
        "core"
    )
    print(
        (
            "shape          media  load  encode  1 to N threads  compute  bound  2 threads "
            "load  now  now / bound"
        ),
        flush=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        media = {"frames": _frame_folders(folder), "H.264": _videos(folder)}
        for shape in SHAPES if arguments.device == "cpu" else (arguments.shape,):
            backend = _backend(folder / shape, shape, arguments)
            for name, read in media.items():
                _measure(backend, read, shape, name, cores, arguments)
            backend.clean()


def _measure(
    backend: Any,
    read: Callable[[int], list[Image.Image]],
    shape: str,
    media: str,
    cores: int,
    arguments: argparse.Namespace,
) -> None:
    requests = _requests(arguments.questions, read)
    backend.task_dict = {"perf": {"val": list(range(arguments.questions))}}
    list(backend.loglikelihood(requests[: 4 * len(CANDIDATES)]))  # selects the path
    ranker, load = backend._ranker, backend._load
    questions = [load(requests[len(CANDIDATES) * index]) for index in range(ENCODINGS)]
    encode = partial(_encode, ranker)
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        pool.submit(encode, questions[0]).result()
        loading = (
            _cpu_seconds(lambda: list(pool.map(load, requests[:: len(CANDIDATES)][:ENCODINGS])))
            / ENCODINGS
        )
        encoding = _cpu_seconds(lambda: list(pool.map(encode, questions))) / ENCODINGS
        alone = _seconds(lambda: list(pool.map(encode, questions))) / ENCODINGS
    with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        list(pool.map(encode, questions))
        several = _seconds(lambda: list(pool.map(encode, questions))) / ENCODINGS
    compute = COMPUTE_S
    if arguments.device != "cpu":
        encoded = [encode(question) for question in questions]
        compute = (
            _seconds(lambda: [ranker.score_encoded(question) for question in encoded]) / ENCODINGS
        )
    before, now = [], []
    for _ in range(arguments.repeats):
        before.append(_seconds(lambda: _load_ahead_only(backend, requests)) / arguments.questions)
        now.append(_seconds(lambda: list(backend.loglikelihood(requests))) / arguments.questions)
    bound = max((loading + encoding) / cores, compute)
    figures = [loading, encoding, compute, bound, statistics.median(before), statistics.median(now)]
    loading, encoding, compute, bound, earlier, latest = (
        f"{1000 * value:.1f}" for value in figures
    )
    speedup = alone / several
    print(
        f"{shape:14} {media:6} {loading:>5} {encoding:>6} {speedup:>12.2f} {compute:>8} {bound:>6} "
        f"{earlier:>15} {latest:>6} {figures[-1] / figures[3]:>8.2f}",
        flush=True,
    )


def _encode(ranker: Any, question: tuple[list[dict[str, Any]], str]) -> Any:
    messages, question_id = question
    return ranker.encode_ahead(messages, CANDIDATES, question_id)


def _load_ahead_only(backend: Any, requests: list[Any]) -> None:
    """Run the earlier version: two threads read frames, and the model waits while a question is
    encoded.
    """
    from lmms_egoplan.harnesses.prefetch import prefetch

    with closing(
        prefetch(requests[:: len(CANDIDATES)], backend._load, workers=2, ahead=4)
    ) as loaded:
        for _, (messages, question_id) in loaded:
            backend._ranker.score(messages, CANDIDATES, question_id)


def _backend(folder: Path, shape: str, arguments: argparse.Namespace) -> Any:
    from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM

    is_real = arguments.device != "cpu"
    dtype = getattr(torch, arguments.dtype)
    model, processor, _ = build(shape, arguments.device, dtype) if is_real else build_small(shape)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    del model
    workers = {} if arguments.workers is None else {"workers": arguments.workers}
    backend = HFVLM(str(folder), dtype=arguments.dtype, device=arguments.device, **workers)
    backend._rank = 1  # hides the progress bar
    if not is_real:
        backend._ranker.score_encoded = _sleep
    return backend


def _sleep(question: Any) -> list[CandidateScore]:
    time.sleep(COMPUTE_S)
    return [CandidateScore((-1.0,), is_greedy=False) for _ in question.candidates]


def _requests(count: int, read: Callable[[int], list[Image.Image]]) -> list[Any]:
    from lmms_eval.api.instance import Instance

    def visuals(index: int) -> list[list[Image.Image]]:
        return [read(index)]

    return [
        Instance(
            "loglikelihood",
            (QUESTION, candidate, visuals, index, "perf", "val"),
            0,
            {"task": "perf", "doc_id": index, "repeats": 1},
        )
        for index in range(count)
        for candidate in CANDIDATES
    ]


def _numbers(index: int) -> list[int]:
    """Return a question's frame numbers, up to 7.5 s before its last frame."""
    last = 200 + 5 * (index % 30)
    return np.linspace(last - 180, last, FRAMES).round().astype(int).tolist()


def _frame_folders(folder: Path) -> Callable[[int], list[Image.Image]]:
    from lmms_egoplan.media.frames import frame_path, read_frame_folder

    epic = folder / "epic"
    epic.mkdir()
    for number, view in enumerate(_views(0, EPIC_SIZE), 1):
        view.save(frame_path(epic, number), quality=90)
    return lambda index: read_frame_folder(epic, _numbers(index))


def _videos(folder: Path) -> Callable[[int], list[Image.Image]]:
    from lmms_egoplan.media.frames import read_video_frames, write_video

    paths = [folder / f"{seed}.mp4" for seed in range(4)]
    for seed, path in enumerate(paths):
        write_video(path, _views(seed, VIDEO_SIZE), 24)
    return lambda index: read_video_frames(paths[index % len(paths)], _numbers(index))


def _views(seed: int, size: tuple[int, int]) -> Iterator[Image.Image]:
    """Return 15 seconds of a moving textured scene, at 24 frames per second."""
    width, height = size
    coarse = np.random.default_rng(seed).integers(
        0, 255, (height // 8, (width + 360) // 8, 3), dtype=np.uint8
    )
    scene = Image.fromarray(coarse).resize((width + 400, height + 40), Image.Resampling.BICUBIC)
    return (
        scene.crop((index, index // 10, index + width, index // 10 + height))
        for index in range(360)
    )


def _cpu_seconds(call: Callable[[], Any]) -> float:
    """Return the CPU time of a call, over all threads."""
    start = time.process_time()
    call()
    return time.process_time() - start


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
