"""Test version 2 of the task, with the names of the release of August 2026, against the paper's in
`egointent_v1`.
"""

import math

import pytest

from benchmarks.egointent.source import raw_record
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egointent import metrics
from lmms_egoplan.benchmarks.egointent.diagnostics import diagnostics_prompt
from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
from lmms_egoplan.benchmarks.egointent.judge_protocol import (
    PAPER,
    RELEASE,
    judge_prompt,
    read_ratings,
)
from lmms_egoplan.benchmarks.egointent.prompts import (
    FIELDS,
    RELEASE_NAMES,
    RELEASE_PROMPT,
    v1_prompt_text,
)
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.task_files import read_task_file

DOC = raw_record(1) | {"num_frames": 3, "split_size": 4, "unverified": False}


def graded(reply):
    prediction = Prediction.of_reply(DOC, reply, truncated=False, frames_shown=3, media=None)
    (step,) = grade([prediction], JudgeSettings("demo"), PAPER)
    return step


def test_prompt_asks_for_the_releases_keys_and_contains_nothing_of_the_step():
    text = RELEASE_PROMPT
    assert all(f'"{name}": "..."' in text for name in RELEASE_NAMES.values())
    assert not any(name in text for name in ("global_intent", "next_step_plan", DOC["step_id"]))
    assert all(f'"{name}": "..."' in v1_prompt_text(DOC) for name in FIELDS)


@pytest.mark.parametrize(
    "reply",
    [
        (
            '{"local_intent": "hold it", "procedural_intent": "build it", "next_step": '
            '"drive a screw"}'
        ),
        "**Local Intent:** hold it\n**Procedural Intent:** build it\n**Next Step:** drive a screw",
        "Local: hold it\nProcedural: build it\nNext: drive a screw",
        '{"local": "hold it", "procedural": "build it", "next": "drive a screw"}',
        (
            '{"local_intent": "hold it", "global_intent": "build it", "next_step_plan": '
            '"drive a screw"}'
        ),
    ],
)
def test_replies_under_either_names_are_read(reply):
    assert read_reply(reply) == dict(
        zip(FIELDS, ("hold it", "build it", "drive a screw"), strict=True)
    )


def test_pieces_of_either_prompt_are_not_answers():
    for prompt in (v1_prompt_text(DOC), RELEASE_PROMPT):
        assert read_reply(prompt) == {}


def test_metrics_have_the_releases_names():
    step = graded(
        '{"local_intent": "hold board 1 steady", "procedural_intent": "assemble frame 1"}'
    )
    values = metrics.score_release_step(DOC, [step.to_text()])
    paper = metrics.score_step(DOC, [step.to_text()])
    assert values["procedural_intent"] == paper["global_intent"]
    assert values["next_step"] == {"missing": True, "cluster": DOC["video_id"], "score": 0.0}
    assert not {"global_intent", "next_step_plan"} & values.keys()
    tasks = [
        read_task_file(LM_EVAL_TASKS.parent / f"shared/{name}.yaml")
        for name in ("egointent", "egointent_v1")
    ]
    release, paper = ({metric["metric"] for metric in task["metric_list"]} for task in tasks)
    assert release >= {"procedural_intent", "next_step", "overall_missing_zero"}
    assert paper >= {"global_intent", "next_step_plan"}


def value(ratings, missing=(), size=4):
    return {
        "ratings": dict(zip(FIELDS, ratings, strict=True)),
        "missing": list(missing),
        "split_size": size,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([value((90.0, 60.0, 30.0))] * 4, 60.0),
        ([value((90.0, 60.0, 30.0))] * 2, 30.0),
        ([value((90.0, 60.0, 0.0), ["next_step_plan"]), value((30.0, 30.0, 30.0))], (50 + 30) / 4),
        ([value((90.0, None, 30.0)), value((30.0, 30.0, 30.0))], math.nan),
    ],
)
def test_missing_predictions_score_zero_but_missing_ratings_do_not(values, expected):
    assert metrics.overall_missing_zero(values) == pytest.approx(expected, nan_ok=True)


def test_one_request_about_several_fields_names_them_as_the_release_does():
    texts = {field: f"text of {field[:4]}" for field in FIELDS}
    prompt = judge_prompt(texts, texts, RELEASE)
    assert "[[procedural_intent: n]]" in prompt
    assert "global_intent" not in prompt
    assert read_ratings("[[local_intent: 1]] [[procedural_intent: 2]] [[next_step: 3]]") == dict(
        zip(FIELDS, (1.0, 2.0, 3.0), strict=True)
    )


def test_judge_prompts_of_the_two_versions_differ_for_the_next_step():
    text = {"next_step_plan": "drive the screw in"}
    paper, release = (judge_prompt(text, text, protocol) for protocol in (PAPER, RELEASE))
    assert "begin after this step" in paper
    assert "occur immediately after the observation boundary" in release
    assert "after this step" not in release


# "Benchmark Overview" in the README of YePan2/EgoIntent, commit e6cf8e9.
DEFINITIONS = {
    "local_intent": "The actor's immediate goal in the current micro-step.",
    "global_intent": "The functional role of the current step in the broader procedure.",
    "next_step_plan": "The action most likely to occur immediately after the observation boundary.",
}


@pytest.mark.parametrize("field", FIELDS)
def test_prompts_quote_the_releases_definitions(field):
    definition, name = DEFINITIONS[field], RELEASE_NAMES[field]
    phrase = definition[:1].lower() + definition[1:].rstrip(".")
    assert f"{name}: {definition}\n" in RELEASE_PROMPT
    assert RELEASE.definitions[field] == phrase
    texts = dict.fromkeys(FIELDS, "a")
    assert f"Both describe {phrase}." in judge_prompt(texts, {field: "a"}, RELEASE)
    assert f"{name}: {phrase}\n" in judge_prompt(texts, texts, RELEASE)
    assert f"{name}: {phrase}\n" in diagnostics_prompt("gf", texts)
    table = (LMMS_EVAL_TASKS / "egointent" / "README.md").read_text(encoding="utf-8")
    assert f"| {phrase}" in table


def test_next_step_may_be_the_end_of_the_current_step():
    prompt = RELEASE_PROMPT
    assert (
        "next_step: The action most likely to occur immediately after the observation boundary."
        in prompt
    )
    assert "not a part of this step" not in prompt
    assert "not a part of this step" in v1_prompt_text(DOC)
    texts = dict.fromkeys(FIELDS, "a")
    order, feasible = (diagnostics_prompt(name, texts) for name in ("tpc", "npf"))
    assert "coherent temporal order" in order
    assert "part of the current one" not in order
    assert "immediately feasible from the observed state" in feasible
    assert "once this step is done" not in feasible


def test_judge_prompt_has_the_releases_names():
    verdict = "[[local_intent: 80]]\n[[procedural_intent: 60]]\n[[next_step: 40]]"
    reply = (
        '{"local_intent": "hold it", "procedural_intent": "build it", "next_step": "drive a screw"}'
    )
    with JudgeServer(lambda *_: Reply(verdict)) as server:
        settings = JudgeSettings("judge", base_url=server.url)
        prediction = Prediction.of_reply(DOC, reply, truncated=False, frames_shown=3, media=None)
        (step,) = grade([prediction], settings, RELEASE, together=True)
    assert step.ratings == dict(zip(FIELDS, (80.0, 60.0, 40.0), strict=True))
    assert all("global_intent" not in str(body) for body in server.bodies)
