"""Build the prompts for a model: the record's question, lettered choices, or narrations.

EgoPlan-Bench ranks the choices after the record's own question (sec. 3.5): the column ``question``,
which the tasks' ``doc_to_text`` names. All other wording is this project's. EgoPlan-Bench2
publishes a prompt for letters.

Protocols of the authors' code: EgoPlan-Bench is https://github.com/ChenYi99/EgoPlan, commit
1510afc; EgoPlan-Bench2 is https://github.com/qiulu66/EgoPlan-Bench2, commit 2523b38. The code was
read, not run.
"""

import re
import string
from collections.abc import Mapping
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.ranking.loglikelihood import END_OF_ANSWER

LETTERS = "ABCD"
# The question of EgoPlan-Bench's published records.
QUESTION = (
    "Considering the progress shown in the video and my current observation in the last frame, "
    "what action should I take next in order to {goal}?"
)

LETTER = "Reply with nothing but the letter of the action to take: A, B, C or D."
# For models that think first. The wording is this project's; the box is the form that teams read.
THINKING = (
    "Think about what has been done and what the last frame shows. Then put the letter of the "
    "action to take, A, B, C or D, in \\boxed{}."
)

_TEXTS = module_yaml(__file__)
# For models that summarise the progress and describe the observation first (App. B.2).
# `prompts.yaml` marks what the paper prints.
REASONED = _TEXTS["reasoned"]["instruction"].format(**_TEXTS["reasoned"])
MARKS: Mapping[str, str] = _TEXTS["marks"]
"""Marks of the clips, by their number ``i``, and of the observation (C.1)."""

_BENCH2_TASK = (
    "Select the best answer to the following multiple-choice question based on the video."
)
# "Prompt" in the README of the paper's repository.
BENCH2_LETTER = (
    f"{_BENCH2_TASK} Respond with only the letter (A, B, C, or D) of the correct option."
)
# For models that think first. The second sentence is this project's.
BENCH2_THINKING = (
    f"{_BENCH2_TASK} Think first, then put the letter (A, B, C, or D) of the correct option "
    "in \\boxed{}."
)

# Questions to the authors' tuned Video-LLaMA: create_question_for_egoplan_task_planning, mode
# "eval", in src/video_llama/video_llama/datasets/datasets/egoplan_video_instruct_dataset.py. The
# first one is for goals like "making coffee", the second one for goals like "make coffee".
_TUNED = ("I am tasked with {goal}. ", "My current task is to {goal}. ")
_TUNED_END = (
    "The task's progress is demonstrated in the provided video. My current field of view is shown "
    "in the provided image. What should be my next action? Please output the most reasonable "
    "action you think, expressed in a short phrase."
)

NARRATED = "The progress up to now, as the actions that I have done, in order:"
NOTHING_DONE = "The progress up to now: I have done nothing yet."


def lettered_question(doc: Doc, instruction: str = LETTER) -> str:
    """Ask EgoPlan-Bench's question with choices lettered A to D, for models that answer in writing.

    This is not the paper's evaluation, which ranks the choices' likelihoods (sec. 3.5).

    Args:
        instruction: `LETTER`, `THINKING` for a model that thinks before it answers, or `REASONED`.
    """
    return "\n".join([doc["question"], *_lettered_choices(doc), instruction])


def bench2_prompt(doc: Doc, instruction: str = BENCH2_LETTER) -> str:
    """Ask EgoPlan-Bench2's question with the published prompt.

    It consists of the instruction, the question and lettered choices.

    Args:
        instruction: `BENCH2_LETTER`, or `BENCH2_THINKING` for a model that thinks before it
            answers.
    """
    return "\n\n".join([instruction, doc["question"], "\n".join(_lettered_choices(doc))])


def bench2_published_prompt(doc: Doc) -> str:
    """Ask EgoPlan-Bench2's question exactly as QA_template in the authors' eval.py does.

    A line break is at either end, and the goal is put into the question, whatever question the
    record has.
    """
    return f"\n{bench2_prompt({**doc, 'question': QUESTION.format(goal=doc['task_goal'])})}\n"


def choices_with_end(doc: Doc) -> list[str]:
    """Return the choices, marked so that rankers also score the token that ends the answer.

    The loss of the authors' modeling_llama.py is the mean over the tokens of the answer and
    ``</s>``.
    """
    return [choice + END_OF_ANSWER for choice in doc["choices"]]


def without_goal(doc: Doc, _settings: Any = None) -> str:
    """Ask the record's question without its goal, for the condition ``without_goal``.

    Case and punctuation at the goal's ends may differ between goal and question, as in the
    published files.

    Raises:
        LmmsEgoplanError: The question does not end with "in order to" and the goal, as `QUESTION`
            does.

    >>> question = "What next in order to make tea?"
    >>> without_goal({"sample_id": 7, "task_goal": "Make tea.", "question": question})
    'What next?'
    """
    goal = re.escape(doc["task_goal"].strip(string.punctuation + string.whitespace))
    question = re.sub(rf"\s+in order to {goal}\W*$", "?", doc["question"], flags=re.IGNORECASE)
    if question == doc["question"]:
        why = (
            'does not end with "in order to" and the record\'s task_goal; omit the task with '
            "_without_goal"
        )
        raise LmmsEgoplanError(f"sample_id {doc['sample_id']}: question {doc['question']!r} {why}")
    return question


def tuned_question(doc: Doc, _settings: Any = None) -> str:
    """Ask the question that the authors ask their tuned Video-LLaMA.

    It names the goal and a separate image.

    >>> tuned_question({"task_goal": "The goal is to Make coffee."})[:38]
    'My current task is to make coffee. The'
    """
    return tuned_opening(doc["task_goal"].strip(string.punctuation + " ").lower()) + _TUNED_END


def tuned_opening(goal: str) -> str:
    """Return the first sentence of `tuned_question`.

    If the goal contains "goal", the text after the first "to" is used. The authors' code and
    lmms-eval's fail if there is no "to"; here, the goal is then kept.

    >>> tuned_opening("Making coffee"), tuned_opening("The goal is to Make tea")
    ('I am tasked with Making coffee. ', 'My current task is to Make tea. ')
    """
    if "goal" in goal and "to" in goal:
        goal = goal.partition("to")[2].strip()
    is_gerund = goal.lstrip().partition(" ")[0].endswith("ing")
    return _TUNED[0 if is_gerund else 1].format(goal=goal)


def narrated_question(doc: Doc) -> str:
    """Ask the record's question after the narrations of the past actions, instead of the video.

    This is not the paper's evaluation. It shows what a model would know if it perceived the
    progress perfectly. The wording is this project's.
    """
    actions = [
        f"{number}. {action['narration_text']}"
        for number, action in enumerate(doc["past_actions"], start=1)
    ]
    return "\n".join([NARRATED if actions else NOTHING_DONE, *actions, doc["question"]])


def _lettered_choices(doc: Doc) -> list[str]:
    return [f"{letter}. {choice}" for letter, choice in zip(LETTERS, doc["choices"], strict=True)]
