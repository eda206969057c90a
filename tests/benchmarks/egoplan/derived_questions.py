"""Derive questions in EgoPlan's format from real step annotations, and render small media for them.

The goals are Goal-Step's, or windows of EPIC-KITCHENS' narrations. The package builds the questions
from them.
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image, ImageDraw

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, FIRST_FRAME
from lmms_egoplan.media.frames import frame_path, write_video

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
SIZE = (64, 48)

GOALSTEP = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"
EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
_PHOTOGRAPHS = DATA / "egothink" / "Activity" / "images"
EGO4D_FPS = 30
# Rendered frames from one event (start, stop or observation) to the next.
_EVENT_GAP = 5

Record = dict[str, Any]


class Rendered(NamedTuple):
    """Records with rendered frames, their annotation file and the folders for `prepare_egoplan`."""

    records: list[Record]
    annotations: Path
    epic_kitchens: Path
    ego4d: Path


def available() -> bool:
    """Check that the real annotations exist, and that the package can build questions from them."""
    return all(path.exists() for path in (GOALSTEP, EPIC, _PHOTOGRAPHS)) and (
        find_spec("lmms_egoplan.construction") is not None
    )


def derive(limit: int) -> list[Record]:
    """Return the same `limit` records in EgoPlan's validation layout every time, half from each
    source.
    """
    records = pytest.importorskip(
        "construction.egoplan.derived_records", reason="needs lmms_egoplan.construction"
    )
    return records.derive(limit)


def render_media(records: list[Record], folder: Path) -> Rendered:
    """Render a short video or frame folder for each video of the records.

    The frame numbers in a video's records are renumbered in the same order with small gaps, so that
    few frames are needed. Each video shows a photograph with a bar that grows with every frame.
    """
    rendered = Rendered([], folder / "annotations.json", folder / "epic-kitchens", folder / "ego4d")
    rendered.ego4d.mkdir(parents=True)
    by_video: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        by_video.setdefault((record["video_source"], record["video_id"]), []).append(record)
    for number, ((source, video_id), group) in enumerate(by_video.items()):
        first = FIRST_FRAME[source]
        events = sorted({frame for record in group for frame in _frames(record)})
        new_numbers = {frame: first + _EVENT_GAP * index for index, frame in enumerate(events)}
        rendered.records.extend(_renumber(record, new_numbers) for record in group)
        images = _draw(number, _EVENT_GAP * len(events))
        if source == EGO4D:
            write_video(rendered.ego4d / f"{video_id}.mp4", images, EGO4D_FPS)
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


def _frames(record: Record) -> Iterator[int]:
    yield record["current_observation_frame"]
    for action in record["task_progress_metadata"]:
        yield action["start_frame"]
        yield action["stop_frame"]


def _renumber(record: Record, new_numbers: dict[int, int]) -> Record:
    actions = [
        action | {name: new_numbers[action[name]] for name in ("start_frame", "stop_frame")}
        for action in record["task_progress_metadata"]
    ]
    observation = new_numbers[record["current_observation_frame"]]
    return record | {"current_observation_frame": observation, "task_progress_metadata": actions}


def _draw(number: int, count: int) -> Iterator[Image.Image]:
    paths = _photographs()
    background = _photograph(paths[number % len(paths)])
    width, height = SIZE
    for index in range(count):
        image = background.copy()
        ImageDraw.Draw(image).rectangle(
            (0, 0, (index + 1) * width // count, height // 6), fill="yellow"
        )
        yield image


@cache
def _photographs() -> list[Path]:
    """Return EgoThink's first-person photographs in the order of their file names."""
    return sorted(_PHOTOGRAPHS.iterdir())


@cache
def _photograph(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB").resize(SIZE)
