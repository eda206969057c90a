"""Identify the task goals of narrated videos, at three levels (sec. 3.2, A.1).

A language model does this.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.wording import named_in_order, normalised, tidy
from lmms_egoplan.construction.ego4d import text_problem
from lmms_egoplan.construction.egoplan.narrations import Action, Video, hundredths, timestamp
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_text
from lmms_egoplan.judging.json_replies import NOT_JSON, ask_json
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import quoted

# Goals of moderate complexity (sec. 3.2).
FEWEST_ACTIONS = 4
MOST_ACTIONS = 20
# The paper sets no limit. A longer text is a report of events, not a goal.
MOST_CHARACTERS = 300
_TEXTS: dict[str, Any] = module_yaml(__file__)
PROMPT: str = _TEXTS["prompt"]
"""Figure 10, verbatim."""

# A row of Figure 10's table of narrations.
_ROW = "{start}         |      {stop}         |      {narration}"

OVERALL = "overall_goal"
SUBGOAL = "subgoal"
SECONDARY = "secondary_subgoal"

UNKNOWN_VIDEO = "goals of a video that is not in the narrations"
NO_GOALS = "video without goals in the file"
NO_GOAL = "goal that is not a text in Latin letters"
WRONG_FORM = "goal that does not have Figure 10's form"
INVENTED_TIME = "time that is not copied from the narrations"
BACKWARDS = "goal that does not end after its start"
OUTSIDE = "secondary subgoal that exceeds its subgoal"
OVERLAP = "goal that shares an action with another goal of its level"
UNKNOWN_ACTION = "goal with an action whose narration cannot be used"
TOO_LONG = f"goal of more than {MOST_CHARACTERS} characters"
LISTING = "goal that names its actions in order"
TOO_FEW = f"goal of fewer than {FEWEST_ACTIONS} actions"
TOO_MANY = f"goal of more than {MOST_ACTIONS} actions"
REPEATED = "duplicate of a goal at another level"


@dataclass(frozen=True, slots=True)
class Goal:
    """A task goal of a video.

    Attributes:
        video: The video.
        level: Level in the hierarchy.
        text: The goal in words.
        actions: The actions that lie completely within the goal, ordered by start.
    """

    video: Video
    level: str
    text: str
    actions: tuple[Action, ...]

    def lists_actions(self) -> bool:
        """Return True if the goal lists its actions.

        It then names at least three, and at least half, of its distinct actions in their order.
        """
        texts = dict.fromkeys(normalised(action.text) for action in self.actions)
        return named_in_order(self.text, texts) >= max(3, len(texts) / 2)


@dataclass(frozen=True)
class _Span:
    """A goal before its checks.

    Attributes:
        level: Level in the hierarchy.
        text: The goal in words, unchecked.
        where: Position in the reply, for rejections.
        times: Start and stop; None for the whole video.
    """

    level: str
    text: Any
    where: str
    times: tuple[int, int] | None = None

    def contains(self, start: int, stop: int) -> bool:
        return self.times is None or (self.times[0] <= start and stop <= self.times[1])

    def overlaps(self, start: int, stop: int) -> bool:
        return self.times is None or (self.times[0] < stop and start < self.times[1])


def goal_prompt(video: Video) -> str:
    """Return the prompt about a video for a language model (Figure 10)."""
    rows = (
        _ROW.format(
            start=timestamp(action.start), stop=timestamp(action.stop), narration=action.text
        )
        for action in video.actions
    )
    return PROMPT + "\n".join(rows)


def identify_goals(
    videos: Sequence[Video], settings: JudgeSettings
) -> tuple[dict[str, Any], list[Rejection]]:
    """Ask a language model for the goals of videos; return its JSON by video id, unchecked.

    Raises:
        JudgeError: The language model fails.
    """
    prompts = {video.video_id: goal_prompt(video) for video in videos}
    replies = ask_json("goal", prompts, settings, "task goals", schema=_TEXTS["schema"])
    return replies.values, replies.rejections


def read_goals(path: Path, videos: Sequence[Video]) -> tuple[dict[str, Any], list[Rejection]]:
    """Read existing goals: a JSON object with an object in Figure 10's form for each video id.

    Raises:
        LmmsEgoplanError: The file cannot be read, has another form, or contains none of the videos.
    """
    content = parse_record(str(path), read_text(path, "goals"))
    if not isinstance(content, dict):
        raise LmmsEgoplanError(
            f"{path}: expected an object with goals by video id, found {quoted(content)}"
        )
    narrated_ids = {video.video_id for video in videos}
    unknown_ids = [video_id for video_id in content if video_id not in narrated_ids]
    if len(unknown_ids) == len(content):
        raise LmmsEgoplanError(
            f"{path}: goals of {', '.join(map(quoted, unknown_ids[:3])) or 'no video'}, but the "
            "narrations have other videos, such as "
            f"{', '.join(video.video_id for video in videos[:3])}; use goals of the same videos"
        )
    goals = {
        video.video_id: content[video.video_id] for video in videos if video.video_id in content
    }
    rejections = [
        Rejection("goal", UNKNOWN_VIDEO, f"{path}, {quoted(video_id)}") for video_id in unknown_ids
    ]
    rejections += [
        Rejection("goal", NO_GOALS, video.video_id)
        for video in videos
        if video.video_id not in content
    ]
    return goals, rejections


def pool_goals(
    videos: Sequence[Video], goals: Mapping[str, Any], drop: Collection[str] = ()
) -> tuple[list[Goal], list[Rejection]]:
    """Pool the goals of all levels with 4 to 20 actions each, and reject invalid ones (sec. 3.2).

    A goal's times must be copied from the video's narrations. A secondary subgoal must lie within
    its subgoal. Goals of one level must not share an action: if two do, the later one in the reply
    is rejected.

    Args:
        drop: "listing-goals", to drop goals that list their actions.
    """
    pooled: list[Goal] = []
    rejections: list[Rejection] = []
    for video in videos:
        distinct: set[tuple[str, tuple[Action, ...]]] = set()
        if video.video_id not in goals:
            continue
        for goal in _goals(video, goals[video.video_id]):
            if isinstance(goal, Rejection):
                rejections.append(goal)
                continue
            where = f"{video.video_id}, {goal.level}"
            key = (normalised(goal.text), goal.actions)
            if key in distinct:
                rejections.append(Rejection("goal", REPEATED, where, quoted(goal.text)))
            elif "listing-goals" in drop and goal.lists_actions():
                rejections.append(Rejection("goal", LISTING, where, quoted(goal.text)))
            else:
                distinct.add(key)
                pooled.append(goal)
    return pooled, rejections


def _goals(video: Video, reply: Any) -> Iterator[Goal | Rejection]:
    """Yield each goal of a reply, or the reason why it cannot be used."""
    if not isinstance(reply, dict):
        yield Rejection(
            "goal", NOT_JSON, video.video_id, f"expected an object, found {quoted(reply)}"
        )
        return
    yield _checked(video, _Span(OVERALL, reply.get(OVERALL), f"{video.video_id}, {OVERALL}"))
    times = {time for action in video.actions for time in (action.start, action.stop)}
    used_actions: dict[str, set[Action]] = {SUBGOAL: set(), SECONDARY: set()}
    for span in _spans(reply, SUBGOAL, f"{video.video_id}, ", times):
        if isinstance(span, Rejection):
            yield span
            continue
        actions = {action for action in video.actions if span.contains(action.start, action.stop)}
        if actions & used_actions[span.level]:
            yield Rejection("goal", OVERLAP, span.where, quoted(span.text))
            continue
        goal = _checked(video, span)
        used_actions[span.level] |= actions if isinstance(goal, Goal) else set()
        yield goal


_LISTS = {SUBGOAL: "clips", SECONDARY: "sub_clips"}


def _spans(parent: Any, level: str, prefix: str, times: set[int]) -> Iterator[_Span | Rejection]:
    """Yield a reply's clips, each followed by its sub-clips."""
    clips = parent.get(_LISTS[level])
    prefix = f"{prefix}{_LISTS[level]}"
    if not isinstance(clips, list):
        yield Rejection("goal", WRONG_FORM, prefix, f"expected a list, found {quoted(clips)}")
        return
    for number, clip in enumerate(clips):
        where = f"{prefix}[{number}]"
        if not isinstance(clip, dict):
            yield Rejection("goal", WRONG_FORM, where, f"expected an object, found {quoted(clip)}")
            continue
        span = _times(clip, times)
        outer = _times(parent, times) if level == SECONDARY else None
        detail = f"{quoted(clip.get('start_timestamp'))} to {quoted(clip.get('stop_timestamp'))}"
        if span is None:
            yield Rejection("goal", INVENTED_TIME, where, detail)
        elif span[0] >= span[1]:
            yield Rejection("goal", BACKWARDS, where, detail)
        elif outer and outer[0] < outer[1] and not outer[0] <= span[0] < span[1] <= outer[1]:
            yield Rejection("goal", OUTSIDE, where, detail)
        else:
            yield _Span(level, clip.get(level), where, span)
        if level == SUBGOAL:
            yield from _spans(clip, SECONDARY, f"{where}.", times)


def _times(clip: Any, narrated_times: set[int]) -> tuple[int, int] | None:
    """Return a clip's start and stop; None if they are not copied from the narrations."""
    start = hundredths(clip.get("start_timestamp"))
    stop = hundredths(clip.get("stop_timestamp"))
    if start is None or stop is None or not narrated_times.issuperset((start, stop)):
        return None
    return start, stop


def _checked(video: Video, span: _Span) -> Goal | Rejection:
    if any(text_problem(span.level, span.text)):
        return Rejection("goal", NO_GOAL, span.where, quoted(span.text))
    text = tidy(span.text)
    if len(text) > MOST_CHARACTERS:
        return Rejection("goal", TOO_LONG, span.where, f"{len(text)}: {quoted(span.text)}")
    actions = tuple(action for action in video.actions if span.contains(action.start, action.stop))
    if any(span.overlaps(*times) for times in video.unknown):
        return Rejection("goal", UNKNOWN_ACTION, span.where, quoted(span.text))
    if not FEWEST_ACTIONS <= len(actions) <= MOST_ACTIONS:
        reason = TOO_FEW if len(actions) < FEWEST_ACTIONS else TOO_MANY
        return Rejection("goal", reason, span.where, f"{len(actions)}: {quoted(span.text)}")
    return Goal(video, span.level, text, actions)
