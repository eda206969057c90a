"""Compare speed and memory of `CandidateRanker` with an independent full pass per candidate.

Both arms run in one program, on the same model and inputs:

(a) the harness's way: preprocess the images and run a full pass with labels, for each candidate;
(b) `CandidateRanker`.

    python perf/ranking.py                                   # 2 CPU cores, 75 million parameters,
    about 10 minutes python perf/ranking.py --shape llava-1.5-7b --device cuda --dtype bfloat16
"""

import argparse
import gc
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from models import IMAGE_SIZE, build
from PIL import Image
from pipeline import measure_pipeline

from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.audits import AUDITED_EVERY

PREFIXES = (600, 2000, 5000)
COUNTS = (4, 8, 16)
QUESTION = "What action should I take next in order to store cereal?"
ACTIONS = [
    f"{verb} {thing}"
    for verb in ("put down", "open", "wash", "take")
    for thing in ("cereal box", "cupboard", "spoon", "bowl of milk")
]
SPLIT = 3355
"""Number of questions of EgoPlan-Val (Table 2)."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--shape", default="llava-75m", choices=sorted(IMAGE_SIZE), help="Shape of the model."
    )
    parser.add_argument("--device", default="cpu", help="Device of the model.")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument(
        "--repeats", type=int, default=3, help="Timed runs per arm; the median counts."
    )
    parser.add_argument(
        "--part", choices=["speed", "audits", "memory", "pipeline"], help="Run only this part."
    )
    parser.add_argument(
        "--questions", type=int, default=96, help="Number of questions of the part pipeline."
    )
    parser.add_argument(
        "--workers", type=int, help="Threads of the part pipeline (default: one per core)."
    )
    parser.add_argument("--memory-arm", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_arm:
        return print(_peak_memory(arguments, arguments.memory_arm))
    print(
        f"{_machine(arguments.device)}; {arguments.shape}, {arguments.dtype}, {arguments.device}",
        flush=True,
    )
    parts = {
        "speed": _measure_speed,
        "audits": _measure_audits,
        "memory": _measure_memory,
        "pipeline": measure_pipeline,
    }
    for name, measure in parts.items():
        if arguments.part in (None, name):
            measure(arguments)
    return None


def _measure_speed(arguments: argparse.Namespace) -> None:
    model, processor, image_tokens = _build(arguments)
    print(f"\n{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million parameters")
    print(
        "prefix  candidates  (a) questions/s  (b) questions/s  ratio  largest loss difference",
        flush=True,
    )
    for prefix in PREFIXES:
        messages = _messages(arguments.shape, prefix, image_tokens)
        ranker = CandidateRanker(model, processor)
        while not ranker.paths:  # the first questions select the path
            ranker.score(messages, ACTIONS)
        assert list(ranker.paths.values()) in (["packed"], ["cached"]), ranker.paths
        length = ranker.encode(messages, ACTIONS[:1]).prefix_length
        for count in COUNTS:
            candidates = ACTIONS[:count]
            slow_times, fast_times, differences = [], [], []
            for _ in range(arguments.repeats):
                slow_time, slow = _timed(
                    partial(_full_passes, model, processor, messages, candidates)
                )
                fast_time, fast = _timed_unaudited(partial(ranker.score, messages, candidates))
                slow_times.append(slow_time)
                fast_times.append(fast_time)
                differences += [
                    abs(score.nll - loss) for score, loss in zip(fast, slow, strict=True)
                ]
            slow_time, fast_time = statistics.median(slow_times), statistics.median(fast_times)
            print(
                f"{length:6}  {count:10}  {1 / slow_time:15.3f}  {1 / fast_time:15.3f}  "
                f"{slow_time / fast_time:5.2f}  {max(differences):.1e}",
                flush=True,
            )


def _measure_audits(arguments: argparse.Namespace) -> None:
    """Estimate what path selection and audits add to a run, from times of single questions of each
    kind.
    """
    model, processor, image_tokens = _build(arguments)
    messages = _messages(arguments.shape, 2000, image_tokens)
    print("\nprocesses  candidates  audits/process  audits add  selecting adds", flush=True)
    for count in (COUNTS[0], COUNTS[-1]):
        times: dict[str, list[float]] = defaultdict(list)
        for _ in range(arguments.repeats):
            ranker = CandidateRanker(model, processor)
            selecting = 0.0
            while not ranker.paths:
                selecting += _timed(partial(ranker.score, messages, ACTIONS[:count]))[0]
            times["selecting"].append(selecting)
            for _ in range(8):
                duration, scores = _timed(partial(ranker.score, messages, ACTIONS[:count]))
                times["plain" if scores[0].use.audit is None else "audited"].append(duration)
        plain, audited, selecting = (
            statistics.median(times[name]) for name in ("plain", "audited", "selecting")
        )
        for processes in (1, 8):
            questions = -(-SPLIT // processes)
            later = max(0, questions - AUDITED_EVERY) // AUDITED_EVERY  # on average
            audits = min(questions, AUDITED_EVERY).bit_length() - 1 + later
            print(
                f"{processes:9}  {count:10}  {audits:14}  "
                f"{audits * (audited - plain) / (questions * plain):10.2%}  "
                f"{selecting / (questions * plain):14.2%}",
                flush=True,
            )


def _measure_memory(arguments: argparse.Namespace) -> None:
    """Print the peak memory of each arm above the loaded model, in MiB; each arm runs in a separate
    process.

    The lean full pass computes only the candidate's logits. The harness's way computes those of the
    whole sequence.
    """
    # Release freed memory immediately: the peak must not include the allocator's reserves.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    print(
        (
            "\nprefix  full pass  lean full pass  (b) 4 candidates  (b) 16 candidates  (b) / "
            "full  (b) / lean"
        ),
        flush=True,
    )
    for prefix in PREFIXES:
        arms = [f"full:{prefix}:1", f"lean:{prefix}:1", f"ranker:{prefix}:4", f"ranker:{prefix}:16"]
        command = [
            sys.executable,
            __file__,
            "--shape",
            arguments.shape,
            "--device",
            arguments.device,
        ]
        command += ["--dtype", arguments.dtype]
        full, lean, few, many = (
            float(
                subprocess.check_output([*command, "--memory-arm", arm], text=True, env=environment)
            )
            for arm in arms
        )
        ours = max(few, many)
        columns = [f"{prefix:6}", f"{full:9.0f}", f"{lean:14.0f}", f"{few:16.0f}", f"{many:17.0f}"]
        print("  ".join([*columns, f"{ours / full:10.2f}", f"{ours / lean:10.2f}"]), flush=True)


def _peak_memory(arguments: argparse.Namespace, arm: str) -> float:
    kind, prefix, count = arm.split(":")
    model, processor, image_tokens = _build(arguments)
    ranker = CandidateRanker(model, processor, path="packed")
    messages = _messages(arguments.shape, int(prefix), image_tokens)
    candidates = ACTIONS[: int(count)]
    if kind == "ranker":
        for _ in range(2):  # these questions are audited
            ranker.score(messages, candidates)
    before = _memory(arguments.device, reset=True)
    if kind == "ranker":
        ranker.score(messages, candidates)
    else:
        _full_passes(model, processor, messages, candidates, lean=kind == "lean")
    return _memory(arguments.device) - before


def _memory(device: str, reset: bool = False) -> float:
    """Return peak memory in MiB, allocated on the GPU or resident in this process; with `reset`,
    the current memory.
    """
    if device != "cpu":
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated() / 2**20
    if reset:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
    name = "VmRSS" if reset else "VmHWM"
    return float(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 2**10


def _full_passes(
    model: Any, processor: Any, messages: list[dict], candidates: list[str], lean: bool = False
) -> list[float]:
    """Return each candidate's mean loss, with preprocessing and a full pass per candidate.

    With `lean`, compute only the logits of the candidate's tokens, without labels.
    """
    losses = []
    for candidate in candidates:
        conversation = [
            *messages,
            {"role": "assistant", "content": [{"type": "text", "text": candidate}]},
        ]
        inputs = processor.apply_chat_template(
            conversation,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            continue_final_message=True,
        ).to(model.device, model.dtype)
        ids = inputs["input_ids"][0].tolist()
        num_tokens = next(
            k for k in range(1, len(ids)) if candidate in processor.tokenizer.decode(ids[-k:])
        )
        if lean:
            with torch.inference_mode():
                logits = model(**inputs, logits_to_keep=num_tokens + 1).logits[0, :-1].float()
            losses.append(
                torch.nn.functional.cross_entropy(
                    logits, inputs["input_ids"][0, -num_tokens:]
                ).item()
            )
            continue
        labels = inputs["input_ids"].clone()
        labels[:, :-num_tokens] = -100
        with torch.inference_mode():
            losses.append(model(**inputs, labels=labels).loss.item())
    return losses


def _build(arguments: argparse.Namespace) -> tuple[Any, Any, int]:
    return build(arguments.shape, arguments.device, getattr(torch, arguments.dtype))


def _messages(shape: str, prefix: int, image_tokens: int) -> list[dict]:
    """Return a question of about `prefix` tokens: as many images as fit, and the question text."""
    images = [_image(shape, seed) for seed in range(max(1, round((prefix - 40) / image_tokens)))]
    return [{"role": "user", "content": [*images, {"type": "text", "text": QUESTION}]}]


def _image(shape: str, seed: int) -> dict[str, Any]:
    side = IMAGE_SIZE[shape]
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)
    return {"type": "image", "image": Image.fromarray(pixels)}


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def _timed_unaudited(call: Callable[[], Any]) -> tuple[float, Any]:
    """Repeat a question until it is not audited; return its time and its scores."""
    while True:
        duration, scores = _timed(call)
        if scores[0].use.audit is None:
            return duration, scores


def _machine(device: str) -> str:
    name = (
        torch.cuda.get_device_name()
        if device != "cpu"
        else f"{torch.get_num_threads()} CPU threads"
    )
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    return f"{time.strftime('%Y-%m-%d')}; {name}; {versions}"


if __name__ == "__main__":
    main()
