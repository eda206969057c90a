"""ActPlan-1K's prepared data, the one split ``test``; see `prepare_actplan` for what it holds."""

from functools import partial
from typing import TYPE_CHECKING

from lmms_egoplan.benchmarks.actplan.records import REPOSITORY_URL
from lmms_egoplan.storage import PreparedData

if TYPE_CHECKING:
    from datasets import Dataset

# Table 2, normal and counterfactual.
OFFICIAL = {"test": 825 + 362}
# Raised when what is prepared changes: data of another format are refused.
DATA_FORMAT = 2
# Without ``problem``: the tasks show and ask the same, and no goal is checked.
_OLDEST_FORMAT = 1


def _how(_: str) -> str:
    return (
        "Prepare it with: lmms-egoplan data prepare actplan DIR. DIR is the folder annotation of the full release, "
        f"which {REPOSITORY_URL} links"
    )


PREPARED = PreparedData("actplan", "ActPlan-1K's split {}", _how, DATA_FORMAT, OFFICIAL, oldest_format=_OLDEST_FORMAT)


def _of_setting(docs: "Dataset", setting: str) -> "Dataset":
    """The setting's instances; their split is the setting."""
    chosen = docs.select([index for index, value in enumerate(docs["setting"]) if value == setting])
    return chosen.remove_columns("split_size").rename_column("setting_size", "split_size")


only_normal = partial(_of_setting, setting="normal")
only_counterfactual = partial(_of_setting, setting="counterfactual")
