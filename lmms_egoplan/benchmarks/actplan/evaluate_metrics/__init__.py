"""Metrics of Hugging Face's library evaluate: ``evaluate.load(f"{folder}/actplan_lcs")``.

The folder is what ``lmms-egoplan metrics-path actplan`` prints. evaluate takes a folder NAME that holds NAME.py,
copies that file and imports the copy.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from datasets import Features
    from evaluate import MetricInfo


def metric_info(name: str, features: "Features | list[Features]") -> "MetricInfo":
    """What evaluate shows of a metric, with paper and code; its texts stand in ``metrics.yaml``.

    Args:
        features: of predictions and references.
    """
    from evaluate import MetricInfo

    texts = yaml.safe_load(Path(__file__).with_name("metrics.yaml").read_text(encoding="utf-8"))
    return MetricInfo(**texts["all"], **texts[name], features=features)


def check_texts(name: str, values: list[str | None]) -> list[str]:
    """The values; evaluate lets None through.

    Raises:
        ValueError: one of them is None; with its number, from 0 on.
    """
    texts = [value for value in values if value is not None]
    if len(texts) < len(values):
        raise ValueError(f"{name}[{values.index(None)}] is None; a plan is a text, an empty one where there is no plan")
    return texts
