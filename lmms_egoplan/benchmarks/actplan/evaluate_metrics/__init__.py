"""Metrics for Hugging Face's library evaluate: ``evaluate.load(f"{folder}/actplan_lcs")``.

``lmms-egoplan metrics-path actplan`` prints the folder. evaluate expects a folder NAME that
contains NAME.py, copies that file and imports the copy.
"""

from typing import Any

import evaluate
from datasets import Features

from lmms_egoplan.paths import module_yaml
from lmms_egoplan.text import clean_text


# Metric modules import this package instead of the class, because evaluate uses the first class in
# a module.
class PlanMetric(evaluate.Metric):
    """A metric for lists of plans; halves of surrogate pairs are read as ``?``."""

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one plan; see `evaluate.Metric`."""
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add plans; see `evaluate.Metric`.

        Raises:
            ValueError: The list is empty.
        """
        for name, values in (("predictions", predictions), ("references", references)):
            if values is not None and not len(values):
                raise ValueError(f"{name} is empty; pass at least one plan")
        super().add_batch(
            predictions=_cleaned(predictions), references=_cleaned(references), **kwargs
        )


def metric_info(name: str, features: Features | list[Features]) -> evaluate.MetricInfo:
    """Return a metric's description for evaluate, with paper and code; the texts come from
    ``__init__.yaml``.

    Args:
        name: Name of the metric.
        features: Features of predictions and references.
    """
    texts = module_yaml(__file__)
    return evaluate.MetricInfo(**texts["all"], **texts[name], features=features)


def check_texts(name: str, values: list[str | None]) -> list[str]:
    """Check that no value is None, which evaluate accepts, and return the values.

    Raises:
        ValueError: A value is None; the error gives its index, from 0.
    """
    texts = [value for value in values if value is not None]
    if len(texts) < len(values):
        raise ValueError(
            f"{name}[{values.index(None)}] is None; expected a text (empty for a missing plan)"
        )
    return texts


def _cleaned(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_cleaned(member) for member in value]
    return clean_text(value) if isinstance(value, str) else value
