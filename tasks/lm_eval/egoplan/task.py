"""Define EgoPlan's lm-eval classes and functions, which this folder's YAML files reference."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.benchmarks.egoplan import published_scores, visuals
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import REASONED, THINKING, lettered_question
from lmms_egoplan.harnesses.lm_eval import choices
from lmms_egoplan.harnesses.lm_eval.choices import Doc, after_frames, doc_to_text, frames  # noqa: F401
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages
from lmms_egoplan.harnesses.lm_eval.task import RankedTask


class BlindRanking(RankedTask):
    """Rank the choices after a text without images."""

    PREPARED = splits.EGOPLAN


class Ranking(choices.RankedChoices):
    """Rank the choices after frames and question."""

    PREPARED = splits.EGOPLAN


class Replies(choices.Letters):
    """Read the letters written after frames and question."""

    PREPARED = splits.EGOPLAN


class Presets(choices.PresetLetters):
    """Ask and read letters as other pipelines do."""

    PREPARED = splits.EGOPLAN


def doc_to_image(doc: Doc) -> LazyImages:
    """Return frames of the progress, with the observation last."""
    return frames("EgoPlan", visuals.EGOPLAN.visual_input, doc)


def doc_to_lettered_text(doc: Doc) -> str:
    """Return the question with lettered choices after its images."""
    return after_frames(doc, lettered_question(doc))


def doc_to_thinking_text(doc: Doc) -> str:
    """Return the question with lettered choices for a model that thinks first, after its images."""
    return after_frames(doc, lettered_question(doc, THINKING))


def doc_to_reasoned_text(doc: Doc) -> str:
    """Return the question with lettered choices, to answer after a summary and a description."""
    return after_frames(doc, lettered_question(doc, REASONED))


def doc_to_preset_text(doc: Doc) -> str:
    """Return the prompt of the task's preset after its images."""
    return after_frames(doc, prompt_of(load_presets("egoplan")[doc["shown"]["preset"]], doc))


def score_preset(doc: Doc, replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of the task's preset."""
    return published_scores.score_preset("egoplan", doc["shown"]["preset"], doc, replies)


score_published_video = published_scores.score_published_video
score_official = partial(published_scores.score_preset, "egoplan", "official")
