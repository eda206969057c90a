import logging
import sqlite3
import threading
from contextlib import closing

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY, judge
from lmms_egoplan.judging import cache as cache_module
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.failures import JudgeError
from patience import FOREVER_S, wait_until

pytestmark = pytest.mark.usefixtures("data")


@pytest.mark.parametrize(
    "body", [None, b'{"detail": "Bad key %s"}' % KEY.encode(), b"<p>Bad key %s</p>" % KEY.encode()]
)
def test_a_refusal_stops_immediately_without_leaking_the_key(data, body, log, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    stopped = threading.Event()

    def reply(prompt, before):
        if prompt == "prompt 5":
            # five replies have arrived, and four requests are in flight
            wait_until(lambda: len(server.prompts) == 9)
            return Reply(f"Bad key {KEY}", status=401, body=body)
        if prompt > "prompt 5":
            stopped.wait(FOREVER_S)
        return Reply(f"You sent {KEY}. Rating: [[1]]", model=f"m {KEY}")

    names = [f"prompt {n}" for n in range(10)] + [f"zzz {n}" for n in range(50)]
    with JudgeServer(reply) as server:
        with pytest.raises(JudgeError, match=r"refuses: HTTP 401: .*Bad key \[API key\]") as raised:
            judge(server.url, names, concurrency=4)
        assert len(server.prompts) == 9
        stopped.set()
        judgements = raised.value.judgements
        assert [judgement.rating for judgement in judgements] == [1] * 5 + [None] * 55
        assert all("HTTP 401" in judgement.error for judgement in judgements[5:])
        again = judge(server.url, names[:5])
        assert [judgement.cached for judgement in again] == [True] * 5
    cache = default_cache_path().read_bytes().decode("latin-1")
    assert KEY not in "".join([*log, caplog.text, *capfd.readouterr(), repr(judgements), cache])
    error = raised.value
    assert error.__context__ is None
    assert KEY not in repr(error) + str(error)


def test_a_key_with_json_escapes_is_redacted():
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    body = f'{{"model": "{spelled}", "choices": [{{"message": {{"content": "{spelled} [[1]]"}}}}]}}'
    with JudgeServer(lambda *_: Reply(body=body.encode())) as server:
        (judgement,) = judge(server.url, ["a"])
    assert (judgement.reply, judgement.judge) == ("[API key] [[1]]", "?API key?")


def test_a_damaged_cache_is_reported_before_any_request():
    default_cache_path().write_bytes(b"no database" * 1000)
    refused = pytest.raises(JudgeError, match=r"judgements.sqlite: .*Move it away")
    with JudgeServer(lambda *_: Reply()) as server, refused as raised:
        judge(server.url, ["a"])
    assert server.prompts == []
    assert raised.value.judgements[0].rating is None


def test_a_later_cache_failure_loses_no_answer(monkeypatch, log):
    monkeypatch.setattr(cache_module, "_BUSY_S", 0.1)

    def reply(prompt, before):
        if prompt == "a":  # another process locks the file from here on
            holder.execute("BEGIN IMMEDIATE")
        return Reply()

    cache_module.JudgementCache(default_cache_path()).__exit__()
    holder = sqlite3.connect(default_cache_path(), isolation_level=None, check_same_thread=False)
    with closing(holder), JudgeServer(reply) as server:
        judgements = judge(server.url, ["a", "b", "c"], concurrency=1)
    assert [judgement.rating for judgement in judgements] == [1, 1, 1]
    assert sum("Judgements are not stored: " in line for line in log) == 1
