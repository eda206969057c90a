"""Draw the gallery's pictures: a strip of frames for each question."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from joblib import cpu_count
from loguru import logger
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from lmms_egoplan.files import whole_file
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.report.document import Item

Pictures = Literal["all", "some", "none"]
"""The questions to draw pictures of, see `write_gallery`."""
SOME = 100
"""Number of questions of each benchmark that get pictures with ``some``."""
_FRAMES = 12
_FRAME_SIZE = (320, 200)
_ONLY_FRAME_SIZE = (720, 450)
_QUALITY = 78


def strip_name(item: Item) -> str:
    """Return the file name of a question's strip.

    Questions with the same key but other content have other names.
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", item.key).strip("_")[:80]
    identity = json.dumps(
        [item.key, item.question, item.choices, item.gold, item.references], sort_keys=True
    )
    return f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jpg"


def write_strips(
    folder: Path,
    items: Sequence[Item],
    progress: Callable[[str, int, int], None],
    pictures: Pictures,
) -> dict[str, int]:
    """Write missing strips on all cores. Each core has the images of one question in memory.

    Returns:
        Number of questions without a strip, by the reason.
    """
    folder.mkdir(parents=True, exist_ok=True)
    available = [item for item in items if item.images is not None]
    if pictures == "all":
        chosen = available
    elif pictures == "some":
        chosen = _some(available)
    else:
        chosen = []
    missing = [item for item in available if stored_strip(folder, item) is None]
    wanted = {id(item) for item in chosen}
    todo = [item for item in missing if id(item) in wanted]
    unreadable = 0
    pool = ThreadPoolExecutor(cpu_count(), thread_name_prefix="strips")
    try:
        outcomes = pool.map(lambda item: _write_strip(folder / strip_name(item), item), todo)
        for done, is_written in enumerate(outcomes, 1):
            unreadable += not is_written
            progress("pictures", done, len(todo))
    finally:
        pool.shutdown(cancel_futures=True)
    counts = {
        "were not asked for (--pictures all draws them)": len(missing) - len(todo),
        "have an unreadable source": unreadable,
        "have no source: the prepared data or media are missing": len(items) - len(available),
    }
    return {reason: count for reason, count in counts.items() if count}


def _some(items: Iterable[Item]) -> list[Item]:
    """Return up to `SOME` questions of each benchmark, informative ones first."""
    of_benchmark: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: not _is_informative(item)):
        of_benchmark.setdefault(item.benchmark, []).append(item)
    return [item for of_one in of_benchmark.values() for item in of_one[:SOME]]


def _is_informative(item: Item) -> bool:
    """Return true if runs disagree on a question, or all get it wrong."""
    verdicts = {answer.verdict for answer in item.answers.values()} - {"unscored"}
    return len(verdicts) > 1 or verdicts == {"wrong"}


def _write_strip(path: Path, item: Item) -> bool:
    """Write a question's pictures side by side into one file.

    Its comment has their numbers and sizes.

    Returns:
        False if there are no pictures, or they cannot be read.
    """
    try:
        images = item.images() if item.images else []
        box = _FRAME_SIZE if len(images) > 1 else _ONLY_FRAME_SIZE
        frames = [_small(images[number - 1], box) for number in _chosen(len(images))]
    except Exception as error:  # An unreadable picture must not end the report.
        logger.debug(f"No pictures of {item.key}: {type(error).__name__}: {error}")
        return False
    if not frames:
        return False
    sizes = [
        [number, *frame.size] for number, frame in zip(_chosen(len(images)), frames, strict=True)
    ]
    strip = Image.new(
        "RGB", (sum(width for _, width, _ in sizes), max(height for *_, height in sizes)), "white"
    )
    offset = 0
    for frame in frames:
        strip.paste(frame, (offset, 0))
        offset += frame.width
    with whole_file(path) as unfinished:
        strip.save(
            unfinished,
            "JPEG",
            quality=_QUALITY,
            comment=script_json({"of": len(images), "frames": sizes}),
        )
    return True


def _chosen(count: int) -> list[int]:
    """Return the numbers of evenly spaced images, from 1 to `count`."""
    return evenly_spaced(1, count, min(count, _FRAMES)) if count else []


def _small(frame: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Return an opaque copy that fits into `box`."""
    # Pillow decodes a file directly at a smaller size, which only works in place.
    if not isinstance(frame, ImageFile):
        frame = frame.copy()
    frame.thumbnail(box)
    if "A" not in frame.getbands() and "transparency" not in frame.info:
        return frame.convert("RGB")
    frame = frame.convert("RGBA")
    background = Image.new("RGBA", frame.size, "white")
    return Image.alpha_composite(background, frame).convert("RGB")


def stored_strip(folder: Path, item: Item) -> dict[str, Any] | None:
    """Return file and frames of a question's strip.

    None if it is missing or damaged, or the question has no images.
    """
    if item.images is None:
        return None
    path = folder / strip_name(item)
    try:
        with Image.open(path) as image:
            comment = json.loads(image.info["comment"])
            return {"file": path.name, "of": comment["of"], "frames": comment["frames"]}
    except (OSError, UnidentifiedImageError, KeyError, ValueError, TypeError):
        return None


def script_json(value: Any) -> str:
    """Format JSON in ASCII that cannot end its script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
