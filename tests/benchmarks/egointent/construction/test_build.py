"""The command, with a loopback language model that replies and fails by rule."""

import json
import os
from collections import Counter

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.construction.language_model import fault_of, kind_of, reply
from benchmarks.egointent.construction.small import TEA, UID, write_epic, write_small
from judge_server import JudgeServer
from lmms_egoplan.benchmarks.egointent.records import read_annotations
from lmms_egoplan.cli import app
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
KEY = "sk-very-secret-key-456"


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith(("LMMS_EGOPLAN_JUDGE", "OPENAI_", "AZURE_", "API_TYPE", "MODEL_VERSION")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def serve(monkeypatch):
    """Start a language model, and set it."""

    def serve(fault=lambda _: "", answer=None):
        server = JudgeServer(answer or (lambda prompt, before: reply(prompt, before, fault)))
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", KEY)
        return server

    return serve


def build(folder, *more, out="steps.jsonl"):
    arguments = [
        *("data", "build", "egointent", "--goalstep", folder / "goalstep.json"),
        *("--narrations", folder / "narration.json", "--videos", folder / "videos", "--out", folder / out),
        *more,
    ]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def steps_in(folder, name="steps.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def rejections(folder):
    return steps_in(folder, "steps.rejections.jsonl")


def reasons(folder):
    return Counter(rejection["reason"] for rejection in rejections(folder))


def test_narrations_become_steps_that_are_cut_at_their_times(tmp_path, serve):
    write_small(tmp_path)
    with serve() as server:
        result = build(tmp_path, "--llm", "some-model")
    assert result.exit_code == 0, result.output
    assert {body["model"] for body in server.bodies} == {"some-model"}
    assert Counter(map(kind_of, server.prompts)) == {"candidates": 4, "support": 4, "place": 1}
    steps = steps_in(tmp_path)
    assert steps[1] == {
        "step_id": "f20fb254_n2",
        "video_id": UID,
        "start_sec": 0.5,
        "end_sec": 1.1,
        "local_intent": "fills the kettle",
        "procedural_intent": "get on with the work that fills the kettle",
        "next_step": "go on after it fills the kettle",
        "scenario": "kitchen",
        "environment": "indoor",
        "event": "cooking: make flatbread",
        "goal": "Making tea",
        "unverified": True,
        "procedural_intent_candidates": ["get on with the work that fills the kettle"],
        "next_step_candidates": ["go on after it fills the kettle"],
    }
    assert [step["end_sec"] for step in steps] == [seconds for seconds, _ in TEA[:-1]]
    assert reasons(tmp_path) == {
        "no step comes after it": 1,
        "candidate that is not supported before the cut": 8,
    }
    assert "4 steps of 1 videos, which nobody has verified" in result.output
    assert KEY not in result.output
    assert len(read_annotations(tmp_path / "steps.jsonl")) == 4


def test_the_model_that_judges_support_is_told_nothing_that_comes_later(tmp_path, serve):
    write_small(tmp_path)
    with serve() as server:
        assert build(tmp_path).exit_code == 0
    said = [text.removeprefix("#C ") for _, text in TEA]
    for prompt in server.prompts:
        if kind_of(prompt) == "support":
            (now,) = (place for place, text in enumerate(said) if f"becomes visible: {text}\n" in prompt)
            assert all((text in prompt) == (place <= now) for place, text in enumerate(said))
            assert "Making tea" not in prompt
        if kind_of(prompt) == "candidates":
            assert all(text in prompt for text in said)
            assert "Making tea" in prompt


def test_epics_narrations_in_ego4ds_layout_with_faults_and_a_second_run(tmp_path, serve):
    if not EPIC.exists():
        pytest.skip(f"needs {EPIC}")
    chosen = write_epic(tmp_path, EPIC)
    with serve(fault=fault_of) as server:
        result = build(tmp_path)
    assert result.exit_code == 0, result.output
    steps = steps_in(tmp_path)
    print(result.output, len(server.prompts), reasons(tmp_path))
    assert {step["video_id"] for step in steps} == {*chosen}
