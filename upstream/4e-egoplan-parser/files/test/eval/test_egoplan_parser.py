"""Test the option letters that the tasks ``egoplan`` and ``egoplan2`` read from replies."""

import pytest

from lmms_eval.tasks.egoplan import utils as egoplan
from lmms_eval.tasks.egoplan2 import utils as egoplan2

TASKS = pytest.mark.parametrize("task", [egoplan, egoplan2], ids=["egoplan", "egoplan2"])


@TASKS
@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Answer: B", "B"),
        ("**Answer:** B", "B"),
        ("ANSWER: C", "C"),
        ("Correct answer: D", "D"),
        ("Best option: C", "C"),
        ("Choice: B", "B"),
        ("Based on the video, the next action is C.", "C"),
        ("Add salt", ""),
    ],
)
def test_letter_inside_a_word_is_not_an_option(task, reply: str, letter: str) -> None:
    assert task.extract_characters_regex(reply) == letter


@TASKS
@pytest.mark.parametrize("reply", ["B", "B.", "(B)", "B) add salt", "**B**", "<answer>B</answer>", "\\boxed{B}", "The answer is B. Close the drawer.", "答案是B"])
def test_option_letter_is_read(task, reply: str) -> None:
    assert task.extract_characters_regex(reply) == "B"


def test_egoplan_accuracy() -> None:
    results = egoplan.egoplan_process_results({"golden_choice_idx": "B"}, ["Answer: B"])
    assert egoplan.egoplan_aggregate_results([results["egoplan_mcq_accuracy"]]) == 1


def test_egoplan2_accuracy() -> None:
    results = egoplan2.egoplan2_process_results({"ground_truth": "B"}, ["Answer: B"])
    assert egoplan2.egoplan2_aggregate_results([results["egoplan2_mcq_accuracy"]]) == 1
