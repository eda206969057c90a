"""Read instruction data in the JSON layouts of LLaVA, MiniGPT-4 and VideoChat as samples."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import JsonObject, check_record, read_json
from lmms_egoplan.training.questions import VIDEO_FRAMES
from lmms_egoplan.training.samples import Sample
from lmms_egoplan.validation import Checked, Expected, Text, quoted, refuse

DESCRIBE = "Describe this image in detail."
"""Question for MiniGPT-4's captions, which have none: the first one that MiniGPT-4 asks."""

_PLACEHOLDER = re.compile("<image>|<video>")
# LLaVA names COCO images by number only.
_COCO = "COCO_train2014_"


class _Turn(Checked):
    speaker: Annotated[Literal["human", "gpt"], Expected("'human' or 'gpt'")] = Field(
        validation_alias="from"
    )
    value: Text


class _Llava(Checked):
    conversations: list[_Turn]
    image: Text | None = None
    video: Text | None = None


class _Question(Checked):
    q: Text
    a: Text


class _VideoChat(Checked):
    video: Text
    QA: list[_Question]


class _Caption(Checked):
    image_id: Annotated[str | int, Expected("an image's name")]
    caption: Text


def read_instructions(path: Path, media: Path | None = None) -> list[Sample]:
    """Read a file of instruction data. Its records determine the layout.

    - LLaVA: a list of records with ``conversations`` (turns ``from`` "human" and "gpt" with a
      ``value``), and an ``image``, a ``video`` or neither.
    - VideoChat: a list of records with ``video`` and ``QA``, questions ``q`` with answers ``a``.
    - MiniGPT-4: an object with ``annotations``, each an ``image_id`` with a ``caption``. Images are
      ``<image_id>.jpg`` in the folder or in its subfolder ``image``.

    Args:
        path: The JSON file.
        media: Folder with images and videos; by default the file's folder.

    Raises:
        LmmsEgoplanError: The file has another layout, records are invalid, or media are missing.
            Names the first 20 problems.
    """
    content = read_json(path, "instruction data")
    if isinstance(content, JsonObject) and isinstance(content.get("annotations"), list):
        content = content["annotations"]
    if not isinstance(content, list) or not content:
        raise LmmsEgoplanError(
            f"{path}: expected a list of records like LLaVA's or VideoChat's, or an object with "
            "annotations like MiniGPT-4's"
        )
    root = media or path.parent
    samples = []
    problems = []
    for index, record in enumerate(content):
        layout = next(
            (
                entry
                for key, entry in _LAYOUTS.items()
                if isinstance(record, dict) and key in record
            ),
            None,
        )
        try:
            if layout is None:
                raise LmmsEgoplanError(
                    "expected conversations (LLaVA), QA (VideoChat) or caption (MiniGPT-4), found "
                    + quoted(record)
                )
            record_type, make = layout
            checked, flaws = check_record(record_type, record)
            if checked is not None and not flaws:
                samples.append(make(f"{path}, record {index}", checked, root))
        except LmmsEgoplanError as error:
            flaws = [str(error)]
        problems += [f"record {index}, {flaw}" for flaw in flaws]
    refuse(problems, f"{path}: ", f"{path}: {len(problems)} problems in {len(content)} records:")
    return samples


def _from_video_chat(name: str, record: _VideoChat, root: Path) -> Sample:
    if not record.QA:
        raise LmmsEgoplanError("QA: expected at least one question with its answer")
    fields = tuple(f"QA[{turn}].{key}" for turn in range(len(record.QA)) for key in ("q", "a"))
    paths = [_inside(root, "video", record.video)]
    return _sample(name, [(turn.q, turn.a) for turn in record.QA], paths, "video", fields)


def _from_caption(name: str, record: _Caption, root: Path) -> Sample:
    image = f"{record.image_id}.jpg"
    paths = [_inside(root, "image_id", image), _inside(root, "image_id", "image", image)]
    return _sample(name, [(DESCRIBE, record.caption)], paths, "image_id", ("question", "caption"))


def _from_llava(name: str, record: _Llava, root: Path) -> Sample:
    turns = list(record.conversations)
    # ShareGPT's dialogues may begin with an answer.
    cut = bool(turns) and turns[0].speaker == "gpt"
    turns = turns[cut:]
    fields = tuple(f"conversations[{index + cut}]" for index in range(len(turns)))
    speakers = [turn.speaker for turn in turns]
    if not turns or speakers != ["human", "gpt"] * (len(turns) // 2):
        raise LmmsEgoplanError(
            "conversations: expected alternating turns from 'human' and 'gpt', at least one of each"
        )
    if record.image is not None and record.video is not None:
        raise LmmsEgoplanError("image, video: expected one of them, found both")
    pairs = [
        (asked.value, answered.value)
        for asked, answered in zip(turns[::2], turns[1::2], strict=True)
    ]
    count = sum(len(_PLACEHOLDER.findall(question)) for question, _ in pairs)
    medium = record.image or record.video
    if count > (medium is not None):
        media = "one medium" if medium else "no image"
        raise LmmsEgoplanError(f"conversations: {count} media placeholders, but {media}")
    field = "image" if record.image or medium is None else "video"
    paths = [] if medium is None else [_inside(root, field, medium)]
    if medium is not None and "/" not in medium:
        paths.append(_inside(root, field, f"{_COCO}{medium}"))
    return _sample(name, pairs, paths, field, fields)


# Layouts by their characteristic field.
_LAYOUTS: dict[str, tuple[type[Checked], Callable[[str, Any, Path], Sample]]] = {
    "conversations": (_Llava, _from_llava),
    "QA": (_VideoChat, _from_video_chat),
    "caption": (_Caption, _from_caption),
}


def _inside(root: Path, field: str, *parts: str) -> Path:
    try:
        return resolve_inside(root, *parts)
    except LmmsEgoplanError as error:
        raise LmmsEgoplanError(f"{field}: {error}") from error


def _sample(
    name: str,
    pairs: Sequence[tuple[str, str]],
    paths: Sequence[Path],
    field: str,
    fields: tuple[str, ...],
) -> Sample:
    """Create a sample that shows the first existing file of `paths`. `fields` as for `Sample`."""
    turns = tuple(
        (_PLACEHOLDER.sub("", question).strip(), answer.strip()) for question, answer in pairs
    )
    if not all(question for question, _ in turns):
        raise LmmsEgoplanError("a question has no words")
    if not paths:
        return Sample(name, turns, fields=fields)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise LmmsEgoplanError(f"{field}: {paths[0]}: no such file")
    return Sample(
        name, turns, (), partial(list, [path]), VIDEO_FRAMES if field == "video" else 1, fields
    )
