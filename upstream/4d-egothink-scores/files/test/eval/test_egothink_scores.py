"""Test EgoThink's score with answers that the judge has not rated."""

import math

import pytest

from lmms_eval.tasks.egothink import utils

DOC = {"id": "1", "question": "What is on the table?", "answer": "A red thermos."}


def score(monkeypatch: pytest.MonkeyPatch, *verdicts: str) -> float:
    """Return the score of answers with these verdicts."""
    results = []
    for verdict in verdicts:
        monkeypatch.setattr(utils, "chat_compeletion_openai", lambda *_, verdict=verdict, **__: (verdict, "judge"))
        results.append(utils.egothink_process_results(DOC, ["a thermos"])["gpt_eval_score"])
    return utils.egothink_aggregate_results(results)


def test_unrated_answers_are_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert score(monkeypatch, "Rating: [[1]]", "Rating: [[0.5]]", "I cannot rate this.", "") == 0.75


def test_score_is_nan_without_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert math.isnan(score(monkeypatch, "I cannot rate this."))


def test_rated_answers_count_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert score(monkeypatch, "Rating: [[1]]", "Rating: [[0]]", "[0.5]") == 0.5
