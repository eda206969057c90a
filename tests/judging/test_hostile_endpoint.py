"""Endpoints that redirect, send endless answers, or encode their answers."""

import gzip
import json
import resource
import zlib

import pytest

from judge_server import JudgeServer, Reply
from judging.asked import KEY, judge
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")

GOOD = {"model": "judge", "choices": [{"message": {"content": "[[1]]"}, "finish_reason": "stop"}]}
BODY = json.dumps(GOOD).encode()
LARGE = json.dumps(GOOD | {"filler": "x" * 20 * 2**20}).encode()


def packed(body, encoding):
    return Reply(body=body, headers={"Content-Encoding": encoding})


@pytest.mark.parametrize(
    ("status", "location", "location_named"),
    [
        *(
            (status, "http://me:s3cret@{}/v1/chat/completions?k={}", "http://127.0.0.1:")
            for status in (301, 302, 303)
        ),
        (307, "http://{}?k={}@x", "http://127.0.0.1:"),
        (308, "//{}/v1?k={}", "another path"),
        (307, "/v2?k={1}", "another path"),
        (307, "HTTPS://a:s3cret@{1}/", "HTTPS://"),
    ],
)
def test_redirects_are_not_followed(status, location, location_named):
    def reply(*_):
        host = elsewhere.url.removeprefix("http://").removesuffix("/v1")
        return Reply("", status, {"Location": location.format(host, KEY)})

    with JudgeServer(lambda *_: Reply()) as elsewhere, JudgeServer(reply) as server:
        with pytest.raises(JudgeError, match=f"HTTP {status}: .*{location_named}") as raised:
            judge(server.url, ["a"])
        assert elsewhere.prompts == []
    assert not [word for word in (KEY, "s3cret") if word in str(raised.value)]


@pytest.mark.parametrize(
    "reply",
    [
        *(
            Reply(body=LARGE),
            packed(gzip.compress(LARGE), "gzip"),
            packed(zlib.compress(LARGE), "deflate"),
        ),
        *(
            packed(gzip.compress(gzip.compress(BODY)), "gzip, gzip"),
            packed(BODY, "br"),
            packed(BODY, "zstd"),
        ),
    ],
)
def test_large_bodies_and_other_encodings_are_rejected(reply):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with JudgeServer(lambda prompt, _: reply if prompt == "large" else Reply()) as server:
        large, small = judge(server.url, ["large", "small"])
        assert server.prompts.count("large") == 1
        server.reply = lambda *_: reply
        with pytest.raises(JudgeError, match="LMMS_EGOPLAN_JUDGE_MAX_MIB"):
            probe(JudgeSettings("judge", server.url))
    assert (large.rating, small.rating) == (None, 1)
    assert "no answer" in large.error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "GZIP"])
def test_bodies_within_the_limit_are_read(encoding):
    body = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding.lower(), bytes)(BODY)
    with JudgeServer(lambda *_: packed(body, encoding)) as server:
        (judgement,) = judge(server.url, ["a"])
        assert server.headers[0]["accept-encoding"] == "gzip, deflate"
    assert (judgement.rating, judgement.reply) == (1, "[[1]]")
    assert judgement.seconds > 0


def test_a_larger_limit_accepts_a_large_body():
    with JudgeServer(lambda *_: Reply(body=LARGE)) as server:
        (judgement,) = judge(server.url, ["a"], max_mib=32)
    assert judgement.rating == 1


@pytest.mark.parametrize(
    ("wait", "abbreviated"), [("1800.4", "1800 s"), ("1e300", "day"), ("9" * 300, "day")]
)
def test_long_waits_are_abbreviated(wait, abbreviated):
    server = JudgeServer(lambda *_: Reply("busy", status=500, headers={"Retry-After": wait}))
    with server, pytest.raises(JudgeError, match=abbreviated) as raised:
        probe(JudgeSettings("judge", server.url))
    assert len(str(raised.value)) < 400
