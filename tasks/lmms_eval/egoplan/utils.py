"""Define EgoPlan's lmms-eval functions, which this folder's YAML files reference."""

from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from lmms_eval.tasks._task_utils.file_utils import generate_submission_file
from loguru import logger

from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.benchmarks.egoplan import published_scores, visuals
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_TEST, num_predictions
from lmms_egoplan.benchmarks.egoplan.presets import load_presets, prompt_of
from lmms_egoplan.benchmarks.egoplan.prompts import REASONED, THINKING, lettered_question
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.benchmarks.egoplan.submission import write_predictions
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.harnesses.lmms_eval.filters import Unchanged  # noqa: F401
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import check_marks, loaded_model
from lmms_egoplan.media.sampling import VisualInput

_SPLITS = {
    "VAL": partial(EGOPLAN.folder, "val"),
    "VAL_DATA": partial(EGOPLAN.fingerprint, "val"),
    "TEST": partial(EGOPLAN.folder, "test"),
    "TEST_DATA": partial(EGOPLAN.fingerprint, "test"),
}


def __getattr__(name: str) -> Any:
    """Return folders and fingerprints of the prepared splits when a task is loaded, not when it is
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
    """Return images, clips or a video file, depending on the model's settings."""
    check_marks(lmms_eval_specific_kwargs or {})
    return visuals.EGOPLAN.visual_input(doc, lmms_eval_specific_kwargs or {})


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
    """Return the question with lettered choices. The settings only affect the visual input."""
    return lettered_question(doc)


def doc_to_thinking_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> str:
    """Return the question with lettered choices for a model that thinks first."""
    return lettered_question(doc, THINKING)


def doc_to_reasoned_text(
    doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> str:
    """Return the question with lettered choices, to answer after a summary and a description."""
    return lettered_question(doc, REASONED)


def doc_to_preset_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any]) -> str:
    """Return the prompt of the task's preset."""
    return prompt_of(load_presets("egoplan")[lmms_eval_specific_kwargs["preset"]], doc)


def score_test_ranking(doc: Mapping[str, Any], responses: Sequence[Any]) -> dict[str, Any]:
    """Score a question of the test split, whose answers are private.

    The prediction is a metric, whose aggregation writes the file for a submission.
    """
    values = score_ranking(doc, responses, EGOPLAN_TEST)
    details = {**values["details"]}
    return {"predictions": details.pop("predictions"), **values, "details": details}


def score_seed_bench_r1(doc: Mapping[str, Any], replies: Sequence[str]) -> dict[str, Any]:
    """Score a question of `seed-bench-r1`.

    Only hf_vlm shows its frames as a video, if the checkpoint takes videos.
    """
    model = loaded_model("hf_vlm")
    media = "timed_frames" if model is not None and model.takes_video else "frames"
    return published_scores.score_preset(
        "egoplan", "seed-bench-r1", {**doc, "shown": {"media": media}}, replies
    )


score_published_video = published_scores.score_published_video
score_official = partial(published_scores.score_preset, "egoplan", "official")
score_lmms_eval_0_7_3 = partial(published_scores.score_preset, "egoplan", "lmms-eval-0.7.3")


def write_test_predictions(values: Sequence[dict[str, Any]], args: Namespace | None) -> int:
    """Write the file that ``lmms-egoplan submit egoplan`` reads, and return the number of
    predictions.
    """
    time = datetime.now().strftime("%Y%m%d_%H%M%S")
    path = generate_submission_file(f"{time}_egoplan_test_predictions.jsonl", args)
    write_predictions(path, values)
    logger.info(
        f"Predictions: {path}. Next: lmms-egoplan submit egoplan {path} --out submission.json"
    )
    return num_predictions(values)
