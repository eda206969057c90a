"""Request texts from a language model, without ratings and without paying for a reply twice."""

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import KEY, SCALE, request
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.judge import complete_all, judge_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")


def complete(url, *prompts, **settings):
    asked = {f"id of {prompt}": Prompt(prompt) for prompt in prompts}
    return complete_all(asked, JudgeSettings("model", url, KEY, 4, **settings), title="texts")


def test_any_text_is_accepted_and_requested_once():
    with JudgeServer(lambda prompt, _: Reply(f"{prompt}!")) as server:
        for _ in range(2):
            replies = complete(server.url, "a", "b", "a b")
            texts = {name: reply.reply for name, reply in replies.items()}
            assert texts == {"id of a": "a!", "id of b": "b!", "id of a b": "a b!"}
            assert {(reply.rating, reply.error) for reply in replies.values()} == {(None, None)}
        assert sorted(server.prompts) == ["a", "a b", "b"]


def test_a_cut_off_reply_is_requested_once_per_limit():
    with JudgeServer(lambda *_: Reply("so far", finish="length")) as server:
        for _ in range(2):
            (reply,) = complete(server.url, "a").values()
            assert reply.error.startswith(
                "the language model's reply cannot be used: it was cut off"
            )
            assert (reply.reply, reply.finish) == ("so far", "length")
        assert len(server.prompts) == 1
        complete(server.url, "a", max_tokens=9000)
        assert len(server.prompts) == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Reply("too long", status=400), "HTTP 400: too long"),
        (Reply(body=b'{"choices": []}'), "no choices"),
    ],
)
def test_a_prompt_without_a_reply_is_sent_again(answer, error):
    with JudgeServer(lambda *_: answer) as server:
        for _ in range(2):
            (reply,) = complete(server.url, "a").values()
            assert error in reply.error
        assert len(server.prompts) == 2


def test_a_general_refusal_names_the_language_model():
    with (
        JudgeServer(lambda *_: Reply(f"bad key {KEY}", status=401)) as server,
        pytest.raises(JudgeError) as error,
    ):
        complete(server.url, "a", "b")
    assert "The language model model at http://127.0.0.1" in str(error.value)
    assert KEY not in str(error.value)


def test_the_demo_judge_writes_no_text():
    with pytest.raises(JudgeError, match=r"demo.*LMMS_EGOPLAN_JUDGE_MODEL"):
        complete_all({"a": Prompt("a")}, JudgeSettings("demo"), title="texts")


def test_texts_and_judgements_have_separate_tables(log):
    with JudgeServer(lambda *_: Reply()) as server:
        complete(server.url, "a", "b")
        judge_all([request("c")], SCALE, JudgeSettings("model", server.url, KEY))
    assert [len(select("key", table)) for table in ("replies", "judgements")] == [2, 1]
    assert any("texts: 2 of 2 prompts answered by model" in line for line in log)
