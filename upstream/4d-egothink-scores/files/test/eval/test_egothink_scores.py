"""Test EgoThink's scores: the judge's prompt, and answers without a rating."""

import math

import pytest

from lmms_eval.tasks.egothink import utils

DOC = {"id": "1", "question": "What is on the table?", "answer": "A red Thermos. "}


def judged(monkeypatch: pytest.MonkeyPatch, verdict: str) -> tuple[dict, str]:
    """Return the values of one answer with this verdict, and the judge's prompt."""
    prompts = []

    def complete(model: str, messages: list, temperature: float, max_tokens: int) -> tuple[str, str]:
        prompts.append(messages[-1]["content"])
        return verdict, "judge"

    monkeypatch.setattr(utils, "chat_compeletion_openai", complete)
    return utils.egothink_process_results(DOC, ["a thermos"]), prompts[0]


def test_judge_sees_the_unchanged_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    _, prompt = judged(monkeypatch, "Rating: [[1]]")
    assert "A red Thermos.\n" in prompt


def test_unrated_answers_are_excluded_from_means(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = ["Rating: [[1]]", "Rating: [[0.5]]", "I cannot rate this."]
    values = [judged(monkeypatch, verdict)[0] for verdict in verdicts]
    assert utils.egothink_aggregate_results([value["gpt_eval_score"] for value in values]) == 0.75
    assert utils.egothink_aggregate_coverage([value["gpt_eval_coverage"] for value in values]) == pytest.approx(2 / 3)


def test_score_is_nan_without_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [judged(monkeypatch, "I cannot rate this.")[0]]
    assert math.isnan(utils.egothink_aggregate_results([value["gpt_eval_score"] for value in values]))
    assert utils.egothink_aggregate_coverage([value["gpt_eval_coverage"] for value in values]) == 0
