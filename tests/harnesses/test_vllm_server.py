"""Ranking on a server: requests, parsed answers, and failures."""

import json
import threading

import numpy as np
import pytest
from PIL import Image

from judge_server import Reply
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import server_watch
from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.judging import retries
from lmms_egoplan.ranking import ContextTooLongError, RankingError
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import PROCESSOR, EngineError, ranking_arguments
from lmms_egoplan.ranking.loglikelihood import END_OF_ANSWER
from lmms_egoplan.ranking.methods import FORCED, PROMPT_LOGPROBS
from patience import FOREVER_S, wait_until
from ranking.engine.chat_server import MODEL, ChatServer, probe
from ranking.engine.table import expected
from ranking.reference import user_turn
from zoo import build

CANDIDATES = ["put mug", "put mug on the counter", "éteindre le four 火"]
AT_ONCE = {"Retry-After-Ms": "1"}
KEY = "sk-a-key-of-twenty-letters"


@pytest.fixture(scope="module")
def processor():
    return build("qwen2_5_vl")[1]


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_SERVER_API_KEY", KEY)


def question(number, images=2, mark=""):
    pixels = np.random.default_rng(number).integers(0, 255, (images, 56, 84, 3), dtype=np.uint8)
    return (
        user_turn(f"{number}: next?", map(Image.fromarray, pixels)),
        [c + mark for c in CANDIDATES],
        f"q{number}",
    )


def ranker(server, processor, method="auto", **settings):
    return EngineRanker(
        ServedEngine(server.url.removesuffix("/v1"), MODEL, probe),
        processor,
        method=method,
        **settings,
    )


def rank(server, processor, count=3, method="auto", images=2, mark="", **settings):
    ranked = ranker(server, processor, method, **settings)
    questions = [ranked.encode(*question(number, images, mark)) for number in range(count)]
    rows = [[score.token_logprobs for score in row] for row in ranked.scores(questions)]
    return rows, list(map(expected, questions)), ranked


@pytest.mark.parametrize(
    ("name", "method", "ending"),
    [
        ("llava", "auto", {}),
        ("qwen2_5_vl", FORCED, {"score_eos": True}),
        ("qwen3_vl", PROMPT_LOGPROBS, {"score_eos": True}),
        ("qwen2_5_vl", PROMPT_LOGPROBS, {"mark": END_OF_ANSWER}),
        ("qwen3_vl", FORCED, {"mark": END_OF_ANSWER}),
    ],
)
def test_scores_are_those_of_the_checkpoints_tokens(name, method, ending):
    processor = build(name)[1]
    with ChatServer(processor) as server:
        rows, right, ranked = rank(server, processor, method=method, **ending)
    assert rows == right
    assert set(ranked.methods.values()) == {
        PROMPT_LOGPROBS if method == PROMPT_LOGPROBS else FORCED
    }
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


def test_score_eos_needs_a_template_that_ends_turns():
    processor = build("llava")[1]
    with ChatServer(processor) as server, pytest.raises(EngineError, match="score_eos"):
        rank(server, processor, method=PROMPT_LOGPROBS, score_eos=True)


def test_text_only(processor):
    with ChatServer(processor) as server:
        rows, right, ranked = rank(server, processor, images=0)
    assert rows == right
    assert ranked.methods == {"text": FORCED}


def test_a_server_without_the_logits_processor_uses_prompt_logprobs(processor):
    with ChatServer(processor, forces=False) as server:
        rows, right, ranked = rank(server, processor)
        with pytest.raises(
            RankingError,
            match=r"method=forced: .*--logits-processors lmms_egoplan\.ranking\.engine",
        ):
            ranker(server, processor, FORCED)
    assert rows == right
    assert ranked.methods == {"image": PROMPT_LOGPROBS}


def test_log_probabilities_from_after_forcing_are_not_used(processor):
    def forget(answer):
        for token in (answer["choices"][0]["logprobs"] or {"content": []})["content"]:
            token["logprob"] = 0.0

    with ChatServer(processor, edit=forget) as server:
        rows, right, ranked = rank(server, processor, count=1)
    assert rows == right
    assert ranked.methods == {"image": PROMPT_LOGPROBS}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Reply("down", status=500, headers=AT_ONCE), id="500"),
        pytest.param(
            Reply("too fast", status=429, headers=AT_ONCE), id="429", marks=pytest.mark.nightly
        ),
        pytest.param(Reply(drop=True), id="dropped"),
        pytest.param(Reply(body=b'{"choices": [{"index": 0, "mess'), id="half a body"),
        pytest.param(Reply(body=b'{"choices": []}'), id="no choices", marks=pytest.mark.nightly),
    ],
)
def test_a_failed_request_is_retried(processor, fault):
    with ChatServer(processor, lambda body, before: None if before else fault) as server:
        rows, right, _ = rank(server, processor, count=2, method=FORCED)
    assert rows == right


def later(number, fault):
    """Return a function with this fault for one question only."""
    return lambda body, before: fault if f"{number}: next?" in json.dumps(body) else None


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        pytest.param(
            Reply("at most 40 images", status=400),
            "400: at most 40",
            id="400",
            marks=pytest.mark.nightly,
        ),
        pytest.param(Reply(f"no key {KEY}", status=401), r"401: no key \[API key\]", id="401"),
        pytest.param(Reply(body=b"<html>busy</html>"), "", id="page"),
    ],
)
def test_scores_before_a_rejected_request_are_kept(processor, reply, facts):
    with ChatServer(processor, later(2, reply)) as server:
        ranked = ranker(server, processor, PROMPT_LOGPROBS)
        rows = []
        scores = ranked.scores(ranked.encode(*question(number)) for number in range(6))
        with pytest.raises(EngineError, match=f"question q2: .*{facts}") as raised:
            rows.extend(row for row in map(rows.append, scores) if row)
        assert len(rows) == 2
        assert KEY not in str(raised.value)
        server.fault = lambda body, before: None
        again, right, _ = rank(server, processor)
    assert again == right


def drop(*names):
    def edit(answer):
        for name in names:
            answer.pop(name, None)
            answer["choices"][0].pop(name, None)

    return edit


def change(answer):
    answer["prompt_token_ids"].insert(1, 9)


def forget(answer):
    if "prompt_logprobs" in answer:
        answer["prompt_logprobs"] = answer["prompt_logprobs"][:-1]


@pytest.mark.parametrize(
    ("edit", "method", "facts"),
    [
        (drop("prompt_logprobs"), PROMPT_LOGPROBS, "prompt_logprobs"),
        (forget, PROMPT_LOGPROBS, "prompt_logprobs"),
        (drop("prompt_token_ids"), PROMPT_LOGPROBS, "prompt_token_ids"),
        (drop("logprobs"), FORCED, " logprobs"),
        (change, PROMPT_LOGPROBS, r"\b2\b.*--chat-template-content"),
        (change, FORCED, r"\b2\b.*--chat-template-content"),
    ],
    ids=[
        "no prompt_logprobs",
        "one too few",
        "no tokens",
        "no logprobs",
        "other template",
        "other template, forced",
    ],
)
def test_incomplete_answers_are_rejected(processor, edit, method, facts):
    with ChatServer(processor) as server:
        ranked = ranker(server, processor, method)
        server.edit = edit
        with pytest.raises(EngineError, match=f"question q0: .*{facts}"):
            list(ranked.scores([ranked.encode(*question(0))]))


def test_images_resized_by_the_server_are_detected_by_token_counts(processor):
    with ChatServer(processor) as server:
        ranked = ranker(server, processor)
        smaller = ranked.encode(*question(0))
        small = ranked.encode(question(0)[0], CANDIDATES, "q0").messages
        image = Image.new("RGB", (200, 200))
        larger = [
            {
                "role": "user",
                "content": [{"type": "image", "image": image}, *question(0)[0][0]["content"][1:]],
            }
        ]
        larger = ranked.encode(larger, CANDIDATES, "q0")
        assert len(larger.prefix) > len(smaller.prefix)
        mixed = type(smaller)(**(vars(larger) | {"messages": small}))
        with pytest.raises(EngineError, match="--chat-template-content"):
            list(ranked.scores([mixed]))


def test_a_context_that_does_not_fit_is_never_sent(processor):
    with ChatServer(processor, limit=30) as server:
        with pytest.raises(ContextTooLongError, match=r"question q0: .*max_model_len.*30"):
            rank(server, processor)
        assert len(server.bodies) == 1  # that of the start


def test_an_unknown_model_is_named_in_the_error(processor):
    with ChatServer(processor) as server:
        with pytest.raises(EngineError, match=r"served.*other/model"):
            ServedEngine(server.url, "other/model", probe)
        server.models = []
        with pytest.raises(EngineError, match="other/model"):
            ServedEngine(server.url, "other/model", probe)


@pytest.mark.parametrize("key", [KEY, None])
def test_the_servers_abilities_are_logged_and_only_its_key_is_sent(
    processor, monkeypatch, log, key
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    if key is None:
        monkeypatch.delenv("LMMS_EGOPLAN_SERVER_API_KEY")
    with ChatServer(processor, most=3) as server:
        ranker(server, processor)
    (line,) = [line for line in log if server.url in line]
    assert "3" in line.removeprefix(server.url)
    assert ("LMMS_EGOPLAN_SERVER_API_KEY" in line) == (key is not None)
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {key or 'none'}"}
    assert not [word for word in (KEY, "sk-of-somebody-else") if word in "".join(log)]


def paths(server, processor, count=3, method="auto", edit=lambda: None):
    """Rank questions, check their scores, and return the path of each."""
    ranked = ranker(server, processor, method)
    edit()
    questions = [ranked.encode(*question(number)) for number in range(count)]
    rows = [*ranked.scores(questions)]
    assert [[score.token_logprobs for score in row] for row in rows] == list(
        map(expected, questions)
    )
    return [row[0].use.path for row in rows]


@pytest.mark.parametrize(
    ("most", "is_late"),
    [
        pytest.param(1, False, id="1 at the start"),
        pytest.param(5, True, id="5 later"),
        *(
            pytest.param(most, is_late, marks=pytest.mark.nightly)
            for most, is_late in [(2, False), (5, False), (1, True), (2, True)]
        ),
    ],
)
def test_candidates_beyond_the_servers_limit_use_prompt_logprobs(processor, most, is_late, log):
    longest = max(
        len(ids) for ids in processor.tokenizer(CANDIDATES, add_special_tokens=False)["input_ids"]
    )
    assert longest > 5
    with ChatServer(processor, most=None if is_late else most) as server:
        limit = lambda: setattr(server, "most", most)  # noqa: E731
        assert paths(server, processor, edit=limit) == [PROMPT_LOGPROBS] * 3
        server.most = None if is_late else most
        with pytest.raises(RankingError, match=r"question q0: |method=forced"):
            paths(server, processor, method=FORCED, edit=limit)


@pytest.mark.parametrize("number", [0, 1, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_question_that_is_not_forced_uses_prompt_logprobs(processor, number, log):
    def fault(body, before):
        is_forced = "vllm_xargs" in body and f"{number}: next?" in json.dumps(body)
        return (
            Reply("forced_token_ids must be of the vocabulary", status=400) if is_forced else None
        )

    with ChatServer(processor, fault) as server:
        right = [PROMPT_LOGPROBS if index == number else FORCED for index in range(4)]
        assert paths(server, processor, 4) == right
        with pytest.raises(EngineError, match=f"question q{number}: .*vocabulary"):
            paths(server, processor, 4, FORCED)


@pytest.mark.parametrize("shift", [60.0, 700.0])
def test_a_server_that_returns_logits_is_rejected_at_startup(processor, shift):
    def edit(answer):
        for token in answer["choices"][0]["logprobs"]["content"]:
            token["logprob"] += shift
            for top in token["top_logprobs"]:
                top["logprob"] += shift

    with ChatServer(processor, edit=edit) as server:
        with pytest.raises(EngineError, match=rf"{server.url}: .*--logprobs-mode"):
            ranker(server, processor)
        assert len(server.bodies) == 1


def with_data(bodies):
    """Return the bodies of requests that send images."""
    return [body for body in bodies if '"url": "data:' in json.dumps(body)]


@pytest.mark.parametrize(
    "method",
    [
        "auto",
        *(pytest.param(method, marks=pytest.mark.nightly) for method in (FORCED, PROMPT_LOGPROBS)),
    ],
)
def test_each_image_is_sent_once(processor, method, log):
    with ChatServer(processor) as server:
        paths(server, processor, 3, method)
        assert len(with_data(server.bodies)) == 3
        paths(server, processor, 3, method)
        names = {
            item["uuid"]
            for body in server.bodies
            for item in body["messages"][0]["content"]
            if "uuid" in item
        }
        assert len(names) == 6
    assert sum("MiB" in line for line in log) == 2


def test_an_image_dropped_from_the_servers_cache_is_sent_again(processor):
    def fault(body, before):
        if len(server.bodies) % 4 == 0:
            server.stored.clear()

    with ChatServer(processor, fault) as server:
        paths(server, processor, 3)
        assert 3 < len(with_data(server.bodies)) < len(server.bodies)


def test_a_server_without_an_image_cache_gets_images_with_each_request(processor):
    def fault(body, before):
        return Reply("url", status=400) if '"image_url": null' in json.dumps(body) else None

    with ChatServer(processor, fault) as server:
        paths(server, processor, 3)
        without = [body for body in server.bodies if '"image_url": null' in json.dumps(body)]
        assert without


@pytest.mark.parametrize(
    ("user_arguments", "processors"),
    [
        ({}, []),
        ({"enable_prefix_caching": True, "logits_processors": ["a:B"]}, ["a:B"]),
        ({"logits_processors": "a:B"}, ["a:B"]),
    ],
)
def test_the_users_logits_processors_are_kept(user_arguments, processors):
    arguments = ranking_arguments(user_arguments | {"dtype": "float32"})
    assert arguments == {
        "dtype": "float32",
        "enable_prefix_caching": True,
        "logits_processors": [*processors, PROCESSOR],
    }


@pytest.mark.parametrize("value", [False, "False", "false", 0])
def test_a_disabled_prefix_cache_is_an_error(value):
    with pytest.raises(RankingError, match="enable_prefix_caching"):
        ranking_arguments({"enable_prefix_caching": value})


def test_a_url_without_a_server_is_an_error(processor):
    with ChatServer(processor) as server:
        url = server.url
    with pytest.raises(EngineError, match=rf"{url}.*base_url, model.*LMMS_"):
        ServedEngine(url, MODEL, probe)
    with pytest.raises(LmmsEgoplanError, match="base_url"):
        ServedEngine("127.0.0.1:8000", MODEL, probe)


def test_a_dead_server_is_reported_within_10_s():
    assert server_watch._CHECK_EVERY_S + server_watch._ANSWERS_IN_S < 10


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(server_watch, "_CHECK_EVERY_S", 0.02)
    monkeypatch.setattr(server_watch, "_ANSWERS_IN_S", FOREVER_S)
    monkeypatch.setattr(retries, "_FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(retries, "_LONGEST_WAIT_S", 0.1)


def about(server, lines):
    return [line for line in lines if server.url in line and "does not answer" in line]


def test_a_run_waits_for_a_server_that_is_started_again(processor, impatient, log):
    started = []

    def restart():
        wait_until(lambda: about(first, log))
        server = ChatServer(processor, port=int(first.url.split(":")[2].split("/")[0]))
        started.append(server.__enter__())

    with ChatServer(processor) as first:
        ranked = ranker(first, processor, FORCED, in_flight=1)
        questions = [ranked.encode(*question(number)) for number in range(3)]
        scores = ranked.scores(questions)
        rows = [next(scores)]
    restarting = threading.Thread(target=restart)
    restarting.start()
    rows += scores
    restarting.join()
    started[0].__exit__()
    assert [[score.token_logprobs for score in row] for row in rows] == list(
        map(expected, questions)
    )
    (lost,) = about(first, log)
    assert "server_wait" in lost
    assert sum("answers again" in line for line in log) == 1


def test_a_run_ends_if_the_server_does_not_come_back(processor, impatient, log):
    with ChatServer(processor) as server:
        engine = ServedEngine(server.url, MODEL, probe, server_wait="0.1")
        ranked = EngineRanker(engine, processor, method=FORCED, in_flight=1)
        scores = ranked.scores([ranked.encode(*question(number)) for number in range(3)])
        next(scores)
    with pytest.raises(
        EngineError, match=rf"question q1: .*{server.url}.*server_wait.*--use_cache"
    ):
        next(scores)
    assert len(about(server, log)) == 1
    for value in ("soon", -1, "nan", "inf", None):
        with pytest.raises(LmmsEgoplanError, match="server_wait"):
            ServedEngine(server.url, MODEL, probe, server_wait=value)
