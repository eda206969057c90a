"""ActPlan-1K's prepared data, the one split ``test``, and what a model sees of a row."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from PIL import Image

from lmms_egoplan.benchmarks.splits import ACTPLAN

if TYPE_CHECKING:
    from datasets import Dataset


REPOSITORY_URL = "https://github.com/HKUST-KnowComp/ActPlan-1K"
# Table 2.
INSTANCES = {"normal": 825, "counterfactual": 362}
# In rows of one setting alone: instances of both.
_WHOLE = "release_size"
PREPARED = ACTPLAN


def _of_setting(docs: "Dataset", setting: str) -> "Dataset":
    """Select a setting's instances; their split is the setting."""
    chosen = docs.select([index for index, value in enumerate(docs["setting"]) if value == setting])
    return chosen.rename_columns({"split_size": _WHOLE, "setting_size": "split_size"})


def official_instances(doc: Mapping[str, Any]) -> int:
    """Instances that the paper has for the row's task: of its setting after `only_normal` or `only_counterfactual`."""
    return INSTANCES[doc["setting"]] if _WHOLE in doc else PREPARED.official["test"]


only_normal = partial(_of_setting, setting="normal")
only_counterfactual = partial(_of_setting, setting="counterfactual")


def views(doc: Mapping[str, Any]) -> list[Image.Image]:
    """Return the views of the environment as RGB images, in the order of the release; Table 6 is without them.

    Args:
        doc: a row of the prepared dataset.
    """
    return [image.convert("RGB") for image in doc["images"]]


def prompt_text(doc: Mapping[str, Any]) -> str:
    """Return the task description as released; the instruction and the eight actions are part of it (sec. 3.1).

    Args:
        doc: a row of the prepared dataset; only ``task_description`` is read.
    """
    return doc["task_description"]
