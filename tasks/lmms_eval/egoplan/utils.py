"""What this folder's YAML files name: EgoPlan's own functions, in the shape in which lmms-eval calls them."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from lmms_eval.tasks._task_utils.file_utils import generate_submission_file
from loguru import logger

from lmms_egoplan.benchmarks.aggregations import count, num_asked, split_size  # noqa: F401
from lmms_egoplan.benchmarks.egoplan.bench1.metrics import score_test_ranking  # noqa: F401
from lmms_egoplan.benchmarks.egoplan.bench1.protocol import lettered_question, thinking_question
from lmms_egoplan.benchmarks.egoplan.bench1.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.bench1.visuals import visual_input
from lmms_egoplan.benchmarks.egoplan.metrics import num_predictions
from lmms_egoplan.benchmarks.egoplan.submission import write_predictions
from lmms_egoplan.coverage import coverage  # noqa: F401
from lmms_egoplan.harnesses.lmms_eval.filters import AsTheyAre  # noqa: F401
from lmms_egoplan.media.sampling import VisualInput

_SPLITS = {
    "VAL": partial(PREPARED.folder, "val"),
    "VAL_DATA": partial(PREPARED.fingerprint, "val"),
    "TEST": partial(PREPARED.folder, "test"),
    "TEST_DATA": partial(PREPARED.fingerprint, "test"),
}


def __getattr__(name: str) -> str:
    """Folders and fingerprints of the prepared splits, found when a task is loaded, not when listed."""
    if name not in _SPLITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return str(_SPLITS[name]())


def doc_to_visual(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> VisualInput:
    """Images, clips or a video file, as the model's block of settings says."""
    return visual_input(doc, lmms_eval_specific_kwargs or {})


def no_visual(doc: Mapping[str, Any]) -> VisualInput:
    """Nothing: the question alone."""
    return []


def doc_to_lettered_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question with lettered choices; the settings concern the visual input alone."""
    return lettered_question(doc)


def doc_to_thinking_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The same for a model that thinks first."""
    return thinking_question(doc)


def write_test_predictions(values: Sequence[dict[str, Any]], args: Namespace | None) -> int:
    """Write what ``lmms-egoplan submit egoplan`` reads, and give the number of predictions."""
    time = datetime.now().strftime("%Y%m%d_%H%M%S")
    path = generate_submission_file(f"{time}_egoplan_test_predictions.jsonl", args)
    write_predictions(path, values)
    logger.info(f"Predictions: {path}. Next: lmms-egoplan submit egoplan {path} --out submission.json")
    return num_predictions(values)
