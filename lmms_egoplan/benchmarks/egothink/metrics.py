"""Compute EgoThink's metrics (sec. 4.1, Table 3): values per question, and means over a run.

The main metric is ``score``: 100 times the judge's rating (`JudgedAnswer.score`), averaged over the
questions of a dimension. The benchmark's average is the plain mean of the twelve dimensions.

Only judged answers have a score. An answer without a rating is neither right nor wrong; it only
lowers the coverage. (Under a protocol with `JudgeProtocol.failed`, a failed judgement also has a
score, and is counted in ``judge_failed``.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.aggregations import (
    Aggregations,
    Value,
    Values,
    aggregate_details,
    count,
    judge_tokens,
    names,
    score_value,
    the_same,
)
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.coverage import coverage_values, split_details
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL


def score_answer(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one question.

    Args:
        doc: A row of the prepared dataset.
        responses: One response, the text of a `JudgedAnswer`.

    Returns:
        - ``score``: 0..100, or -100 for a failed judgement that counts in the mean; without a score
          if the answer leaves the mean
        - ``judge_coverage``, ``truncated``, ``suspect``: 1 if the answer has a rating, was ended by
          the limit on new tokens, or is suspect; else 0. Without a score if unknown
        - the values of `coverage_values`
        - ``details``: ``answer``, all fields of `JudgedAnswer`; ``judge_failed``, whether a failed
          judgement counts in the mean; ``judge_model``, ``judge_protocol``, the entries of
          `judge_tokens`, ``truncated_of``, ``prompts``, ``num_questions``, and those of
          `split_details`

    Raises:
        ValueError: There is not exactly one response, it is not a judged answer, or it answers
            another question.

    >>> judged = JudgedAnswer(
    ...     id="existence/1",
    ...     answer="a cup",
    ...     truncated=False,
    ...     suspect=False,
    ...     rating=0.5,
    ...     judgement="Rating: [[0.5]]",
    ...     judge="gpt-4o-2024-11-20",
    ...     error=None,
    ... )
    >>> values = score_answer({"id": "existence/1"}, [judged.to_text()])
    >>> values["score"], values["details"]["judge_model"]
    ({'cluster': 'existence/1', 'score': 50.0}, 'gpt-4o-2024-11-20')
    """
    (text,) = responses
    judged = JudgedAnswer.from_text(text)
    if judged.id != doc["id"]:
        raise ValueError(f"question {doc['id']} got the judged answer to {judged.id}")
    is_judged = judged.rating is not None
    # Questions are independent, so each is a separate cluster.
    return {
        "score": score_value(judged.score, judged.id),
        "judge_coverage": score_value(is_judged, judged.id),
        "truncated": score_value(judged.truncated, judged.id),
        "suspect": score_value(judged.suspect, judged.id),
        **coverage_values(doc, EGOTHINK.official[dimension_of(judged.id)], is_judged),
        "details": _details(doc, judged),
    }


def _details(doc: Mapping[str, Any], judged: JudgedAnswer) -> dict[str, Any]:
    is_judged = judged.rating is not None
    protocol = None
    if judged.judge is not None:
        protocol = judged.protocol or DEFAULT_PROTOCOL
    return {
        "answer": asdict(judged),
        "judge_failed": judged.score is not None and not is_judged,
        "judge_model": judged.judge if is_judged else None,
        "judge_protocol": protocol,
        **judge_tokens(judged.judge_prompt_tokens, judged.judge_reply_tokens),
        "truncated_of": int(judged.truncated is not None),
        "prompts": judged.prompts,
        "num_questions": 1,
        **split_details(doc),
    }


def details(values: Sequence[Value]) -> dict[str, Any]:
    """Aggregate the ``details`` of `score_answer`.

    >>> details([{"num_questions": 1, "judge_model": None}, {"num_questions": 1}])
    {'judge_model': 'none', 'num_questions': 2}
    """
    return aggregate_details(values, _AGGREGATIONS)


def prompts_used(entries: Sequence[str | None]) -> str:
    """Return the names of the prompt families that were used, sorted and joined by semicolons.

    None is ``unknown``.

    >>> prompts_used(["paper's", None])
    "paper's; unknown"
    """
    return "; ".join(sorted({entry or "unknown" for entry in entries}))


_AGGREGATIONS: Aggregations = {
    "judge_failed": count,
    "judge_model": names,
    "judge_protocol": names,
    "judge_prompt_tokens": count,
    "judge_reply_tokens": count,
    "judge_tokens_of": count,
    "truncated_of": count,
    "prompts": prompts_used,
    "num_questions": count,
    "split_size": the_same,
    "without_partner": the_same,
}


def average(scores: Sequence[float]) -> float:
    """Return the plain mean of the scores of dimensions, as Table 3's Average.

    Dimensions have equal weight, although two of them have twice as many questions.

    >>> average([60.0, 48.0])
    54.0
    """
    return sum(scores) / len(scores)


def mean_over_dimensions(
    values: Sequence[float], sizes: Sequence[int], weight_by_size: Any
) -> float:
    """Return the `average` of a metric over the twelve dimensions, or the mean weighted by sizes.

    lmms-eval's groups call this function.

    Returns:
        The mean; NaN, with an error in the log, unless there are twelve values. There are more if a
        capability's group runs together with egothink_bench, since the harness then counts its
        dimensions twice.

    >>> mean_over_dimensions([60.0] * 11 + [48.0], sizes=[50] * 11 + [100], weight_by_size=False)
    59.0
    """
    if len(values) != len(DIMENSION_NAMES):
        logger.error(
            f"EgoThink: no mean over {len(DIMENSION_NAMES)} dimensions from {len(values)} values; "
            "run egothink_bench without its subgroups; it reports them anyway"
        )
        return math.nan
    if not weight_by_size:
        return average(values)
    return sum(value * size for value, size in zip(values, sizes, strict=True)) / sum(sizes)
