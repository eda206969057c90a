"""Evaluate EgoPlan-Bench2 in a slow and obvious way."""

from pathlib import Path
from typing import Any

from runs.slow_egoplan import LETTERS, Choice, Record, SlowEgoPlan, _image, _spread

PROMPT = """
Select the best answer to the following multiple-choice question based on the video. \
Respond with only the letter (A, B, C, or D) of the correct option.

{question}

A. {choice_a}
B. {choice_b}
C. {choice_c}
D. {choice_d}
"""
QUESTION = """Considering the progress shown in the video and my current observation in the last \
frame, what action should I take next in order to {task_goal}?"""


class SlowEgoPlanBench2(SlowEgoPlan):
    """One model on one annotation file."""

    LIST = "EgoPlan_Bench2"
    MOST_TOKENS = 4

    def __init__(self, checkpoint: Path, media: Path) -> None:
        super().__init__(checkpoint, media)
        for record in self.records:
            record["video_source"], record["video_id"] = "Ego4D", record["sample_id"].split("_")[0]
            record["question"] = QUESTION.format(**record)

    def uniform(self, record: Record, count: int = 8) -> list[dict[str, Any]]:
        """Return frames from the task's start to the observation."""
        first, last = record["task_start_frame"], record["current_observation_frame"]
        return [
            _image(self._frame(record, n))
            for n in _spread(first, last, min(count, last - first + 1))
        ]

    def published(self, record: Record) -> list[dict[str, Any]]:
        """Return the 8 frames of the paper's code, rounded down; a short span repeats some."""
        first, last = record["task_start_frame"], record["current_observation_frame"]
        return [_image(self._frame(record, first + (last - first) * i // 7)) for i in range(8)]

    def prompt(self, record: Record) -> str:
        return PROMPT.format(**record)


def by_domain(records: list[Record], right: list[bool]) -> dict[str, float]:
    means = {}
    for domain in ("Daily life", "Work", "Hobbies", "Recreation"):
        of_domain = [
            r for record, r in zip(records, right, strict=True) if record["domain"] == domain
        ]
        means["acc_" + "_".join(domain.lower().split())] = sum(of_domain) / len(of_domain)
    return means


def by_scenario(records: list[Record], right: list[bool]) -> dict[str, float]:
    scenarios = sorted({record["scenario"] for record in records})
    return {
        name: sum(r for record, r in zip(records, right, strict=True) if record["scenario"] == name)
        / sum(record["scenario"] == name for record in records)
        for name in scenarios
    }


def right_of(records: list[Record], ranked: list[list[Choice]]) -> list[bool]:
    """Return, for each question, whether the correct choice has the best mean."""
    means = [[choice.logprob / choice.num_tokens for choice in choices] for choices in ranked]
    return [
        question.index(max(question)) == LETTERS.index(record["golden_choice_idx"])
        for record, question in zip(records, means, strict=True)
    ]
