"""A loopback language model that identifies goals and writes phrases by rule, and fails by rule.

To run it as a separate process: ``python language_model.py --latency 0.5``. The first line of
output is the URL.
"""

import argparse
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from construction import language_model
from judge_server import JudgeServer, Reply

ROWS = re.compile(
    r"^(\d\d:\d\d:\d\d\.\d\d) {9}\| {6}(\d\d:\d\d:\d\d\.\d\d) {9}\| {6}(.+)$", re.MULTILINE
)
SENTENCES = re.compile(r"^\d+\. C (\S+)s( .*)?$", re.MULTILINE)
# Number of narrations in a clip and in a sub-clip.
CLIP, SUB_CLIP = 12, 6
FAULTS = (
    "bad json",
    "prose",
    "invented times",
    "cut off",
    "refused",
    "broken",
    "overlap",
    "fenced",
    "twice 500",
)

Row = tuple[str, str, str]


def rows_of(prompt: str) -> list[Row]:
    """Return start, stop and text of the narrations in a prompt for goals."""
    return ROWS.findall(prompt)


def goals_of(rows: Sequence[Row]) -> dict:
    """Return goals in Figure 10's form: windows of narrations, named after their most frequent
    objects.
    """

    def things(window: Sequence[Row]) -> str:
        nouns = Counter(text.split()[-1] for _, _, text in window)
        return " and ".join(noun for noun, _ in nouns.most_common(2))

    def cut(window: Sequence[Row], size: int) -> list[Sequence[Row]]:
        return [window[first : first + size] for first in range(0, len(window), size)]

    def span(window: Sequence[Row]) -> dict[str, str]:
        # Narrations overlap, so a window may overlap the next one.
        return {
            "start_timestamp": window[0][0],
            "stop_timestamp": max(stop for _, stop, _ in window),
        }

    return {
        "overall_goal": f"Work in the kitchen with {things(rows)}.",
        "clips": [
            {
                "subgoal": f"Deal with {things(clip)}",
                **span(clip),
                "sub_clips": [
                    {"secondary_subgoal": f"handle the {things(sub_clip)}", **span(sub_clip)}
                    for sub_clip in cut(clip, SUB_CLIP)
                ],
            }
            for clip in cut(rows, CLIP)
        ],
    }


def fault_of(prompt: str) -> str:
    return language_model.fault_of(prompt, FAULTS)


def reply(
    prompt: str, before: int, fault_of: Callable[[str], str] = fault_of, delay: float = 0.0
) -> Reply:
    """Return the language model's reply."""
    rows = rows_of(prompt)
    value = (
        goals_of(rows) if rows else [f"{verb}{rest}" for verb, rest in SENTENCES.findall(prompt)]
    )
    fault = fault_of(prompt)
    if fault == "overlap" and rows:
        value["clips"][-1]["start_timestamp"] = rows[0][0]
    text = json.dumps(value)
    if fault == "invented times":
        text = re.sub(
            r'"(start|stop)_timestamp": "00:00:..\...", ', r'"\1_timestamp": "09:59:59.99", ', text
        )
    return language_model.spoiled(text, fault, before, delay=delay, model="gpt-4-test")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="Seconds before each reply.")
    arguments = parser.parse_args()
    with JudgeServer(
        lambda prompt, before: reply(prompt, before, lambda _: "", arguments.latency)
    ) as server:
        print(server.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
