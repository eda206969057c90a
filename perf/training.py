"""Compare time and memory of an update for two questions, each with an answer and its negative.

- one by one: four passes, one per answer.
- shared: a pass per question, in which both answers follow one context.
- padded: one pass over both questions, each in one row.

Each arm runs in a separate process, on the same model and questions of different lengths. Training
updates the projector and LoRA weights of the language model; the image encoder is frozen. On a CPU,
times are the process's CPU time.

    python perf/training.py                  # 2 CPU cores, 75 million parameters, about 8 minutes
    python perf/training.py --shape llava-1.5-7b --device cuda --dtype bfloat16
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch
from models import IMAGE_SIZE, build
from PIL import Image

from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.adapter import add_adapter
from lmms_egoplan.training.loss import batch_loss
from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.scorer import AnswerScorer
from lmms_egoplan.training.settings import Lora

QUESTION = "What action should I take next in order to store cereal?"
ANSWERS = ["put down cereal box", "open the cupboard and take a bowl of milk"]
ARMS = ["one by one", "shared", "padded"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--shape", default="llava-75m", choices=sorted(IMAGE_SIZE), help="Shape of the model."
    )
    parser.add_argument("--device", default="cpu", help="Device of the model.")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument(
        "--prefix", type=int, default=2000, help="Approximate number of context tokens."
    )
    parser.add_argument("--repeats", type=int, default=5, help="Timed updates; the median counts.")
    parser.add_argument("--checkpointing", action="store_true", help="Use gradient checkpointing.")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        print(json.dumps(measure(arguments)))
        return
    arms = {}
    for arm in ARMS:
        command = [sys.executable, *sys.argv, "--arm", arm]
        arms[arm] = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        print(
            f"{arm}: {arms[arm]['seconds']:.2f} s, {arms[arm]['bytes'] / 2**20:.0f} MiB beyond "
            f"weights, {arms[arm]['seconds'] / arms[ARMS[0]]['seconds']:.2f} of the time and "
            f"{arms[arm]['bytes'] / arms[ARMS[0]]['bytes']:.2f} of the memory of {ARMS[0]}",
            flush=True,
        )
    losses = [arm["loss"] for arm in arms.values()]
    print(f"contexts of {arms[ARMS[0]]['prefixes']} tokens")
    print(f"largest difference of the loss: {max(losses) - min(losses):.1e} nats")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure one arm.

    Returns:
        Median seconds of an update, peak bytes beyond those at the start, context tokens, and loss.
    """
    model, processor, image_tokens = build(
        arguments.shape, arguments.device, getattr(torch, arguments.dtype)
    )
    frozen = find_parts(model).encoders
    torch.manual_seed(0)
    tuned = add_adapter(model, Lora(dropout=0.0))
    way = "separate" if arguments.arm == "one by one" else "shared"
    scorer = AnswerScorer(tuned.get_base_model(), frozen, way, is_padded=arguments.arm == "padded")
    if arguments.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    scorer.train()
    images = arguments.prefix // image_tokens
    side = IMAGE_SIZE[arguments.shape]
    questions = [encode(processor, side, images), encode(processor, side, max(1, images - 1))]
    clock = time.process_time if arguments.device == "cpu" else time.perf_counter
    before, times = memory(arguments.device), []
    for _ in range(arguments.repeats + 1):
        start = clock()
        with torch.autocast(
            arguments.device, torch.bfloat16, enabled=arguments.dtype == "bfloat16"
        ):
            scores = scorer(questions)
            # the loss of violating pairs
            gaps = [negative - answer for answer, negative in scores]
            loss = batch_loss(scores).nll + torch.stack(gaps).mean()
        loss.backward()
        value = loss.item()  # waits for the device
        times.append(clock() - start)
        model.zero_grad()
    return {
        "seconds": statistics.median(times[1:]),
        "bytes": memory(arguments.device) - before,
        "prefixes": [question.prefix_length for question in questions],
        "loss": value,
    }


def encode(processor: object, side: int, images: int) -> EncodedQuestion:
    """Encode a question about this many square images, with an answer and a negative."""
    generator = np.random.default_rng(0)
    pixels = (generator.integers(0, 255, (side, side, 3), dtype=np.uint8) for _ in range(images))
    content = [*({"type": "image", "image": Image.fromarray(image)} for image in pixels)]
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": QUESTION}]}]
    return QuestionEncoder(processor).encode(messages, ANSWERS, "perf")


def memory(device: str) -> int:
    """Return the peak bytes so far, on the GPU or of this process."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
