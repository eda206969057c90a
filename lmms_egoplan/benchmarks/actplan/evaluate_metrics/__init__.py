"""Metrics for Hugging Face's library evaluate: ``evaluate.load(f"{folder}/actplan_lcs")``.

``lmms-egoplan metrics-path actplan`` prints the folder. evaluate expects a folder NAME that
contains NAME.py, copies that file and imports the copy.
"""

from typing import Any

import evaluate
from datasets import Features

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


_CITATION = """\
@inproceedings{su2024actplan,
  title={ActPlan-1K: Benchmarking the Procedural Planning Ability of Visual Language Models in \
Household Activities},
  author={Su, Ying and Ling, Zhan and Shi, Haochen and Cheng, Jiayang and Yim, Yauwai and Song, \
Yangqiu},
  booktitle={Proceedings of the Conference on Empirical Methods in Natural Language Processing},
  year={2024}
}
"""


def metric_info(
    description: str, inputs_description: str, features: Features | list[Features]
) -> evaluate.MetricInfo:
    """Return a metric's description for evaluate, with paper and code.

    Args:
        description: What the metric measures.
        inputs_description: Its arguments, results and an example.
        features: Features of predictions and references.
    """
    return evaluate.MetricInfo(
        description=description,
        citation=_CITATION,
        inputs_description=inputs_description,
        features=features,
        reference_urls=[
            "https://arxiv.org/abs/2410.03907",
            "https://github.com/HKUST-KnowComp/ActPlan-1K",
        ],
    )


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
