"""EgoPlan's prepared splits: where they are, or how to get them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egoplan.records import ANNOTATIONS_URL, EGO4D, EPIC_KITCHENS, VIDEO_URLS
from lmms_egoplan.storage import load_summary, split_dir

if TYPE_CHECKING:
    from datasets import Dataset

_ANNOTATIONS = {"val": "EgoPlan_validation.json", "test": "EgoPlan_test.json"}


class DataMissingError(FileNotFoundError):
    """A split has not been prepared."""


def prepared_split(split: str) -> Path:
    """Folder of a prepared split, ``"val"`` or ``"test"``.

    Raises:
        DataMissingError: it is not there; says how to prepare it and where the data are to be had.
        StorageError: its summary is damaged.
    """
    _summary(split)
    return split_dir("egoplan", split)


def data_fingerprint(split: str) -> str:
    """What tells the prepared data of a split from any other; see `prepare_egoplan`.

    Raises:
        DataMissingError, StorageError: as for `prepared_split`.
    """
    return _summary(split)["fingerprint"]


def load_prepared(split: str) -> "Dataset":
    """Rows of a prepared split.

    Raises:
        DataMissingError, StorageError: as for `prepared_split`.
    """
    from datasets import load_from_disk

    return load_from_disk(str(prepared_split(split)))[split]


def _summary(split: str) -> dict[str, Any]:
    summary = load_summary("egoplan", split)
    if summary is None:
        raise DataMissingError(
            f"EgoPlan's {split} split is not prepared in {split_dir('egoplan', split)} (LMMS_EGOPLAN_DATA sets the "
            f"root). Prepare it with: lmms-egoplan data prepare egoplan --annotations {_ANNOTATIONS[split]} --split "
            f"{split} --epic-kitchens DIR --ego4d DIR. Annotations: {ANNOTATIONS_URL}; videos: "
            f"{VIDEO_URLS[EPIC_KITCHENS]} (RGB frames) and {VIDEO_URLS[EGO4D]} (canonical, 288p)"
        )
    return summary
