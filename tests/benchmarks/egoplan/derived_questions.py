"""Questions in EgoPlan's format, derived from real step annotations, with small media to go with them.

As in the paper's sec. 3.3: with a goal of 4 to 20 actions, each action in turn is the answer, the earlier
ones are the progress, three other actions of the goal are the wrong choices, and the visual input ends 0.5 s
before the answer's action begins.
"""

import csv
import json
import random
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, FIRST_FRAME, LETTERS
from lmms_egoplan.media.frames import frame_path, write_video

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SIZE = (64, 48)

_GOALSTEP = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"
_EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
_EPIC_VIDEOS = DATA / "epic-kitchens-100" / "EPIC_100_video_info.csv"
_PHOTOGRAPHS = DATA / "egothink" / "Activity" / "images"
_EGO4D_FPS = 30
_WINDOW = 8
_SEED = 0
_SECONDS_BEFORE = 0.5
# Rendered frames from one event (start, stop or observation) to the next.
_EVENT_GAP = 5

Record = dict[str, Any]


class Action(NamedTuple):
    """A step: text, first and last frame."""

    text: str
    start: int
    stop: int


class Goal(NamedTuple):
    """A goal in a video: at least four distinct actions, by start."""

    source: str
    video_id: str
    text: str
    fps: float
    actions: tuple[Action, ...]


class Rendered(NamedTuple):
    """Records whose frames exist, their annotation file, and the folders that `prepare_egoplan` takes."""

    records: list[Record]
    annotations: Path
    epic_kitchens: Path
    ego4d: Path


def available() -> bool:
    """Whether the real annotations are there."""
    return all(path.exists() for path in (_GOALSTEP, _EPIC, _EPIC_VIDEOS, _PHOTOGRAPHS))


def derive(limit: int) -> list[Record]:
    """`limit` records of EgoPlan's validation layout, half from each source; the same ones every time."""
    rng = random.Random(_SEED)
    records: list[Record] = []
    for source, count in ((_goalstep_goals(), limit - limit // 2), (_epic_goals(), limit // 2)):
        goals = list(source)
        rng.shuffle(goals)
        questions = [record for goal in goals for record in _questions(goal, rng)]
        assert len(questions) >= count, f"only {len(questions)} questions can be derived"
        records += questions[:count]
    return [{"sample_id": number} | record for number, record in enumerate(records)]


def render_media(records: list[Record], folder: Path) -> Rendered:
    """Render a short video or frame folder for each video of the records.

    The frame numbers that a video's records name are squeezed together, so that their order stays and few
    frames are needed. Each video shows a photograph, over which a bar grows with every frame.
    """
    rendered = Rendered([], folder / "annotations.json", folder / "epic-kitchens", folder / "ego4d")
    rendered.ego4d.mkdir(parents=True)
    by_video: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_video.setdefault((record["video_source"], record["video_id"]), []).append(record)
    for number, ((source, video_id), group) in enumerate(by_video.items()):
        first = FIRST_FRAME[source]
        events = sorted({frame for record in group for frame in _frames(record)})
        new = {frame: first + _EVENT_GAP * index for index, frame in enumerate(events)}
        rendered.records.extend(_renumber(record, new) for record in group)
        images = _draw(number, _EVENT_GAP * len(events))
        if source == EGO4D:
            write_video(rendered.ego4d / f"{video_id}.mp4", images, _EGO4D_FPS)
        else:
            frames = rendered.epic_kitchens / video_id.split("_")[0] / "rgb_frames" / video_id
            frames.mkdir(parents=True)
            for index, image in enumerate(images, first):
                image.save(frame_path(frames, index))
    rendered.records.sort(key=lambda record: record["sample_id"])
    rendered.annotations.write_text(
        json.dumps({"EgoPlan_validation": rendered.records}, ensure_ascii=False), encoding="utf-8"
    )
    return rendered


def _goalstep_goals() -> Iterator[Goal]:
    """A video's goal with its steps, and each step with its substeps."""
    for video in json.loads(_GOALSTEP.read_text(encoding="utf-8"))["videos"]:
        levels = [(video["goal_description"], video["segments"])]
        levels += [(step["step_description"], step["segments"]) for step in video["segments"]]
        for text, segments in levels:
            actions = [
                Action(
                    " ".join(segment["step_description"].lower().split()).rstrip("."),
                    int(segment["start_time"] * _EGO4D_FPS),
                    int(segment["end_time"] * _EGO4D_FPS),
                )
                for segment in segments
            ]
            goal = Goal(EGO4D, video["video_uid"], text.lower().rstrip("."), _EGO4D_FPS, _by_start(actions))
            if _is_sizeable(goal):
                yield goal


def _epic_goals() -> Iterator[Goal]:
    """Windows of consecutive narrations; the goal names what they handle most."""
    with _EPIC_VIDEOS.open(encoding="utf-8", newline="") as file:
        fps = {row["video_id"]: float(row["fps"]) for row in csv.DictReader(file)}
    videos: dict[str, list[dict[str, str]]] = {}
    with _EPIC.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            videos.setdefault(row["video_id"], []).append(row)
    for video_id, rows in videos.items():
        rows.sort(key=lambda row: int(row["start_frame"]))
        for start in range(0, len(rows), _WINDOW):
            window = rows[start : start + _WINDOW]
            # "ball:dough" is a dough ball.
            things = Counter(" ".join(reversed(row["noun"].split(":"))) for row in window)
            actions = [Action(row["narration"], int(row["start_frame"]), int(row["stop_frame"])) for row in window]
            text = f"deal with {' and '.join(thing for thing, _ in things.most_common(2))}"
            goal = Goal(EPIC_KITCHENS, video_id, text, fps[video_id], _by_start(actions))
            if _is_sizeable(goal):
                yield goal


def _by_start(actions: list[Action]) -> tuple[Action, ...]:
    return tuple(sorted(actions, key=lambda action: action.start))


def _is_sizeable(goal: Goal) -> bool:
    """4 to 20 actions, as the paper filters its goals (sec. 3.2)."""
    return 4 <= len(goal.actions) <= 20 and len({action.text for action in goal.actions}) >= 4


def _questions(goal: Goal, rng: random.Random) -> Iterator[Record]:
    texts = sorted({action.text for action in goal.actions})
    for index, action in enumerate(goal.actions):
        observation = action.start - round(_SECONDS_BEFORE * goal.fps)
        past = [step for step in goal.actions[:index] if step.start <= observation]
        if observation < FIRST_FRAME[goal.source]:
            continue
        choices = [action.text, *rng.sample([text for text in texts if text != action.text], 3)]
        rng.shuffle(choices)
        yield {
            "video_source": goal.source,
            "video_id": goal.video_id,
            "task_goal": goal.text,
            "question": f"Seeing what I have done and what is before me in the last frame, how do I go on to "
            f"reach my goal, {goal.text}?",
            **{f"choice_{letter.lower()}": text for letter, text in zip(LETTERS, choices, strict=True)},
            "golden_choice_idx": LETTERS[choices.index(action.text)],
            "answer": action.text,
            "current_observation_frame": observation,
            "task_progress_metadata": [
                {"narration_text": step.text, "start_frame": step.start, "stop_frame": step.stop} for step in past
            ],
        }


def _frames(record: Record) -> Iterator[int]:
    yield record["current_observation_frame"]
    for action in record["task_progress_metadata"]:
        yield action["start_frame"]
        yield action["stop_frame"]


def _renumber(record: Record, new: dict[int, int]) -> Record:
    actions = [
        action | {"start_frame": new[action["start_frame"]], "stop_frame": new[action["stop_frame"]]}
        for action in record["task_progress_metadata"]
    ]
    observation = new[record["current_observation_frame"]]
    return record | {"current_observation_frame": observation, "task_progress_metadata": actions}


def _draw(number: int, count: int) -> Iterator[Image.Image]:
    photographs = _photographs()
    background = photographs[number % len(photographs)]
    width, height = SIZE
    for index in range(count):
        image = background.copy()
        ImageDraw.Draw(image).rectangle((0, 0, (index + 1) * width // count, height // 6), fill="yellow")
        yield image


@cache
def _photographs() -> list[Image.Image]:
    """First-person photographs of EgoThink, by name."""
    images = []
    for path in sorted(_PHOTOGRAPHS.iterdir()):
        with Image.open(path) as image:
            images.append(image.convert("RGB").resize(SIZE))
    return images
