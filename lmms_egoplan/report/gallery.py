"""The gallery's files: the runs' answers, a hundred questions a file, and a strip of pictures for each question."""

import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger
from PIL import Image, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from lmms_egoplan.files import write_whole
from lmms_egoplan.media.sampling import evenly_spaced
from lmms_egoplan.outputs import delete
from lmms_egoplan.report.document import Item, ShownAnswer
from lmms_egoplan.report.tables import clean

# Called with the kind of work, the finished part and the total.
Progress = Callable[[str, int, int], None]

# Time for pictures in one report; finished strips are reused, so the next report continues.
IMAGE_SECONDS = 30.0

_CHUNK = 100
_THREADS = 2
_FRAMES = 12
_FRAME_SIZE, _ONLY_FRAME_SIZE = (320, 200), (720, 450)
_QUALITY = 78
# Characters of a question in the list.
_QUESTION = 400
_LETTERS = {"right": "r", "wrong": "w", "partly": "p", "unscored": "u"}


@dataclass(frozen=True)
class Gallery:
    """The page's data about the gallery.

    index: JSON of all questions for a script element; page.js reads it.
    questions: their number.
    pictured: questions with pictures; waiting, unreadable, absent: questions without, because time was up, they could
        not be read, or they are not available.
    """

    index: str
    questions: int
    pictured: int
    waiting: int
    unreadable: int
    absent: int


def write_gallery(
    out: Path, items: Sequence[Item], progress: Progress, picture_seconds: float = IMAGE_SECONDS
) -> Gallery:
    """Write ``gallery/`` under `out`.

    Strips of an earlier report are reused. Questions on which runs disagree, or that all get wrong, come first.

    Args:
        picture_seconds: time for reading and writing pictures.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = out / "gallery"
    fates = _write_strips(folder / "images", items, progress, picture_seconds)
    runs = list(dict.fromkeys(name for item in items for name in item.answers))
    places = {name: place for place, name in enumerate(runs)}
    strips = [_strip(folder / "images", item) for item in items]
    chunks = range(0, len(items), _CHUNK)
    for number, start in enumerate(chunks):
        details = [_details(item, places, strips[start + i]) for i, item in enumerate(items[start : start + _CHUNK])]
        write_whole(folder / f"{number}.js", f"reportChunk({number},{script_json(details)});\n")
        progress("questions", min(start + _CHUNK, len(items)), len(items))
    delete(path for path in folder.glob("*.js") if path.stem.isdecimal() and int(path.stem) >= len(chunks))
    pictured = sum(strip is not None for strip in strips)
    return Gallery(
        script_json(_index(items, runs, strips)), len(items), pictured, fates["late"], fates["damaged"], fates["absent"]
    )


def script_json(value: Any) -> str:
    """Format JSON in ASCII that cannot end its script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def strip_name(item: Item) -> str:
    """Return the file name of a question's strip; it differs for other data with the same key."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", item.key).strip("_")[:80]
    identity = json.dumps([item.key, item.question, item.choices, item.gold, item.references], sort_keys=True)
    return f"{plain}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}.jpg"


def _index(items: Sequence[Item], runs: list[str], strips: list[dict[str, Any] | None]) -> dict[str, Any]:
    benchmarks = _Numbered()
    facts = _Numbered()
    values: dict[str, _Numbered] = {}
    rows = []
    for item, strip in zip(items, strips, strict=True):
        coded = []
        for name, value in item.facts.items():
            coded += [facts[name], values.setdefault(name, _Numbered())[value]]
        question = clean(item.title or item.question)
        if len(question) > _QUESTION:
            question = f"{question[:_QUESTION]}\u2026"
        verdicts = "".join(_LETTERS[item.answers[run].verdict] if run in item.answers else "-" for run in runs)
        picture = strip["file"] if strip else 0
        rows.append([clean(item.key), question, benchmarks[item.benchmark], coded, verdicts, picture])
    return {
        "chunk": _CHUNK,
        "runs": [clean(run) for run in runs],
        "benchmarks": benchmarks.names(),
        "facts": [[clean(name), values[name].names()] for name in facts],
        "items": rows,
    }


class _Numbered(dict[str, int]):
    """Numbers of texts, in the order of their first use."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]

    def names(self) -> list[str]:
        """Return the texts in order, printable."""
        return [clean(text) for text in self]


def _details(item: Item, places: dict[str, int], strip: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "question": clean(item.question),
        "choices": [clean(choice) for choice in item.choices],
        "gold": item.gold,
        "references": [[clean(name), clean(text)] for name, text in item.references.items()],
        "prompts": [clean(prompt) for prompt in _prompts(item)],
        "answers": [[places[name], _answer(answer, _prompts(item))] for name, answer in item.answers.items()],
        "strip": strip,
    }


def _prompts(item: Item) -> list[str]:
    """Return the different prompts of the runs."""
    return list(dict.fromkeys(answer.prompt for answer in item.answers.values() if answer.prompt is not None))


def _answer(answer: ShownAnswer, prompts: list[str]) -> dict[str, Any]:
    texts = {"text": answer.text, "rating": answer.rating, "judgement": answer.judgement, "reply": answer.reply}
    shown: dict[str, Any] = {name: clean(text) for name, text in texts.items() if text is not None}
    if answer.prompt is not None:
        shown["prompt"] = prompts.index(answer.prompt)
    if answer.tokens is not None:
        shown["tokens"] = list(answer.tokens)
    if answer.chosen is not None:
        shown["chosen"] = int(answer.chosen)
    if answer.logprobs is not None:
        shown["logprobs"] = [None if x is None or not math.isfinite(x) else round(float(x), 6) for x in answer.logprobs]
    return shown


def _write_strips(folder: Path, items: Sequence[Item], progress: Progress, seconds: float) -> Counter[str]:
    """Write missing strips while there is time; count those that were late, damaged or absent."""
    folder.mkdir(parents=True, exist_ok=True)
    without = [item for item in items if _strip(folder, item) is None]
    todo = sorted((item for item in without if item.images is not None), key=lambda item: not _is_telling(item))
    fates = Counter(absent=len(without) - len(todo))
    deadline = time.monotonic() + seconds

    def write(item: Item) -> str:
        if time.monotonic() > deadline:
            return "late"
        return "written" if _write_strip(folder / strip_name(item), item) else "damaged"

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="strips") as pool:
        for fate in pool.map(write, todo):
            fates[fate] += 1
            if fate != "late":
                progress("pictures", fates["written"] + fates["damaged"], len(todo))
    return fates


def _is_telling(item: Item) -> bool:
    verdicts = {answer.verdict for answer in item.answers.values()} - {"unscored"}
    return len(verdicts) > 1 or verdicts == {"wrong"}


def _write_strip(path: Path, item: Item) -> bool:
    """Write a question's pictures side by side, with their numbers and sizes in the comment; False without any."""
    try:
        images = item.images() if item.images else []
        box = _FRAME_SIZE if len(images) > 1 else _ONLY_FRAME_SIZE
        frames = [_small(images[number - 1], box) for number in _chosen(len(images))]
    except Exception as error:  # no error of a picture's reader may end the report
        logger.debug(f"No pictures of {item.key}: {type(error).__name__}: {error}")
        return False
    if not frames:
        return False
    sizes = [[number, *frame.size] for number, frame in zip(_chosen(len(images)), frames, strict=True)]
    strip = Image.new("RGB", (sum(width for _, width, _ in sizes), max(height for *_, height in sizes)), "white")
    left = 0
    for frame in frames:
        strip.paste(frame, (left, 0))
        left += frame.width
    unfinished = path.with_suffix(".unfinished")
    strip.save(unfinished, "JPEG", quality=_QUALITY, comment=script_json({"of": len(images), "frames": sizes}))
    unfinished.replace(path)
    return True


def _chosen(count: int) -> list[int]:
    """Choose some of `count` images, by number from 1."""
    return evenly_spaced(1, count, min(count, _FRAMES)) if count else []


def _small(frame: Image.Image, box: tuple[int, int]) -> Image.Image:
    """Make an opaque copy that fits into `box`."""
    # An undecoded file is decoded at a fraction of its size, which only works in place.
    if not isinstance(frame, ImageFile):
        frame = frame.copy()
    frame.thumbnail(box)
    if "A" not in frame.getbands() and "transparency" not in frame.info:
        return frame.convert("RGB")
    frame = frame.convert("RGBA")
    ground = Image.new("RGBA", frame.size, "white")
    return Image.alpha_composite(ground, frame).convert("RGB")


def _strip(folder: Path, item: Item) -> dict[str, Any] | None:
    """Return file and frames of a question's strip; None if it is missing or damaged, or there are no images."""
    if item.images is None:
        return None
    path = folder / strip_name(item)
    try:
        with Image.open(path) as image:
            written = json.loads(image.info["comment"])
            return {"file": path.name, "of": written["of"], "frames": written["frames"]}
    except (OSError, UnidentifiedImageError, KeyError, ValueError, TypeError):
        return None
