"""Values of a question, and their aggregation over a run.

A scorer returns the values of one question by metric. `metric_list` in the YAML files of the tasks
names the aggregations. A value is a record, not a number, so that a harness logs it in full:

- Most are a `Score`. `mean_score` averages them.
- ``details`` has everything that is no result, such as predictions, counts and tokens of a judge.
  `aggregate_details` aggregates each entry by a function of its own. A harness's table does not
  show it.
- Others have the fields that their aggregation documents.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypedDict

Value = Mapping[str, Any]
Values = dict[str, Value]
"""The values of one question, by metric."""

Aggregations = Mapping[str, Callable[[Sequence[Any]], Any]]
"""The function that aggregates each entry of the details."""

DETAILS = "details"
"""Name of the metric for everything that is no result."""


class _Clustered(TypedDict):
    cluster: str


class Score(_Clustered, total=False):
    """A question's value in the mean of a metric.

    Attributes:
        score: The value; absent if the question is not in the mean.
        cluster: Name of the group of dependent questions, such as their video. A harness and the
            report compute standard errors and intervals from these groups.
    """

    score: float


def score_value(score: float | None, cluster: str) -> Score:
    """Return a `Score`; None for a question that is not in the mean.

    >>> score_value(True, "P01_01"), score_value(None, "P01_01")
    ({'cluster': 'P01_01', 'score': 1.0}, {'cluster': 'P01_01'})
    """
    if score is None:
        return Score(cluster=cluster)
    return Score(cluster=cluster, score=float(score))


def mean_score(values: Sequence[Value]) -> float:
    """Return the mean score over the questions with a score; NaN without any.

    Args:
        values: Records of the form of `Score`.

    Raises:
        KeyError: a value is empty.

    >>> mean_score([score_value(0.5, "a"), score_value(0.25, "b"), score_value(None, "b")])
    0.375
    """
    if not all(values):
        raise KeyError("score")
    scores = [value["score"] for value in values if "score" in value]
    return fmean(scores) if scores else math.nan


def share_of_found(values: Sequence[Value]) -> float:
    """Return the fraction in [0, 1] of found items that are judged, or suspect; NaN without items.

    Args:
        values: Records with ``found``, a number of items, and a second field, the number of them to
            count.

    >>> share_of_found([{"found": 3, "judged": 3}, {"found": 1, "judged": 0}])
    0.75
    """
    total = 0
    counted = 0
    for value in values:
        total += value["found"]
        counted += sum(number for name, number in value.items() if name != "found")
    return counted / total if total else math.nan


def question_sets(values: Sequence[Value]) -> str:
    """Return the names of the question sets, see `tallied`.

    >>> question_sets([{"name": "official"}, {"name": "official"}])
    'official'
    """
    return tallied([value["name"] for value in values])


def aggregate_details(values: Sequence[Value], aggregations: Aggregations) -> dict[str, Any]:
    """Aggregate each entry over the questions that have it. Omit entries that no question has.

    Args:
        values: The ``details`` of the questions.
        aggregations: The function of each entry.

    >>> aggregate_details([{"ties": True, "prediction": "B"}, {"ties": False}], {"ties": count})
    {'ties': 1}
    """
    aggregated = {}
    for name, aggregate in aggregations.items():
        entries = [value[name] for value in values if name in value]
        if entries:
            aggregated[name] = aggregate(entries)
    return aggregated


def count(entries: Sequence[float | None]) -> float:
    """Count the true flags, or add the known numbers.

    >>> count([True, False])
    1
    >>> count([210, None, 190])
    400
    """
    return sum(entry for entry in entries if entry is not None)


def the_same(entries: Sequence[Any]) -> Any:
    """Return the entry that all questions share, such as the size of their split.

    Raises:
        ValueError: the entries differ.

    >>> the_same([3355, 3355])
    3355
    """
    (entry,) = set(entries)
    return entry


def names(entries: Sequence[str | list[str] | None], without: str = "none") -> str:
    """Return all names, sorted and joined by commas.

    Args:
        entries: A name, a list of names, or None.
        without: Result without names.

    >>> names(["gpt-4o", None, "gpt-4o"])
    'gpt-4o'
    >>> names([["Qwen3-32B", "gpt-4o"], []])
    'Qwen3-32B, gpt-4o'
    """
    distinct: set[str | None] = set()
    for entry in entries:
        distinct.update(entry if isinstance(entry, list) else [entry])
    distinct.discard(None)
    return ", ".join(sorted(map(str, distinct))) or without


def tallied(entries: Sequence[str | None]) -> str:
    """Return all names, most frequent first.

    They have counts if there is more than one name. None is shown as ``unknown``.

    >>> tallied(["video", "video", "images"])
    'video (2), images (1)'
    >>> tallied(["official"])
    'official'
    """
    counts = Counter(entry or "unknown" for entry in entries)
    if len(counts) == 1:
        (name,) = counts
        return name
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return ", ".join(f"{name} ({counts[name]})" for name in ordered)


def judge_tokens(prompt: int | None, reply: int | None) -> dict[str, int | None]:
    """Return the entries of ``details`` about the tokens of one question's judgement.

    Args:
        prompt: Tokens of the judge's prompts; None if unknown.
        reply: Tokens of its replies; None if unknown.

    Returns:
        Both counts, and ``judge_tokens_of``: 1 if both are known, else 0.

    >>> judge_tokens(210, None)
    {'judge_prompt_tokens': 210, 'judge_reply_tokens': None, 'judge_tokens_of': 0}
    """
    return {
        "judge_prompt_tokens": prompt,
        "judge_reply_tokens": reply,
        "judge_tokens_of": int(prompt is not None and reply is not None),
    }
