"""Compute EgoThink's metrics (sec. 4.1, Table 3): values per question, and means over a run.

The main metric is ``score``: 100 times the judge's rating (`JudgedAnswer.score`), averaged over the
questions of a dimension. The benchmark's average is the plain mean of the twelve dimensions.

The values of a question are records, as a harness logs them. Only judged answers have a score. An
answer without a rating is neither right nor wrong; it only lowers the coverage. (Under a protocol
with `JudgeProtocol.failed`, a failed judgement also has a score, and is counted in
``judge_failed``.)
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.aggregations import Values, judge_tokens
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.coverage import coverage_fields
from lmms_egoplan.judging.judgement import DEFAULT_PROTOCOL


def score_answer(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Return the values of one question.

    Args:
        doc: A row of the prepared dataset.
        responses: One response, the text of a `JudgedAnswer`.

    Returns:
        ``score``: all fields of `JudgedAnswer` and, unless it leaves the mean, its ``score``,
            0..100 or -100. Also ``judge_coverage``, ``judge_failed`` (failed judgements that count
            in the mean), ``truncated``, ``truncated_of``, ``suspect``, ``judge_model``,
            ``judge_protocol``, ``judge_prompt_tokens``, ``judge_reply_tokens``,
            ``judge_tokens_of``, ``prompts``, ``num_questions`` and the values of `coverage_fields`.

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
    >>> values["score"]["score"], values["judge_coverage"], values["judge_model"]
    (50.0, {'judged': True}, {'judge': 'gpt-4o-2024-11-20'})
    """
    (text,) = responses
    judged = JudgedAnswer.from_text(text)
    if judged.id != doc["id"]:
        raise ValueError(f"question {doc['id']} got the judged answer to {judged.id}")
    is_judged = judged.rating is not None
    record = asdict(judged)
    if judged.score is not None:
        record["score"] = judged.score
    protocol = None
    if judged.judge is not None:
        protocol = judged.protocol or DEFAULT_PROTOCOL
    return {
        "score": record,
        "judge_coverage": {"judged": is_judged},
        "judge_failed": {"failed": judged.score is not None and not is_judged},
        "truncated": {"truncated": judged.truncated},
        "truncated_of": {"truncated": judged.truncated},
        "suspect": {"suspect": judged.suspect},
        "judge_model": {"judge": judged.judge if is_judged else None},
        "judge_protocol": {"protocol": protocol},
        **judge_tokens(judged.judge_prompt_tokens, judged.judge_reply_tokens),
        "prompts": {"prompts": judged.prompts},
        "num_questions": {"id": judged.id},
        **coverage_fields(doc, EGOTHINK.official[dimension_of(judged.id)], is_judged),
    }


def prompts_used(values: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the prompt families that were used, sorted and joined by semicolons.

    None is ``unknown``.

    >>> prompts_used([{"prompts": "paper's"}, {"prompts": None}])
    "paper's; unknown"
    """
    return "; ".join(sorted({value["prompts"] or "unknown" for value in values}))


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
