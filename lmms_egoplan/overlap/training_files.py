"""Read videos, times and texts of a model's training data. Layouts are recognised by their content.

A file is a tree of records: rows of a CSV file, lines of a list, or JSON. A record inherits the video and the goal of
the record that contains it. ``training_files.yaml`` lists the keys. Prepared questions are read in the same way.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.sources import frames_per_second
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse, read_csv, read_text
from lmms_egoplan.paths import module_yaml

_KEYS: dict[str, Any] = module_yaml(__file__)


class Item(NamedTuple):
    """A part of the training data, or a question.

    Attributes:
        video: Id of the video, see `canonical`.
        span: Start and stop in seconds; None if unknown.
        action: The action, or the answer; "" if unknown.
        text: Goal and action; "" if unknown.
        where: File and position, from 1.
    """

    video: str
    span: tuple[float, float] | None
    action: str
    text: str
    where: str


def canonical(name: str) -> str:
    """Return the id of a video from its id, the id of a part, or a path.

    >>> canonical("videos/P01_101.MP4"), canonical("ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2"), canonical("a/b.mp4")
    ('p01_101', 'ca6e9ec9-46ac-4a02-8034-7c31157dc52c', 'b')
    """
    ids = re.findall(_KEYS["id"], name.casefold())
    return ids[-1] if ids else re.sub(r".*[\\/]|\.(mp4|mkv|mov|avi|webm)$", "", name.strip().casefold())


def span_of(video: str, row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return start and stop of a record in seconds; None if they are missing or invalid.

    >>> span_of("p01_13", {"start_frame": 60, "stop_frame": 119}), span_of("p01_101", {"start_sec": "2", "end_sec": 1})
    ((1.0, 2.0), None)
    """
    fps = frames_per_second(EPIC_KITCHENS if re.match(r"p\d\d_", video) else EGO4D, video.upper())
    for first, last, before, after in _KEYS["times"]:
        rate = fps if last.endswith("frame") else 1
        with suppress(KeyError, TypeError, ValueError):
            start, stop = (float(row[first]) - before) / rate, (float(row[last]) + after) / rate
            if start < stop and stop > 0:
                return round(max(start, 0), 3), round(stop, 3)
    return None


def read_training(path: Path) -> list[Item]:
    """Read a file of training data.

    Raises:
        LmmsEgoplanError: The file cannot be read, is damaged, or has no video id at a known key.
    """
    text = read_text(path, "training data")
    is_json = text.lstrip().startswith(("[", "{"))
    if items := [*items_of(parse(str(path), text, _KEYS["expected"]) if is_json else _rows(path), str(path))]:
        return items
    raise LmmsEgoplanError(f"{path}: no video ids; {_KEYS['expected']}")


def _rows(path: Path) -> list[dict[str, str]]:
    rows = [cells for _, cells in read_csv(path, "training data", strict=True)]
    if rows and any(name.strip().lower() in _KEYS["video"] for name in rows[0]):
        return [dict(zip(rows[0], cells, strict=False)) for cells in rows[1:]]
    # A plain list has an id or a path per line.
    return [{"video": cells[0]} for cells in rows] if all(re.fullmatch(r"[^\s,]+", ",".join(x)) for x in rows) else []


def items_of(value: Any, where: str, video: str = "", goal: str = "") -> Iterator[Item]:
    """Yield a record, and the records that it contains.

    Args:
        value: The record, or a list of records.
        where: Position of the record.
        video, goal: Video and goal of the record that contains it.
    """
    if isinstance(value, list):
        for number, part in enumerate(value, 1):
            yield from items_of(part, f"{where}, {number}", video, goal)
    elif isinstance(value, dict):
        row = {str(key).strip().lower(): part for key, part in value.items()}
        texts = {key: text for key, text in row.items() if isinstance(text, str) and text.strip()}
        name, own_goal, action = (next(filter(None, map(texts.get, _KEYS[x])), "") for x in ("video", "goal", "action"))
        video, goal = canonical(name) or video, own_goal or goal
        nested: list[Item] = []
        for key, part in row.items():
            of_part = canonical(key) if re.fullmatch(_KEYS["id"], key) else video
            nested += items_of(part, f"{where}, {key}", of_part, goal)
        span, inner = span_of(video, row), [item.span for item in nested if item.span]
        # A question shows its past actions, too. The parts of other videos say more than the video's own times.
        is_question = "current_observation_frame" in row
        if span and is_question:
            span = min([span, *inner])[0], span[1]
        if video and (name or span or action) and (is_question or not (name and inner)):
            yield Item(video, span, action, f"{goal} {action}".strip(), where)
        yield from nested
