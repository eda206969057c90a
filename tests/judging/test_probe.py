import json
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from judge_server import JudgeServer, Reply, images_in
from judging.asked import KEY, READS_CUSTOM_HEADERS, judge
from lmms_egoplan.benchmarks.base import load_judge
from lmms_egoplan.benchmarks.egointent.diagnostics import MAX_IMAGES
from lmms_egoplan.judging import client as client_module
from lmms_egoplan.judging import probe as probe_module
from lmms_egoplan.judging import retries as retries_module
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.endpoint import PROBING
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.probe import announce_judge, probe
from lmms_egoplan.judging.settings import LIMIT_NAMES, JudgeSettings
from patience import FOREVER_S, wait_until

pytestmark = pytest.mark.usefixtures("data")


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """Clear all announcements and judge settings."""
    for said in (probe_module._try, probe_module.log_once):
        said.cache_clear()
    for variable in (
        "LMMS_EGOPLAN_JUDGE_MODEL",
        "LMMS_EGOPLAN_JUDGE_BASE_URL",
        "LMMS_EGOPLAN_JUDGE_API_KEY",
    ):
        monkeypatch.delenv(variable, raising=False)


def test_probe_names_the_model_that_answers():
    with JudgeServer(lambda *_: Reply("ready", model="gpt-4o-2024-11-20")) as server:
        assert probe(JudgeSettings("gpt-4o", server.url)) == "gpt-4o-2024-11-20"
    assert len(server.prompts) == 1
    assert not default_cache_path().exists()


NO_CREDIT = json.dumps({"error": {"message": "no credit", "code": "insufficient_quota"}}).encode()


@pytest.mark.parametrize(
    ("reply", "message", "asked"),
    [
        (Reply(f"bad key {KEY}", status=401), r"refuses: HTTP 401: bad key \[API key\]", 1),
        (Reply("unknown field", status=400), "refuses: HTTP 400: unknown field", 1),
        (Reply(status=429, body=NO_CREDIT), r"refuses: HTTP 429: no credit\.", 1),
        (
            Reply("busy", status=500, headers={"Retry-After-Ms": "1"}),
            "HTTP 500: busy",
            1 + PROBING.retries,
        ),
        (Reply(body=b"<html>hello</html>"), "not JSON: '<html>", 1),
    ],
)
def test_probe_reports_the_endpoints_error(reply, message, asked):
    with (
        JudgeServer(lambda *_: reply) as server,
        pytest.raises(JudgeError, match=message) as raised,
    ):
        probe(JudgeSettings("judge", server.url, KEY))
    assert len(server.prompts) == asked
    assert raised.value.judgements == []
    assert KEY not in str(raised.value)


def test_probe_reports_an_unreachable_endpoint(monkeypatch):
    monkeypatch.setattr(probe_module, "PROBING", replace(PROBING, retries=1))
    with JudgeServer(lambda *_: Reply()) as server:
        settings = JudgeSettings("judge", server.url)
    with pytest.raises(
        JudgeError,
        match=rf"at {settings.base_url} does not answer: Connection error. \(.*connection",
    ):
        probe(settings)


def test_probe_logs_the_endpoint_first(log):
    seen = []
    with JudgeServer(lambda *_: seen.extend(log) or Reply()) as server:
        probe(JudgeSettings("judge", server.url, KEY))
    assert f"Asking judge at {server.url}" in seen[0]


def test_a_silent_endpoint_is_reported(monkeypatch):
    monkeypatch.setattr(probe_module, "PROBING", replace(PROBING, read_s=1))
    message = r"does not answer: Request timed out. \(ReadTimeout\)"
    logged = threading.Event()
    with JudgeServer(lambda *_: logged.wait(FOREVER_S) and Reply()) as server:
        with pytest.raises(JudgeError, match=message):
            probe(JudgeSettings("judge", server.url))
        wait_until(lambda: len(server.prompts) == 1)
        logged.set()


def test_the_probe_has_the_form_of_the_judges_requests(monkeypatch):
    forms = [load_judge(name) for name in ("egothink", "egointent", "egointent_diagnostics")]
    with JudgeServer(lambda *_: Reply()) as server:
        set_judge(monkeypatch, server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", "authors")
        for form in forms:
            announce_judge(form.default_model, form.otherwise, form.probe_form)
    egothink, egointent, diagnostics = server.bodies
    assert [message["role"] for message in egothink["messages"]] == ["system", "user"]
    assert [message["role"] for message in egointent["messages"]] == ["user"]
    assert len(images_in(diagnostics)) == MAX_IMAGES
    assert {body["max_tokens"] for body in server.bodies} == {16}


CUT = (
    b'{"choices": [{"message": {"content": null, "reasoning": "The"}, "finish_reason": "length"}], '
    b'"model": "thinker"}'
)


def test_a_reply_that_is_cut_off_passes_the_probe():
    for reply in (Reply("<think>The", finish="length", model="thinker"), Reply(body=CUT)):
        with JudgeServer(lambda *_, reply=reply: reply) as server:
            assert probe(JudgeSettings("judge", server.url)) == "thinker"
        assert len(server.prompts) == 1


def test_a_refused_limit_is_replaced_by_that_of_the_judge():
    def reply(*_):
        if max(server.bodies[-1].get(name, 0) for name in LIMIT_NAMES) < 1000:
            return Reply("max_tokens must exceed thinking.budget_tokens", status=400)
        return Reply(model="thinker")

    with JudgeServer(reply) as server:
        assert probe(JudgeSettings("judge", server.url)) == "thinker"
        with pytest.raises(JudgeError, match="the limit is 900 tokens"):
            probe(JudgeSettings("judge", server.url, max_tokens=900))


def test_both_requests_of_the_probe_share_its_time(monkeypatch):
    monkeypatch.setattr(probe_module, "PROBING", replace(PROBING, total_s=0.6, read_s=60.0))
    ended = threading.Event()

    def reply(*_):
        if len(server.prompts) == 1:
            return Reply("too few tokens", status=400, delay=0.3)
        return ended.wait(FOREVER_S) and Reply()

    with JudgeServer(reply) as server:
        with pytest.raises(JudgeError, match=r"No answer within 0\.[0-2]"):
            probe(JudgeSettings("judge", server.url))
        ended.set()


@pytest.mark.parametrize("loading_s", [60, 1])
def test_the_probe_waits_while_the_model_loads_and_says_so(loading_s, log, monkeypatch):
    patience = replace(PROBING, total_s=2.0, loading_s=loading_s)
    monkeypatch.setattr(probe_module, "PROBING", patience)
    monkeypatch.setattr(probe_module, "_SILENCE_S", 0.2)
    monkeypatch.setattr(retries_module, "_LONGEST_WAIT_S", 0.1)
    loading = Reply("loading", status=503, headers={"Retry-After-Ms": "100"})
    with JudgeServer(lambda _, before: loading if before < 12 else Reply(model="loaded")) as server:
        settings = JudgeSettings("judge", server.url)
        if loading_s > 1:
            assert probe(settings) == "loaded"
        else:
            with pytest.raises(JudgeError, match="HTTP 503: loading"):
                probe(settings)
            assert len(server.prompts) < 12
    assert f"Waiting for judge at {server.url}" in "".join(log)
    assert f"{patience.total_s:.0f} s" in "".join(log)


def test_a_long_wait_of_a_loading_model_is_cut(monkeypatch):
    # After a wait of 1 s, which is longer than `total_s`, 4 s remain for the last attempt.
    monkeypatch.setattr(probe_module, "PROBING", replace(PROBING, total_s=0.9, loading_s=5.0))
    monkeypatch.setattr(retries_module, "_LONGEST_WAIT_S", 4.0)
    loading = Reply("loading", status=503, headers={"Retry-After": "600"})
    with JudgeServer(lambda _, before: Reply(model="loaded") if before else loading) as server:
        assert probe(JudgeSettings("judge", server.url)) == "loaded"
    assert len(server.prompts) == 2


def test_the_probe_ends(monkeypatch):
    assert (PROBING.total_s, PROBING.loading_s, probe_module._SILENCE_S) == (60, 300, 10)
    monkeypatch.setattr(probe_module, "PROBING", replace(PROBING, total_s=0.5))
    ended = threading.Event()
    with JudgeServer(lambda *_: ended.wait(FOREVER_S) and Reply()) as server:
        with pytest.raises(JudgeError, match=r"does not answer: No answer within 0.5 s"):
            probe(JudgeSettings("judge", server.url))
        ended.set()


@pytest.fixture
def nowhere():
    """Return an address that neither accepts nor refuses connections."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield f"http://127.0.0.1:{full.getsockname()[1]}/v1"


def test_a_host_that_drops_connections_is_reported(nowhere, monkeypatch):
    assert client_module._CONNECT_S == 10
    monkeypatch.setattr(client_module, "_CONNECT_S", 0.2)
    with pytest.raises(JudgeError, match=r"Request timed out. \(ConnectTimeout\)"):
        probe(JudgeSettings("judge", nowhere))


@pytest.mark.parametrize(
    ("headers", "asked"),
    [({"Retry-After-Ms": "1"}, 1 + PROBING.retries), ({"Retry-After": "60"}, 1)],
)
def test_a_busy_endpoint_passes_the_probe(headers, asked, log):
    with JudgeServer(lambda *_: Reply(f"slowly {KEY}", status=429, headers=headers)) as server:
        assert probe(JudgeSettings("judge", server.url, KEY)) == "judge"
    assert len(server.prompts) == asked
    assert "WARNING" in log[-1]
    assert "is busy; requests will be retried: HTTP 429: slowly [API key]" in log[-1]
    assert KEY not in "".join(log)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "SSL_CERT_FILE",
            "/nowhere/secret",
            r"FileNotFoundError: .*No such file.*Check SSL_CERT_FILE",
        ),
        ("SSL_CERT_FILE", __file__, r"SSLError: .*no certificate.*Check SSL_CERT_FILE"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", r"ImportError: .*socksio.*ALL_PROXY"),
        (
            "HTTP_PROXY",
            "http://user:se/secret@host",
            r"cannot be asked: InvalidURL. Check .*HTTP_PROXY",
        ),
        (
            "HTTP_PROXY",
            "foo://user:secret@host",
            r"cannot be asked: ValueError. Check .*HTTP_PROXY",
        ),
        (
            "OPENAI_ORG_ID",
            "sécret",
            r"the header OpenAI-Organization must be printable ASCII.*OPENAI_ORG_ID",
        ),
        (
            "OPENAI_PROJECT_ID",
            "secret\nx",
            r"the header OpenAI-Project must be printable ASCII.*OPENAI_PROJECT_ID",
        ),
        pytest.param(
            *(
                "OPENAI_CUSTOM_HEADERS",
                "X-A: sécret",
                r"the header X-A must be printable ASCII.*OPENAI_CUSTOM_HEADERS",
            ),
            marks=pytest.mark.skipif(
                not READS_CUSTOM_HEADERS, reason="this openai reads no headers"
            ),
        ),
    ],
)
def test_a_wrong_environment_is_reported(monkeypatch, log, variable, value, message):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    with JudgeServer(lambda *_: Reply()) as server:
        with pytest.raises(JudgeError, match=message) as probed:
            probe(JudgeSettings("judge", server.url, KEY))
        with pytest.raises(JudgeError, match=message) as judged:
            judge(server.url, ["a", "b"])
    assert server.prompts == []
    assert len(judged.value.judgements) == 2
    for error in (probed.value, judged.value):
        assert error.__context__ is None
        assert "cret" not in str(error).lower()
    assert KEY not in str(probed.value) + str(judged.value) + "".join(log)


def set_judge(monkeypatch, url):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", url)
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", KEY)


def test_a_judge_is_announced_once(log, monkeypatch):
    with JudgeServer(lambda *_: Reply(model="judge-1")) as server:
        set_judge(monkeypatch, server.url)
        for _ in range(2):
            announce_judge("judge")
    assert len(server.prompts) == 1
    assert "Judge: judge-1" in "".join(log)
    assert default_cache_path().exists()


def test_an_unusable_cache_is_reported_before_the_probe(monkeypatch):
    default_cache_path().write_bytes(b"no database" * 1000)
    refused = pytest.raises(JudgeError, match=r"judgements.sqlite: .*Move it away")
    with JudgeServer(lambda *_: Reply()) as server, refused as raised:
        set_judge(monkeypatch, server.url)
        announce_judge("judge")
    assert server.prompts == []
    assert raised.value.judgements == []
    announce_judge("demo")


def test_a_shared_judge_is_probed_once(log, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "mine")
    with JudgeServer(lambda *_: Reply()) as server:
        set_judge(monkeypatch, server.url)
        announce_judge("default-1", "Judge them later.")
        announce_judge("default-2")
    assert [body["model"] for body in server.bodies] == ["mine"]
    words = "".join(log)
    assert words.count("LMMS_EGOPLAN_JUDGE_MODEL sets the judge") == 1
    assert "Judge them later" not in words


def test_each_default_judge_is_probed_and_the_log_explains_the_variable(log, monkeypatch):
    with JudgeServer(lambda *_: Reply()) as server:
        set_judge(monkeypatch, server.url)
        for default in ("default-1", "default-2", "default-1"):
            announce_judge(default)
    assert [body["model"] for body in server.bodies] == ["default-1", "default-2"]
    assert "".join(log).count("set LMMS_EGOPLAN_JUDGE_MODEL") == 1


def test_without_a_judge_the_log_explains_the_variables_once(log):
    for _ in range(2):
        announce_judge("default-1", "Judge them later.")
        announce_judge("default-2")
    words = "".join(log)
    assert (
        words.count("No judge is set: answers are saved without ratings, and `score` is NaN") == 1
    )
    assert words.count("Judge them later.") == 1
