"""Ask a language model where videos were taken, and whether indoors or outdoors."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Predicate
from pydantic import AfterValidator

from lmms_egoplan.benchmarks.egointent.diagnostics import encode_frames
from lmms_egoplan.benchmarks.egointent.records import ENVIRONMENTS, Label
from lmms_egoplan.construction.egointent.goalstep import Video
from lmms_egoplan.construction.egointent.narrations import NarratedVideo
from lmms_egoplan.construction.egointent.prompts import PROMPTS, ask, bullets, read_fields
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.media.frames import FrameError, frame_times, read_video_frames
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.progress import track
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.validation import Checked, Expected

# Number of frames for a video without summaries, and maximum number of texts that describe a video.
# Chosen here: the paper has no numbers.
_FRAMES = 4
_TEXTS = 40
_MOST_WORDS = 6


class _Reply(Checked):
    place: Annotated[
        Label,
        Predicate(lambda text: len(text.split()) <= _MOST_WORDS),
        Expected(f"a place in at most {_MOST_WORDS} words"),
    ]
    environment: Annotated[
        Label,
        AfterValidator(str.lower),
        Predicate(ENVIRONMENTS.__contains__),
        Expected(" or ".join(ENVIRONMENTS)),
    ]


Place = dict[str, str | None]
"""The scenario and the environment of a video: its place, and ``"indoor"`` or ``"outdoor"``.

Each is None if unknown.
"""


def find_places(
    videos: Sequence[Video],
    narrated: Mapping[str, NarratedVideo],
    folder: Path,
    settings: JudgeSettings,
) -> tuple[dict[str, Place], list[Rejection]]:
    """Ask where each video was taken.

    The sources are its summaries, or else frames, or else its narrations.

    Returns:
        The place of each video by uid, unknown without a usable reply; and the unusable replies.

    Raises:
        JudgeError: The language model cannot be reached.
    """
    prompts = {
        video.video_uid: _prompt(video, narrated[video.video_uid], folder)
        for video in track(videos, "Reading summaries or frames")
    }
    place_by_video, rejections = ask("place", prompts, read_place, settings, "places")
    # Retry videos whose prompt had images: some models read only text.
    text_prompts = {
        video.video_uid: _prompt_by_narrations(video, narrated[video.video_uid])
        for video in videos
        if isinstance(prompts[video.video_uid], Prompt) and video.video_uid not in place_by_video
    }
    settings.usage.lost -= len(text_prompts)  # only the second prompt counts
    places_from_texts, text_rejections = ask(
        "place", text_prompts, read_place, settings, "places without frames"
    )
    rejections = [
        rejection for rejection in rejections if rejection.where not in text_prompts
    ] + text_rejections
    unknown: Place = {"scenario": None, "environment": None}
    return dict.fromkeys(prompts, unknown) | place_by_video | places_from_texts, rejections


def _prompt(video: Video, narrated: NarratedVideo, folder: Path) -> str | Prompt:
    if narrated.summaries:
        return _prompt_by_texts(video, narrated.summaries)
    path = folder / f"{video.video_uid}.mp4"
    try:
        last = len(frame_times(path)) - 1
        frames = read_video_frames(path, sorted({*evenly_spaced(0, last, _FRAMES)}))
        return Prompt(
            PROMPTS["place_from_frames"].format(goal=video.goal_description), encode_frames(frames)
        )
    except FrameError:  # a damaged frame outside of all steps must not reject a step
        return _prompt_by_narrations(video, narrated)


def _prompt_by_narrations(video: Video, narrated: NarratedVideo) -> str:
    return _prompt_by_texts(
        video, [narration.text for narration in narrated.narrations if narration.text]
    )


def _prompt_by_texts(video: Video, texts: Sequence[str]) -> str:
    return PROMPTS["place"].format(goal=video.goal_description, texts=bullets(texts[:_TEXTS]))


def read_place(_: str, reply: Any) -> Place:
    """Read the place in a reply.

    Raises:
        ValueError: The reply has another form.
    """
    fields = read_fields(_Reply, reply)
    return {"scenario": fields.place, "environment": fields.environment}
