"""Read videos, times and texts of a model's training data. Layouts are recognised by their content.

A file is a tree of records: rows of a CSV file, lines of a list, JSON, or JSON Lines. A record
inherits the video and the goal of the record that contains it. ``training_files.yaml`` lists the
keys. Prepared questions are read in the same way.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.sources import frames_per_second
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, parse, read_csv, read_lines, read_text
from lmms_egoplan.overlap.conversations import answer_of, options_in, turns_of, without_mark
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.validation import quoted

_KEYS: dict[str, Any] = module_yaml(__file__)
_TEXT_LISTS = frozenset((*_KEYS["turns"], *_KEYS["options"]))
_CLOCK = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:[.,]\d*)?)")
_MOMENT = 1.0  # seconds of a record with a single time
_HOW = "write seconds or HH:MM:SS, or remove it if the times are unknown"


@dataclass(frozen=True)
class Item:
    """A part of the training data, or a question.

    Attributes:
        video: Id of the video, see `canonical`; "" if unknown.
        span: Start and stop in seconds; None if unknown.
        goal: The goal; "" if unknown.
        action: The action, or the answer; "" if unknown.
        where: File and position, from 1.
        question: The text that `action` answers; "" if there is none.
    """

    video: str
    span: tuple[float, float] | None
    goal: str
    action: str
    where: str
    question: str = ""


def canonical(name: str) -> str:
    """Return the id of a video from its id, the id of a part, or a path.

    >>> canonical("videos/P01_101.MP4"), canonical("ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2"), canonical("a/b.mp4")
    ('p01_101', 'ca6e9ec9-46ac-4a02-8034-7c31157dc52c', 'b')
    """
    ids = re.findall(_KEYS["id"], name.casefold())
    return (
        ids[-1]
        if ids
        else re.sub(r".*[\\/]|\.(mp4|mkv|mov|avi|webm)$", "", name.strip().casefold())
    )


def span_of(video: str, row: Mapping[str, Any], where: str = "") -> tuple[float, float] | None:
    """Return start and stop of a record in seconds; None if it has no times.

    Raises:
        LmmsEgoplanError: a time is invalid, has no partner, or is under an unknown key.

    >>> span_of("p01_13", {"start_frame": 60, "stop_frame": 119}), span_of("x", {"start": "00:01:02.5", "end": 63})
    ((1.0, 2.0), (62.5, 63.0))
    """
    times = {key: value for key, value in row.items() if not _is_missing(value)}
    fps = frames_per_second(EPIC_KITCHENS if re.match(r"p\d\d_", video) else EGO4D, video.upper())
    for first, last in _KEYS["times"]:
        if first in times and last in times:
            start, stop = (_seconds(times[key], f"{where}, {key}") for key in (first, last))
            if start > stop or stop < 0:
                raise LmmsEgoplanError(
                    f"{where}, {first}: {start:g} to {stop:g} is no span of time; correct it"
                )
            if last.endswith("frame"):
                start = start / fps
                stop = (stop + 1) / fps
            elif start == stop:
                start = start - _MOMENT / 2
                stop = stop + _MOMENT / 2
            return round(max(start, 0), 3), round(stop, 3)
    for key, value in times.items():
        name = re.sub(r"\W+", "_", key)
        is_key = re.fullmatch(_KEYS["time_key"], name) or (
            isinstance(value, list)
            and (re.fullmatch(_KEYS["times_key"], name) or _has_clock(value))
        )
        if is_key and _is_time(value):
            raise LmmsEgoplanError(
                f"{where}, {key}: not read as a time; rename start and stop to start_sec "
                "and end_sec"
            )
    return None


def _is_missing(value: Any) -> bool:
    is_blank = isinstance(value, str) and value.strip().casefold() in ("", "nan", "none", "null")
    return value is None or is_blank or (isinstance(value, float) and math.isnan(value))


def _is_time(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(map(_is_time, value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and _CLOCK.fullmatch(value.strip()) is not None)


def _has_clock(values: list[Any]) -> bool:
    """Return True if a list contains times such as "00:00:12"."""
    return any(":" in str(part) for part in values)


def _seconds(value: Any, where: str) -> float:
    """Return a number of seconds or frames, from a number or a clock's time."""
    text = str(value).strip()
    clock = _CLOCK.fullmatch(text)
    if clock:
        hours, minutes, seconds = ((part or "0").replace(",", ".") for part in clock.groups())
        return 3600 * float(hours) + 60 * float(minutes) + float(seconds)
    try:
        number = math.nan if isinstance(value, bool) else float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise LmmsEgoplanError(f"{where}: {quoted(value)} is no time; {_HOW}")
    return number


def read_training(path: Path) -> list[Item]:
    """Read a file of training data.

    Raises:
        LmmsEgoplanError: The file cannot be read, is damaged, or a record has neither a video id
            nor a text to compare.
    """
    items = [item for where, record in _records(path) for item in _items_of_record(record, where)]
    if items:
        return items
    raise LmmsEgoplanError(
        f"{path}: no video ids, and no questions with answers; {_KEYS['expected']}"
    )


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file with their positions."""
    text = read_text(path, "training data")
    if not text.lstrip().startswith(("[", "{")):
        yield from ((f"{path}, {number}", row) for number, row in enumerate(_rows(path), 1))
    elif _is_json_lines(text):
        yield from (
            (where, parse(where, line, _KEYS["expected"])) for where, line in read_lines(path)
        )
    else:
        content = parse(str(path), text, _KEYS["expected"])
        if isinstance(content, list):
            yield from ((f"{path}, {number}", record) for number, record in enumerate(content, 1))
        else:
            yield str(path), content


def _is_json_lines(text: str) -> bool:
    """Return True if the first line is a whole object, and more lines follow."""
    first, *more = text.strip().split("\n", 1)
    try:
        return bool(more) and isinstance(decode(first), dict)
    except ValueError:
        return False


def _items_of_record(record: Any, where: str) -> list[Item]:
    items = [*items_of(record, where)]
    if items:
        return items
    raise LmmsEgoplanError(
        f"{where}: no video id, and no question with an answer; {_KEYS['expected']}"
    )


def _rows(path: Path) -> list[dict[str, str]]:
    rows = [cells for _, cells in read_csv(path, "training data", strict=True)]
    names = {name.strip().lower() for name in rows[0]} if rows else set()
    for mark in ";\t|" if rows else "":
        columns = {name.strip().lower() for name in ",".join(rows[0]).split(mark)}
        if len(columns) > 1 and columns.intersection(_KEYS["video"] + _KEYS["question"]):
            raise LmmsEgoplanError(
                f"{path}, line 1: columns are separated by {quoted(mark)}; separate them by commas"
            )
    has_texts = names.intersection(_KEYS["action"]) and names.intersection(
        _KEYS["goal"] + _KEYS["question"]
    )
    if has_texts or names.intersection(_KEYS["video"]):
        return [dict(zip(rows[0], cells, strict=False)) for cells in rows[1:]]
    # A plain list has an id or a path per line.
    return (
        [{"video": cells[0]} for cells in rows]
        if all(re.fullmatch(r"[^\s,]+", ",".join(x)) for x in rows)
        else []
    )


def items_of(value: Any, where: str, video: str = "", goal: str = "") -> Iterator[Item]:
    """Yield a record, and the records that it contains.

    Args:
        value: The record, or a list of records.
        where: Position of the record.
        video, goal: Video and goal of the record that contains it.

    Raises:
        LmmsEgoplanError: a time or a conversation is not read.
    """
    if isinstance(value, list):
        for number, part in enumerate(value, 1):
            yield from items_of(part, f"{where}, {number}", video, goal)
    elif isinstance(value, dict):
        row = {str(key).strip().lower(): part for key, part in value.items()}
        exchanges = [*_exchanges(row, where)]
        names = _videos(row)
        video = names[0] if names else video
        goal = _text(row, "goal") or goal
        nested: list[Item] = []
        for key in (key for key in row if key not in _TEXT_LISTS):
            of_part = canonical(key) if re.fullmatch(_KEYS["id"], key) else video
            parts = [*items_of(row[key], f"{where}, {key}", of_part, goal)]
            if (
                not parts
                and row[key]
                and isinstance(row[key], list | dict)
                and re.fullmatch(_KEYS["question_key"], key)
            ):
                raise LmmsEgoplanError(
                    f"{where}, {key}: not read; expected a list of objects with question and answer"
                )
            nested += parts
        span = span_of(video, row, where) if video else None
        inner = [item.span for item in nested if item.span]
        # A question shows its past actions, too. The parts of other videos say more than the
        # video's own times.
        is_question = "current_observation_frame" in row
        if span and is_question:
            span = min([span, *inner])[0], span[1]
        if not exchanges and (question := _question(row)):
            exchanges = [(question, _answer(row, question, where))]
        for question, action in exchanges or [("", _text(row, "action"))]:
            has_place = (
                video and (names or span or action) and (is_question or not (names and inner))
            )
            if has_place or question or (goal and action and not video):
                yield Item(video, span, goal, action, where, question)
        yield from (Item(name, span, goal, "", where) for name in names[1:])
        yield from nested


def _videos(row: Mapping[str, Any]) -> list[str]:
    """List the ids of a record's videos: its paths and names, and images whose paths have an id."""
    names: list[str] = []
    turns = (
        turn
        for key in _KEYS["turns"]
        if key in row
        for turn in _list(row[key])
        if isinstance(turn, dict)
    )
    parts = (part for turn in turns for key in _KEYS["content"] for part in _list(turn.get(key)))
    for holder in (row, *(part for part in parts if isinstance(part, dict))):
        for kind in ("video", "image"):
            texts = next(
                filter(None, (_texts(holder[key]) for key in _KEYS[kind] if key in holder)), []
            )
            names += [
                canonical(text)
                for text in texts
                if kind == "video" or re.search(_KEYS["id"], text.casefold())
            ]
    return [*dict.fromkeys(filter(None, names))]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [
        text
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str) and text.strip()
    ]


def _text(row: Mapping[str, Any], kind: str) -> str:
    texts = (row[key] for key in _KEYS[kind] if key in row)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _question(row: Mapping[str, Any]) -> str:
    """Return all texts of a record's question."""
    return "\n".join(
        row[key] for key in _KEYS["question"] if isinstance(row.get(key), str) and row[key].strip()
    )


def _answer(row: Mapping[str, Any], question: str, where: str) -> str:
    """Return the text of a question's answer; "" if there is none."""
    keys = (*_KEYS["action"], *(["a"] if "q" in row else []))
    key = next((key for key in keys if not _is_missing(row.get(key)) and row[key] != []), None)
    if key is None:
        unread = [
            key
            for key in row
            if re.fullmatch(_KEYS["answer_key"], key) and not _is_missing(row[key])
        ]
        if unread:
            raise LmmsEgoplanError(
                f"{where}, {unread[0]}: not read; write the answer's text under the key answer"
            )
        return ""
    if not isinstance(row[key], str | int | float):
        raise LmmsEgoplanError(f"{where}, {key}: the answer is not read; write one text")
    return answer_of(question, str(row[key]), f"{where}, {key}", _options(row))


def _options(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that a record lists, by letter.

    If the texts contain their numbers, return them by number.
    """
    listed = next(
        (row[key] for key in _KEYS["options"] if isinstance(row.get(key), str | list | dict)), None
    )
    if isinstance(listed, str):
        return options_in(listed)
    if listed is None:
        listed = {
            key[-1]: value
            for key, value in row.items()
            if re.fullmatch(r"(choice|option)_?[a-z]", key)
        }
    marked: dict[str, str] = {}
    if isinstance(listed, list):
        marked = options_in("\n".join(text for text in listed if isinstance(text, str)))
        listed = {chr(ord("a") + index): value for index, value in enumerate(listed)}
    texts = {
        str(letter).lower(): without_mark(value)
        for letter, value in listed.items()
        if isinstance(value, str)
    }
    return texts | marked


def _exchanges(row: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yield the answers of a record's turns, each with all texts before it."""
    question = _question(row)
    options = _options(row) or options_in(question)
    earlier = [question] if question else []
    for key in _KEYS["turns"]:
        if isinstance(row.get(key), str | dict) and key not in (
            *_KEYS["question"],
            *_KEYS["action"],
        ):
            raise LmmsEgoplanError(f"{where}, {key}: expected a list of turns")
        for number, turn in enumerate(_list(row.get(key)), 1):
            speaks, text = turns_of(turn, f"{where}, {key}, {number}", _KEYS)
            if speaks == "asks":
                question = text
                options = options_in(text) or options
            elif speaks == "answers" and question:
                yield (
                    "\n".join(earlier),
                    answer_of(question, text, f"{where}, {key}, {number}", options),
                )
            earlier.append(text)
