"""A language model asked for texts: as a judge is asked, but no rating is read, and no reply is paid for twice."""

import sqlite3
from contextlib import closing

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY, SCALE, request
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.judge import JudgeError, complete_all, judge_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")


def complete(url, *prompts, **settings):
    asked = {f"id of {prompt}": Prompt(prompt) for prompt in prompts}
    return complete_all(asked, JudgeSettings("model", url, KEY, 4, **settings), title="texts")


def test_any_text_will_do_and_is_asked_for_once():
    with JudgeServer(lambda prompt, _: Reply(f"{prompt}!")) as server:
        for _ in range(2):
            found = complete(server.url, "a", "b", "a b")
            texts = {name: reply.reply for name, reply in found.items()}
            assert texts == {"id of a": "a!", "id of b": "b!", "id of a b": "a b!"}
            assert {(reply.rating, reply.error) for reply in found.values()} == {(None, None)}
        assert sorted(server.prompts) == ["a", "a b", "b"]


def test_a_reply_that_was_cut_off_is_paid_for_once_a_limit():
    with JudgeServer(lambda *_: Reply("so far", finish="length")) as server:
        for _ in range(2):
            (reply,) = complete(server.url, "a").values()
            assert reply.error.startswith("the language model's reply cannot be used: it was cut off")
            assert (reply.reply, reply.finish) == ("so far", "length")
        assert len(server.prompts) == 1
        complete(server.url, "a", max_tokens=9000)
        assert len(server.prompts) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [(Reply("too long", status=400), "HTTP 400: too long"), (Reply(body=b'{"choices": []}'), "no choices in it")],
)
def test_a_prompt_without_a_reply_is_asked_again(answer, error):
    with JudgeServer(lambda *_: answer) as server:
        for _ in range(2):
            (reply,) = complete(server.url, "a").values()
            assert error in reply.error
        assert len(server.prompts) == 2


def test_a_refusal_of_all_is_told_of_the_language_model():
    with JudgeServer(lambda *_: Reply(f"bad key {KEY}", status=401)) as server, pytest.raises(JudgeError) as error:
        complete(server.url, "a", "b")
    assert "The language model model at http://127.0.0.1" in str(error.value)
    assert KEY not in str(error.value)


def test_the_demo_judge_writes_nothing():
    with pytest.raises(JudgeError, match="compares words and writes nothing"):
        complete_all({"a": Prompt("a")}, JudgeSettings("demo"), title="texts")


def test_texts_and_judgements_stand_in_tables_of_their_own(log):
    with JudgeServer(lambda *_: Reply()) as server:
        complete(server.url, "a", "b")
        judge_all([request("c")], SCALE, JudgeSettings("model", server.url, KEY))
    with closing(sqlite3.connect(default_cache_path())) as database:
        for table, count in (("replies", 2), ("judgements", 1)):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,)
    assert any("texts: 2 of 2 prompts answered by model" in line for line in log)
