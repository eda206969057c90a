"""Write submissions for EgoPlan's leaderboard from a run's logs.

The leaderboard takes one file per split (val, test): a JSON list of ``{"sample_id": int, "label":
"A".."D"}``.
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
from lmms_egoplan.jsonl import member, parse_record, read_lines
from lmms_egoplan.storage import load_summary
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import Checked, Expected, read_as

Prediction = tuple[int, str | None]

_HOW = (
    "use the run's *_samples_egoplan_test.jsonl or *_samples_egoplan_val.jsonl (--log_samples "
    "--output_path DIR), or its predictions file"
)


class _Logged(Checked):
    sample_id: int
    prediction: Annotated[Literal["A", "B", "C", "D"] | None, Expected("A, B, C, D or null")]


def write_predictions(path: str | Path, predictions: Iterable[dict[str, Any]]) -> None:
    """Write a run's ``predictions`` values as JSON lines, which `read_predictions` reads."""
    lines = "".join(f"{json.dumps(prediction)}\n" for prediction in predictions)
    write_whole(Path(path), lines)


def read_predictions(path: str | Path) -> list[Prediction]:
    """Read sample ids and predicted letters in the file's order.

    A question that could not be scored has None.

    Args:
        path: JSON lines. Each is the harness's log of a question, with the prediction under
            ``predictions`` or in its ``details``, or the prediction itself: ``{"sample_id": 115,
            "prediction": "A", ...}``.

    Raises:
        LmmsEgoplanError: The file cannot be read or is malformed. The message names the line and
            the field.
    """
    if Path(path).is_dir():
        files = sorted(Path(path).rglob("*samples_egoplan_*.jsonl"))
        found = f"; found {join_list([str(file) for file in files], 3)}" if files else ""
        raise LmmsEgoplanError(f"{path}: is a folder; {_HOW}{found}")
    predictions = [_prediction(where, line) for where, line in read_lines(Path(path), "samples")]
    if not predictions:
        raise LmmsEgoplanError(f"{path}: no samples; {_HOW}")
    return predictions


def split_of(path: str | Path) -> Split:
    """Return the split in the name of a samples or predictions file.

    It is ``"val"`` for ``egoplan_val*``, else ``"test"``.

    Raises:
        LmmsEgoplanError: The name contains both splits.
    """
    name = Path(path).name
    is_val = "egoplan_val" in name
    if is_val and "egoplan_test" in name:
        raise LmmsEgoplanError(
            f"{path}: the file name contains both splits; set --split val or --split test"
        )
    return "val" if is_val else "test"


def split_ids(split: Split) -> list[int]:
    """Return the sample ids of a prepared split, in the order of the official file.

    Raises:
        LmmsEgoplanError: As for `PreparedData.load`. Also raised if some questions were skipped in
            preparation.
    """
    ids = list(EGOPLAN.load(split)["sample_id"])
    summary = load_summary("egoplan", split) or {}
    split_size = summary.get("split_size", 0)
    if len(ids) < split_size:
        skipped_ids: list[int] = []
        for video in summary.get("missing", []):
            skipped_ids += video.get("sample_ids", [])
        details = f": sample_ids {_listing(skipped_ids)}" if skipped_ids else ""
        raise LmmsEgoplanError(
            f"a submission needs every question of the {split} split, but "
            f"{split_size - len(ids)} of {split_size} were skipped when it was prepared{details}. "
            "Prepare it again with all videos and without --skip-missing, and repeat the run"
        )
    return ids


def build_submission(
    predictions: Sequence[Prediction], ids: Sequence[int], split: Split
) -> list[dict[str, Any]]:
    """Return the labels of all questions of a split, in the split's order.

    Each is ``{"sample_id": int, "label": "A".."D"}``.

    Args:
        ids: Sample ids of all questions of the split.
        split: Name of the split, for messages.

    Raises:
        LmmsEgoplanError: Some ids have no prediction or several, or are not in the split. The
            message has the number and the first 20 ids of each kind.
    """
    labels = {sample_id: letter for sample_id, letter in predictions if letter is not None}
    counts = Counter(sample_id for sample_id, _ in predictions)
    wrong_ids = {
        "without a prediction": [sample_id for sample_id in ids if sample_id not in labels],
        "more than once": [sample_id for sample_id, count in counts.items() if count > 1],
        "not in the split": sorted(counts.keys() - set(ids)),
    }
    problems = [
        f"{reason}: {_listing(sample_ids)}"
        for reason, sample_ids in wrong_ids.items()
        if sample_ids
    ]
    if problems:
        message = (
            f"the predictions do not match the {split} split of {len(ids)} questions. sample_ids "
            f"{'; '.join(problems)}"
        )
        if wrong_ids["not in the split"]:
            other_split = "val" if split == "test" else "test"
            message += f". For predictions of the {other_split} split, use --split {other_split}"
        raise LmmsEgoplanError(message)
    return [{"sample_id": sample_id, "label": labels[sample_id]} for sample_id in ids]


def _prediction(where: str, line: str) -> Prediction:
    sample = parse_record(where, line, _HOW)
    logged_prediction = member(sample, "details", "predictions") or member(sample, "predictions")
    if logged_prediction is not None:
        sample = logged_prediction
    if not isinstance(sample, dict) or not {"sample_id", "prediction"} <= sample.keys():
        raise LmmsEgoplanError(
            f"{where}: not an EgoPlan prediction: fields predictions, or sample_id and "
            f"prediction, are missing; {_HOW}"
        )
    logged = read_as(_Logged, where, sample)
    return logged.sample_id, logged.prediction


def _listing(ids: Sequence[int]) -> str:
    return f"{len(ids)} ({join_list([*map(str, ids)], 20)})"
