"""Questions ranked a second on vLLM: forced tokens, `prompt_logprobs`, and `hf_vlm`'s ranker beside them, in one run.

    VLLM_CPU_KVCACHE_SPACE=2 python perf/vllm_ranking.py
    VLLM_CPU_KVCACHE_SPACE=2 python perf/vllm_ranking.py --part noise
    python perf/vllm_ranking.py --part server

The checkpoint's language model, not its vision encoder, is the cost: Qwen2.5-VL-shaped, 10 layers of width 768. Images
are new for each question. On a machine of two cores vLLM computes on one; transformers gets one thread here.

With ``--part server``: bytes sent to a vLLM server, and time, with each image sent once and with every request.

With ``--part noise``: how far mean losses in bfloat16 are from transformers' in float32, on vLLM and on transformers.
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
from lmms_egoplan.ranking.engine.requests import FORCED, PROCESSOR, PROMPT_LOGPROBS, ranking_arguments
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="speed", choices=["speed", "noise", "server"])
    parser.add_argument("--questions", type=int, default=4, help="Of each measurement.")
    parser.add_argument("--repeats", type=int, default=3, help="Of each measurement; the median counts.")
    parser.add_argument("--prefix", type=int, default=2000, help="Tokens of a context, about.")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model, processor, image_tokens = build_qwen(width=768, layers=10, vision_width=256, vision_depth=2)
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
        images = max(1, round(arguments.prefix / image_tokens))
        seeds = itertools.count()

        def questions(count: int) -> list[Question]:
            return [
                (_messages(next(seeds), images), ACTIONS[:count], f"q{number}") for number in range(arguments.questions)
            ]

        if arguments.part == "server":
            measure_server(folder, processor, questions, images, arguments.repeats)
            return
        is_noise = arguments.part == "noise"
        engine = Recorded(start(folder, "bfloat16" if is_noise else arguments.dtype, images))
        if is_noise:
            measure_noise(engine, model, processor, questions(COUNTS[-1]))
        else:
            measure_speed(engine, model.to(getattr(torch, arguments.dtype)), processor, questions, arguments.repeats)


def start(folder: str, dtype: str, images: int) -> Any:
    """vLLM on a checkpoint, for questions of so many images."""
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


class Recorded:
    """An engine that notes in which order requests are done."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.done: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def poll(self) -> list[Any]:
        responses = self._engine.poll()
        self.done += [name for name, _ in responses]
        return responses


def measure_speed(
    engine: Recorded,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    questions: Callable[[int], list[Question]],
    repeats: int,
) -> None:
    transformers = CandidateRanker(model, processor, path="packed")

    def rank_with_engine(method: str, in_flight: int) -> Callable[[int], float]:
        def rank(count: int) -> float:
            ranker = EngineRanker(engine, processor, method=method, in_flight=in_flight)
            encoded = [ranker.encode(*asked) for asked in questions(count)]
            engine.done.clear()
            return _seconds(lambda: list(ranker.scores(encoded))) / len(encoded)

        return rank

    def rank_with_transformers(count: int) -> float:
        asked = questions(count)
        return _seconds(lambda: [transformers.score(*each) for each in asked]) / len(asked)

    arms = {
        "prompt_logprobs": rank_with_engine("prompt_logprobs", 8),
        "forced, one question at a time": rank_with_engine("forced", 1),
        "forced": rank_with_engine("forced", 8),
        "hf_vlm": rank_with_transformers,
    }
    for name, arm in arms.items():
        if name != "prompt_logprobs":
            arm(COUNTS[0])
    print("candidates  arm                             s a question  of prompt_logprobs", flush=True)
    for count in COUNTS:
        times: dict[str, list[float]] = {name: [] for name in arms}
        early = ""
        for _ in range(repeats):
            for name, arm in arms.items():
                times[name].append(arm(count))
                if name == "forced":
                    early = _early(engine.done)
        medians = {name: statistics.median(values) for name, values in times.items()}
        for name, seconds in medians.items():
            print(f"{count:10}  {name:31} {seconds:12.2f}  {medians['prompt_logprobs'] / seconds:18.2f}", flush=True)
        print(f"{count:10}  forced: {early}", flush=True)


def measure_server(
    folder: str, processor: ProcessorMixin, questions: Callable[[int], list[Question]], images: int, repeats: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--port", str(port)]
    command += ["--host", "127.0.0.1", "--dtype", "float32", "--enforce-eager", "--max-model-len", "4096"]
    command += ["--kv-cache-memory-bytes", str(2**31), "--logits-processors", PROCESSOR]
    command += ["--limit-mm-per-prompt", json.dumps({"image": images, "video": 0})]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
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
    once = vllm_server.body_of

    def always(question: Any, request: Any, model: str, **_: Any) -> dict[str, Any]:
        """A request as it was before images had IDs."""
        body = copy.deepcopy(once(question, request, model))
        for item in body["messages"][0]["content"]:
            item.pop("uuid", None)
        return body

    engine = vllm_server.ServedEngine(address, folder, processor.tokenizer)
    sent = [0]

    def rank(count: int, body_of: Callable[..., dict[str, Any]]) -> tuple[float, float]:
        def counted(*given: Any, **named: Any) -> dict[str, Any]:
            body = body_of(*given, **named)
            sent[0] += len(json.dumps(body))
            return body

        vllm_server.body_of = counted
        ranker = EngineRanker(engine, processor, method=FORCED)
        encoded = [ranker.encode(*asked) for asked in questions(count)]
        sent[0] = 0
        seconds = _seconds(lambda: list(ranker.scores(encoded)))
        return seconds / len(encoded), sent[0] / len(encoded) / 2**20

    rank(COUNTS[0], once)
    print("candidates  images sent         s a question  MiB a question", flush=True)
    for count in COUNTS:
        arms = {"with every request": always, "once": once}
        found = {name: [rank(count, body_of) for _ in range(repeats)] for name, body_of in arms.items()}
        for name, rows in found.items():
            seconds, size = map(statistics.median, zip(*rows, strict=True))
            print(f"{count:10}  {name:18} {seconds:13.2f}  {size:14.2f}", flush=True)


def measure_noise(
    engine: Recorded, model: PreTrainedModel, processor: ProcessorMixin, questions: list[Question]
) -> None:
    def losses(rows: Iterable[Sequence[CandidateScore]]) -> np.ndarray:
        return np.array([[score.nll for score in row] for row in rows])

    exact = CandidateRanker(model, processor, path="packed")
    right = losses(exact.score(*asked) for asked in questions)
    half = CandidateRanker(copy.deepcopy(model).to(torch.bfloat16), processor, path="packed")
    rankers = {method: EngineRanker(engine, processor, method=method) for method in (FORCED, PROMPT_LOGPROBS)}
    rows = {f"vLLM, {name}": losses(each.scores(each.encode(*q) for q in questions)) for name, each in rankers.items()}
    rows["transformers"] = losses(half.score(*asked) for asked in questions)
    print(f"bfloat16 against float32, {right.size} candidates     mean    largest  same choice")
    for name, found in rows.items():
        off = np.abs(found - right)
        same = (found.argmin(1) == right.argmin(1)).sum()
        print(f"{name:40} {off.mean():10.5f} {off.max():10.5f}  {same} of {len(right)}", flush=True)


def _early(done: Sequence[str]) -> str:
    """How many candidates were done before all contexts were."""
    last = max(place for place, name in enumerate(done) if name.endswith("-context"))
    early = sum("-candidate-" in name for name in done[:last])
    return f"{early} of {sum('-candidate-' in name for name in done)} candidates were done before the last context"


def _messages(seed: int, images: int) -> list[dict[str, Any]]:
    pixels = np.random.default_rng(seed).integers(0, 255, (images, SIDE, SIDE, 3), dtype=np.uint8)
    content = [{"type": "image", "image": Image.fromarray(frame)} for frame in pixels]
    return [{"role": "user", "content": [*content, {"type": "text", "text": "What action should I take next?"}]}]


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
