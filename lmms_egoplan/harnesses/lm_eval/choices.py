"""Base classes of tasks that ask multiple-choice questions after evenly spaced frames."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from loguru import logger

from lmms_egoplan.benchmarks.egoplan.conditions import asked_questions
from lmms_egoplan.benchmarks.egoplan.frame_settings import MOST_FRAMES, shown_frames
from lmms_egoplan.benchmarks.egoplan.prompts import without_goal
from lmms_egoplan.benchmarks.egoplan.visuals import num_images
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.harnesses.lm_eval.task import (
    Answered,
    PreparedTask,
    RankedTask,
    TogetherScoredTask,
)
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.task_files import read_task_file


class _OnFrames(PreparedTask):
    """Show ``num_frames`` frames or, with ``fps``, frames at this rate, up to ``max_frames``.

    With ``num_clips``, show ``frames_per_clip`` frames of each of the last actions, and the
    observation.
    """

    def shown_names(self, metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the settings that select frames, and of those that count them."""
        names = tuple(name for name in ("as_published", "shortcut") if name in metadata)
        if metadata.get("fps") is not None:
            return ("fps", *names), ("max_frames",)
        return names, ("num_frames",) if metadata.get("num_clips") is None else (
            "num_clips",
            "frames_per_clip",
        )

    def documents(self, rows: Dataset) -> Dataset:
        """Return the questions that the task's shortcut asks."""
        return asked_questions(rows, (self.config.metadata or {}).get("shortcut"))

    def resolve_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Remove the number of frames if a rate is set.

        Raises:
            LmmsEgoplanError: ``--metadata`` changes the shortcut.
        """
        self._check_fixed(
            metadata,
            ["shortcut"],
            "the task's name states its shortcut; use the task with that name",
        )
        if metadata.get("fps") is None:
            return metadata
        by_rate = {"max_frames": MOST_FRAMES} | metadata
        return {name: value for name, value in by_rate.items() if name != "num_frames"}

    def _check_fixed(self, metadata: Mapping[str, Any], names: Sequence[str], why: str) -> None:
        fixed = read_task_file(Path(metadata["config_source"]))["metadata"]
        changed = [
            f"{name}={metadata[name]}" for name in names if metadata.get(name) != fixed.get(name)
        ]
        if changed:
            raise LmmsEgoplanError(f"{self.config.task}: --metadata {','.join(changed)}: {why}")

    def prepare_scoring(self) -> None:
        """Also log the frames and the maximum length of an answer."""
        super().prepare_scoring()
        most = (self.config.generation_kwargs or {}).get("max_gen_toks")
        length = "" if most is None else f", up to {most:,} new tokens"
        logger.info(f"{self.task_name}: frames: {shown_frames(self.config.metadata)}{length}")


class RankedChoices(_OnFrames, RankedTask):
    """Rank the choices after frames and question."""


class Letters(_OnFrames, TogetherScoredTask):
    """Generate a letter after frames and question."""

    FILTER = "none"

    def score(self, answers: Sequence[Answered]) -> list[str]:
        """Return the answers unchanged."""
        return [answer.text for answer in answers]


class PresetLetters(Letters):
    """Ask and read letters as a published pipeline does.

    Its metadata name the preset and all visual settings.
    """

    _NAMES = (
        *(
            "preset",
            "media",
            "num_frames",
            "as_published",
            "without_end",
            "fps",
            "min_frames",
            "max_frames",
        ),
        *("size", "needs_actions", "observation"),
    )

    def resolve_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Refuse ``--metadata`` that changes the pipeline.

        Raises:
            LmmsEgoplanError: A setting differs from the task's YAML file.
        """
        self._check_fixed(
            metadata, self._NAMES, "its preset fixes this setting; remove it, or use another task"
        )
        return metadata

    def shown_names(self, metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the preset and of the settings that it has."""
        return tuple(name for name in self._NAMES if name in metadata), ()

    def score(self, _answers: Sequence[Answered]) -> list[str]:
        """Return the answers as generated, with their thoughts."""
        return [instance.resps[0] or "" for instance in self.instances]


def frames(
    title: str, visual_input: Callable[[Doc, Mapping[str, Any]], list[Any]], doc: Doc
) -> LazyImages:
    """Return the frames that the document's settings select, ending with the observation.

    Args:
        title: Title of the benchmark.
        visual_input: Reads a question's visual input: images, if the media are frames. Must be
            picklable: a function of a module, or a method.
        doc: The document.
    """
    settings = {"media": "clip_frames" if "num_clips" in doc["shown"] else "frames", **doc["shown"]}
    what = [f"sample {doc['sample_id']}, {shown_frames(settings)} frames", settings.get("shortcut")]
    description = images_name(title, doc, ", ".join(filter(None, what)))
    return LazyImages(description, partial(visual_input, doc, settings))


def after_frames(doc: Doc, text: str) -> str:
    """Insert the placeholders of `frames` before a text."""
    return IMAGE_PLACEHOLDER * num_images(doc, doc["shown"]) + text


def doc_to_text(doc: Doc) -> str:
    """Return the placeholders of the images, followed by the question."""
    return after_frames(doc, doc["question"])


def doc_to_text_without_goal(doc: Doc) -> str:
    """Return the placeholders of the images, followed by the question without its goal."""
    return after_frames(doc, without_goal(doc))
