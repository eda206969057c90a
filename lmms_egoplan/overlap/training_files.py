"""Read videos, times and texts of a model's training data. Layouts are recognised by their content.

A file is a tree of records: rows of a CSV file, lines of a list, or JSON. A record inherits the video and the goal of
the record that contains it. ``training_files.yaml`` lists the keys. Prepared questions are read in the same way.
"""

import math
import re
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.sources import frames_per_second
from lmms_egoplan.construction import ego4d
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode_objects, parse_record, read_csv, read_lines, read_text
from lmms_egoplan.paths import module_yaml

_KEYS: dict[str, Any] = module_yaml(__file__)
_LAST, _TIME, _ROLES = "current_observation_frame", "timestamp_sec", ("video", "goal", "action")


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
    for names in _KEYS["times"]:
        clocks = [str(row.get(name)).split(":")[::-1] for name in names]
        try:
            start, stop = (sum(float(part) * 60**power for power, part in enumerate(clock)) for clock in clocks)
        except ValueError:
            continue
        start, stop = (start / fps, (stop + 1) / fps) if names[1].endswith("frame") else (start, stop)
        if 0 <= start < stop < math.inf:
            return start, stop
    return None


def read_training(path: Path) -> list[Item]:
    """Read a file of training data.

    Raises:
        LmmsEgoplanError: The file cannot be read, is damaged, or has no video id at a known key.
    """
    text = read_text(path, "training data").lstrip()
    try:
        content = decode_objects(text) if text.startswith(("[", "{")) else None
    except ValueError:
        content = [parse_record(where, line, _KEYS["expected"]) for where, line in read_lines(path)]
    if items := [*items_of(_rows(path, text) if content is None else content, str(path))]:
        return items
    raise LmmsEgoplanError(f"{path}: no video ids; {_KEYS['expected']}")


def _rows(path: Path, text: str) -> list[dict[str, str]]:
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = [cells for _, cells in read_csv(path, "training data", strict=True, delimiter=delimiter)]
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if not {*_KEYS["video"]}.isdisjoint(header):
        return [dict(zip(header, cells, strict=False)) for cells in rows[1:]]
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
        name, own_goal, action = (next(filter(None, map(texts.get, _KEYS[role])), "") for role in _ROLES)
        video, goal = canonical(name) or video, own_goal or goal
        narrations = row["narrations"] if isinstance(row.get("narrations"), list) else ()
        timed = [part for part in narrations if isinstance(part, dict) and ego4d.is_time(part.get(_TIME))]
        if timed and len(timed) == len(narrations):
            timed.sort(key=itemgetter(_TIME))
            spans = ego4d.segments({"": [part[_TIME] for part in timed]}, ego4d.EGO4D_MEAN_GAP).get("", [])
            ends = [{"start_sec": start, "end_sec": stop} for start, stop in spans] or [{}] * len(timed)
            row["narrations"] = [part | span for part, span in zip(timed, ends, strict=True)]
        nested: list[Item] = []
        for key, part in row.items():
            of_part = canonical(key) if re.fullmatch(_KEYS["id"], key) else video
            nested += items_of(part, f"{where}, {key}", of_part, goal)
        span, is_question, inner = span_of(video, row), _LAST in row, [item.span for item in nested if item.span]
        if span and is_question:
            span = min([span, *inner])[0], span[1]
        # The parts of a video say more than its own times. "#C C" marks the camera wearer in Ego4D's narrations.
        if video and (name or span or action) and (is_question or not (name and inner)):
            action = re.sub(r"^\s*#\s*c c\s+", "", action, flags=re.IGNORECASE)
            yield Item(video, span, action, f"{goal} {action}".strip(), where)
        yield from nested
