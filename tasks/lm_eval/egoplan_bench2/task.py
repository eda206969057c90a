"""Define EgoPlan-Bench2's lm-eval classes and functions, which this folder's YAML files name."""

from functools import partial

from lmms_egoplan.benchmarks import splits
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import (
    BENCH2_THINKING,
    bench2_prompt,
    bench2_published_prompt,
    without_goal,
)
from lmms_egoplan.benchmarks.egoplan.published_scores import score_preset
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


def doc_to_text_without_goal(doc: Doc) -> str:
    """Return the question without its goal, after its images."""
    return after_frames(doc, without_goal(doc))


def doc_to_lettered_text(doc: Doc) -> str:
    """Return the published prompt after its images."""
    return after_frames(doc, bench2_published_prompt(doc))


def doc_to_thinking_text(doc: Doc) -> str:
    """Return the prompt for a model that thinks first, after its images."""
    return after_frames(doc, bench2_prompt(doc, BENCH2_THINKING))


def doc_to_preset_text(doc: Doc) -> str:
    """Return the prompt of the task's preset after its images."""
    return after_frames(doc, prompt_of(load_presets("egoplan_bench2")[doc["shown"]["preset"]], doc))


score_official = partial(score_preset, "egoplan_bench2", "official")
score_lmms_eval = partial(score_preset, "egoplan_bench2", "lmms-eval-0.7.3")
score_flageval = partial(score_preset, "egoplan_bench2", "flageval")
score_mimo = partial(score_preset, "egoplan_bench2", "mimo")
score_physbrain_evalkit = partial(score_preset, "egoplan_bench2", "physbrain-evalkit")
score_physbrain_evalkit_thinking = partial(
    score_preset, "egoplan_bench2", "physbrain-evalkit-thinking"
)
score_seed_bench_r1 = partial(score_preset, "egoplan_bench2", "seed-bench-r1")
