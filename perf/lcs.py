"""Compare the speed of `lcs_lengths` with a direct implementation of the reference procedure.

Both use the same published plans and gold plans, and one encoder that is loaded and used before
timing starts:

(a) a memoised recursion, with two encoder calls and a cosine for each comparison of two steps;
(b) `lcs_lengths`, three times; the median counts.

The values must be equal on every pair. The time of (a) depends on the number of comparisons, and
the time of (b) on the number of distinct steps. The ratio therefore depends on the pairs
(``--choose``):

first   both models' plans with both gold plans, as in a run, for the first instances in the file
spread  the same, for instances spread evenly over the file
single  one plan with the gold plan that Table 4 uses for it, spread evenly over the file

    python perf/lcs.py                                       # 50 pairs, 5 to 7 minutes
    python perf/lcs.py --pairs 4                             # half a minute
"""

import argparse
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lmms_egoplan.benchmarks.actplan.lcs import THRESHOLD, lcs_lengths
from lmms_egoplan.benchmarks.actplan.plans import LabelledInstance, read_labelled_plans
from lmms_egoplan.benchmarks.actplan.reply import official_steps, one_per_line
from lmms_egoplan.encoder import encoder_name, load_encoder
from lmms_egoplan.progress import track

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PAIRS = 50
REPEATS = 3
PLANS = (
    Path(__file__).resolve().parents[2] / "shared" / "data" / "actplan" / "plans_train_val.jsonl"
)

Pair = tuple[list[str], list[str]]
Result = TypeVar("Result")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help="Number of pairs of plans.")
    parser.add_argument(
        "--plans", type=Path, default=PLANS, help="JSON Lines file of published plans."
    )
    parser.add_argument(
        "--choose", choices=["first", "spread", "single"], default="first", help="Pairs to compare."
    )
    arguments = parser.parse_args()
    instances = read_labelled_plans(arguments.plans)
    if arguments.choose == "single":
        pairs = _single_pairs(instances, arguments.pairs)
    else:
        pairs = _pairs_of_instances(instances, arguments.pairs, spread=arguments.choose == "spread")
    encoder = load_encoder()
    encoder.encode("walk_to(table)", show_progress_bar=False)
    _describe(pairs, encoder)

    print("run                       wall, s   CPU time, s", flush=True)
    ours, processor = [], []
    for _ in range(REPEATS):
        lengths, wall, used = _timed("(b) lcs_lengths", lambda: lcs_lengths(pairs, encoder))
        ours.append(wall)
        processor.append(used)
    sys.setrecursionlimit(10_000 + 10 * max(len(first) + len(second) for first, second in pairs))
    procedure = _Reference(encoder)
    expected, wall, used = _timed(
        "(a) the reference", lambda: [procedure.lcs(*pair) for pair in track(pairs, "(a)")]
    )
    assert lengths == expected, [
        pair for pair in zip(lengths, expected, strict=True) if pair[0] != pair[1]
    ]
    print(
        f"{procedure.comparisons} comparisons, {1000 * wall / procedure.comparisons:.1f} ms each; "
        "equal on every pair\n"
        f"(a) / median of (b): {wall / statistics.median(ours):.0f}; "
        f"CPU time: {used / statistics.median(processor):.0f}"
    )


class _Reference:
    """The reference procedure, with a counter of comparisons."""

    def __init__(self, encoder: "SentenceTransformer") -> None:
        self._encoder = encoder
        self.comparisons = 0

    def lcs(self, first: list[str], second: list[str]) -> int:
        @cache
        def best(i: int, j: int) -> int:
            if not i or not j:
                return 0
            if self._are_similar(first[i - 1], second[j - 1]):
                return best(i - 1, j - 1) + 1
            return max(best(i - 1, j), best(i, j - 1))

        return best(len(first), len(second))

    def _are_similar(self, first: str, second: str) -> bool:
        from sentence_transformers.util import cos_sim

        self.comparisons += 1
        first_embedding = self._encoder.encode(
            first, convert_to_tensor=True, show_progress_bar=False
        )
        second_embedding = self._encoder.encode(
            second, convert_to_tensor=True, show_progress_bar=False
        )
        return cos_sim(first_embedding, second_embedding).item() >= THRESHOLD


def _single_pairs(instances: list[LabelledInstance], count: int) -> list[Pair]:
    pairs = [
        _steps(plan.text, gold)
        for instance in instances
        for plan in instance.plans
        if (gold := instance.gold_1 if plan.model == "GPT-4V" else instance.gold_2)
    ]
    return [pairs[number * len(pairs) // count] for number in range(count)]


def _pairs_of_instances(instances: list[LabelledInstance], count: int, spread: bool) -> list[Pair]:
    complete = [
        instance
        for instance in instances
        if len(instance.plans) == 2 and instance.gold_1 and instance.gold_2
    ]
    num_chosen = math.ceil(count / 4)
    chosen = (
        [complete[number * len(complete) // num_chosen] for number in range(num_chosen)]
        if spread
        else complete[:num_chosen]
    )
    return [
        _steps(plan.text, gold)
        for instance in chosen
        for plan in instance.plans
        for gold in (instance.gold_1, instance.gold_2)
    ][:count]


def _steps(plan: str, gold: str) -> Pair:
    return official_steps(one_per_line(plan)), official_steps(one_per_line(gold))


def _describe(pairs: list[Pair], encoder: "SentenceTransformer") -> None:
    import torch

    steps = [step for pair in pairs for plan in pair for step in plan]
    print(
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, {torch.get_num_threads()} threads, "
        f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}, torch "
        f"{torch.__version__}; {encoder_name()} on {encoder.device}\n"
        f"{len(pairs)} pairs, {len(steps)} steps, {len(set(steps))} distinct, "
        f"{sum(len(first) * len(second) for first, second in pairs)} pairs of steps"
    )


def _timed(title: str, run: Callable[[], Result]) -> tuple[Result, float, float]:
    """Run a call and print its times; return its result, wall time and CPU time, in seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{title:22}{wall:12.2f}  {processor:12.2f}", flush=True)
    return result, wall, processor


if __name__ == "__main__":
    main()
