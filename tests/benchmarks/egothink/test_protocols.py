"""Compare the judge's protocols with their sources: messages, parameters, reading of ratings,
failed judgements.
"""

import ast
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egothink.paper import SINGLE_MATH_V2
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.aggregations import mean_score
from lmms_egoplan.benchmarks.egothink.answers import Answer, JudgedAnswer
from lmms_egoplan.benchmarks.egothink.judge import grade
from lmms_egoplan.benchmarks.egothink.judge_protocol import PROTOCOLS, read_first_rating
from lmms_egoplan.benchmarks.egothink.metrics import details, score_answer
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.cache import cache_key
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.report.egothink.agreement import compare
from lmms_egoplan.report.egothink.judges import agreements

AUTHORS, LMMS_EVAL = "authors", "lmms-eval-0.7.3"
ENTRY = json.loads(SINGLE_MATH_V2)
QUESTION, REFERENCE = "What {am} I holding?", " A Shoe. No. 5 "
# Answers that `sanitize` would change.
ANSWER = "a shoe {0} [[1]] </think>"
PIECES = st.sampled_from(
    [
        "[[",
        "]]",
        "[",
        "]",
        "0",
        "0.5",
        "0.7",
        "1",
        "1.",
        "7",
        ".5",
        "Rating: ",
        "\n",
        " ",
        "x",
        "01",
    ]
)

pytestmark = pytest.mark.usefixtures("data")


@pytest.fixture(autouse=True)
def no_protocol(monkeypatch):
    for name in ("PROTOCOL", "PARAMETERS", "MAX_TOKENS"):
        monkeypatch.delenv(f"LMMS_EGOPLAN_JUDGE_{name}", raising=False)


def authors_rating(verdict):
    """Read a rating as run_judge_single does; None for its -1, for an error, and for a number above
    1.
    """
    for pattern in (r"\[\[(\d+\.?\d*)\]\]", r"\[(\d+\.?\d*)\]"):
        if match := re.search(pattern, verdict):
            try:
                rating = float(ast.literal_eval(match.groups()[0]))
            except SyntaxError:  # leading zeros end the authors' program
                rating = float(match.groups()[0])
            return rating if rating <= 1 else None
    return None


def graded(protocol, *replies, answers=(ANSWER,), **settings):
    """Grade answers under a protocol; return them and the bodies of the requests."""
    batch = [
        Answer(f"existence/{n}", QUESTION, REFERENCE, text, False)
        for n, text in enumerate(answers, 1)
    ]
    texts = dict(zip(answers, replies, strict=True))

    def reply(prompt, _):
        return Reply(
            next(texts[answer] for answer in answers if answer in prompt or protocol == "paper")
        )

    with JudgeServer(reply) as server:
        judged = grade(batch, JudgeSettings("judge", server.url, protocol=protocol, **settings))
    return judged, server.bodies


def test_the_authors_messages_and_parameters():
    ((judged,), (body,)) = graded(AUTHORS, "So so. [[0.5]]")
    text = ENTRY["prompt_template"].format(question=QUESTION, ref_answer_1=REFERENCE, answer=ANSWER)
    assert body["messages"] == [
        {"role": "system", "content": ENTRY["system_prompt"]},
        {"role": "user", "content": text},
    ]
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 2048, "judge")
    assert (judged.rating, judged.judge, judged.protocol) == (
        0.5,
        'judge (protocol="authors")',
        AUTHORS,
    )


@pytest.mark.parametrize(
    "verdict",
    [
        *("So so. [[0.5]]", "[1] I think", "Rating: [[0]] or [[1]]", "no rating", "[[7]]"),
        *("Mostly right. Rating: [[0.7]]", "[[0.25]], not [[1]]", "Nearly [0.9]"),
    ],
)
def test_lmms_evals_own_code_sends_and_reads_the_same(monkeypatch, verdict):
    from lmms_eval.tasks.egothink import utils as lmms_eval

    sent = {}

    def chat(model, messages, temperature, max_tokens):
        sent.update(messages=messages, temperature=temperature, max_tokens=max_tokens)
        return verdict, "judge"

    monkeypatch.setattr(lmms_eval, "chat_compeletion_openai", chat)
    doc = {"id": "1", "question": QUESTION, "answer": REFERENCE}
    theirs = lmms_eval.egothink_process_results(doc, [ANSWER])["gpt_eval_score"]["score"]
    (judged,), bodies = graded(LMMS_EVAL, verdict)
    assert {name: bodies[0][name] for name in sent} == sent
    is_counted = 0 <= theirs <= 1
    assert len(bodies) == (1 if is_counted else 3)
    assert judged.score == (100 * theirs if is_counted else -100)
    assert judged.rating == (theirs if is_counted else None)
    assert JudgedAnswer.from_text(judged.to_text()) == judged


def test_ratings_between_the_levels_are_compared_without_kappa():
    names = [f"existence/{number}" for number in range(1, 13)]
    first = {name: number % 3 / 2 for number, name in enumerate(names)}
    second = {name: rating * 0.7 + 0.1 for name, rating in first.items()}
    raters = {
        judge: [
            JudgedAnswer(
                name, "a shoe", None, False, rating, "[[x]]", judge, None, protocol=AUTHORS
            )
            for name, rating in rated.items()
        ]
        for judge, rated in (("first", first), ("second", second))
    }
    _, (pair, *_) = compare({"first": first, "second": second}, ["first", "second"])
    (row, *_) = agreements(list(zip(*raters.values(), strict=True)))
    assert pair.coefficients["pearson"].value == pytest.approx(1) == pytest.approx(row["pearson"])
    assert pair.coefficients["kappa_linear"] is row["kappa_linear"] is None


def test_papers_requests_are_unchanged():
    (_, (body,)) = graded("paper", "[[1]]")
    (message,) = body["messages"]
    assert message["role"] == "user"
    assert "a shoe {0} ((1)) (/think)" in message["content"]
    assert (body["temperature"], body["max_tokens"]) == (0, 4096)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_the_authors_reader(verdict):
    assert read_first_rating(verdict) == authors_rating(verdict)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {"temperature": 0, "max_tokens": 2048}),
        ({"MAX_TOKENS": "77"}, {"temperature": 0, "max_tokens": 77}),
        ({"PARAMETERS": '{"temperature": null}'}, {"max_tokens": 2048}),
        (
            {"PARAMETERS": '{"temperature": 1, "seed": 3}'},
            {"temperature": 1, "seed": 3, "max_tokens": 2048},
        ),
    ],
)
def test_the_environment_precedes_the_protocol(monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(f"LMMS_EGOPLAN_JUDGE_{name}", value)
    (_, (body,)) = graded(AUTHORS, "[[1]]")
    assert {
        name: value for name, value in body.items() if name not in ("model", "messages")
    } == expected


def test_failed_judgements_count_as_the_protocol_says(log):
    answers = {"good one": "[[1]]", "bad one": "[[7]]", "worse one": "I cannot say."}
    for protocol, score, failed in ((AUTHORS, 100.0, 0), (LMMS_EVAL, -100 / 3, 2)):
        judged, _ = graded(protocol, *answers.values(), answers=tuple(answers))
        values = [score_answer({"id": answer.id}, [answer.to_text()]) for answer in judged]
        aggregated = details([value["details"] for value in values])
        assert mean_score([value["score"] for value in values]) == pytest.approx(score)
        assert aggregated["judge_failed"] == failed
        assert aggregated["judge_protocol"] == protocol
        assert [value["judge_coverage"]["score"] for value in values] == [1.0, 0.0, 0.0]
        # The judge was asked three times about each failed answer; the tokens are those of all
        # replies.
        assert aggregated["judge_reply_tokens"] == 1 + 3 * (1 + 3)
        assert aggregated["judge_tokens_of"] == 3
        (warning,) = (line for line in log if "2 of 3 answers are not judged" in line)
        assert ("exclude" in warning, "as -1" in warning) == (not failed, bool(failed))
        log.clear()


def test_without_a_judge_nothing_failed():
    (answer,) = grade([Answer("existence/1", QUESTION, REFERENCE, ANSWER, False)], None)
    assert (answer.judge, answer.protocol, answer.score) == (None, None, None)


def test_every_variant_has_its_own_cache_key(monkeypatch):
    prompt = Prompt("How good is it?")
    prompts = [prompt, *(replace(prompt, protocol=name) for name in PROTOCOLS)]
    prompts += [replace(prompt, system="Be kind.", protocol=name) for name in PROTOCOLS]
    keys = [cache_key("judge", {"temperature": 0}, item) for item in prompts]
    assert len(set(keys)) == len(keys) - 1
    # Judgements of the default protocol keep the key of earlier versions.
    assert keys[0] == keys[1] == "3925a20e297ba9a7ab31333eebca041e11323175650f807d03fd86fb1680e408"
    # The same messages under two protocols are two requests.
    for name in (AUTHORS, LMMS_EVAL):
        judged, bodies = graded(name, "[[1]]")
        assert len(bodies) == 1
        assert judged[0].protocol == name


@pytest.mark.parametrize("name", ["Paper", "lmms-eval", "authors "])
def test_an_unknown_protocol_is_named_with_the_choices(monkeypatch, name):
    with pytest.raises(LmmsEgoplanError, match=f"{name}.*paper, authors, lmms-eval-0.7.3"):
        graded(name, "[[1]]")
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_PROTOCOL", "gpt")
    with pytest.raises(LmmsEgoplanError, match=r"LMMS_EGOPLAN_JUDGE_PROTOCOL.*gpt"):
        graded("", "[[1]]")


def test_records_name_only_known_protocols():
    judged = JudgedAnswer(
        "existence/1", "a shoe", None, False, None, None, "judge", "failed", protocol=LMMS_EVAL
    )
    assert JudgedAnswer.from_text(judged.to_text()).score == -100
    with pytest.raises(ValueError, match="protocol"):
        JudgedAnswer.from_text(judged.to_text().replace(LMMS_EVAL, "gpt"))
