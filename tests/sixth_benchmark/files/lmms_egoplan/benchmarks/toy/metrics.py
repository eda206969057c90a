"""Compute the metrics: values per question, and their aggregation over a run.

The main metric is ``score``: the percentage of right answers, or of right choices.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lmms_egoplan.benchmarks.aggregations import (
    Aggregations,
    Value,
    Values,
    aggregate_details,
    count,
    names,
    score_value,
    the_same,
)
from lmms_egoplan.benchmarks.splits import TOY
from lmms_egoplan.benchmarks.toy.judge import JudgedAnswer
from lmms_egoplan.coverage import coverage_values, split_details
from lmms_egoplan.ranking.audits import RANKING, ranking_details, summarize
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood


def score_answer(doc: Mapping[str, Any], responses: Sequence[str]) -> Values:
    """Score a question that was answered in words.

    Args:
        doc: A row of the prepared dataset.
        responses: One response, the text of a `JudgedAnswer`.

    Raises:
        ValueError: The response is no judged answer.
    """
    (text,) = responses
    judged = JudgedAnswer.from_text(text)
    return _values(doc, judged.rating, {"answer": asdict(judged), "judge_model": judged.judge})


def score_ranking(doc: Mapping[str, Any], responses: Sequence[Any]) -> Values:
    """Score a question whose choices were ranked by mean log-probability per token.

    Args:
        doc: A row of the prepared dataset.
        responses: One per choice, as `parse_loglikelihood` reads them.

    Raises:
        ValueError: A response cannot be read.

    >>> doc = {"id": "1", "answer": "a cup", "choices": ["a cup", "a pan"]}
    >>> score_ranking(doc, [(0.5, True), (0.75, False)])["score"]
    {'cluster': '1', 'score': 100.0}
    """
    scores = [parse_loglikelihood(response) for response in responses]
    losses = [score.loss for score in scores if score.loss is not None]
    prediction = None
    if len(losses) == len(doc["choices"]) and all(map(math.isfinite, losses)):
        prediction = doc["choices"][losses.index(min(losses))]
    rating = None if prediction is None else float(prediction == doc["answer"])
    answer = {"id": doc["id"], "answer": prediction, "rating": rating, "losses": losses}
    return _values(doc, rating, {"answer": answer, **ranking_details(scores)})


def _values(doc: Mapping[str, Any], rating: float | None, details: Mapping[str, Any]) -> Values:
    score = None if rating is None else 100 * rating
    return {
        "score": score_value(score, doc["id"]),
        **coverage_values(doc, TOY.official["test"], scored=rating is not None),
        "details": {**details, "num_questions": 1, **split_details(doc)},
    }


def details(values: Sequence[Value]) -> dict[str, Any]:
    """Aggregate the ``details`` of both tasks.

    >>> details([{"num_questions": 1, "judge_model": "gpt-4o"}, {"num_questions": 1}])
    {'judge_model': 'gpt-4o', 'num_questions': 2}
    """
    return aggregate_details(values, _AGGREGATIONS)


_AGGREGATIONS: Aggregations = {
    "judge_model": names,
    RANKING: summarize,
    "num_questions": count,
    "split_size": the_same,
}
