import asyncio
import threading
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply
from judgement_rows import select
from judging.asked import KEY, SCALE, judge, read, request
from lmms_egoplan.judging.client import Client
from lmms_egoplan.judging.endpoint import JUDGING
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import JudgeSettings
from patience import FOREVER_S

pytestmark = pytest.mark.usefixtures("data")


def test_judgements_are_in_order(log):
    ratings = {f"prompt {n}": ("0", "0.5", "1")[n % 3] for n in range(30)}

    def reply(prompt, _):
        return Reply(
            f"Rating: [[{ratings[prompt]}]]", delay=0.05 * (prompt[-1] == "7"), model="m-1"
        )

    with JudgeServer(reply) as server:
        judgements = judge(server.url, ratings)
        names = list(ratings)[::-1]
        again = judge(server.url, names)
    assert [judgement.rating for judgement in judgements] == [
        float(rating) for rating in ratings.values()
    ]
    assert sorted(server.prompts) == sorted(ratings)
    for judgement in judgements:
        assert (judgement.judge, judgement.error, judgement.cached) == ("m-1", None, False)
        assert (judgement.prompt_tokens, judgement.completion_tokens) == (2, 2)
        assert 0 <= judgement.seconds < FOREVER_S
    assert again == [replace(judgement, cached=True) for judgement in judgements[::-1]]
    assert "Judging: 30 of 30 answers judged by m-1" in log[-2]
    assert "30 now, 0 from the cache; 0 failed, 0 not reached; 0 retries" in log[-2]
    assert "30 requests, 60 prompt tokens, 60 reply tokens" in log[-2]
    assert "0 now, 30 from the cache" in log[-1]


def test_the_judges_name_is_safe_to_print(log):
    """It comes from the endpoint, and is printed in terminals, tables, Markdown and HTML."""
    names = {
        "org/Judge-7B:free (v1.5)@q4_K": "org/Judge-7B:free (v1.5)@q4_K",
        "\x1b[31mjudge\x1b[0m": "?31mjudge?0m",
        "[bold red]judge[/]\r\njudge": "?bold red?judge?/?judge",
        "<script>a</script>|b`c`": "?script?a?/script?b?c?",
        "ju\u202edge\u200b": "ju?dge?",
        "법관-1": "법관-1",
        "x" * 1000: "x" * 120,
        "\t": "?",
    }
    with JudgeServer(lambda prompt, _: Reply(model=prompt)) as server:
        judged = judge(server.url, names)
        again = judge(server.url, names)
    assert (
        [judgement.judge for judgement in judged]
        == [judgement.judge for judgement in again]
        == [*names.values()]
    )
    assert not {char for line in log for char in line.rstrip("\n")} & set("\x1b\u202e\u200b\r")


def test_sends_one_user_message_at_temperature_0():
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, ["how good?"])
    message = {"role": "user", "content": "how good?"}
    assert server.bodies == [
        {"model": "judge", "messages": [message], "temperature": 0, "max_tokens": 4096}
    ]
    (headers, *_) = server.headers
    assert headers["authorization"] == f"Bearer {KEY}"


def test_parameters_are_sent_and_change_the_cache_key(log):
    def reply(*_):
        body = server.bodies[-1]
        if "temperature" in body:
            return Reply(
                "Unsupported value: 'temperature' does not support 0 with this model.", status=400
            )
        return Reply(f"[[{int(body['reasoning_effort'] == 'high')}]]", model="o-1")

    def ratings(**settings):
        return judge(server.url, ["a"], **settings)[0]

    with JudgeServer(reply) as server:
        assert "LMMS_EGOPLAN_JUDGE_PARAMETERS can change or remove temperature" in ratings().error
        for _ in range(2):
            for effort in ("low", "high"):
                judgement = ratings(
                    parameters={"reasoning_effort": effort}, limit_name="max_completion_tokens"
                )
                assert judgement.rating == (effort == "high")
                assert judgement.judge == f'o-1 (reasoning_effort="{effort}", temperature=null)'
        # The limit is not part of the cache key.
        assert ratings(parameters={"reasoning_effort": "low"}, max_tokens=9).cached
    sent = [
        {"model": "judge", "max_completion_tokens": 4096, "reasoning_effort": effort}
        for effort in ("low", "high")
    ]
    assert [
        {k: v for k, v in body.items() if k != "messages"} for body in server.bodies[1:]
    ] == sent
    assert sum('reasoning_effort="low", temperature=null) at http' in line for line in log) == 1


def test_sends_images_before_the_text():
    images = ("data:image/jpeg;base64,AA==", "data:image/png;base64,AQ==")
    with JudgeServer(lambda *_: Reply()) as server:
        judge_all(
            [replace(request("how good?"), images=images)],
            SCALE,
            JudgeSettings("judge", server.url),
        )
    image_parts = [{"type": "image_url", "image_url": {"url": url}} for url in images]
    (message,) = server.bodies[0]["messages"]
    assert message == {
        "role": "user",
        "content": [*image_parts, {"type": "text", "text": "how good?"}],
    }


def test_images_change_the_cache_key():
    requests = [
        replace(request("a"), images=images) for images in (("x",), ("y",), ("y", "x"), (), ("x",))
    ]
    with JudgeServer(lambda *_: Reply()) as server:
        for _ in range(2):
            judgements = judge_all(requests, SCALE, JudgeSettings("judge", server.url))
            assert [judgement.rating for judgement in judgements] == [1] * 5
            assert len(server.prompts) == 4
    assert select("prompt", "judgements") == [("a",)] * 4


def test_stores_prompt_reply_rating_model_and_tokens():
    with JudgeServer(lambda *_: Reply("Fine. [[0.5]]", model="m-1")) as server:
        judge(server.url, ["how good?"])
    (row,) = select(
        "prompt, reply, rating, model, endpoint, prompt_tokens, completion_tokens", "judgements"
    )
    assert row == ("how good?", "Fine. [[0.5]]", 0.5, "m-1", server.url, 2, 2)


def test_the_model_but_not_the_address_changes_the_cache_key(log):
    with JudgeServer(lambda *_: Reply()) as first, JudgeServer(lambda *_: Reply()) as server:
        judge(first.url, ["a", "b"])
        assert " from http" not in log[-1]
        judge(server.url, ["a", "c", "a", "b"])
        assert server.prompts == ["c"]
    assert f"1 now, 3 from the cache (3 of them from {first.url}); 0 failed" in log[-1]
    with JudgeServer(lambda *_: Reply()) as server:
        judge(server.url, ["a"], model="other")
    assert server.prompts == ["a"]


def test_the_concurrency_is_limited():
    """Hold every reply until twelve requests have arrived."""
    twelve = threading.Barrier(12, timeout=FOREVER_S)
    with JudgeServer(lambda *_: twelve.wait() >= 0 and Reply()) as server:
        judge(server.url, map(str, range(60)), concurrency=12)
    assert server.peak == 12


def test_a_duplicate_prompt_is_sent_once():
    with JudgeServer(lambda *_: Reply(delay=0.05)) as server:
        judgements = judge(server.url, ["a", "b", "a", "a"])
    assert sorted(server.prompts) == ["a", "b"]
    assert judgements[0] == judgements[2] == judgements[3]


def test_a_cached_reply_is_read_by_the_current_scale():
    with JudgeServer(lambda *_: Reply("[[1]] or [[0]]")) as server:
        judge(server.url, ["a"])
        first = replace(SCALE, read=lambda verdict: read(verdict[:5]))
        (judgement,) = judge(server.url, ["a"], scale=first)
        assert (judgement.rating, judgement.cached, len(server.prompts)) == (1, True, 1)
        none = replace(SCALE, read=lambda verdict: None)
        for _ in range(2):
            (judgement,) = judge(server.url, ["a"], scale=none)
            assert (judgement.rating, judgement.reply, len(server.prompts)) == (
                None,
                "[[1]] or [[0]]",
                1,
            )
            assert "stored reply" in judgement.error


def test_a_stored_reply_without_a_rating_is_read_by_the_current_scale(log):
    with JudgeServer(lambda *_: Reply("Rating: [1]")) as server:
        (judgement,) = judge(server.url, ["a"])
        assert (judgement.rating, len(server.prompts)) == (None, 3)
        (judgement,) = judge(server.url, ["a"], scale=replace(SCALE, read=lambda verdict: 1.0))
        assert (judgement.rating, judgement.error, judgement.cached) == (1, None, True)
        assert len(server.prompts) == 3
        assert "1 of 1 answers judged" in log[-1]
        assert "1 from the cache" in log[-1]
        judge(server.url, ["a"])
        assert len(server.prompts) == 6  # without a rating, it is requested again as before


def test_an_incomplete_stored_reply_has_no_rating(log):
    with JudgeServer(lambda *_: Reply("[[1]]", finish="length")) as server:
        for _ in range(2):
            assert judge(server.url, ["a"])[0].rating is None
        assert len(server.prompts) == 6


def test_a_lone_surrogate_is_sent_as_a_question_mark():
    with JudgeServer(lambda *_: Reply()) as server:
        judgements = judge(server.url, ["half \ud800", "b", "half ?"])
        assert all(judgement.cached for judgement in judge(server.url, ["half \udfff"]))
    assert sorted(server.prompts) == ["b", "half ?"]
    assert [judgement.rating for judgement in judgements] == [1, 1, 1]


def test_works_inside_a_running_loop():
    async def notebook(prompts):
        return judge(server.url, prompts)

    with JudgeServer(lambda *_: Reply()) as server:
        for prompts in (["a", "b"], []):
            judgements = asyncio.run(notebook(prompts))
            assert [judgement.rating for judgement in judgements] == [1] * len(prompts)


def test_asks_azure():
    with JudgeServer(lambda *_: Reply()) as server:
        azure = {
            "azure_endpoint": server.url.removesuffix("/v1"),
            "azure_api_version": "2024-02-15-preview",
        }
        settings = JudgeSettings("deployment", None, KEY, **azure)
        (judgement,) = judge_all([request("a")], SCALE, settings)
        assert probe(settings) == "deployment"
    assert (judgement.rating, judgement.judge) == (1, "deployment")
    assert server.headers[0]["api-key"] == KEY


def test_requests_have_the_headers_of_the_library(monkeypatch):
    """They are sent without its help, which takes a third of the time."""
    monkeypatch.setenv("OPENAI_ORG_ID", "the-organization")

    async def ask_twice(settings):
        async with Client(settings, lambda: None, JUDGING) as client:
            await client.ask(Prompt("ours"))
            body = client.body(Prompt("theirs"))
            await client.call(lambda api: api.post("/chat/completions", cast_to=object, body=body))

    with JudgeServer(lambda *_: Reply()) as server:
        asyncio.run(ask_twice(JudgeSettings("judge", server.url, KEY)))
    # Those of each request: its size, and the library's counts of retries and seconds.
    ours, theirs = (dict(headers) for headers in server.headers)
    assert [headers.pop("content-length") for headers in (ours, theirs)] != ["0", "0"]
    assert ours.items() <= theirs.items()
    assert {*theirs} - {*ours} <= {"x-stainless-retry-count", "x-stainless-read-timeout"}
    assert ours["authorization"] == f"Bearer {KEY}"
    assert ours["openai-organization"] == "the-organization"
