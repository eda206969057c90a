"""Read videos, times and texts of a model's training data. Layouts are recognised by their content.

A file is a tree of records: rows of a CSV file, lines of a list, JSON, or JSON Lines. A record
inherits the video and the goal of the record that contains it. ``training_files.yaml`` lists the
keys. Prepared questions are read in the same way.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, frames_per_second
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, parse, read_csv, read_lines, read_text
from lmms_egoplan.overlap.conversations import answer_of, options_in, turns_of, without_mark
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.validation import quoted

_KEYS: dict[str, Any] = module_yaml(__file__)
_TEXT_LISTS = frozenset((*_KEYS["turns"], *_KEYS["options"]))
# Keys of questions. A record whose list under such a key is not read is refused.
_QUESTION_KEY = re.compile(
    r"(q_?as?|qa_pairs|questions?|quer(y|ies)|dialogs?|dialogues?|chats?|turns|rounds|history)"
    r"(_.*)?"
)
# Keys of answers that are not read. A question without a known answer is refused if it has one.
_ANSWER_KEY = re.compile(
    r"(?!.*(negative|wrong|reject)).*(answer|label|correct|gold|truth|target|reply).*"
)
# Keys that name a time but are not read.
_TIME_KEY = re.compile(
    r"""
    (^|.*_)
    (t?start|stop|begin|t?end|finish|time|timestamp|interval|segment|span)
    (s|time|sec|seconds|frame|ms)?
    (_.*|$)
    | from | to | t\d
    """,
    re.VERBOSE,
)
# Keys that name a time if their value is a list of times.
_TIMES_KEY = re.compile(r"(.*_)?(window|clip|moment|range)s?")
# An id in a path or in a part's id, such as a clip's.
_ID = re.compile(
    r"""
    (?:grp-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}  # Ego4D's UUID
    | (?<![a-z\d])p\d\d_\d{2,3}(?!\d)                     # EPIC-KITCHENS' participant and video
    """,
    re.VERBOSE,
)
_VIDEO_FILE = re.compile(r".*[\\/]|\.(mp4|mkv|mov|avi|webm)$")
_EXPECTED = (
    "expected EPIC-KITCHENS' CSV, Ego4D's narration.json, Goal-Step, EgoPlan-IT, conversations, "
    "one video id per line, or CSV, JSON or JSON Lines with video_id and, if known, start_sec and "
    "end_sec, or with question and answer"
)
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

    >>> canonical("videos/P01_101.MP4"), canonical("a/b.mp4")
    ('p01_101', 'b')
    >>> canonical("ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2")
    'ca6e9ec9-46ac-4a02-8034-7c31157dc52c'
    """
    ids = _ID.findall(name.casefold())
    if ids:
        return ids[-1]
    return _VIDEO_FILE.sub("", name.strip().casefold())


def span_of(video: str, row: Mapping[str, Any], where: str = "") -> tuple[float, float] | None:
    """Return start and stop of a record in seconds; None if it has no times.

    Raises:
        LmmsEgoplanError: a time is invalid, has no partner, or is under an unknown key.

    >>> span_of("p01_13", {"start_frame": 60, "stop_frame": 119})
    (1.0, 2.0)
    >>> span_of("x", {"start": "00:01:02.5", "end": 63})
    (62.5, 63.0)
    """
    times = {key: value for key, value in row.items() if not _is_missing(value)}
    source = EPIC_KITCHENS if re.match(r"p\d\d_", video) else EGO4D
    fps = frames_per_second(source, video.upper())
    for first, last in _KEYS["times"]:
        if first in times and last in times:
            start = _seconds(times[first], f"{where}, {first}")
            stop = _seconds(times[last], f"{where}, {last}")
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
        if _names_time(key, value) and _is_time(value):
            raise LmmsEgoplanError(
                f"{where}, {key}: not read as a time; rename start and stop to start_sec "
                "and end_sec"
            )
    return None


def _names_time(key: str, value: Any) -> bool:
    """Return True if a key seems to name a time."""
    name = re.sub(r"\W+", "_", key)
    if _TIME_KEY.fullmatch(name):
        return True
    if not isinstance(value, list):
        return False
    return _TIMES_KEY.fullmatch(name) is not None or _has_clock(value)


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
    items: list[Item] = []
    for where, record in _records(path):
        items += _items_of_record(record, where)
    if items:
        return items
    raise LmmsEgoplanError(f"{path}: no video ids, and no questions with answers; {_EXPECTED}")


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the records of a file with their positions."""
    text = read_text(path, "training data")
    if text.lstrip().startswith(("[", "{")) and _is_json_lines(text):
        for where, line in read_lines(path):
            yield where, parse(where, line, _EXPECTED)
        return
    if text.lstrip().startswith(("[", "{")):
        content = parse(str(path), text, _EXPECTED)
        if not isinstance(content, list):
            yield str(path), content
            return
    else:
        content = _rows(path)
    for number, record in enumerate(content, 1):
        yield f"{path}, {number}", record


def _is_json_lines(text: str) -> bool:
    """Return True if the first line is a whole object, and more lines follow."""
    first, *more = text.strip().split("\n", 1)
    try:
        return bool(more) and isinstance(decode(first), dict)
    except ValueError:
        return False


def _items_of_record(record: Any, where: str) -> list[Item]:
    items = list(items_of(record, where))
    if items:
        return items
    raise LmmsEgoplanError(f"{where}: no video id, and no question with an answer; {_EXPECTED}")


def _rows(path: Path) -> list[dict[str, str]]:
    rows = [cells for _, cells in read_csv(path, "training data", strict=True)]
    if not rows:
        return []
    names = {name.strip().lower() for name in rows[0]}
    for mark in (";", "\t", "|"):
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
    if all(re.fullmatch(r"[^\s,]+", ",".join(cells)) for cells in rows):
        return [{"video": cells[0]} for cells in rows]
    return []


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
        yield from _items_of_row(row, where, video, goal)


def _items_of_row(row: Mapping[str, Any], where: str, video: str, goal: str) -> Iterator[Item]:
    """Yield the record of a row with keys in lower case, and the records that it contains."""
    exchanges = list(_exchanges(row, where))
    names = _videos(row)
    video = names[0] if names else video
    goal = _text(row, "goal") or goal
    nested: list[Item] = []
    for key, part in row.items():
        if key not in _TEXT_LISTS:
            nested += _nested_items(key, part, where, video, goal)
    span = span_of(video, row, where) if video else None
    inner = [item.span for item in nested if item.span]
    # A question shows its past actions, too. The parts of other videos say more than the video's
    # own times.
    is_question = "current_observation_frame" in row
    if span and is_question:
        earliest = min([span, *inner])
        span = earliest[0], span[1]
    if not exchanges:
        question = _question(row)
        if question:
            exchanges = [(question, _answer(row, question, where))]
        else:
            exchanges = [("", _text(row, "action"))]
    has_parts = bool(names and inner)
    for question, action in exchanges:
        has_content = bool(names or span or action)
        has_place = video and has_content and (is_question or not has_parts)
        if has_place or question or (goal and action and not video):
            yield Item(video, span, goal, action, where, question)
    for name in names[1:]:
        yield Item(name, span, goal, "", where)
    yield from nested


def _nested_items(key: str, part: Any, where: str, video: str, goal: str) -> list[Item]:
    """Return the records under a key.

    Raises:
        LmmsEgoplanError: The key should contain questions, but none is read.
    """
    video_of_part = canonical(key) if _ID.fullmatch(key) else video
    items = list(items_of(part, f"{where}, {key}", video_of_part, goal))
    if not items and part and isinstance(part, list | dict) and _QUESTION_KEY.fullmatch(key):
        raise LmmsEgoplanError(
            f"{where}, {key}: not read; expected a list of objects with question and answer"
        )
    return items


def _videos(row: Mapping[str, Any]) -> list[str]:
    """List the ids of a record's videos: its paths and names, and images whose paths have an id."""
    names: list[str] = []
    for holder in (row, *_parts_of_turns(row)):
        for text in _first_texts(holder, _KEYS["video"]):
            names.append(canonical(text))
        for text in _first_texts(holder, _KEYS["image"]):
            if _ID.search(text.casefold()):
                names.append(canonical(text))
    return list(dict.fromkeys(name for name in names if name))


def _parts_of_turns(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of the contents of a record's turns, such as media."""
    for key in _KEYS["turns"]:
        for turn in _list(row.get(key)):
            if isinstance(turn, dict):
                for content_key in _KEYS["content"]:
                    for part in _list(turn.get(content_key)):
                        if isinstance(part, dict):
                            yield part


def _first_texts(row: Mapping[str, Any], keys: Sequence[str]) -> list[str]:
    """Return the texts under the first of the keys that has any."""
    for key in keys:
        texts = _texts(row.get(key))
        if texts:
            return texts
    return []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str) and text.strip()]


def _text(row: Mapping[str, Any], kind: str) -> str:
    for key in _KEYS[kind]:
        text = row.get(key)
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _question(row: Mapping[str, Any]) -> str:
    """Return all texts of a record's question."""
    texts = (row.get(key) for key in _KEYS["question"])
    return "\n".join(text for text in texts if isinstance(text, str) and text.strip())


def _answer(row: Mapping[str, Any], question: str, where: str) -> str:
    """Return the text of a question's answer; "" if there is none."""
    keys = list(_KEYS["action"])
    if "q" in row:
        keys.append("a")
    key = next((key for key in keys if not _is_missing(row.get(key)) and row[key] != []), None)
    if key is None:
        for other, value in row.items():
            if _ANSWER_KEY.fullmatch(other) and not _is_missing(value):
                raise LmmsEgoplanError(
                    f"{where}, {other}: not read; write the answer's text under the key answer"
                )
        return ""
    if not isinstance(row[key], str | int | float):
        raise LmmsEgoplanError(f"{where}, {key}: the answer is not read; write one text")
    return answer_of(question, str(row[key]), f"{where}, {key}", _options(row))


def _options(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that a record lists, by letter.

    If the texts contain their numbers, return them by number.
    """
    values = (row.get(key) for key in _KEYS["options"])
    listed = next((value for value in values if isinstance(value, str | list | dict)), None)
    if isinstance(listed, str):
        return options_in(listed)
    marked: dict[str, str] = {}
    by_letter: dict[Any, Any] = {}
    if isinstance(listed, list):
        marked = options_in("\n".join(text for text in listed if isinstance(text, str)))
        for index, value in enumerate(listed):
            by_letter[chr(ord("a") + index)] = value
    elif isinstance(listed, dict):
        by_letter = listed
    else:
        for key, value in row.items():
            if re.fullmatch(r"(choice|option)_?[a-z]", key):
                by_letter[key[-1]] = value
    texts: dict[str, str] = {}
    for letter, value in by_letter.items():
        if isinstance(value, str):
            texts[str(letter).lower()] = without_mark(value)
    return texts | marked


def _exchanges(row: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Yield the answers of a record's turns, each with all texts before it."""
    question = _question(row)
    options = _options(row) or options_in(question)
    earlier = [question] if question else []
    text_keys = {*_KEYS["question"], *_KEYS["action"]}
    for key in _KEYS["turns"]:
        if isinstance(row.get(key), str | dict) and key not in text_keys:
            raise LmmsEgoplanError(f"{where}, {key}: expected a list of turns")
        for number, turn in enumerate(_list(row.get(key)), 1):
            turn_where = f"{where}, {key}, {number}"
            role, text = turns_of(turn, turn_where, _KEYS)
            if role == "asks":
                question = text
                options = options_in(text) or options
            elif role == "answers" and question:
                yield "\n".join(earlier), answer_of(question, text, turn_where, options)
            earlier.append(text)
