"""Write an episode as files: its data, a web page, and a video."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from PIL import Image, ImageDraw

from lmms_egoplan.files import write_whole
from lmms_egoplan.media.frames import write_video
from lmms_egoplan.media.image_files import write_jpeg
from lmms_egoplan.outputs import results_of
from lmms_egoplan.planner.planner import Episode, Step

_RECORD = "episode.json"
_PAGE = "index.html"
_FILM = "episode.mp4"
FILES = (_RECORD, _PAGE, _FILM)
"""The files of an episode, except the pictures of its steps."""

_FILM_FPS = 8
_FILM_WIDTH = 640
# Number of video frames for the view before an action, and for the last view.
_STILL_FRAMES = 8
_CAPTION_HEIGHT = 40
_LINE_HEIGHT = 14
_MARGIN = 6
_JPEG_QUALITY = 90


def write_episode(episode: Episode, out: Path, **run: Any) -> Path:
    """Write an episode as page, record and video, and return the page's path.

    The files are ``episode.json``, ``index.html`` with a picture per step, and ``episode.mp4``.

    Args:
        out: Output folder, created if missing. An earlier episode is replaced, see `results_of`.
        run: Further facts to write, such as the model's name.

    Raises:
        OSError: A file cannot be written.
    """
    views = [step.view for step in episode.steps] + (
        [episode.last_view] if episode.last_view else []
    )
    pictures = [f"frames/{number:03d}.jpg" for number in range(1, len(views) + 1)]
    content = {
        **run,
        "goal": episode.goal,
        "environment": episode.environment,
        "end": episode.end,
        "success": episode.is_success,
        "problem": episode.problem,
        "steps": [
            _row(step, picture) for step, picture in zip(episode.steps, pictures, strict=False)
        ],
    }
    environment = Environment(
        loader=PackageLoader("lmms_egoplan.planner"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    last = pictures[-1] if episode.last_view else None
    page = environment.get_template("episode.html").render(
        content, run=run, last=last, has_film=bool(views)
    )
    with results_of(out) as results:
        for name, view in zip(pictures, views, strict=True):
            write_jpeg(results / name, view, _JPEG_QUALITY)
        write_whole(results / _RECORD, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        write_whole(results / _PAGE, page)
        if views:
            write_video(results / _FILM, _film(episode, views[0].size), _FILM_FPS)
    return out / _PAGE


def _row(step: Step, picture: str) -> dict[str, Any]:
    return {
        "step": step.number,
        "picture": picture,
        "proposals": [vars(proposal) for proposal in step.proposals],
        "tried": step.proposals.index(step.executed),
        "changed": step.outcome.changed,
        "outcome": step.outcome.message,
        "done": step.outcome.real_action,
        "model_seconds": round(step.model_seconds, 3),
        "action_seconds": round(step.action_seconds, 3),
    }


def _film(episode: Episode, view_size: tuple[int, int]) -> Iterator[Image.Image]:
    width = min(view_size[0], _FILM_WIDTH)
    size = width, round(view_size[1] * width / view_size[0])
    for step in episode.steps:
        action = f"{step.number}. {step.executed.action or step.executed.text}"
        outcome = step.outcome
        for _ in range(_STILL_FRAMES):
            yield _captioned(step.view, size, action, "" if outcome.clip else outcome.message)
        for frame in outcome.clip:
            yield _captioned(frame, size, action, outcome.message)
    if episode.last_view:
        for _ in range(_STILL_FRAMES):
            yield _captioned(episode.last_view, size, episode.goal, episode.end)


def _captioned(frame: Image.Image, size: tuple[int, int], *lines: str) -> Image.Image:
    width, height = size
    canvas = Image.new("RGB", (width, height + _CAPTION_HEIGHT), "black")
    canvas.paste(frame.resize(size), (0, 0))
    draw = ImageDraw.Draw(canvas)
    for number, line in enumerate(lines):
        # Pillow's font has no others
        text = " ".join(line.split()).encode("latin-1", "replace").decode("latin-1")
        while len(text) > 3 and draw.textlength(text) > width - 2 * _MARGIN:
            text = f"{text[:-4]}..."
        draw.text((_MARGIN, height + _MARGIN + number * _LINE_HEIGHT), text, fill="white")
    return canvas
