"""Read Ego4D's narrations (``narration.json``) and compute EgoVLP's segments."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, TypeGuard

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json, repetition
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, quoted

# Mean gap between narrations over all of Ego4D, in seconds, according to EgoVLP.
EGO4D_MEAN_GAP = 4.9
_PASSES = ("narration_pass_1", "narration_pass_2")
_WEARER = re.compile(r"\s*#\s*c\b\s*", re.IGNORECASE)

NO_TEXT = "narration without text"
NO_TIME = "narration without times"
OTHER_LETTERS = "narration in non-Latin letters"
OTHER_PERSON = "narration of someone other than the camera wearer"
UNSURE = "narration of an unclear object (#unsure)"
NO_NARRATIONS = "video without narrations"


def read_narrated_videos(path: Path, how: str | None = None) -> dict[str, Any]:
    """Read the entries of ``narration.json`` by video uid.

    Some releases wrap them in ``{"videos": ...}``.

    Args:
        how: Advice for the error about a file that is not JSON.

    Raises:
        LmmsEgoplanError: The file cannot be read, has another form, or has a duplicate key.
    """
    content = read_json(path, "narrations", how)
    videos = content
    if isinstance(content, dict):
        videos = content.get("videos", content)
    if not isinstance(videos, dict) or not videos:
        raise LmmsEgoplanError(
            f"{path}: expected an object with each video's narration_pass_1, as in Ego4D's "
            f"narration.json, found {quoted(content)}"
        )
    problem = repetition(content)
    if problem:
        raise LmmsEgoplanError(f"{path}: {problem}")
    return videos


def narrated_passes(video: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name and the narrations of each pass that has narrations.

    All passes narrate the whole video.
    """
    for name, content in _passes(video):
        narrations = content.get("narrations")
        if isinstance(narrations, list) and narrations:
            yield name, narrations


def _passes(video: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the content of each pass over a video."""
    if not isinstance(video, dict):
        return
    for name in _PASSES:
        content = video.get(name)
        if isinstance(content, dict):
            yield name, content


def timed_narrations(
    where: str, narrations: Sequence[Any], rejections: list[Rejection]
) -> list[tuple[float, str, Any]]:
    """Return time, position and text of narrations, ordered by time; reject those without a time.

    Args:
        where: File, video and pass.
        narrations: The narrations of a pass.
        rejections: Receives the rejections.
    """
    timed: list[tuple[float, str, Any]] = []
    for number, narration in enumerate(narrations):
        position = f"{where}.narrations[{number}]"
        if not isinstance(narration, dict):
            problem = f"expected an object, found {quoted(narration)}"
            rejections.append(Rejection("narration", NO_TIME, position, problem))
            continue
        time = narration.get("timestamp_sec")
        if not is_time(time):
            problem = f"timestamp_sec: expected seconds, a number from 0; found {quoted(time)}"
            rejections.append(Rejection("narration", NO_TIME, position, problem))
            continue
        timed.append((float(time), position, narration.get("narration_text")))
    return sorted(timed, key=itemgetter(0))


def summaries(video: Any) -> list[str]:
    """Return the distinct summaries of a video's parts, from all passes."""
    texts: list[str] = []
    for _, content in _passes(video):
        listed = content.get("summaries")
        if not isinstance(listed, list):
            continue
        for summary in listed:
            text = summary
            if isinstance(summary, dict):
                text = summary.get("summary_text")
            if is_text(text):
                texts.append(_one_line(text))
    return list(dict.fromkeys(texts))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def is_time(value: Any) -> TypeGuard[float]:
    """Return True if a value is a time in a video, in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < 1e7


def segments(
    times: Mapping[str, Sequence[float]], mean_gap: float | None = None
) -> dict[str, list[tuple[float, float]]]:
    """Compute EgoVLP's segments of narrations that have one time each (sec. 3.1).

    A segment is centred on the narration's time. Its length is the mean gap between the video's
    consecutive narrations, divided by the mean of this gap over all videos.

    >>> segments({"001e3e4e": [3.3444585, 3.3444585 + 3.6927135]}, EGO4D_MEAN_GAP)["001e3e4e"][0]
    (2.967651, 3.721266)

    Args:
        times: Seconds by video, in order.
        mean_gap: Mean gap over all videos, in seconds; None to compute it from `times`.

    Returns:
        Start and stop in seconds, at least 0, by video. Videos whose narrations all have the same
        time are absent.
    """
    gaps = {}
    for uid, seconds in times.items():
        if len(seconds) > 1 and seconds[0] < seconds[-1]:
            gaps[uid] = fmean(after - before for before, after in pairwise(seconds))
    if mean_gap is None and gaps:
        mean_gap = fmean(gaps.values())
    if not mean_gap:
        return {}
    by_video = {}
    for uid, gap in gaps.items():
        by_video[uid] = _centred(times[uid], length=gap / mean_gap)
    return by_video


def _centred(times: Sequence[float], length: float) -> list[tuple[float, float]]:
    """Return segments of this length, seconds, around times."""
    segments = []
    for time in times:
        start = round(time - length / 2, 6)
        stop = round(time + length / 2, 6)
        segments.append((max(0.0, start), stop))
    return segments


def without_wearer(text: str) -> str:
    """Return a narration in one line, without its tag for the camera wearer: "C picks a pan"."""
    tag = _WEARER.match(text)
    if tag is None:
        return _one_line(text)
    return _one_line(text[tag.end() :])


def sentence_problem(text: Any) -> tuple[str, str]:
    """Return why a narration is not a usable action of the camera wearer, and its text.

    Both are "" if it is usable.
    """
    problem = text_problem("narration_text", text)
    if problem[0]:
        return problem
    if not _WEARER.match(text):
        return OTHER_PERSON, quoted(text)
    action = re.sub(r"c\b", "", without_wearer(text), count=1, flags=re.IGNORECASE)
    if not _has_letters(action):
        return NO_TEXT, f"narration_text: {quoted(text)}"
    if "#unsure" in text.casefold():
        return UNSURE, quoted(text)
    return "", ""


def text_problem(field: str, text: Any) -> tuple[str, str]:
    """Return why a text cannot be used, and the text.

    Both are "" if it has letters, and all are Latin or accented.
    """
    if not is_text(text) or not _has_letters(text):
        return NO_TEXT, f"{field}: {quoted(text)}"
    for character in text:
        if character.isalpha() and not _is_latin(character):
            return OTHER_LETTERS, f"{field}: {quoted(text)}"
    return "", ""


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _is_latin(letter: str) -> bool:
    return unicodedata.name(letter, "").startswith("LATIN")
