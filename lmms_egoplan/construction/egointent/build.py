"""From narrations to steps of EgoIntent's form, which nobody has verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.prepare import find_step_footage
from lmms_egoplan.construction.egointent.candidates import PROPOSED, Candidates, propose, supported
from lmms_egoplan.construction.egointent.goalstep import NO_VIDEO, absent_videos, read_goalstep
from lmms_egoplan.construction.egointent.narrations import Step, find_steps, read_narrations
from lmms_egoplan.construction.egointent.places import Place, find_places
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.asking import Asking
from lmms_egoplan.judging.settings import language_model
from lmms_egoplan.rejections import Rejection, none_left
from lmms_egoplan.text import clean_text

# The paper names no language model that proposes candidates: ours.
DEFAULT_MODEL = "gpt-4o-2024-11-20"
NO_FOOTAGE = "step without footage"
# Keys that hold a field's candidates beside its first one.
CANDIDATE_KEYS = {name: f"{name}_candidates" for name in PROPOSED}


@dataclass(frozen=True)
class Built:
    """What was made of narrations.

    steps: Records of FORMAT.md's form, unverified, with the candidates of `CANDIDATE_KEYS` next to the labels.
    """

    steps: Sequence[dict[str, Any]]
    rejections: Sequence[Rejection]


def build(narrations: Path, goalstep: Path, videos: Path, llm: str | None, asking: Asking) -> Built:
    """Make steps of narrated videos, as sec. 3.3 makes them, up to what people do there.

    A language model is asked where each video was taken, for candidates of each step, and which of these are supported
    before the cut; see `ask_json`. Its replies are kept in the cache of judgements.

    Args:
        narrations: Ego4D's ``narration.json``.
        goalstep: Goal-Step's annotations of the same videos.
        videos: Folder with ``<video_uid>.mp4``; missing videos are left out.
        llm: The language model; by default that of the environment, else `DEFAULT_MODEL`.
        asking: How the language model is asked.

    Raises:
        LmmsEgoplanError: A file is wrong, no step comes out, or the language model is not set or cannot be asked.
    """
    settings = language_model(DEFAULT_MODEL, llm, asking)
    loaded = read_goalstep(goalstep)
    absent = absent_videos(loaded, videos)
    present = [video for video in loaded if video.video_uid not in absent]
    rejections = [Rejection("video", NO_VIDEO, uid) for uid in absent]
    narrated, unread = read_narrations(narrations, [video.video_uid for video in present])
    steps, unmade = find_steps(present, narrated)
    footage, lost = find_step_footage(steps, videos)
    rejections += [*unread, *unmade]
    for video in lost:
        first = video.ids[0]
        other = f"first of this video's steps without footage, {first}: {video.reason}"
        rejections += [
            Rejection("step", NO_FOOTAGE, step_id, video.reason if step_id == first else other) for step_id in video.ids
        ]
    steps = [step for step in steps if step.step_id in footage]
    proposed, unproposed = propose(steps, settings)
    candidates, unsupported = supported(steps, proposed, settings)
    steps = [step for step in steps if step.step_id in candidates]
    uids = {step.video_id for step in steps}
    places, unplaced = find_places([x for x in present if x.video_uid in uids], narrated, videos, settings)
    settings.asking.finish_estimate()
    rejections += [*unproposed, *unsupported, *unplaced]
    if not steps:
        raise LmmsEgoplanError(f"{narrations}: no step comes out. {none_left(rejections)}")
    return Built([_record(step, candidates[step.step_id], places[step.video_id]) for step in steps], rejections)


def rejections_path(out: Path) -> Path:
    """Return where rejections are written, next to the steps."""
    return out.with_name(f"{out.stem}.rejections.jsonl")


def write(built: Built, out: Path) -> None:
    """Write the steps as JSON Lines, and the rejections next to them; each file whole or not at all.

    Raises:
        OSError: The files cannot be written.
    """
    write_whole(rejections_path(out), clean_text(json_lines(map(vars, built.rejections))))
    write_whole(out, clean_text(json_lines(built.steps)))


def _record(step: Step, candidates: Candidates, place: Place) -> dict[str, Any]:
    return {
        "step_id": step.step_id,
        "video_id": step.video_id,
        "start_sec": step.start_sec,
        "end_sec": step.end_sec,
        "local_intent": step.narration.action,
        **{name: texts[0] for name, texts in candidates.items()},
        "scenario": place.scenario,
        "environment": place.environment,
        "event": step.video.event,
        "goal": step.video.goal_description,
        "unverified": True,
        "origin": "built",
        **{CANDIDATE_KEYS[name]: texts for name, texts in candidates.items()},
    }
