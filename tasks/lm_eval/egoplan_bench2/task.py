"""Define EgoPlan-Bench2's lm-eval classes and functions, which this folder's YAML files name."""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.benchmarks.egoplan import published_scores, visuals
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import (
    BENCH2_THINKING,
    bench2_prompt,
    bench2_published_prompt,
)
from lmms_egoplan.harnesses.lm_eval import choices
from lmms_egoplan.harnesses.lm_eval.choices import Doc, after_frames, doc_to_text, frames  # noqa: F401
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages
from lmms_egoplan.harnesses.lm_eval.task import RankedTask


class BlindRanking(RankedTask):
    """Rank the choices after a text without images."""

    PREPARED = splits.EGOPLAN_BENCH2


class Ranking(choices.RankedChoices):
    """Rank the choices after frames and question."""

    PREPARED = splits.EGOPLAN_BENCH2


class Replies(choices.Letters):
    """Read the letters written after frames and question."""

    PREPARED = splits.EGOPLAN_BENCH2


class Presets(choices.PresetLetters):
    """Ask and read letters as other pipelines do."""

    PREPARED = splits.EGOPLAN_BENCH2


def doc_to_image(doc: Doc) -> LazyImages:
    """Return evenly spaced frames from the task's start, with the observation last."""
    return frames("EgoPlan-Bench2", visuals.EGOPLAN_BENCH2.visual_input, doc)


def doc_to_lettered_text(doc: Doc) -> str:
    """Return the published prompt after its images."""
    return after_frames(doc, bench2_published_prompt(doc))


def doc_to_thinking_text(doc: Doc) -> str:
    """Return the prompt for a model that thinks first, after its images."""
    return after_frames(doc, bench2_prompt(doc, BENCH2_THINKING))


def doc_to_preset_text(doc: Doc) -> str:
    """Return the prompt of the task's preset after its images."""
    return after_frames(doc, prompt_of(load_presets("egoplan_bench2")[doc["shown"]["preset"]], doc))


def score_preset(doc: Doc, replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of the task's preset."""
    return published_scores.score_preset("egoplan_bench2", doc["shown"]["preset"], doc, replies)
