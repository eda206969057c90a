"""Metrics of Hugging Face's library evaluate: ``evaluate.load(f"{folder}/actplan_lcs")``.

The folder is what ``lmms-egoplan metrics-path actplan`` prints. evaluate takes a folder NAME that holds NAME.py,
copies that file and imports the copy.
"""

from pathlib import Path
from typing import Any

import evaluate
import yaml
from datasets import Features

from lmms_egoplan.text import clean_text


# Modules of metrics import this package, not the class: evaluate takes the first class that it finds in them.
class PlanMetric(evaluate.Metric):
    """A metric of lists of plans; halves of surrogate pairs are read as ``?``."""

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one plan; see `evaluate.Metric`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add plans; see `evaluate.Metric`.

        Raises:
            ValueError: there is no plan.
        """
        for name, values in (("predictions", predictions), ("references", references)):
            if values is not None and not len(values):
                raise ValueError(f"{name} is empty; give at least one plan")
        super().add_batch(predictions=_cleaned(predictions), references=_cleaned(references), **kwargs)


def metric_info(name: str, features: Features | list[Features]) -> evaluate.MetricInfo:
    """Return what evaluate shows of a metric, with paper and code; ``metrics.yaml`` has its texts.

    Args:
        features: of predictions and references.
    """
    texts = yaml.safe_load(Path(__file__).with_name("metrics.yaml").read_text(encoding="utf-8"))
    return evaluate.MetricInfo(**texts["all"], **texts[name], features=features)


def check_texts(name: str, values: list[str | None]) -> list[str]:
    """Return the values; evaluate lets None through.

    Raises:
        ValueError: one of them is None; with its number, from 0 on.
    """
    texts = [value for value in values if value is not None]
    if len(texts) < len(values):
        raise ValueError(f"{name}[{values.index(None)}] is None; a plan is a text, an empty one where there is no plan")
    return texts


def _cleaned(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_cleaned(member) for member in value]
    return clean_text(value) if isinstance(value, str) else value
