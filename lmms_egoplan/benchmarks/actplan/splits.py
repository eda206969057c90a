"""ActPlan-1K's prepared data, the one split ``test``; see `prepare_actplan` for what it holds."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.actplan.records import REPOSITORY_URL
from lmms_egoplan.storage import PreparedData

if TYPE_CHECKING:
    from datasets import Dataset

# Table 2.
INSTANCES = {"normal": 825, "counterfactual": 362}
OFFICIAL = {"test": sum(INSTANCES.values())}
# In rows of one setting alone: instances of both.
_WHOLE = "release_size"
# Raised when what is prepared changes: data of another format are refused.
DATA_FORMAT = 2


def _how(_: str) -> str:
    return (
        "Prepare it with: lmms-egoplan data prepare actplan DIR. DIR is the folder annotation of the full release, "
        f"which {REPOSITORY_URL} links"
    )


PREPARED = PreparedData("actplan", "ActPlan-1K's split {}", _how, DATA_FORMAT, OFFICIAL)


def _of_setting(docs: "Dataset", setting: str) -> "Dataset":
    """The setting's instances; their split is the setting."""
    chosen = docs.select([index for index, value in enumerate(docs["setting"]) if value == setting])
    return chosen.rename_columns({"split_size": _WHOLE, "setting_size": "split_size"})


def official_instances(doc: Mapping[str, Any]) -> int:
    """Instances that the paper has for the row's task: of its setting after `only_normal` or `only_counterfactual`."""
    return INSTANCES[doc["setting"]] if _WHOLE in doc else OFFICIAL["test"]


only_normal = partial(_of_setting, setting="normal")
only_counterfactual = partial(_of_setting, setting="counterfactual")
