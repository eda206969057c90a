import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.settings import (
    HOW_TO_SET,
    JudgeSettings,
    _warn_of_borrowed_key,
    judge_settings,
)

# Beginnings of the variables that set a judge.
_JUDGE = ("LMMS_EGOPLAN_JUDGE_", "MODEL_VERSION", "OPENAI_", "API_", "AZURE_")


@pytest.fixture
def settings(monkeypatch):
    """Return a function that reads the settings from only the given variables."""

    def read(**variables):
        for name in [name for name in os.environ if name.startswith(_JUDGE)]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name.replace("JUDGE_", "LMMS_EGOPLAN_JUDGE_", 1), value)
        return judge_settings("default")

    return read


def test_no_address_and_no_key_is_no_judge(settings):
    assert settings() is None
    assert settings(JUDGE_MODEL="gpt", JUDGE_CONCURRENCY="4", JUDGE_BASE_URL=" ") is None
    assert settings(API_TYPE="azure") is None


def test_our_variables_override_the_harness(settings):
    harness = {
        "MODEL_VERSION": "theirs",
        "OPENAI_API_URL": "http://their.url/v1/chat/completions",
        "OPENAI_BASE_URL": "http://other.url/v1",
        "OPENAI_API_KEY": "their-key",
    }
    assert settings(**harness) == JudgeSettings("theirs", "http://their.url/v1", "their-key", 32)
    assert settings(**harness, JUDGE_MODEL="ours").model == "ours"
    assert settings(**harness, JUDGE_BASE_URL="https://our.url/").base_url == "https://our.url"
    assert settings(**harness, JUDGE_API_KEY="our-key\n").api_key == "our-key"
    assert settings(**(harness | {"OPENAI_API_URL": ""})).base_url == "http://other.url/v1"
    assert settings(**harness, JUDGE_CONCURRENCY="7").concurrency == 7


def test_an_address_or_a_key_is_enough(settings):
    assert settings(JUDGE_API_KEY="k").base_url is None
    local = settings(JUDGE_BASE_URL="http://localhost:8000/v1")
    assert local.model == "default"
    assert local.api_key
    assert settings(JUDGE_MODEL="demo").model == "demo"


@pytest.mark.parametrize(
    ("url", "is_warned"),
    [
        *(
            (f"http://{host}/v1", True)
            for host in ("judges.example.org:8000", "10.0.0.7:8000", "[2001:db8::1]")
        ),
        *((f"http://{host}:8000/v1", False) for host in ("localhost", "127.0.0.7", "[::1]")),
        *((f"https://{host}.openai.com/v1", False) for host in ("api", "eu.api")),
    ],
)
def test_a_borrowed_key_is_reported(settings, log, url, is_warned):
    _warn_of_borrowed_key.cache_clear()
    for _ in range(2):
        assert settings(JUDGE_BASE_URL=url, OPENAI_API_KEY="sk-secret").api_key == "sk-secret"
    assert len(log) == is_warned
    assert all("OPENAI_API_KEY is sent to " in line and "sk-secret" not in line for line in log)
    log.clear()
    _warn_of_borrowed_key.cache_clear()
    settings(JUDGE_BASE_URL=url, OPENAI_API_KEY="sk-secret", JUDGE_API_KEY="sk-own")
    settings(OPENAI_BASE_URL=url, OPENAI_API_KEY="sk-secret")
    settings(JUDGE_BASE_URL=url)
    assert log == []


def test_azure(settings):
    azure = {
        "API_TYPE": "azure",
        "AZURE_ENDPOINT": "https://us.openai.azure.com/",
        "AZURE_API_KEY": "k",
    }
    read = settings(**azure, MODEL_VERSION="deployment")
    assert (read.model, read.base_url, read.azure_endpoint) == (
        "deployment",
        None,
        "https://us.openai.azure.com",
    )
    assert read.azure_api_version == "2024-02-15-preview"
    assert settings(**azure, AZURE_API_VERSION="2025-01-01").azure_api_version == "2025-01-01"
    assert settings(**azure, API_VERSION="2024-12-01").azure_api_version == "2024-12-01"
    assert settings(**azure, JUDGE_BASE_URL="http://localhost/v1").azure_endpoint is None
    with pytest.raises(LmmsEgoplanError, match="AZURE_ENDPOINT and AZURE_API_KEY"):
        settings(API_TYPE="azure", AZURE_API_KEY="k")


@pytest.mark.parametrize("name", ["JUDGE_BASE_URL", "OPENAI_API_URL"])
@pytest.mark.parametrize(
    "url",
    [
        *(
            "localhost:8000",
            "ftp://x/v1",
            "http://",
            "http://[x/v1",
            "http://h:99999",
            "https://me:s3@h/v1",
        ),
        "http://h?k=s3",
    ],
)
def test_malformed_addresses_are_named_and_not_shown(settings, name, url):
    with pytest.raises(LmmsEgoplanError, match=f"{name} must be an address") as error:
        settings(**{name: url})
    assert "s3" not in str(error.value)


@pytest.mark.parametrize("number", ["0", "-1", "2.5", "many", "1000001", "²", "9" * 5000])
@pytest.mark.parametrize(
    ("name", "highest"),
    [("CONCURRENCY", 1000), ("TIMEOUT", 86400), ("MAX_TOKENS", 1000000), ("MAX_MIB", 1024)],
)
def test_malformed_numbers_are_named(settings, name, highest, number):
    with pytest.raises(
        LmmsEgoplanError, match=rf"LMMS_EGOPLAN_JUDGE_{name} is .* from 1 to {highest}"
    ):
        settings(JUDGE_API_KEY="k", **{f"JUDGE_{name}": number})


def test_limits_of_a_request(settings):
    read = settings(JUDGE_API_KEY="k")
    assert (read.timeout, read.max_tokens) == (300, 4096)
    azure = {
        "API_TYPE": "azure",
        "AZURE_ENDPOINT": "https://us.openai.azure.com/",
        "AZURE_API_KEY": "k",
    }
    for judge in ({"JUDGE_API_KEY": "k"}, {"JUDGE_MODEL": "demo"}, azure):
        read = settings(**judge, JUDGE_TIMEOUT="900", JUDGE_MAX_TOKENS=" 16000 ")
        assert (read.timeout, read.max_tokens) == (900, 16000)


@pytest.mark.parametrize(
    ("text", "parameters", "limit", "name"),
    [
        ("{}", {"temperature": 0}, (4096, None), "m"),
        ('{"temperature": 0}', {"temperature": 0}, (4096, None), "m"),
        ('{"temperature": null}', {}, (4096, None), "m (temperature=null)"),
        ('{"temperature": 1.0}', {"temperature": 1.0}, (4096, None), "m (temperature=1.0)"),
        (
            '{"reasoning_effort": "low", "seed": 7}',
            {"temperature": 0, "reasoning_effort": "low", "seed": 7},
            (4096, None),
            'm (reasoning_effort="low", seed=7)',
        ),
        (
            '{"chat_template_kwargs": {"enable_thinking": false}}',
            {"temperature": 0, "chat_template_kwargs": {"enable_thinking": False}},
            (4096, None),
            'm (chat_template_kwargs={"enable_thinking": false})',
        ),
        (
            '{"max_completion_tokens": 9000}',
            {"temperature": 0},
            (9000, "max_completion_tokens"),
            "m",
        ),
        ('{"max_tokens": 1}', {"temperature": 0}, (1, "max_tokens"), "m"),
    ],
)
def test_parameters(settings, text, parameters, limit, name):
    read = settings(JUDGE_MODEL="m", JUDGE_API_KEY="k", JUDGE_PARAMETERS=text)
    assert (read.parameters, (read.max_tokens, read.limit_name)) == (parameters, limit)
    assert read.name("m") == name
    hash(read)


@pytest.mark.parametrize(
    "text",
    [
        *("temperature", "[]", "0", '{"temperature": NaN}', '{"temperature": 1e999}'),
        *('{"temperature": 0, "temperature": 1}', '{"": 1}', '{"model": "x"}', '{"messages": []}'),
        *(
            '{"stream": true}',
            '{"n": 2}',
            '{"max_tokens": 5, "max_completion_tokens": 5}',
            '{"max_tokens": null}',
        ),
        *(
            '{"max_tokens": true}',
            '{"max_tokens": 0}',
            '{"max_tokens": "100"}',
            '{"max_tokens": 1.5}',
            "[" * 10_000,
        ),
    ],
)
def test_malformed_parameters_are_named(settings, text):
    with pytest.raises(LmmsEgoplanError, match="LMMS_EGOPLAN_JUDGE_PARAMETERS"):
        settings(JUDGE_API_KEY="k", JUDGE_PARAMETERS=text)


def test_conflicting_limits_are_an_error(settings):
    limit = {"JUDGE_API_KEY": "k", "JUDGE_PARAMETERS": '{"max_completion_tokens": 100}'}
    assert settings(**limit, JUDGE_MAX_TOKENS="100").max_tokens == 100
    with pytest.raises(LmmsEgoplanError, match=r"PARAMETERS sets max_completion_tokens to 100"):
        settings(**limit, JUDGE_MAX_TOKENS="200")


@given(st.text(min_size=1))
def test_the_key_is_in_no_repr(key):
    assert repr(JudgeSettings("m", api_key="k-" + key)) == repr(JudgeSettings("m"))


def test_malformed_keys_are_named_and_not_shown(settings):
    with pytest.raises(LmmsEgoplanError, match="OPENAI_API_KEY must be printable ASCII") as error:
        settings(OPENAI_API_KEY="sécret")
    assert "cret" not in str(error.value)


def test_the_hint_lists_the_variables(settings):
    lines = [line.removeprefix("export ").split("=", 1) for line in HOW_TO_SET.splitlines()]
    assert len(lines) == 3
    assert (
        settings(**{name.replace("LMMS_EGOPLAN_", "", 1): value for name, value in lines})
        is not None
    )
