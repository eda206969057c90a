"""EgoThink's prepared dimensions: where they are, or how to get them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egothink.records import HUB_DATASET, REPOSITORY_URL
from lmms_egoplan.storage import load_summary, split_dir

if TYPE_CHECKING:
    from datasets import Dataset


class DataMissingError(FileNotFoundError):
    """A dimension has not been prepared."""


def prepared_dimension(name: str) -> Path:
    """Folder of a prepared dimension, by its `Dimension.name`.

    Raises:
        DataMissingError: it is not there; says how to prepare it and where the data are to be had.
        StorageError: its summary is damaged.
    """
    _summary(name)
    return split_dir("egothink", name)


def data_fingerprint(name: str) -> str:
    """What tells the prepared data of a dimension from any other; see `prepare_egothink`.

    Raises:
        DataMissingError, StorageError: as for `prepared_dimension`.
    """
    return _summary(name)["fingerprint"]


def load_prepared(name: str) -> "Dataset":
    """Rows of a prepared dimension: id (``existence/1``), dimension, question, answer and image.

    Raises:
        DataMissingError, StorageError: as for `prepared_dimension`.
    """
    from datasets import load_from_disk

    return load_from_disk(str(prepared_dimension(name)))[name]


def _summary(name: str) -> dict[str, Any]:
    summary = load_summary("egothink", name)
    if summary is None:
        raise DataMissingError(
            f"EgoThink's dimension {name} is not prepared in {split_dir('egothink', name)} (LMMS_EGOPLAN_DATA sets the "
            "root). Prepare all twelve with: lmms-egoplan data prepare egothink --source hub (the dataset "
            f"{HUB_DATASET}), or --source DIR with the data of {REPOSITORY_URL}"
        )
    return summary
