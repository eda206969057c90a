"""Records of EgoPlan's validation layout, built from real step annotations as the package builds
them.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.egoplan.derived_questions import EGO4D_FPS, EPIC, GOALSTEP
from lmms_egoplan.benchmarks.egoplan.records import EGO4D
from lmms_egoplan.benchmarks.egoplan.wording import tidy
from lmms_egoplan.construction.egoplan.goals import (
    FEWEST_ACTIONS,
    MOST_ACTIONS,
    OVERALL,
    SUBGOAL,
    Goal,
)
from lmms_egoplan.construction.egoplan.narrations import (
    Action,
    Sentence,
    Video,
    by_start,
    ego4d_action,
    read_epic_kitchens,
)
from lmms_egoplan.construction.egoplan.questions import evaluation_records, make_questions

_WINDOW = 8
_SEED = 0

Record = dict[str, Any]


def derive(limit: int) -> list[Record]:
    """Return the same `limit` records of EgoPlan's validation layout at every call, half from each
    source.
    """
    rng = random.Random(_SEED)
    records: list[Record] = []
    for source, count in ((_goalstep_goals(), limit - limit // 2), (_epic_goals(), limit // 2)):
        goals = list(source)
        rng.shuffle(goals)
        questions, _ = make_questions(goals, _SEED)
        assert len(questions) >= count, f"only {len(questions)} questions can be derived"
        records += evaluation_records(questions[:count])
    return [record | {"sample_id": number} for number, record in enumerate(records)]


def _goalstep_goals() -> Iterator[Goal]:
    """Yield each video's goal with its steps, and each step with its substeps."""
    for video in json.loads(GOALSTEP.read_text(encoding="utf-8"))["videos"]:
        levels = [(OVERALL, video["goal_description"], video["segments"])]
        levels += [
            (SUBGOAL, step["step_description"], step["segments"]) for step in video["segments"]
        ]
        for level, text, segments in levels:
            actions = map(_action, segments)
            yield from _sizeable(
                Video(EGO4D, video["video_uid"], EGO4D_FPS, ()), level, text.lower(), actions
            )


def _action(segment: dict[str, Any]) -> Action:
    text = segment["step_description"]
    return ego4d_action(
        Sentence("", text, segment["start_time"], segment["end_time"]), text.lower()
    )


def _epic_goals() -> Iterator[Goal]:
    """Yield windows of consecutive narrations as goals, named after their most frequent objects."""
    for video in read_epic_kitchens(EPIC)[0]:
        for start in range(0, len(video.actions), _WINDOW):
            window = video.actions[start : start + _WINDOW]
            things = Counter(action.object for action in window)
            text = f"deal with {' and '.join(thing for thing, _ in things.most_common(2))}"
            yield from _sizeable(video, SUBGOAL, text, window)


def _sizeable(video: Video, level: str, text: str, actions: Iterable[Action]) -> Iterator[Goal]:
    goal = Goal(video, level, tidy(text), by_start(actions))
    if FEWEST_ACTIONS <= len(goal.actions) <= MOST_ACTIONS:
        yield goal
