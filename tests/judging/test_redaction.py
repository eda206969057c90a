"""Redact keys and headers from errors, and from replies without affecting ratings."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge_server import JudgeServer, Reply
from judging.asked import READS_CUSTOM_HEADERS, judge
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.failures import JudgeError
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.redaction import Redactor
from lmms_egoplan.judging.settings import JudgeSettings

pytestmark = pytest.mark.usefixtures("data")

LONG = "sk-very-secret-key-123"


def errors_of(key, *messages):
    """Return the messages of an endpoint's errors after redaction."""
    with JudgeServer(lambda prompt, _: Reply(messages[int(prompt)], status=400)) as server:
        judgements = judge(
            server.url, [str(number) for number in range(len(messages))], api_key=key
        )
        return [judgement.error for judgement in judgements]


@pytest.mark.parametrize("key", ["k", "EMPTY", "s3cret", "12345678", LONG, "a/b+c==", 'q"u\\o'])
def test_a_key_of_any_length_is_in_no_error(key, log):
    messages = (
        f"no key {key}",
        f"({key})",
        f"'Authorization: Bearer {key}' is wrong",
        f"key={key},x",
    )
    for error in errors_of(key, *messages):
        _, _, error = error.partition("HTTP 400: ")
        assert "[API key]" in error
        assert key not in error.replace("[API key]", "").split()
        assert "Bearer" not in error
    assert f"no key {key}" not in "".join(log)


def test_a_key_in_an_error_with_status_200_is_redacted():
    body = json.dumps({"error": {"message": f"no model for the key {LONG}"}}).encode()
    with JudgeServer(lambda *_: Reply(body=body)) as server:
        (judgement,) = judge(server.url, ["a"], api_key=LONG)
    assert "no model for the key" in judgement.error
    assert LONG not in judgement.error


def test_a_short_key_is_replaced_only_as_a_word():
    (error,) = errors_of("key", "the monkey has no key here: keys, key_2")
    assert error.endswith("the monkey has no [API key] here: keys, key_2")


@pytest.mark.parametrize(
    "spell",
    [
        *(lambda key: json.dumps(key), lambda key: quote(key, safe="")),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.urlsafe_b64encode(key.encode()).decode().rstrip("="),
        *(lambda key: key.replace("&", "&amp;"), lambda key: json.dumps(key).replace("/", "\\/")),
        lambda key: f"\\u{ord(key[0]):04x}{key[1:]}".replace("/", "\\/"),
        lambda key: f"\\u{ord(key[0]):04X}{key[1:3]}\\u{ord(key[3]):04x}{key[4:]}",
    ],
)
def test_other_spellings(spell):
    key = "sk/very&secret+key=?"
    (error,) = errors_of(key, f"you sent {spell(key)}")
    assert "secret" not in error
    assert base64.b64encode(key.encode()).decode().rstrip("=") not in error


def test_a_body_that_spells_the_key_by_codes():
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in LONG)
    with JudgeServer(
        lambda *_: Reply(body=f'{{"errors": ["{spelled}"]}}'.encode(), status=400)
    ) as server:
        (judgement,) = judge(server.url, ["a"], api_key=LONG)
    assert judgement.error.endswith('HTTP 400: {"errors": ["[API key]"]}')


@pytest.mark.skipif(
    not READS_CUSTOM_HEADERS, reason="this openai reads no headers from the environment"
)
def test_headers_that_the_user_set_are_in_no_error(monkeypatch):
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "X-Gateway-Key: gate way 7\nX-Authorization: Token t0ken\nX-Id: z9"
    )
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    message = (
        "X-Gateway-Key: gate way 7; X-Authorization: Token t0ken; token t0ken; X-Id: z9; "
        "org-1; application/json"
    )
    (error,) = errors_of("none", message)
    for secret in ("gate", "way", "t0ken", "z9", "org-1"):
        assert secret not in error.replace("X-Gateway", "")
    assert "application/json" in error


_PROXIES = {  # address -> texts in which a proxy may echo its credentials
    "http://kitchen-lab:s3cr3t-pass@{}": ("s3cr3t-pass", "kitchen-lab:s3cr3t-pass"),
    "http://kitchen-lab:s3c%40r3t%2Fpass@{}": (
        "s3c%40r3t%2Fpass",
        "s3c@r3t/pass",
        "kitchen-lab:s3c@r3t/pass",
    ),
    "http://tok-en-of-me@{}": ("tok-en-of-me", "tok-en-of-me:"),
    "http://u:pw@{}": ("u:pw", "pw"),  # too short to be removed from replies
}


@pytest.mark.parametrize(
    ("variable", "proxy"),
    [
        *(("HTTP_PROXY", proxy) for proxy in _PROXIES),
        *(
            (variable, next(iter(_PROXIES)))
            for variable in ("http_proxy", "ALL_PROXY", "FTP_PROXY")
        ),
    ],
)
def test_a_proxy_that_echoes_its_credentials(monkeypatch, variable, proxy, log, data):
    secrets = _PROXIES[proxy]
    encoded = [base64.b64encode(secret.encode()).decode() for secret in secrets if len(secret) >= 4]
    spelled = [*secrets, *encoded]
    echo = " ; ".join(["(", *spelled, ")"])

    def reply(prompt, _):
        return (
            Reply(echo, status=400)
            if prompt == "refused"
            else Reply(f"{echo} [[1]]", model=echo, finish=echo)
        )

    with JudgeServer(reply) as server:
        # The server is its own proxy, because it only looks at paths.
        host = server.url.removeprefix("http://").removesuffix("/v1")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, proxy.format(host))
        judged = judge(server.url, ["refused", "a"], api_key="none")
    outputs = "".join([repr(judged), *log])
    for text in spelled:
        assert text not in judged[0].error.split()
        if len(secrets[-1]) >= 8:
            assert text not in outputs
            assert text.encode() not in default_cache_path().read_bytes()
    assert "kitchen-lab" not in judged[0].error


@pytest.mark.parametrize("header", ["api-key", "Authorization"])
def test_azures_key_is_in_no_error(header):
    with JudgeServer(lambda *_: Reply(f"bad {header}: Bearer k3y or k3y", status=401)) as server:
        settings = JudgeSettings(
            "deployment",
            None,
            "k3y",
            azure_endpoint=server.url.removesuffix("/v1"),
            azure_api_version="2024-02-15",
        )
        with pytest.raises(JudgeError, match=rf"bad {header}: \[API key\] or \[API key\]\. Check"):
            probe(settings)


def test_without_a_key_nothing_is_replaced():
    (error,) = errors_of("none", "none of these models")
    assert error.endswith("none of these models")


@pytest.mark.parametrize("key", ["1", "0.5", "[[1]]", "Rating:", "[[0.5]]", "50.00000", "00000001"])
def test_redaction_keeps_the_rating(key):
    texts = {"a": f"Rating: [[1]] {key}. Rating: [[1]]", "b": "Rating: [[0.5]]"}
    with JudgeServer(lambda prompt, _: Reply(texts[prompt])) as server:
        for _ in range(2):
            judgements = judge(server.url, ["a", "b"], api_key=key)
            assert [judgement.rating for judgement in judgements] == [1, 0.5]
        assert len(server.prompts) == 2


def test_long_keys_are_in_no_reply():
    with JudgeServer(
        lambda *_: Reply(f"{LONG} [[{LONG}]] [[1]]", model=LONG, finish=None)
    ) as server:
        (judgement,) = judge(server.url, ["a"], api_key=LONG)
    assert (judgement.reply, judgement.judge) == ("[API key] [[[API key]]] [[1]]", "?API key?")
    assert LONG.encode() not in default_cache_path().read_bytes()


@pytest.mark.parametrize("key", ["choices", "finish_reason", "completion_tokens", '"content"'])
def test_a_key_that_is_a_word_of_the_protocol_breaks_nothing(key):
    with JudgeServer(lambda *_: Reply("[[1]]")) as server:
        (judgement,) = judge(server.url, ["a"], api_key=key)
    assert (judgement.rating, judgement.completion_tokens) == (1, 1)


@given(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=20),
    st.text(),
    st.text(),
)
def test_no_error_has_the_key_as_a_word(key, before, after):
    clean = Redactor([key, f"Bearer {key}"]).in_error(f"{before} {key} {after}")
    assert f" {key} " not in clean or key in "[API key]"


@given(st.text(min_size=1, max_size=12), st.text(), st.sampled_from(["0", "0.5", "1"]))
def test_no_reply_loses_its_rating(key, before, rating):
    assert f"[[{rating}]]" in Redactor([key]).in_reply(f"{before}[[{rating}]]") or before.endswith(
        "["
    )
