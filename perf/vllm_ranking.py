"""Compare ranking on vLLM by forced tokens, on vLLM by `prompt_logprobs`, and with `hf_vlm`'s
ranker, in one run.

    VLLM_CPU_KVCACHE_SPACE=2 python perf/vllm_ranking.py
    VLLM_CPU_KVCACHE_SPACE=2 python perf/vllm_ranking.py --part noise
    python perf/vllm_ranking.py --part server

The model is Qwen2.5-VL-shaped, with 10 layers of width 768. Its language model dominates the cost,
not its vision encoder. Each question has new images. On a machine with two cores, vLLM computes on
one; transformers gets one thread.

``--part server`` measures bytes sent to a vLLM server, and time, with images sent once or with
every request.

``--part noise`` compares mean losses in bfloat16, on vLLM and on transformers, with transformers'
losses in float32.
"""

import argparse
import copy
import itertools
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx
import numpy as np
import torch
from models import build_qwen
from PIL import Image
from transformers import PreTrainedModel, ProcessorMixin

from lmms_egoplan.harnesses import vllm_server
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import PROCESSOR, ranking_arguments
from lmms_egoplan.ranking.methods import FORCED, PROMPT_LOGPROBS
from lmms_egoplan.ranking.scores import CandidateScore

Question = tuple[list[dict[str, Any]], list[str], str]

COUNTS = (4, 16)
SIDE = 448
ACTIONS = [
    f"{verb} {thing}"
    for verb in ("put down", "open", "wash", "take")
    for thing in ("cereal box", "cupboard", "spoon", "bowl of milk")
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", default="speed", choices=["speed", "noise", "server"], help="Part to run."
    )
    parser.add_argument("--questions", type=int, default=4, help="Questions per measurement.")
    parser.add_argument(
        "--repeats", type=int, default=3, help="Repeats of each measurement; the median counts."
    )
    parser.add_argument(
        "--prefix", type=int, default=2000, help="Approximate number of context tokens."
    )
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model, processor, image_tokens = build_qwen(
            width=768, layers=10, vision_width=256, vision_depth=2
        )
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        images = max(1, round(arguments.prefix / image_tokens))
        seeds = itertools.count()

        def questions(count: int) -> list[Question]:
            return [
                (_messages(next(seeds), images), ACTIONS[:count], f"q{number}")
                for number in range(arguments.questions)
            ]

        if arguments.part == "server":
            measure_server(folder, processor, questions, images, arguments.repeats)
            return
        is_noise = arguments.part == "noise"
        engine = RecordingEngine(
            start_engine(folder, "bfloat16" if is_noise else arguments.dtype, images)
        )
        if is_noise:
            measure_noise(engine, model, processor, questions(COUNTS[-1]))
        else:
            measure_speed(
                engine,
                model.to(getattr(torch, arguments.dtype)),
                processor,
                questions,
                arguments.repeats,
            )


def start_engine(folder: str, dtype: str, images: int) -> Any:
    """Start vLLM on a checkpoint, for questions with this many images."""
    from vllm import LLM

    from lmms_egoplan.ranking.engine.local import LocalEngine

    return LocalEngine(
        LLM(
            folder,
            dtype=dtype,
            enforce_eager=True,
            max_model_len=4096,
            kv_cache_memory_bytes=2**31,
            limit_mm_per_prompt={"image": images, "video": 0},
            **ranking_arguments({}),
        )
    )


class RecordingEngine:
    """An engine that records the order in which requests finish."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.finished: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def poll(self) -> list[Any]:
        responses = self._engine.poll()
        self.finished += [name for name, _ in responses]
        return responses


def measure_speed(
    engine: RecordingEngine,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    questions: Callable[[int], list[Question]],
    repeats: int,
) -> None:
    transformers = CandidateRanker(model, processor, path="packed")

    def rank_with_engine(method: str, in_flight: int) -> Callable[[int], float]:
        def rank(count: int) -> float:
            ranker = EngineRanker(engine, processor, method=method, in_flight=in_flight)
            encoded = [ranker.encode(*question) for question in questions(count)]
            engine.finished.clear()
            return _seconds(lambda: list(ranker.scores(encoded))) / len(encoded)

        return rank

    def rank_with_transformers(count: int) -> float:
        batch = questions(count)
        return _seconds(lambda: [transformers.score(*question) for question in batch]) / len(batch)

    arms = {
        "prompt_logprobs": rank_with_engine("prompt_logprobs", 8),
        "forced, one question at a time": rank_with_engine("forced", 1),
        "forced": rank_with_engine("forced", 8),
        "hf_vlm": rank_with_transformers,
    }
    for name, arm in arms.items():
        if name != "prompt_logprobs":
            arm(COUNTS[0])
    print(
        "candidates  arm                               s/question  over prompt_logprobs", flush=True
    )
    for count in COUNTS:
        medians, early_report = measure_arms(arms, count, repeats, engine)
        for name, seconds in medians.items():
            print(
                (
                    f"{count:10}  {name:31} {seconds:12.2f}  "
                    f"{medians['prompt_logprobs'] / seconds:20.2f}"
                ),
                flush=True,
            )
        print(f"{count:10}  forced: {early_report}", flush=True)


def measure_arms(
    arms: dict[str, Callable[[int], float]], count: int, repeats: int, engine: RecordingEngine
) -> tuple[dict[str, float], str]:
    """Return each arm's median seconds per question of `count` candidates, and the report on the
    candidates that "forced" finished early.
    """
    times: dict[str, list[float]] = {name: [] for name in arms}
    early_report = ""
    for _ in range(repeats):
        for name, arm in arms.items():
            times[name].append(arm(count))
            if name == "forced":
                early_report = _early_candidates(engine.finished)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return medians, early_report


def measure_server(
    folder: str,
    processor: ProcessorMixin,
    questions: Callable[[int], list[Question]],
    images: int,
    repeats: int,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        folder,
        "--port",
        str(port),
    ]
    command += [
        "--host",
        "127.0.0.1",
        "--dtype",
        "float32",
        "--enforce-eager",
        "--max-model-len",
        "4096",
    ]
    command += ["--kv-cache-memory-bytes", str(2**31), "--logits-processors", PROCESSOR]
    command += ["--limit-mm-per-prompt", json.dumps({"image": images, "video": 0})]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
    ):
        try:
            while not _is_ready(port):
                if server.poll() is not None:
                    log.seek(0)
                    raise SystemExit(log.read().decode(errors="replace")[-3000:])
                time.sleep(1)
            _compare_sending(f"http://127.0.0.1:{port}", folder, processor, questions, repeats)
        finally:
            server.terminate()


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _compare_sending(
    address: str,
    folder: str,
    processor: ProcessorMixin,
    questions: Callable[[int], list[Question]],
    repeats: int,
) -> None:
    body_with_ids = vllm_server.body_of

    def body_with_data(question: Any, request: Any, model: str, **_: Any) -> dict[str, Any]:
        """Return a request with the images' data and without their IDs, as in earlier versions."""
        body = copy.deepcopy(body_with_ids(question, request, model))
        for item in body["messages"][0]["content"]:
            item.pop("uuid", None)
        return body

    engine = vllm_server.ServedEngine(address, folder, processor.tokenizer)
    sent_bytes = [0]

    def rank(count: int, body_of: Callable[..., dict[str, Any]]) -> tuple[float, float]:
        def counting_body_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
            body = body_of(*args, **kwargs)
            sent_bytes[0] += len(json.dumps(body))
            return body

        vllm_server.body_of = counting_body_of
        ranker = EngineRanker(engine, processor, method=FORCED)
        encoded = [ranker.encode(*question) for question in questions(count)]
        sent_bytes[0] = 0
        seconds = _seconds(lambda: list(ranker.scores(encoded)))
        return seconds / len(encoded), sent_bytes[0] / len(encoded) / 2**20

    rank(COUNTS[0], body_with_ids)
    print("candidates  images sent           s/question    MiB/question", flush=True)
    for count in COUNTS:
        arms = {"with every request": body_with_data, "once": body_with_ids}
        results = {
            name: [rank(count, body_of) for _ in range(repeats)] for name, body_of in arms.items()
        }
        for name, rows in results.items():
            seconds, size = map(statistics.median, zip(*rows, strict=True))
            print(f"{count:10}  {name:18} {seconds:13.2f}  {size:14.2f}", flush=True)


def measure_noise(
    engine: RecordingEngine,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    questions: list[Question],
) -> None:
    def losses(rows: Iterable[Sequence[CandidateScore]]) -> np.ndarray:
        return np.array([[score.nll for score in row] for row in rows])

    float32_ranker = CandidateRanker(model, processor, path="packed")
    expected = losses(float32_ranker.score(*question) for question in questions)
    bfloat16_ranker = CandidateRanker(
        copy.deepcopy(model).to(torch.bfloat16), processor, path="packed"
    )
    rankers = {
        method: EngineRanker(engine, processor, method=method)
        for method in (FORCED, PROMPT_LOGPROBS)
    }
    rows = {
        f"vLLM, {name}": losses(ranker.scores(ranker.encode(*question) for question in questions))
        for name, ranker in rankers.items()
    }
    rows["transformers"] = losses(bfloat16_ranker.score(*question) for question in questions)
    print(f"bfloat16 against float32, {expected.size} candidates     mean    largest  same choice")
    for name, nlls in rows.items():
        differences = np.abs(nlls - expected)
        same = (nlls.argmin(1) == expected.argmin(1)).sum()
        print(
            (
                f"{name:40} {differences.mean():10.5f} {differences.max():10.5f}  {same} of "
                f"{len(expected)}"
            ),
            flush=True,
        )


def _early_candidates(finished: Sequence[str]) -> str:
    """Report how many candidates finished before the last context."""
    last = max(index for index, name in enumerate(finished) if name.endswith("-context"))
    early = sum("-candidate-" in name for name in finished[:last])
    return (
        f"{early} of {sum('-candidate-' in name for name in finished)} candidates finished "
        "before the last context"
    )


def _messages(seed: int, images: int) -> list[dict[str, Any]]:
    pixels = np.random.default_rng(seed).integers(0, 255, (images, SIDE, SIDE, 3), dtype=np.uint8)
    content = [{"type": "image", "image": Image.fromarray(frame)} for frame in pixels]
    return [
        {
            "role": "user",
            "content": [*content, {"type": "text", "text": "What action should I take next?"}],
        }
    ]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
