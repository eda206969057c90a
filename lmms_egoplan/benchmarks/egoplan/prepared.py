"""EgoPlan's prepared splits: where they are, or how to get them."""

from pathlib import Path
from typing import TYPE_CHECKING

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
    """
    folder = split_dir("egoplan", split)
    if load_summary("egoplan", split) is None:
        raise DataMissingError(
            f"EgoPlan's {split} split is not prepared in {folder} (LMMS_EGOPLAN_DATA sets the root). Prepare "
            f"it with: lmms-egoplan data prepare egoplan --annotations {_ANNOTATIONS[split]} --split {split} "
            "--epic-kitchens DIR --ego4d DIR. Annotations: https://github.com/ChenYi99/EgoPlan; videos: "
            "https://epic-kitchens.github.io (RGB frames) and https://ego4d-data.org (canonical, 288p)"
        )
    return folder


def load_prepared(split: str) -> "Dataset":
    """Rows of a prepared split.

    Raises:
        DataMissingError: see `prepared_split`.
    """
    from datasets import load_from_disk

    return load_from_disk(str(prepared_split(split)))[split]
