"""The narrations that steps are made of: Ego4D's ``narration.json``, read and checked (sec. 3.3)."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.construction.ego4d import (
    NO_NARRATIONS,
    NO_TIME,
    is_time,
    narrated_passes,
    read_narrated_videos,
    sentence_problem,
    summaries,
    without_wearer,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import is_text, shown

_TAG = re.compile(r"#\s*(?=[a-z])", re.IGNORECASE)
_UNSURE = re.compile(r"#\s*unsure\b", re.IGNORECASE)
_ACTOR = re.compile(r"^c\s+", re.IGNORECASE)

SECOND_PASS = "second pass over the same video"
REPEATED = "same narration at the same time"


@dataclass(frozen=True)
class Narration:
    """One narration.

    number: its place in time among its video's, from 1.
    seconds: its time in the video.
    text: in one line, without tags: "C picks a pan".
    problem: why no step is made of it, though it is context of others; "" for nothing.
    """

    number: int
    seconds: float
    text: str
    problem: str = ""

    @property
    def action(self) -> str:
        """The camera wearer's action: "picks a pan", as in Table 2."""
        return _ACTOR.sub("", self.text)


@dataclass(frozen=True)
class NarratedVideo:
    """A video's narrations by time, and the texts that sum up its parts."""

    narrations: tuple[Narration, ...]
    summaries: tuple[str, ...]


def read_narrations(path: Path, uids: Collection[str]) -> tuple[dict[str, NarratedVideo], list[Rejection]]:
    """Read the narrations of some videos.

    Of a video's passes, which narrate the same, the first one with narrations counts. Narrations of other people than
    the camera wearer (``#O``), of unclear objects (``#unsure``), and in other letters than Latin stay as context.

    Args:
        path: Ego4D's ``narration.json``.
        uids: Ids of the videos.

    Raises:
        LmmsEgoplanError: The file cannot be read or has another form, or none of the videos has narrations with a time.
    """
    raws = read_narrated_videos(path)
    rejections: list[Rejection] = []
    videos: dict[str, NarratedVideo] = {}
    for uid in uids:
        where = f"{path}, {uid}"
        passes = list(narrated_passes(raws.get(uid)))
        if not passes:
            rejections.append(Rejection("narration", NO_NARRATIONS, where))
            continue
        (name, first), *others = passes
        rejections += [
            Rejection("narration", SECOND_PASS, f"{where}, {other}", f"{len(narrations)} narrations")
            for other, narrations in others
        ]
        timed: list[tuple[str, Any]] = []
        for number, raw in enumerate(first):
            place = f"{where}, {name}.narrations[{number}]"
            if problem := _untimed(raw):
                rejections.append(Rejection("narration", NO_TIME, place, problem))
            else:
                timed.append((place, raw))
        if timed:
            videos[uid] = NarratedVideo(_by_time(timed, rejections), tuple(summaries(raws[uid])))
    if not videos:
        empty = sum(uid in raws for uid in uids)
        raise LmmsEgoplanError(
            f"{path}: no narrations of any of the videos that Goal-Step and the folder have, such as "
            f"{', '.join(list(uids)[:3])}; the file has {len(raws)} videos, such as "
            f"{', '.join(map(shown, list(raws)[:3]))}, and {empty} of the wanted ones, "
            "without narrations that have a timestamp_sec"
        )
    return videos, rejections


def _untimed(raw: Any) -> str:
    """Return what is wrong with a narration's time; "" for nothing."""
    if not isinstance(raw, dict):
        return f"expected an object, found {shown(raw)}"
    time = raw.get("timestamp_sec")
    return "" if is_time(time) else f"timestamp_sec: expected seconds, a number from 0; found {shown(time)}"


def _by_time(raws: list[tuple[str, Any]], rejections: list[Rejection]) -> tuple[Narration, ...]:
    narrations: list[Narration] = []
    known: set[tuple[float, str]] = set()
    for place, raw in sorted(raws, key=lambda entry: entry[1]["timestamp_sec"]):
        text, seconds = raw.get("narration_text"), float(raw["timestamp_sec"])
        problem, detail = sentence_problem(text)
        plain = _TAG.sub("", _UNSURE.sub("something", without_wearer(text))) if is_text(text) else ""
        if plain and (seconds, plain.casefold()) in known:
            problem, detail, plain = REPEATED, shown(text), ""
        known.add((seconds, plain.casefold()))
        if problem:
            rejections.append(Rejection("narration", problem, place, detail))
        narrations.append(Narration(len(narrations) + 1, seconds, plain, problem))
    return tuple(narrations)
