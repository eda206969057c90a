"""Build steps in EgoIntent's format from narrations. Their labels are unverified."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.egointent.prepare import find_step_footage
from lmms_egoplan.benchmarks.egointent.prompts import OUTCOME_KEY
from lmms_egoplan.construction.egointent.candidates import PROPOSED, Candidates, propose, supported
from lmms_egoplan.construction.egointent.goalstep import NO_VIDEO, absent_videos, read_goalstep
from lmms_egoplan.construction.egointent.narrations import Step, find_steps, read_narrations
from lmms_egoplan.construction.egointent.places import Place, find_places
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.printing import finish_estimate
from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
from lmms_egoplan.judging.usage import LlmUsage
from lmms_egoplan.rejections import Rejection, counted, none_left
from lmms_egoplan.text import clean_text

NO_FOOTAGE = "step without footage"
# Keys for all candidates of a field, next to its label.
CANDIDATE_KEYS = {name: f"{name}_candidates" for name in PROPOSED}


def build(
    narrations: Path, goalstep: Path, videos: Path, llm: str | None, usage: LlmUsage
) -> tuple[list[dict[str, Any]], list[Rejection]]:
    """Build steps from narrated videos as in sec. 3.3, except for the revision by people.

    A language model names the place of each video, proposes candidates for each step, and checks
    which candidates are supported before the cut; see `ask_json`. Its replies are cached with the
    judgements.

    Args:
        narrations: Ego4D's ``narration.json``.
        goalstep: Goal-Step's annotations of the same videos.
        videos: Folder with ``<video_uid>.mp4``; missing videos are skipped.
        llm: Name of the language model. None means the environment's, or else `DEFAULT_MODEL`.
        usage: Options and counts of requests to the language model.

    Returns:
        Records in FORMAT.md's format, unverified, with the candidates under `CANDIDATE_KEYS` next
        to the labels; and what was rejected.

    Raises:
        LmmsEgoplanError: A file is invalid, no step is left, or the language model is not set or
            cannot be reached.
    """
    settings = language_model(DEFAULT_MODEL, llm, usage)
    loaded = read_goalstep(goalstep)
    absent = absent_videos(loaded, videos)
    present = [video for video in loaded if video.video_uid not in absent]
    rejections = [Rejection("video", NO_VIDEO, uid) for uid in absent]
    narrated, rejected_narrations = read_narrations(
        narrations, [video.video_uid for video in present]
    )
    steps, rejected_steps = find_steps(present, narrated)
    footage, missing = find_step_footage(steps, videos)
    rejections += [*rejected_narrations, *rejected_steps]
    for video in missing:
        first_id = video.ids[0]
        reference_to_first = (
            f"the same as for {first_id}, this video's first step without footage: {video.reason}"
        )
        rejections += [
            Rejection(
                "step",
                NO_FOOTAGE,
                step_id,
                video.reason if step_id == first_id else reference_to_first,
            )
            for step_id in video.ids
        ]
    steps = [step for step in steps if step.step_id in footage]
    proposed, without_candidates = propose(steps, settings)
    candidates, without_support = supported(steps, proposed, settings)
    steps = [step for step in steps if step.step_id in candidates]
    uids = {step.video_id for step in steps}
    place_by_video, without_place = find_places(
        [video for video in present if video.video_uid in uids], narrated, videos, settings
    )
    finish_estimate(settings.usage)
    rejections += [*without_candidates, *without_support, *without_place]
    if not steps:
        raise LmmsEgoplanError(f"{narrations}: no steps left. {none_left(rejections)}")
    return [
        _record(step, candidates[step.step_id], place_by_video[step.video_id]) for step in steps
    ], rejections


def rejections_path(out: Path) -> Path:
    """Return the path of the rejections, next to the steps."""
    return out.with_name(f"{out.stem}.rejections.jsonl")


def write(steps: Sequence[dict[str, Any]], rejections: Sequence[Rejection], out: Path) -> None:
    """Write the steps as JSON Lines, and the rejections next to them.

    Each file is written completely or not at all.

    Raises:
        OSError: The files cannot be written.
    """
    write_whole(rejections_path(out), clean_text(json_lines(map(asdict, rejections))))
    write_whole(out, clean_text(json_lines(steps)))


def summary_lines(
    steps: Sequence[Mapping[str, Any]], rejections: Sequence[Rejection], out: Path, videos: Path
) -> Iterator[str]:
    """Yield the lines that the command prints after `write`, the last one with the next command."""
    reasons = "; ".join(f"{count}: {reason}" for reason, count in counted(rejections))
    yield f"Rejected, see {rejections_path(out)}: {reasons or 'nothing'}"
    without_place = sum(step["environment"] is None for step in steps)
    if without_place:
        yield f"Steps without scenario and environment, to be named by annotators: {without_place}"
    num_videos = len({step["video_id"] for step in steps})
    yield f"{len(steps)} steps of {num_videos} videos, unverified, written to {out}"
    yield f"Next: lmms-egoplan annotate egointent {out} --videos {videos} --db labels.sqlite"


def _record(step: Step, candidates: Candidates, video_place: Place) -> dict[str, Any]:
    return {
        "step_id": step.step_id,
        "video_id": step.video_id,
        "start_sec": step.start_sec,
        "end_sec": step.end_sec,
        OUTCOME_KEY: step.outcome_sec,
        "local_intent": step.narration.action,
        **{name: texts[0] for name, texts in candidates.items()},
        **video_place,
        "event": step.video.event,
        "goal": step.video.goal_description,
        "unverified": True,
        "origin": "built",
        **{CANDIDATE_KEYS[name]: texts for name, texts in candidates.items()},
    }
