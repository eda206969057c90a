"""Phrases of Ego4D's sentences: each distinct sentence is asked for once."""

import json
import re

import pytest

from construction.language_model import environment
from judge_server import JudgeServer, Reply
from lmms_egoplan.construction.egoplan.narrations import Sentence
from lmms_egoplan.construction.egoplan.phrases import BAD_PHRASE, NO_PHRASES, to_phrases
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.usage import LlmUsage

__all__ = ["environment"]  # a fixture
pytestmark = pytest.mark.usefixtures("environment")

LINES = re.compile(r"^\d+\. C (.*)$", re.MULTILINE)


def sentences_of(uid, numbers):
    return [
        Sentence(f"{uid} at {index}", f"C takes cup {number}", 2.0 * index, 2.0 * index + 1)
        for index, number in enumerate(numbers)
    ]


def reply(prompt, _):
    return Reply(json.dumps([text.replace("takes", "take") for text in LINES.findall(prompt)]))


def phrases(server, corpus):
    settings = JudgeSettings("model", server.url, concurrency=1, usage=LlmUsage())
    sentences = {uid: sentences_of(uid, numbers) for uid, numbers in corpus.items()}
    return to_phrases(sentences, {}, settings)


def texts(videos):
    return {video.video_id: [action.text for action in video.actions] for video in videos}


def test_each_distinct_sentence_is_asked_for_once_and_a_grown_corpus_reuses_replies():
    corpus = {"a": [*range(40), 3, 3], "b": [*range(60), 7], "c": [5] * 300}
    with JudgeServer(reply) as server:
        videos, rejections = phrases(server, corpus)
        assert [len(LINES.findall(prompt)) for prompt in server.prompts] == [50, 10]
        asked = [line for prompt in server.prompts for line in LINES.findall(prompt)]
        assert asked == [f"takes cup {number}" for number in range(60)]
        assert texts(videos) == {
            uid: [f"take cup {number}" for number in numbers] for uid, numbers in corpus.items()
        }
        assert rejections == []
        server.prompts.clear()
        grown = corpus | {"d": [0, 99, 59]}
        videos, _ = phrases(server, grown)
        (prompt,) = server.prompts
        assert len(LINES.findall(prompt)) == 11
        assert texts(videos)["d"] == ["take cup 0", "take cup 99", "take cup 59"]


def test_a_rejected_phrase_is_rejected_wherever_its_sentence_occurs():
    corpus = {"a": range(60), "b": [2, 55, 2, 1]}

    def spoiled(prompt, before):
        answer = json.loads(reply(prompt, before).text)
        if "take cup 2" in answer:
            answer[2] = "take " * 13
            return Reply(json.dumps(answer))
        return Reply(json.dumps(answer[1:]))

    with JudgeServer(spoiled) as server:
        videos, rejections = phrases(server, corpus)
    where = {rejection.where: rejection.reason for rejection in rejections}
    lost = [f"a at {number}" for number in range(50, 60)]
    assert where == {
        **dict.fromkeys(["a at 2", "b at 0", "b at 2"], BAD_PHRASE),
        **dict.fromkeys([*lost, "b at 1"], NO_PHRASES),
    }
    assert texts(videos)["b"] == ["take cup 1"]
    unknown = {video.video_id: video.unknown for video in videos}
    assert unknown["b"] == ((0, 100), (200, 300), (400, 500))
