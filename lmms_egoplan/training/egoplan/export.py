"""Export EgoPlan-IT for other trainers: rows for supervised fine-tuning, and preference pairs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

ExportFormat = Literal["trl", "ms-swift", "llama-factory"]

SFT = "sft.jsonl"
PREFERENCES = "preferences.jsonl"
DATASET_INFO = "dataset_info.json"
"""LLaMA-Factory's description of the two files."""

_IMAGES = "images"
_IDENTITY = "export.json"
_VISUALS = {"media": "clip_frames", "num_clips": NUM_CLIPS, "frames_per_clip": FRAMES_PER_CLIP}
# In ms-swift and LLaMA-Factory, each marks the position of an image, video or sound in a text.
_PLACEHOLDERS = ("<image>", "<video>", "<audio>")


@dataclass(frozen=True)
class _Question:
    """One record as all formats show it.

    Attributes:
        images: Paths of all clip frames and the observation, in this order.
        text: The question.
        answer: The right action.
        negative: One wrong action of the same goal.
    """

    images: list[str]
    text: str
    answer: str
    negative: str

    @property
    def marked_text(self) -> str:
        """The question after one ``<image>`` for each image."""
        return "<image>" * len(self.images) + self.text


def file_names(form: ExportFormat) -> list[str]:
    """Return the names of the files of an export, except its images."""
    if form == "llama-factory":
        return [SFT, PREFERENCES, DATASET_INFO]
    return [SFT, PREFERENCES]


def export_instructions(
    data: Path,
    form: ExportFormat,
    out: Path,
    epic_kitchens: Path | None,
    ego4d: Path | None,
    seed: int,
) -> int:
    """Write EgoPlan-IT's questions in the format of another trainer.

    Each record becomes a row of ``sft.jsonl`` (question and answer) and one of
    ``preferences.jsonl`` (question, answer and a negative that depends on the seed). All clip
    frames and the observation are images (C.1), written as JPEG into the subfolder ``images``.
    Their paths are absolute for ms-swift, otherwise relative to the folder.

    Returns:
        The number of rows in each file.

    Raises:
        LmmsEgoplanError: The data is invalid, a text contains a placeholder of media, frames are
            missing, or `out` contains an export of other data or frames.
    """
    records = read_instructions(data)
    footage = find_frames(
        records, {EPIC_KITCHENS: epic_kitchens, EGO4D: ego4d}, NUM_CLIPS, str(data)
    )
    samples = plan_samples(records, footage, _VISUALS, str(data))
    for sample in samples:
        _check_texts(sample)
    versions = sorted((record, footage[record].version) for record in footage)
    _check_identity(out, fingerprint([file_digest(data), form, seed, _VISUALS, versions]))
    questions: list[_Question] = []
    for number, sample in track(list(enumerate(samples)), "Writing images"):
        paths = list(_write_images(sample, out, f"{records[number].sample_id}"))
        if form == "ms-swift":
            paths = [str((out / path).resolve()) for path in paths]
        text, answer = sample.turns[0]
        negative = draw(sample, f"{seed} {number}").negative
        assert negative is not None  # Every record has negatives.
        questions.append(_Question(paths, text, answer, negative))
    write_whole(out / SFT, clean_text(json_lines(map(_SFT_ROWS[form], questions))))
    write_whole(out / PREFERENCES, clean_text(json_lines(map(_PREFERENCE_ROWS[form], questions))))
    if form == "llama-factory":
        write_whole(out / DATASET_INFO, json.dumps(_llama_factory_info(), indent=1) + "\n")
    return len(questions)


def _check_texts(sample: Sample) -> None:
    for field, text in sample.texts():
        for placeholder in _PLACEHOLDERS:
            if placeholder in text:
                raise LmmsEgoplanError(
                    f"{sample.name}, {field}: contains {placeholder}, which trainers replace by "
                    "media; remove it"
                )


def _check_identity(out: Path, identity: str) -> None:
    """Write what determines an export, or check that an earlier one has the same."""
    content = {"identity": identity}
    if (out / _IDENTITY).is_file() and read_json(out / _IDENTITY, "export") != content:
        raise LmmsEgoplanError(
            f"{out}: contains an export of other data, settings or frames; use another "
            "--out, or delete the folder"
        )
    write_whole(out / _IDENTITY, json.dumps(content) + "\n")


def _write_images(sample: Sample, out: Path, name: str) -> Iterator[str]:
    for index, image in enumerate(sample.visuals()):
        path = f"{_IMAGES}/{name}_{index:02}.jpg"
        if not (out / path).exists():
            write_jpeg(out / path, image, quality=95)
        yield path


def _trl_sft(question: _Question) -> dict[str, Any]:
    """Create a row of TRL's type prompt-completion, conversational, with images."""
    return {
        "images": question.images,
        "prompt": [_trl_prompt(question)],
        "completion": [_trl_answer(question.answer)],
    }


def _trl_preference(question: _Question) -> dict[str, Any]:
    """Create a row of TRL's type preference, conversational, with images."""
    return {
        "images": question.images,
        "prompt": [_trl_prompt(question)],
        "chosen": [_trl_answer(question.answer)],
        "rejected": [_trl_answer(question.negative)],
    }


def _trl_prompt(question: _Question) -> dict[str, Any]:
    """Mark the positions of the images by content items."""
    content: list[dict[str, str]] = [{"type": "image"} for _ in question.images]
    content.append({"type": "text", "text": question.text})
    return {"role": "user", "content": content}


def _trl_answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def _messages_sft(question: _Question) -> dict[str, Any]:
    """Create a row of messages, as ms-swift and LLaMA-Factory read it."""
    return {
        "messages": [
            _message("user", question.marked_text),
            _message("assistant", question.answer),
        ],
        "images": question.images,
    }


def _ms_swift_preference(question: _Question) -> dict[str, Any]:
    """Create a row of ms-swift: messages that end with the right answer, and the rejected one."""
    return {**_messages_sft(question), "rejected_response": question.negative}


def _llama_factory_preference(question: _Question) -> dict[str, Any]:
    """Create a row of LLaMA-Factory: messages that end with the question, and two answers."""
    return {
        "messages": [_message("user", question.marked_text)],
        "chosen": _message("assistant", question.answer),
        "rejected": _message("assistant", question.negative),
        "images": question.images,
    }


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _llama_factory_info() -> dict[str, Any]:
    """Describe the two files as LLaMA-Factory's data sets of the format ShareGPT."""
    tags = {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
    }
    return {
        "egoplan-it-sft": {
            "file_name": SFT,
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "images"},
            "tags": tags,
        },
        "egoplan-it-preferences": {
            "file_name": PREFERENCES,
            "formatting": "sharegpt",
            "ranking": True,
            "columns": {
                "messages": "messages",
                "chosen": "chosen",
                "rejected": "rejected",
                "images": "images",
            },
            "tags": tags,
        },
    }


_SFT_ROWS: dict[ExportFormat, Callable[[_Question], dict[str, Any]]] = {
    "trl": _trl_sft,
    "ms-swift": _messages_sft,
    "llama-factory": _messages_sft,
}
_PREFERENCE_ROWS: dict[ExportFormat, Callable[[_Question], dict[str, Any]]] = {
    "trl": _trl_preference,
    "ms-swift": _ms_swift_preference,
    "llama-factory": _llama_factory_preference,
}
