"""Compare time and memory of an update for one answer and its negative: a shared context against
two passes.

Each arm runs in a separate process, on the same model and question. Training updates the projector
and LoRA weights of the language model; the image encoder is frozen. Counting is a pass without
gradients. An update needs it if a group of eq. 3 (`contrastive_group`) spans several passes; the
defaults do not. On a CPU, times are the process's CPU time.

    python perf/training.py                                  # 2 CPU cores, 75 million parameters,
    about 4 minutes python perf/training.py --shape llava-1.5-7b --device cuda --dtype bfloat16
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from models import IMAGE_SIZE, build
from PIL import Image

from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.adapter import add_adapter
from lmms_egoplan.training.loss import batch_loss, count_violations
from lmms_egoplan.training.parts import find_parts
from lmms_egoplan.training.scorer import AnswerScorer
from lmms_egoplan.training.settings import Lora

QUESTION = "What action should I take next in order to store cereal?"
ANSWERS = ["put down cereal box", "open the cupboard and take a bowl of milk"]


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
    parser.add_argument("--arm", choices=["shared", "separate"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        print(json.dumps(measure(arguments)))
        return
    arms = {}
    for arm in ("separate", "shared"):
        command = [sys.executable, *sys.argv, "--arm", arm]
        arms[arm] = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        print(
            f"{arm}: {arms[arm]['seconds']:.2f} s, counting {arms[arm]['counting']:.2f} s, "
            f"{arms[arm]['bytes'] / 2**20:.0f} MiB beyond weights"
        )
    shared, separate = arms["shared"], arms["separate"]
    shared_with_counting = shared["seconds"] + shared["counting"]
    print(
        (
            f"prefix {shared['prefix']}: {shared['seconds'] / separate['seconds']:.2f} of "
            "the time (target: 0.65), "
        ),
        end="",
    )
    print(f"{shared['bytes'] / separate['bytes']:.2f} of the memory beyond weights (target: 0.70)")
    print(
        (
            f"with counting: {shared_with_counting / separate['seconds']:.2f} of two passes "
            "without counting, "
        ),
        end="",
    )
    print(
        f"{shared_with_counting / (separate['seconds'] + separate['counting']):.2f} of "
        "two passes with counting"
    )
    print(f"largest difference of the loss: {abs(shared['loss'] - separate['loss']):.1e} nats")


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Measure one arm.

    Returns:
        Median seconds of an update and of counting, peak bytes beyond those at the start, context
        tokens, and loss.
    """
    model, processor, image_tokens = build(
        arguments.shape, arguments.device, getattr(torch, arguments.dtype)
    )
    frozen = find_parts(model).encoders
    torch.manual_seed(0)
    tuned = add_adapter(model, Lora(dropout=0.0))
    scorer = AnswerScorer(tuned.get_base_model(), frozen, arguments.arm)
    if arguments.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    scorer.train()
    question = encode(processor, IMAGE_SIZE[arguments.shape], arguments.prefix // image_tokens)
    clock = time.process_time if arguments.device == "cpu" else time.perf_counter
    before, times, counting = memory(arguments.device), [], []
    for _ in range(arguments.repeats + 1):
        start = clock()
        with torch.autocast(
            arguments.device, torch.bfloat16, enabled=arguments.dtype == "bfloat16"
        ):
            answer, negative = scorer([question])[0]
            # the loss of a violating pair
            loss = batch_loss([[answer, negative]]).nll + (negative - answer)
        loss.backward()
        value = loss.item()  # waits for the device
        times.append(clock() - start)
        model.zero_grad()
    peak = memory(arguments.device)
    for _ in range(arguments.repeats + 1):
        start = clock()
        with (
            torch.no_grad(),
            torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.dtype == "bfloat16"),
        ):
            scores = scorer([question])
        count_violations(scores, group=1, samples=1)  # waits for the device
        counting.append(clock() - start)
    return {
        "seconds": statistics.median(times[1:]),
        "counting": statistics.median(counting[1:]),
        "bytes": peak - before,
        "prefix": question.prefix_length,
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
