"""Tasks whose questions have choices and stand behind evenly spaced frames, as benchmarks share them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.egoplan.visuals import MOST_FRAMES, num_images, shown_frames
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.harnesses.lm_eval.task import Answered, PreparedTask, RankedTask, TogetherScoredTask
from lmms_egoplan.media.sampling import VisualInput

Doc = Mapping[str, Any]


class _OnFrames(PreparedTask):
    """Frames by number, ``num_frames``, or, where ``fps`` is given, by rate, up to ``max_frames`` of them."""

    COUNTS = ("num_frames",)

    def settled(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """The number of frames gives way to their rate."""
        if metadata.get("fps") is None:
            return metadata
        self.SETTINGS, self.COUNTS = ("fps",), ("max_frames",)
        by_rate = {"max_frames": MOST_FRAMES} | metadata
        return {name: value for name, value in by_rate.items() if name != "num_frames"}

    def prepare_scoring(self) -> None:
        """Also log what is shown, and how long an answer may be."""
        super().prepare_scoring()
        most = (self.config.generation_kwargs or {}).get("max_gen_toks")
        length = "" if most is None else f", up to {most:,} new tokens"
        logger.info(f"{self.task_name}: frames: {shown_frames(self.config.metadata)}{length}")


class RankedChoices(_OnFrames, RankedTask):
    """The choices ranked behind frames and question."""


class Letters(_OnFrames, TogetherScoredTask):
    """Letters, written after frames and question."""

    FILTER = "none"

    def score(self, answers: Sequence[Answered]) -> list[str]:
        """The answers as they are."""
        return [answer.text for answer in answers]


def frames(title: str, visual_input: Callable[[Doc, Mapping[str, Any]], VisualInput], doc: Doc) -> LazyImages:
    """Evenly spaced frames of the progress, the observation last.

    Args:
        title: the benchmark's.
        visual_input: reads what a model is shown of a question; a function of a module, or a method that can be
            pickled.
    """
    settings = {"media": "frames", **doc["shown"]}
    shown = images_name(title, doc, f"sample {doc['sample_id']}, {shown_frames(settings)} frames")
    return LazyImages(shown, partial(visual_input, doc, settings))


def behind_frames(doc: Doc, text: str) -> str:
    """A text behind the placeholders of `frames`."""
    return IMAGE_PLACEHOLDER * num_images(doc, doc["shown"]) + text


def doc_to_text(doc: Doc) -> str:
    """The question behind its images."""
    return behind_frames(doc, doc["question"])
