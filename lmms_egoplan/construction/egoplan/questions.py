"""Build questions from task goals, one per action (sec. 3.3).

They become evaluation and instruction data (sec. 5.1).
"""

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS, QUESTION
from lmms_egoplan.benchmarks.egoplan.records import FIRST_FRAME
from lmms_egoplan.benchmarks.egoplan.wording import near_key, normalised
from lmms_egoplan.construction.egoplan.goals import Goal
from lmms_egoplan.construction.egoplan.narrations import Action, Video
from lmms_egoplan.rejections import Rejection

# The visual input ends this long before the next action's segment (sec. 3.3, Visual Input
# Alignment).
SECONDS_BEFORE = 0.5
# Number of the goal's other actions among the choices (sec. 3.3, Negative Choice Selection).
WRONG_CHOICES = 3
# Sec. 5.1, Auxiliary Data for Action Recognition.
RECOGNITION_QUESTION = (
    "Can you enumerate the actions in the video, describing each with a short verb-noun "
    "combination?"
)

# Shared by questions without concurrent actions, to save memory.
_NONE: frozenset[str] = frozenset()

# Video, view and answer.
Moment = tuple[str, int, str]

REPEATED = "action that repeats an earlier one of the goal"
SPELLED_ALIKE = "action that differs from an earlier one of the goal only in spelling"
TOO_FEW = f"action of a goal without {WRONG_CHOICES} distinct other actions"
TOO_EARLY = f"action less than {SECONDS_BEFORE} s after the video's first frame"
COPY = "question with the view and answer of another goal's question"
NOT_OFFERED = "choice that is near-equal to another or begins at the same time as the answer"
NEAR_END = f"question before fewer than {WRONG_CHOICES} distinct other actions of its goal"
DONE_BEFORE = f"question before fewer than {WRONG_CHOICES} actions that were not done earlier"
NOTHING_DONE = "question without a past action, for action recognition"


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the next action at one point of a goal.

    Attributes:
        goal: The goal.
        answer: The right choice.
        distractors: Possible wrong choices: distinct texts of the goal's other actions, by first
            occurrence, without dropped ones; if balanced, without those done before.
        choices: The answer and three of the distractors, shuffled.
        observation_frame: Last frame of the visual input.
        past: The goal's earlier actions that begin by `observation_frame`, cut there: none has a
            later frame.
        concurrent: Normalised texts of the video's other actions that begin within 0.5 s of the
            answer.
    """

    goal: Goal
    answer: str
    distractors: tuple[str, ...]
    choices: tuple[str, ...]
    observation_frame: int
    past: tuple[Action, ...]
    concurrent: frozenset[str]

    @property
    def moment(self) -> Moment:
        """Video, view and answer. Questions of several goals may share it."""
        return self.goal.video.video_id, self.observation_frame, self.answer


def make_questions(
    goals: Iterable[Goal], seed: int, drop: Sequence[str] = (), *, is_balanced: bool = False
) -> tuple[list[Question], list[Rejection]]:
    """Build a question for each action of each goal, or reject the action with a reason.

    Wrong choices and the order of choices depend only on the seed, the video, the goal and the
    action. Other goals do not change them.

    Args:
        drop: "near-equal" or "concurrent" to avoid these choices; "copies" to ask about each moment
            once, for its first goal.
        is_balanced: If True, no wrong choice was done before, and questions without three such
            choices are rejected. The answer of a question is never done before. So each wrong
            choice that was done makes "not done yet" right more often than chance.
    """
    moments: set[Moment] = set()
    results: list[Question | Rejection] = []
    for goal in goals:
        results.extend(_questions(goal, seed, drop, moments, is_balanced=is_balanced))
    questions = [result for result in results if isinstance(result, Question)]
    return questions, [result for result in results if isinstance(result, Rejection)]


def _questions(
    goal: Goal, seed: int, drop: Sequence[str], moments: set[Moment], *, is_balanced: bool
) -> Iterator[Question | Rejection]:
    video = goal.video
    texts: dict[str, str] = {}
    for action in goal.actions:
        texts.setdefault(normalised(action.text), action.text)
    for number, action in enumerate(goal.actions):
        concurrent = _concurrent(video, action)
        allowed = _allowed_choices(action, texts, concurrent, drop)
        distractors = _not_done(allowed, goal, number) if is_balanced else allowed
        observation = action.start_frame - frames_before(video.fps)
        moment = video.video_id, observation, action.text
        problem = _problem(goal, number, allowed, observation)
        if problem is None and "copies" in drop and moment in moments:
            problem = COPY
        if problem is None and len(distractors) < WRONG_CHOICES:
            problem = _imbalance(goal, number, allowed)
        where = f"{video.video_id}, {goal.text}, action {number + 1}"
        if problem is not None:
            yield Rejection("question", problem, where, action.text)
            continue
        moments.add(moment)
        withheld = (text for text in texts.values() if text not in (action.text, *allowed))
        yield from (Rejection("choice", NOT_OFFERED, where, text) for text in withheld)
        generator = random.Random(f"{seed} {video.video_id} {goal.level} {goal.text} {number}")
        choices = [action.text, *generator.sample(distractors, WRONG_CHOICES)]
        generator.shuffle(choices)
        past = _past(goal.actions[:number], observation)
        yield Question(
            goal, action.text, distractors, tuple(choices), observation, past, concurrent
        )


def _concurrent(video: Video, action: Action) -> frozenset[str]:
    """Return the normalised texts of other actions that begin within 0.5 s of an action."""
    nearby = (
        other.text
        for other in video.actions
        if abs(other.start - action.start) <= 100 * SECONDS_BEFORE
    )
    return frozenset(map(normalised, nearby)) - {normalised(action.text)} or _NONE


def _allowed_choices(
    action: Action, texts: Mapping[str, str], concurrent: Collection[str], drop: Sequence[str]
) -> tuple[str, ...]:
    """Return the wrong choices that `drop` allows for the question about an action.

    Args:
        action: The action.
        texts: Distinct texts of its goal's actions by their normalised text.
        concurrent: See `Question`.
        drop: See `make_questions`.
    """
    key = normalised(action.text)
    allowed = tuple(text for other_key, text in texts.items() if other_key != key)
    if "concurrent" in drop:
        allowed = tuple(text for text in allowed if normalised(text) not in concurrent)
    if "near-equal" in drop:
        firsts = {near_key(text): text for text in (*reversed(allowed), action.text)}.values()
        allowed = tuple(text for text in allowed if text in firsts)
    return allowed


def _not_done(choices: Sequence[str], goal: Goal, number: int) -> tuple[str, ...]:
    """Return the choices that are none of the goal's first actions."""
    done = {normalised(action.text) for action in goal.actions[:number]}
    return tuple(choice for choice in choices if normalised(choice) not in done)


def _problem(goal: Goal, number: int, allowed: Sequence[str], observation: int) -> str | None:
    """Return why there is no question about an action of a goal; None if there is one."""
    action = goal.actions[number]
    earlier = [previous.text for previous in goal.actions[:number]]
    if action.text in earlier:
        return REPEATED
    if normalised(action.text) in map(normalised, earlier):
        return SPELLED_ALIKE
    if len(allowed) < WRONG_CHOICES:
        return TOO_FEW
    if observation < FIRST_FRAME[goal.video.source]:
        return TOO_EARLY
    return None


def _imbalance(goal: Goal, number: int, allowed: Sequence[str]) -> str:
    """Return why too few of the allowed choices were not done before."""
    later = {normalised(action.text) for action in goal.actions[number + 1 :]}
    num_later = sum(normalised(choice) in later for choice in allowed)
    return NEAR_END if num_later < WRONG_CHOICES else DONE_BEFORE


def _past(earlier: Sequence[Action], observation: int) -> tuple[Action, ...]:
    """Return the earlier actions that begin by the observation frame, cut there."""
    return tuple(
        _cut(action, observation) for action in earlier if action.start_frame <= observation
    )


def _cut(action: Action, last_frame: int) -> Action:
    """Return an action that stops at a frame; the same one if it stops before."""
    if action.stop_frame <= last_frame:
        return action
    return replace(action, stop_frame=last_frame)


def frames_before(fps: float) -> int:
    """Return the number of frames in `SECONDS_BEFORE`, at least 1."""
    return max(1, math.ceil(round(SECONDS_BEFORE * fps, 1)))


def evaluation_records(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Yield records in EgoPlan-Val's layout, numbered from 1."""
    for number, question in enumerate(questions, 1):
        choices = {}
        for letter, choice in zip(LETTERS, question.choices, strict=True):
            choices[f"choice_{letter.lower()}"] = choice
        answer = LETTERS[question.choices.index(question.answer)]
        yield _record(
            number,
            question,
            **choices,
            golden_choice_idx=answer,
            answer=question.answer,
            origin="built",
        )


def instruction_records(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Yield records in EgoPlan-IT's layout, numbered from 1.

    All possible wrong choices are negatives.
    """
    for number, question in enumerate(questions, 1):
        record = _record(number, question, answer=question.answer)
        yield record | {"negative_answers": list(question.distractors)}


def recognition_records(questions: Iterable[Question]) -> Iterator[dict[str, Any]]:
    """Yield action-recognition samples on the questions' clips (sec. 5.1).

    They have the questions' numbers. Questions without past actions have no clip, see
    `without_clip`.
    """
    for number, question in enumerate(questions, 1):
        if question.past:
            answer = recognition_answer(action.text for action in question.past)
            yield _record(number, question, question=RECOGNITION_QUESTION, answer=answer)


def without_clip(questions: Iterable[Question]) -> Iterator[Rejection]:
    """Yield a rejection for each question without past actions, so without a clip."""
    for question in questions:
        if not question.past:
            where = f"{question.goal.video.video_id}, {question.goal.text}"
            yield Rejection("question", NOTHING_DONE, where, question.answer)


def recognition_answer(actions: Iterable[str]) -> str:
    """List actions as the answer of action recognition does."""
    return f"{_begun(', '.join(actions), str.upper)}."


def _record(number: int, source: Question, /, **fields: str) -> dict[str, Any]:
    """Build a record. `fields` come before the visual input and may override `question`."""
    goal = source.goal
    # "TV remote" keeps its capitals.
    lowered = goal.text if goal.text[1:2].isupper() else _begun(goal.text, str.lower)
    return {
        "sample_id": number,
        "video_source": goal.video.source,
        "video_id": goal.video.video_id,
        "task_goal": goal.text,
        "question": QUESTION.format(goal=lowered),
        **fields,
        "current_observation_frame": source.observation_frame,
        "task_progress_metadata": [
            {
                "narration_text": action.text,
                "start_frame": action.start_frame,
                "stop_frame": action.stop_frame,
            }
            for action in source.past
        ],
    }


def _begun(text: str, change: Callable[[str], str]) -> str:
    """Return the text with its first letter changed."""
    return change(text[:1]) + text[1:]
