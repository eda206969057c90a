"""Simulate how often a sensitivity run reports an effect for a model that has none.

Each model answers 300 questions by their content. For each prompt, video and order of the options,
it draws a fifth of its answers anew, with the same probability of being right. Redrawn are single
questions, or all questions of some videos. In the latter case, the probability also differs between
videos. The columns:

factors      share of models for which some factor has a corrected p-value below 0.05
presets      the same for the presets, which are a family of their own
uncorrected  share of models for which some factor's p-value is below 0.05 before the correction

    python perf/sensitivity.py      # about 14 minutes on a busy core
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "sensitivity")]

import planted  # noqa: E402

from lmms_egoplan.benchmarks.egoplan.presets import rotated  # noqa: E402
from lmms_egoplan.sensitivity.conditions import PRESET, PromptVariant  # noqa: E402
from lmms_egoplan.sensitivity.effects import effects_of  # noqa: E402
from lmms_egoplan.stats.equivalence import ERROR_RATE  # noqa: E402

REDRAWN = 0.2
KINDS = ("by question", "by video")


def model(docs: Mapping[str, Any], kind: str, seed: int) -> Callable[[PromptVariant, str], str]:
    """Return a function from what is asked and the question's id to a letter."""

    def drawn(asked: PromptVariant, key: str) -> str:
        video = docs[key]["video_id"]
        chance = random.Random(f"{seed} {planted.seed_text(asked)} {key}")
        accuracy = (
            random.Random(f"{seed} {video}").choice((0.2, 0.4, 0.6, 0.8))
            if kind == KINDS[1]
            else 0.5
        )
        gold = docs[key]["golden_choice_idx"]
        wrong = [letter for letter in planted.LETTERS if letter != gold]
        return gold if chance.random() < accuracy else chance.choice(wrong)

    def reply(asked: PromptVariant, key: str) -> str:
        unit = docs[key]["video_id"] if kind == KINDS[1] else key
        is_new = (
            asked != planted.OFFICIAL
            and random.Random(f"{seed} {planted.seed_text(asked)} {unit} new").random() < REDRAWN
        )
        stored = docs[key]["choices"][
            planted.LETTERS.index(drawn(asked if is_new else planted.OFFICIAL, key))
        ]
        return planted.LETTERS[rotated(docs[key], asked.shift)["choices"].index(stored)]

    return reply


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=200)
    count = parser.parse_args().models
    docs = planted.questions()
    conditions = [planted.base(), *planted.orders(), *planted.fields(), *planted.presets()]
    print(
        f"{count} models, {len(docs)} questions, {len(conditions)} conditions; share and "
        "standard error"
    )
    print("| redrawn | factors | presets | uncorrected | seconds |\n|---|---:|---:|---:|---:|")
    for kind in KINDS:
        started, counts = time.monotonic(), [0, 0, 0]
        for seed in range(count):
            scored = effects_of(
                conditions, docs, planted.ask(model(docs, kind, seed), conditions, docs)
            )
            compared = [effect.cells for effect in scored if "p_value" in effect.cells]
            factors = [cells for cells in compared if cells["factor"] != PRESET]
            presets = [cells for cells in compared if cells["factor"] == PRESET]
            counts[0] += any(cells["p_holm"] < ERROR_RATE for cells in factors)
            counts[1] += any(cells["p_holm"] < ERROR_RATE for cells in presets)
            counts[2] += any(cells["p_value"] < ERROR_RATE for cells in factors)
        rates = [total / count for total in counts]
        cells = [f"{rate:.3f} ± {(rate * (1 - rate) / count) ** 0.5:.3f}" for rate in rates]
        print(f"| {kind} | {' | '.join(cells)} | {time.monotonic() - started:.0f} |", flush=True)


if __name__ == "__main__":
    main()
