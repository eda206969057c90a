"""Questions of task goals: N actions give N questions (sec. 3.3), as evaluation and as instruction data (sec. 5.1)."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS, QUESTION
from lmms_egoplan.benchmarks.egoplan.records import FIRST_FRAME
from lmms_egoplan.construction.egoplan.goals import Goal
from lmms_egoplan.construction.egoplan.narrations import Action, normalised
from lmms_egoplan.construction.egoplan.wording import near_key
from lmms_egoplan.rejections import Rejection

# The visual input ends so long before the next action's segment (sec. 3.3, Visual Input Alignment).
SECONDS_BEFORE = 0.5
# Other actions of the goal among the choices (sec. 3.3, Negative Choice Selection).
WRONG_CHOICES = 3
# Sec. 5.1, Auxiliary Data for Action Recognition.
RECOGNITION_QUESTION = "Can you enumerate the actions in the video, describing each with a short verb-noun combination?"

# Video, view and answer.
Moment = tuple[str, int, str]

REPEATED = "action that the goal has had before"
SPELLED_ALIKE = "action that differs from an earlier one of the goal in spelling alone"
TOO_FEW = f"action of a goal without {WRONG_CHOICES} distinct other actions"
TOO_EARLY = f"action less than {SECONDS_BEFORE} s behind the video's first frame"
COPY = "question with the view and answer of another goal's question"
NOT_OFFERED = "choice that is near-equal to another or begins with the answer"
NOTHING_DONE = "question without a past action, for action recognition"


@dataclass(frozen=True)
class Question:
    """What comes next at one point of a goal.

    others: texts of the goal's other actions, distinct, in the order of their first times, except those dropped.
    choices: the right one among three of the others, shuffled. observation_frame: the last one of the visual input.
    past: the actions that begin by then, cut there, so that none of their frames is later. concurrent: normalised texts
    of the video's other actions that begin within 0.5 s of the answer. moment: equal for several goals' questions with
    one view and answer.
    """

    goal: Goal
    answer: str
    others: tuple[str, ...]
    choices: tuple[str, ...]
    observation_frame: int
    past: tuple[Action, ...]
    concurrent: frozenset[str]
    moment: Moment


def make_questions(
    goals: Iterable[Goal], seed: int, drop: Sequence[str] = ()
) -> tuple[list[Question], list[Rejection]]:
    """Make a question for each action of each goal, or say why there is none.

    Wrong choices and the order of choices depend only on the seed, the video, the goal and the action, so that other
    goals do not change them.

    Args:
        drop: "near-equal" or "concurrent", to offer no such choices; "copies", to ask about each moment once, for the
            first of its goals.
    """
    moments: set[Moment] = set()
    made = [question for goal in goals for question in _questions(goal, seed, drop, moments)]
    return [one for one in made if isinstance(one, Question)], [one for one in made if isinstance(one, Rejection)]


def _questions(goal: Goal, seed: int, drop: Sequence[str], moments: set[Moment]) -> Iterator[Question | Rejection]:
    video = goal.video
    texts: dict[str, str] = {}
    for action in goal.actions:
        texts.setdefault(normalised(action.text), action.text)
    asked: set[str] = set()
    for number, action in enumerate(goal.actions):
        key = normalised(action.text)
        at_once = (other.text for other in video.actions if abs(other.start - action.start) <= 100 * SECONDS_BEFORE)
        concurrent = frozenset(map(normalised, at_once)) - {key}
        others = tuple(text for other, text in texts.items() if other != key)
        if "concurrent" in drop:
            others = tuple(text for text in others if normalised(text) not in concurrent)
        if "near-equal" in drop:
            firsts = {near_key(text): text for text in (*reversed(others), action.text)}.values()
            others = tuple(text for text in others if text in firsts)
        observation = action.start_frame - max(1, math.ceil(round(SECONDS_BEFORE * video.fps, 1)))
        moment = video.video_id, observation, action.text
        problem = None
        if key in asked:
            problem = REPEATED if any(action.text == before.text for before in goal.actions[:number]) else SPELLED_ALIKE
        elif len(others) < WRONG_CHOICES:
            problem = TOO_FEW
        elif observation < FIRST_FRAME[video.source]:
            problem = TOO_EARLY
        elif "copies" in drop and moment in moments:
            problem = COPY
        asked.add(key)
        where = f"{video.video_id}, {goal.text}, action {number + 1}"
        if problem:
            yield Rejection("question", problem, where, action.text)
            continue
        moments.add(moment)
        withheld = (text for text in texts.values() if text not in (action.text, *others))
        yield from (Rejection("choice", NOT_OFFERED, where, text) for text in withheld)
        generator = random.Random(f"{seed} {video.video_id} {goal.level} {goal.text} {number}")
        choices = [action.text, *generator.sample(others, WRONG_CHOICES)]
        generator.shuffle(choices)
        past = tuple(
            before if before.stop_frame <= observation else replace(before, stop_frame=observation)
            for before in goal.actions[:number]
            if before.start_frame <= observation
        )
        yield Question(goal, action.text, others, tuple(choices), observation, past, concurrent, moment)


def evaluation_records(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Make records in the layout of EgoPlan-Val, numbered from 1."""
    return [
        _record(
            number,
            question,
            **{f"choice_{letter.lower()}": choice for letter, choice in zip(LETTERS, question.choices, strict=True)},
            golden_choice_idx=LETTERS[question.choices.index(question.answer)],
            answer=question.answer,
            origin="built",
        )
        for number, question in enumerate(questions, 1)
    ]


def instruction_records(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Make records in the layout of EgoPlan-IT, numbered from 1, with all possible wrong choices as negatives."""
    return [
        _record(number, question, answer=question.answer) | {"negative_answers": list(question.others)}
        for number, question in enumerate(questions, 1)
    ]


def recognition_records(questions: Sequence[Question]) -> tuple[list[dict[str, Any]], list[Rejection]]:
    """Make action-recognition samples of the same clips, under the same numbers (sec. 5.1).

    A question without a past action has no clip.
    """
    records = [
        _record(
            number,
            question,
            question=RECOGNITION_QUESTION,
            answer=f"{_begun(', '.join(action.text for action in question.past), str.upper)}.",
        )
        for number, question in enumerate(questions, 1)
        if question.past
    ]
    return records, [
        Rejection("question", NOTHING_DONE, f"{question.goal.video.video_id}, {question.goal.text}", question.answer)
        for question in questions
        if not question.past
    ]


def _record(number: int, asked: Question, /, **fields: str) -> dict[str, Any]:
    """Make a record with these fields before the visual input; they may replace `question`."""
    goal = asked.goal
    # "TV remote" stays as it is.
    lowered = goal.text if goal.text[1:2].isupper() else _begun(goal.text, str.lower)
    return {
        "sample_id": number,
        "video_source": goal.video.source,
        "video_id": goal.video.video_id,
        "task_goal": goal.text,
        "question": QUESTION.format(goal=lowered),
        **fields,
        "current_observation_frame": asked.observation_frame,
        "task_progress_metadata": [
            {"narration_text": action.text, "start_frame": action.start_frame, "stop_frame": action.stop_frame}
            for action in asked.past
        ],
    }


def _begun(text: str, change: Callable[[str], str]) -> str:
    """Return the text with its first letter changed."""
    return change(text[:1]) + text[1:]
