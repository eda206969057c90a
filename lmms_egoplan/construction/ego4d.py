"""Ego4D's narrations: the layout of ``narration.json``, and EgoVLP's segments."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, TypeGuard

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json, repetition
from lmms_egoplan.validation import is_text, shown

# The mean gap of narrations over all of Ego4D, in seconds, as EgoVLP has it.
EGO4D_MEAN_GAP = 4.9
_PASSES = ("narration_pass_1", "narration_pass_2")
_WEARER = re.compile(r"\s*#\s*c\b\s*", re.IGNORECASE)

NO_TEXT = "narration without text"
NO_TIME = "narration without times"
OTHER_LETTERS = "narration in other letters than Latin"
OTHER_PERSON = "narration of another person than the camera wearer"
UNSURE = "narration of an unclear object (#unsure)"
NO_NARRATIONS = "video without narrations"


def read_narrated_videos(path: Path, how: str | None = None) -> dict[str, Any]:
    """Read what ``narration.json`` has of each video, by its uid; some releases wrap it in ``{"videos": ...}``.

    Args:
        how: what to do about a file that is no JSON.

    Raises:
        LmmsEgoplanError: the file cannot be read, is of another form, or has a key twice.
    """
    content = read_json(path, "narrations", how)
    videos = content.get("videos", content) if isinstance(content, dict) else content
    if not isinstance(videos, dict) or not videos:
        raise LmmsEgoplanError(
            f"{path}: expected an object with each video's narration_pass_1, as Ego4D's narration.json; found "
            f"{shown(content)}"
        )
    if problem := repetition(content):
        raise LmmsEgoplanError(f"{path}: {problem}")
    return videos


def narrated_passes(video: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield names and narrations of a video's passes that have any; all of them narrate the same."""
    for name in _PASSES:
        narrated = video.get(name) if isinstance(video, dict) else None
        narrations = narrated.get("narrations") if isinstance(narrated, dict) else None
        if isinstance(narrations, list) and narrations:
            yield name, narrations


def summaries(video: Any) -> list[str]:
    """Return the distinct texts that summarise a video's parts, of all passes."""
    passes = [video.get(name) for name in _PASSES] if isinstance(video, dict) else []
    lists = [part.get("summaries") for part in passes if isinstance(part, dict)]
    raws: list[Any] = [raw for part in lists if isinstance(part, list) for raw in part]
    texts: list[Any] = [raw.get("summary_text") if isinstance(raw, dict) else raw for raw in raws]
    return list(dict.fromkeys(" ".join(text.split()) for text in texts if is_text(text)))


def is_time(value: Any) -> TypeGuard[float]:
    """Tell if a value is seconds in a video."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e7


def segments(
    times: Mapping[str, Sequence[float]], mean_gap: float | None = None
) -> dict[str, list[tuple[float, float]]]:
    """Compute EgoVLP's segments of narrations that have one time each (sec. 3.1).

    A segment is centred on the narration's time. It is as long as the mean gap of the video's consecutive narrations,
    divided by the mean of this gap over all videos.

    >>> segments({"001e3e4e": [3.3444585, 3.3444585 + 3.6927135]}, EGO4D_MEAN_GAP)["001e3e4e"][0]
    (2.967651, 3.721266)

    Args:
        times: seconds, by video, in order.
        mean_gap: over all videos, in seconds; None for that of these videos.

    Returns:
        Start and stop in seconds, from 0 on, of each video whose narrations are not all of one time.
    """
    gaps = {
        uid: fmean(after - before for before, after in pairwise(found)) for uid, found in times.items() if found[1:]
    }
    gaps = {uid: gap for uid, gap in gaps.items() if gap > 0}
    if mean_gap is None and gaps:
        mean_gap = fmean(gaps.values())
    return {
        uid: [
            (max(0.0, round(time - gap / mean_gap / 2, 6)), round(time + gap / mean_gap / 2, 6)) for time in times[uid]
        ]
        for uid, gap in gaps.items()
        if mean_gap
    }


def without_wearer(text: str) -> str:
    """Return a narration in one line, without its tag of the camera wearer: "C picks a pan"."""
    tag = _WEARER.match(text)
    return " ".join(text[tag.end() if tag else 0 :].split())


def sentence_problem(text: Any) -> tuple[str, str]:
    """Return why a narration is no usable action of the camera wearer, and its text; "" for nothing."""
    problem = text_problem("narration_text", text)
    if problem[0]:
        return problem
    if not _WEARER.match(text):
        return OTHER_PERSON, shown(text)
    said = re.sub(r"c\b", "", without_wearer(text), count=1, flags=re.IGNORECASE)
    if not any(map(str.isalpha, said)):
        return NO_TEXT, f"narration_text: {shown(text)}"
    return (UNSURE, shown(text)) if "#unsure" in text.casefold() else ("", "")


def text_problem(field: str, text: Any) -> tuple[str, str]:
    """Return why a text cannot be used, and the text; "" for nothing."""
    if not is_text(text) or not any(map(str.isalpha, text)):
        return NO_TEXT, f"{field}: {shown(text)}"
    return ("", "") if is_latin(text) else (OTHER_LETTERS, f"{field}: {shown(text)}")


def is_latin(text: str) -> bool:
    """Tell if all letters are Latin ones, including accents."""
    return all(unicodedata.name(letter, "").startswith("LATIN") for letter in text if letter.isalpha())
