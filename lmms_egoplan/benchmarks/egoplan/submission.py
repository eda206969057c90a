"""EgoPlan's submission files, from what a run has logged.

The leaderboard takes a file of each split, val and test: a JSON list of ``{"sample_id": int, "label": "A".."D"}``.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from lmms_egoplan.benchmarks.egoplan.records import Split
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.storage import load_summary
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import Checked, Expected, read_as

Prediction = tuple[int, str | None]

_HOW = (
    "give the run's *_samples_egoplan_test.jsonl or *_samples_egoplan_val.jsonl (--log_samples --output_path DIR), or "
    "its predictions file"
)


class _Logged(Checked):
    sample_id: int
    prediction: Annotated[Literal["A", "B", "C", "D"] | None, Expected("A, B, C, D or null")]


def write_predictions(path: str | Path, predictions: Iterable[dict[str, Any]]) -> None:
    """Write a run's ``predictions`` values as JSON lines, which `read_predictions` reads."""
    lines = "".join(f"{json.dumps(prediction)}\n" for prediction in predictions)
    write_whole(Path(path), lines)


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read sample ids and predicted letters, in the file's order; None where the question could not be scored.

    Args:
        path: JSON lines; each the harness's log of a question, which holds the prediction under
            ``predictions``, or the prediction itself: ``{"sample_id": 115, "prediction": "A", ...}``.

    Raises:
        LmmsEgoplanError: the file cannot be read or holds something else; names the line and the field.
    """
    predictions = [_prediction(where, line) for where, line in read_lines(Path(path), "samples")]
    if not predictions:
        raise LmmsEgoplanError(f"{path}: no samples in it")
    return predictions


def split_of(path: str | Path) -> Split:
    """Return the split by the name of a samples or predictions file: ``"val"`` for ``egoplan_val*``, else ``"test"``.

    Raises:
        LmmsEgoplanError: the name tells both.
    """
    name = Path(path).name
    val, test = "egoplan_val" in name, "egoplan_test" in name
    if val and test:
        raise LmmsEgoplanError(
            f"{path}: its name tells both splits; say which one it is for: --split val or --split test"
        )
    return "val" if val else "test"


def split_ids(split: Split) -> list[int]:
    """Return the sample ids of a prepared split, all of the official file, in its order.

    Raises:
        LmmsEgoplanError: as for `PreparedData.load`, or the split was prepared without some of its questions.
    """
    ids = list(EGOPLAN.load(split)["sample_id"])
    summary = load_summary("egoplan", split) or {}
    left_out = [sample_id for video in summary.get("missing", []) for sample_id in video.get("sample_ids", [])]
    if len(ids) < summary.get("split_size", 0):
        named = f": sample_ids {_listing(left_out)}" if left_out else ""
        raise LmmsEgoplanError(
            f"a submission holds every question of the {split} split, and {summary['split_size'] - len(ids)} of "
            f"{summary['split_size']} were left out when it was prepared{named}. Prepare it again with all "
            "videos, without --skip-missing, and run the model on them"
        )
    return ids


def build_submission(predictions: Sequence[Prediction], ids: Sequence[int], split: Split) -> list[dict[str, Any]]:
    """Return ``{"sample_id": int, "label": "A".."D"}`` for each id of the split, in the split's order.

    Args:
        ids: of all questions of the split.
        split: its name, for messages.

    Raises:
        LmmsEgoplanError: ids without a prediction, with several, or unknown to the split; one message for all,
            with the first 20 of each kind and their number.
    """
    labels = {sample_id: letter for sample_id, letter in predictions if letter is not None}
    counts = Counter(sample_id for sample_id, _ in predictions)
    wrong = {
        "without a prediction": [sample_id for sample_id in ids if sample_id not in labels],
        "more than once": [sample_id for sample_id, count in counts.items() if count > 1],
        "not in the split": sorted(counts.keys() - set(ids)),
    }
    problems = [f"{what}: {_listing(sample_ids)}" for what, sample_ids in wrong.items() if sample_ids]
    if problems:
        other = "val" if split == "test" else "test"
        raise LmmsEgoplanError(
            f"the predictions are no submission for the {split} split of {len(ids)} questions. sample_ids "
            + "; ".join(problems)
            + (f". Are they of the {other} split? Then: --split {other}" if wrong["not in the split"] else "")
        )
    return [{"sample_id": sample_id, "label": labels[sample_id]} for sample_id in ids]


def _prediction(where: str, line: str) -> Prediction:
    sample = parse_record(where, line, _HOW)
    if isinstance(sample, dict):
        sample = sample.get("predictions", sample)
    if not isinstance(sample, dict) or not {"sample_id", "prediction"} <= sample.keys():
        raise LmmsEgoplanError(
            f"{where}: no EgoPlan prediction: neither predictions nor sample_id and prediction are in it"
        )
    logged = read_as(_Logged, where, sample)
    return logged.sample_id, logged.prediction


def _listing(ids: Sequence[int]) -> str:
    return f"{len(ids)} ({join_list([*map(str, ids)], 20)})"
