"""Metrics of Hugging Face's library evaluate: ``evaluate.load(f"{folder}/actplan_lcs")``.

The folder is what ``lmms-egoplan metrics-path`` prints. evaluate takes a folder NAME that holds NAME.py, copies that
file and imports the copy.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Features
    from evaluate import MetricInfo

_CITATION = """\
@inproceedings{su2024actplan,
  title={ActPlan-1K: Benchmarking the Procedural Planning Ability of Visual Language Models in Household Activities},
  author={Su, Ying and Ling, Zhan and Shi, Haochen and Cheng, Jiayang and Yim, Yauwai and Song, Yangqiu},
  booktitle={Proceedings of the Conference on Empirical Methods in Natural Language Processing},
  year={2024}
}
"""
_URLS = ["https://arxiv.org/abs/2410.03907", "https://github.com/HKUST-KnowComp/ActPlan-1K"]


def metric_info(description: str, inputs: str, features: "Features | list[Features]") -> "MetricInfo":
    """What evaluate shows of a metric, with paper and code.

    Args:
        inputs: arguments, results and an example.
        features: of predictions and references.
    """
    from evaluate import MetricInfo

    return MetricInfo(
        description=description,
        citation=_CITATION,
        inputs_description=inputs,
        features=features,
        reference_urls=_URLS,
    )


def check_texts(name: str, values: list[str | None]) -> list[str]:
    """The values; evaluate lets None through.

    Raises:
        ValueError: one of them is None; with its number, from 0 on.
    """
    texts = [value for value in values if value is not None]
    if len(texts) < len(values):
        raise ValueError(f"{name}[{values.index(None)}] is None; a plan is a text, an empty one where there is no plan")
    return texts
