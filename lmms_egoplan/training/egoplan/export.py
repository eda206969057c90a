"""Export EgoPlan-IT as preference data for other trainers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from lmms_egoplan.benchmarks.egoplan.frames import FRAMES_PER_CLIP, NUM_CLIPS
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import file_digest, write_whole
from lmms_egoplan.jsonl import json_lines, read_json
from lmms_egoplan.media.image_files import write_jpeg
from lmms_egoplan.progress import track
from lmms_egoplan.storage import fingerprint
from lmms_egoplan.text import clean_text
from lmms_egoplan.training.egoplan.data import find_frames, plan_samples, read_instructions
from lmms_egoplan.training.samples import Sample, draw

PAIRS = "preferences.jsonl"
IMAGES = "images"
_IDENTITY = "export.json"
Trainer = Literal["trl", "ms-swift"]
_VISUALS = {"media": "clip_frames", "num_clips": NUM_CLIPS, "frames_per_clip": FRAMES_PER_CLIP}


def export_preferences(
    data: Path, form: Trainer, out: Path, epic_kitchens: Path | None, ego4d: Path | None, seed: int
) -> int:
    """Write one line of JSON per record: its images, question, answer and one negative.

    All clip frames and the observation are images (C.1), written as JPEG into the subfolder
    ``images``. Paths are relative to the folder for TRL and absolute for ms-swift.

    Returns:
        The number of pairs.

    Raises:
        LmmsEgoplanError: The data is invalid, frames are missing, or `out` contains an export of
            other data or frames.
    """
    records = read_instructions(data)
    footage = find_frames(
        records, {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}, NUM_CLIPS, str(data)
    )
    versions = sorted((record, footage[record].version) for record in footage)
    identity = fingerprint([file_digest(data), form, seed, _VISUALS, versions])
    if (out / _IDENTITY).is_file() and read_json(out / _IDENTITY, "export") != {
        "identity": identity
    }:
        raise LmmsEgoplanError(
            f"{out}: contains an export of other data, settings or frames; use another "
            "--out, or delete the folder"
        )
    write_whole(out / _IDENTITY, json.dumps({"identity": identity}) + "\n")
    rows = []
    samples = plan_samples(records, footage, _VISUALS, str(data))
    for number, sample in track(list(enumerate(samples)), "Writing images"):
        paths = list(_write_images(sample, out, f"{records[number].sample_id}"))
        if form == "ms-swift":
            paths = [str((out / path).resolve()) for path in paths]
        negative = draw(sample, f"{seed} {number}").negative
        assert negative is not None  # Every record has negatives.
        rows.append(_ROWS[form](paths, *sample.turns[0], negative))
    write_whole(out / PAIRS, clean_text(json_lines(rows)))
    return len(rows)


def _write_images(sample: Sample, out: Path, name: str) -> Iterator[str]:
    for index, image in enumerate(sample.visuals()):
        path = f"{IMAGES}/{name}_{index:02}.jpg"
        if not (out / path).exists():
            write_jpeg(out / path, image, quality=95)
        yield path


def _trl(images: list[str], question: str, answer: str, negative: str) -> dict[str, Any]:
    """Create a row in TRL's conversational preference format.

    Content items mark the positions of the images.
    """
    content = [*({"type": "image"} for _ in images), {"type": "text", "text": question}]
    return {
        "images": images,
        "prompt": [{"role": "user", "content": content}],
        "chosen": [_assistant([{"type": "text", "text": answer}])],
        "rejected": [_assistant([{"type": "text", "text": negative}])],
    }


def _ms_swift(images: list[str], question: str, answer: str, negative: str) -> dict[str, Any]:
    """Create a row in ms-swift's standard format.

    It consists of messages ending with the chosen answer, and of the rejected answer.
    """
    return {
        "messages": [
            {"role": "user", "content": "<image>" * len(images) + question},
            _assistant(answer),
        ],
        "rejected_response": negative,
        "images": images,
    }


def _assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


_ROWS = {"trl": _trl, "ms-swift": _ms_swift}
