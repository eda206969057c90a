"""Define EgoPlan-Bench2's lmms-eval functions, which this folder's YAML files reference."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import (
    BENCH2_THINKING,
    bench2_prompt,
    bench2_published_prompt,
)
from lmms_egoplan.benchmarks.egoplan.published_scores import score_preset
from lmms_egoplan.benchmarks.splits import EGOPLAN_BENCH2
from lmms_egoplan.harnesses.lmms_eval.filters import Unchanged  # noqa: F401
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import check_marks, loaded_model
from lmms_egoplan.media.sampling import VisualInput

_SPLITS = {
    "TEST": partial(EGOPLAN_BENCH2.folder, "test"),
    "TEST_DATA": partial(EGOPLAN_BENCH2.fingerprint, "test"),
}


def __getattr__(name: str) -> Any:
    """Return folder and fingerprint of the prepared split when a task is loaded, not when it is
    listed, and `doc_to_visual` under a condition by the condition's name.
    """
    if name in _SPLITS:
        return str(_SPLITS[name]())
    if name in SHORTCUTS:
        return _under(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doc_to_visual(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> VisualInput:
    """Return images or a video file, depending on the model's settings."""
    check_marks(lmms_eval_specific_kwargs or {})
    return visuals.EGOPLAN_BENCH2.visual_input(doc, lmms_eval_specific_kwargs or {})


def _under(shortcut: str) -> Callable[..., VisualInput]:
    """Return a function like `doc_to_visual` that adds a shortcut to the model's settings."""

    def visual(
        doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
    ) -> VisualInput:
        return doc_to_visual(doc, {**(lmms_eval_specific_kwargs or {}), "shortcut": shortcut})

    return visual


def doc_to_lettered_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> str:
    """Return the published prompt. The settings only affect the visual input."""
    return bench2_published_prompt(doc)


def doc_to_thinking_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> str:
    """Return the prompt for a model that thinks first."""
    return bench2_prompt(doc, BENCH2_THINKING)


def doc_to_preset_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the prompt of the task's preset."""
    return prompt_of(load_presets("egoplan_bench2")[lmms_eval_specific_kwargs["preset"]], doc)


def score_seed_bench_r1(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of `seed-bench-r1`.

    Only hf_vlm shows its frames as a video, if the checkpoint takes videos.
    """
    model = loaded_model("hf_vlm")
    media = "timed_frames" if model is not None and model.takes_video else "frames"
    return score_preset(
        "egoplan_bench2", "seed-bench-r1", {**doc, "shown": {"media": media}}, replies
    )


score_official = partial(score_preset, "egoplan_bench2", "official")
score_lmms_eval_0_7_3 = partial(score_preset, "egoplan_bench2", "lmms-eval-0.7.3")
score_flageval = partial(score_preset, "egoplan_bench2", "flageval")
score_mimo = partial(score_preset, "egoplan_bench2", "mimo")
score_physbrain_evalkit = partial(score_preset, "egoplan_bench2", "physbrain-evalkit")
score_physbrain_evalkit_thinking = partial(
    score_preset, "egoplan_bench2", "physbrain-evalkit-thinking"
)
