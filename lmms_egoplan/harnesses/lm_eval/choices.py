"""Tasks of several benchmarks whose questions have choices and come after evenly spaced frames."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.egoplan.visuals import MOST_FRAMES, num_images, shown_frames
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.harnesses.lm_eval.task import Answered, PreparedTask, RankedTask, TogetherScoredTask
from lmms_egoplan.media.sampling import Doc


class _OnFrames(PreparedTask):
    """Frames by number, ``num_frames``, or, with ``fps``, by rate, up to ``max_frames`` of them."""

    def shown_names(self, metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of rate and limit, or that of the number."""
        return ((), ("num_frames",)) if metadata.get("fps") is None else (("fps",), ("max_frames",))

    def settled(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Drop the number of frames if there is a rate."""
        if metadata.get("fps") is None:
            return metadata
        by_rate = {"max_frames": MOST_FRAMES} | metadata
        return {name: value for name, value in by_rate.items() if name != "num_frames"}

    def prepare_scoring(self) -> None:
        """Log also what is shown, and how long an answer may be."""
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
        """Return the answers as they are."""
        return [answer.text for answer in answers]


def frames(title: str, visual_input: Callable[[Doc, Mapping[str, Any]], list[Any]], doc: Doc) -> LazyImages:
    """Return evenly spaced frames of the progress, the observation last.

    Args:
        title: the benchmark's.
        visual_input: reads what a model is shown of a question: images, if the media are frames; a function of a
            module, or a method that can be pickled.
    """
    settings = {"media": "frames", **doc["shown"]}
    shown = images_name(title, doc, f"sample {doc['sample_id']}, {shown_frames(settings)} frames")
    return LazyImages(shown, partial(visual_input, doc, settings))


def behind_frames(doc: Doc, text: str) -> str:
    """Put a text after the placeholders of `frames`."""
    return IMAGE_PLACEHOLDER * num_images(doc, doc["shown"]) + text


def doc_to_text(doc: Doc) -> str:
    """Return the question after the placeholders of its images."""
    return behind_frames(doc, doc["question"])
