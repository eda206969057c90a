"""The demo's backend, which looks up replies."""

import json

import pytest

from harnesses.lmms_eval.small_requests import TASK, generate, ranking_requests
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lmms_eval.scripted import Scripted
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood


@pytest.fixture
def model(tmp_path):
    replies = {TASK: {"existence/1": "a cup", "7": "open door"}}
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    return Scripted(str(tmp_path), batch_size=8)


def test_replies_are_looked_up_by_question_id(model):
    docs = [{"text": "What is this?", "id": "existence/1"}, {"text": "What next?", "sample_id": 7}]
    assert generate(model, docs) == ["a cup", "open door"]


def test_the_reply_is_the_likeliest_continuation(model):
    requests = ranking_requests(
        model, [{"text": "?", "sample_id": 7, "choices": ["close door", "open door", "wait"]}]
    )
    scores = [parse_loglikelihood(result.text) for result in model.loglikelihood(requests)]
    assert [score.is_greedy for score in scores] == [False, True, False]
    assert min(scores, key=lambda score: score.loss) == scores[1]


def test_unknown_questions_raise(model):
    with pytest.raises(LmmsEgoplanError, match=f"{TASK} existence/2"):
        generate(model, [{"text": "What is this?", "id": "existence/2"}])
