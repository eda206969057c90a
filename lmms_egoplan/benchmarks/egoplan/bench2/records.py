"""EgoPlan-Bench2's annotation file: reading and checking every record."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from lmms_egoplan.benchmarks.egoplan.protocol import QUESTION
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, VIDEO_ID, Question, is_frame, read_records
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import without_bars
from lmms_egoplan.validation import Expected, Text, expected

HUB = "hub"
HUB_DATASET = "qiulu66/EgoPlan-Bench2"
FILE = "EgoPlan-Bench2.json"
LIST_KEY = "EgoPlan_Bench2"
_HINT = f"is it EgoPlan-Bench2's {FILE}, whose records have their answers?"

DOMAINS = ("Daily life", "Work", "Hobbies", "Recreation")
"""The paper's four."""

# "ca6e9ec9-46ac-4a02-8034-7c31157dc52c_2": Ego4D's video, and a number.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}_[A-Za-z0-9_.-]{1,64}")


def _sample_id(sample_id: Any) -> str:
    if not isinstance(sample_id, str) or not _ID.fullmatch(sample_id):
        raise expected("a video id, an underscore and a number, as a text")
    return sample_id


def _domain(domain: Any) -> str:
    """Of any spelling: ``daily_life`` is ``Daily life``."""
    spelled = {_letters(name): name for name in DOMAINS}
    if not isinstance(domain, str) or _letters(domain) not in spelled:
        raise expected(f"one of {', '.join(DOMAINS)}")
    return spelled[_letters(domain)]


def _letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


class Record(Question):
    """One question.

    question, video_source, video_id: what the file leaves out; the question is made of the goal, and the video is
        Ego4D's whose id begins the sample's.
    domain: one of `DOMAINS`.
    scenario: one of 24.
    task_start_frame: the first frame that a model may see.
    """

    sample_id: Annotated[Any, AfterValidator(_sample_id)]
    question: Text = Field(default=None, validate_default=True)
    video_source: Annotated[Literal[EGO4D], Expected(f"{EGO4D!r}")] = EGO4D
    video_id: Any = Field(default=None, validate_default=True)
    domain: Annotated[Any, AfterValidator(_domain)]
    scenario: Text
    task_start_frame: Any

    @field_validator("question", mode="before")
    @classmethod
    def _ask(cls, question: Any, info: ValidationInfo) -> Any:
        return QUESTION.format(goal=info.data.get("task_goal")) if question is None else question

    @field_validator("video_id")
    @classmethod
    def _check_video_id(cls, video_id: Any, info: ValidationInfo) -> Any:
        if video_id is None:
            return info.data.get("sample_id", "").partition("_")[0]
        if not isinstance(video_id, str) or not VIDEO_ID[EGO4D].fullmatch(video_id):
            raise expected("a UUID")
        return video_id

    @field_validator("task_start_frame")
    @classmethod
    def _check_start(cls, frame: Any, info: ValidationInfo) -> int:
        last = info.data.get("current_observation_frame")
        if not is_frame(frame, 0) or (last is not None and frame > last):
            raise expected("a frame number from 0 to current_observation_frame")
        return frame

    @property
    def first_frame(self) -> int:
        """The task's start."""
        return self.task_start_frame


def read_annotations(source: str | Path) -> list[Record]:
    """Read the annotation file and check every record of it.

    Args:
        source: a file, JSON; or `HUB`.

    Returns:
        The records in the file's order.

    Raises:
        LmmsEgoplanError: see `read_records`; or the hub does not have the file.
    """
    path = _download() if str(source) == HUB else Path(source)
    return read_records(Record, path, LIST_KEY, _HINT, {"is_private": False})


def _download() -> Path:
    from huggingface_hub import hf_hub_download

    try:
        with without_bars():
            return Path(hf_hub_download(HUB_DATASET, FILE, repo_type="dataset"))
    except Exception as error:  # whatever the hub's client and the network raise
        raise LmmsEgoplanError(
            f"{FILE} of the dataset {HUB_DATASET} cannot be had from the hub: {error}. Download it from "
            f"https://huggingface.co/datasets/{HUB_DATASET} and give the file in place of {HUB}"
        ) from error
