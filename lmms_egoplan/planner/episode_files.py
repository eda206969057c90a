"""An episode as files: its numbers, a page to look at, and a film."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from PIL import Image, ImageDraw

from lmms_egoplan.media.frames import write_video
from lmms_egoplan.planner.planner import Episode, Step
from lmms_egoplan.storage import write_whole

_FILM_FPS = 8
# The view before an action, and the last one, are shown for so many frames.
_STILL_FRAMES = 8
_CAPTION_HEIGHT = 40
_JPEG_QUALITY = 90


def write_episode(episode: Episode, out: Path, **run: Any) -> Path:
    """Write ``episode.json``, ``index.html`` with a picture a step, and ``episode.mp4``; returns the page's path.

    Args:
        out: folder, made where it is absent; files of these names are replaced.
        run: what else to tell of it, such as the model's name.

    Raises:
        OSError: a file cannot be written.
    """
    (out / "frames").mkdir(parents=True, exist_ok=True)
    views = [step.view for step in episode.steps] + ([episode.last_view] if episode.last_view else [])
    pictures = [f"frames/{number:03d}.jpg" for number in range(1, len(views) + 1)]
    for name, view in zip(pictures, views, strict=True):
        _write_picture(out / name, view)
    content = {
        **run,
        "goal": episode.goal,
        "environment": episode.environment,
        "end": episode.end,
        "success": episode.is_success,
        "problem": episode.problem,
        "steps": [_row(step, picture) for step, picture in zip(episode.steps, pictures, strict=False)],
    }
    write_whole(out / "episode.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    if views:
        write_video(out / "episode.mp4", _film(episode), _FILM_FPS)
    environment = Environment(
        loader=PackageLoader("lmms_egoplan.planner"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    last = pictures[-1] if episode.last_view else None
    page = environment.get_template("episode.html").render(content, run=run, last=last, has_film=bool(views))
    write_whole(out / "index.html", page)
    return out / "index.html"


def _row(step: Step, picture: str) -> dict[str, Any]:
    return {
        "step": step.number,
        "picture": picture,
        "proposals": [vars(proposal) for proposal in step.proposals],
        "tried": step.proposals.index(step.tried),
        "changed": step.outcome.changed,
        "outcome": step.outcome.message,
        "done": step.outcome.done,
        "model_seconds": round(step.model_seconds, 3),
        "action_seconds": round(step.action_seconds, 3),
    }


def _film(episode: Episode) -> Iterator[Image.Image]:
    size = episode.steps[0].view.size if episode.steps else None
    for step in episode.steps:
        caption = f"{step.number}. {step.tried.action or step.tried.text}\n{step.outcome.message}"
        for frame in [step.view] * _STILL_FRAMES + list(step.outcome.clip):
            yield _captioned(frame, size or frame.size, caption)
    if episode.last_view:
        for _ in range(_STILL_FRAMES):
            yield _captioned(episode.last_view, size or episode.last_view.size, f"{episode.goal}: {episode.end}")


def _captioned(frame: Image.Image, size: tuple[int, int], caption: str) -> Image.Image:
    canvas = Image.new("RGB", (size[0], size[1] + _CAPTION_HEIGHT), "black")
    canvas.paste(frame.resize(size), (0, 0))
    ImageDraw.Draw(canvas).multiline_text((6, size[1] + 6), caption, fill="white")
    return canvas


def _write_picture(path: Path, image: Image.Image) -> None:
    content = io.BytesIO()
    image.save(content, format="JPEG", quality=_JPEG_QUALITY)
    write_whole(path, content.getvalue())
