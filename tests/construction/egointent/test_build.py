"""Test the command with a loopback language model that replies and fails by rule."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.source import segment, write_videos
from construction.ego4d_files import narrated
from construction.egointent.language_model import fault_of, kind_of, reply
from construction.egointent.small import TEA, UID, write_epic, write_small
from construction.language_model import KEY, Metered, environment, served, start_build
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egointent.records import UNKNOWN, read_annotations
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.cli import app
from lmms_egoplan.construction.ego4d import NO_TIME
from lmms_egoplan.construction.egointent.build import NO_FOOTAGE
from lmms_egoplan.construction.egointent.candidates import (
    ALIKE,
    NONE_LEFT,
    NOT_BRIEF,
    SURPLUS,
    UNSUPPORTED,
)
from lmms_egoplan.construction.egointent.goalstep import LAST
from lmms_egoplan.judging.json_replies import CUT_OFF
from patience import FOREVER_S
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"

__all__ = ["environment", "served"]  # fixtures
pytestmark = pytest.mark.usefixtures("environment")


@pytest.fixture
def serve(served):
    """Start a language model with these faults, or other replies."""
    return lambda fault=lambda _: "", answer=None: served(
        answer or (lambda prompt, before: reply(prompt, before, fault))
    )


def arguments(folder, out):
    files = ("--narrations", folder / "narration.json", "--videos", folder / "videos", "--out", out)
    return ("egointent", folder / "goalstep.json", *files)


def build(folder, *options):
    command = ("data", "build", *arguments(folder, folder / "steps.jsonl"), "--overwrite", *options)
    return CliRunner().invoke(app, [str(argument) for argument in command])


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
        "outcome_sec": 1.9,
        "local_intent": "fills the kettle",
        "procedural_intent": "get on with the work that fills the kettle",
        "next_step": "continue after it fills the kettle",
        "scenario": "kitchen",
        "environment": "indoor",
        "event": "cooking: make flatbread",
        "goal": "Making tea",
        "origin": "built",
        "unverified": True,
        "procedural_intent_candidates": ["get on with the work that fills the kettle"],
        "next_step_candidates": ["continue after it fills the kettle"],
    }
    assert [step["end_sec"] for step in steps] == [seconds for seconds, _ in TEA[:-1]]
    assert reasons(tmp_path) == {LAST: 1, UNSUPPORTED: 8}
    assert all(fact in result.output for fact in ("4 steps", "1 video"))
    assert KEY not in result.output
    assert len(read_annotations(tmp_path / "steps.jsonl")) == 4


def test_support_prompt_contains_nothing_later_than_the_cut(tmp_path, serve):
    write_small(tmp_path)
    with serve() as server:
        assert build(tmp_path).exit_code == 0
    narrations = [text.removeprefix("#C ") for _, text in TEA]
    for prompt in server.prompts:
        if kind_of(prompt) == "support":
            (now,) = (
                index
                for index, text in enumerate(narrations)
                if f"becomes visible: {text}\n" in prompt
            )
            assert all((text in prompt) == (index <= now) for index, text in enumerate(narrations))
            assert "Making tea" not in prompt
        if kind_of(prompt) == "candidates":
            assert all(text in prompt for text in narrations)
            assert "Making tea" in prompt


def test_epics_narrations_in_ego4ds_layout_with_faults(tmp_path, serve):
    if not EPIC.exists():
        pytest.skip(f"needs {EPIC}")
    chosen = write_epic(tmp_path, EPIC)
    with serve(fault_of) as server:
        result = build(tmp_path)
        num_prompts = len(server.prompts)
        first = contents(tmp_path)
        again = build(tmp_path)
    # More than 10 % of the prompts have no usable reply.
    for run in (result, again):
        assert run.exit_code == 1
        assert re.search(r"\d+ of \d+ .*10%", run.stderr)
    # Usable replies are not requested again, only refusals and errors of the server.
    assert {fault_of(prompt) for prompt in server.prompts[num_prompts:]} <= {
        "refused",
        "broken",
        "cut off",
    }
    assert contents(tmp_path) == first
    steps = steps_in(tmp_path)
    assert {step["video_id"] for step in steps} <= {*chosen}
    rejected = [
        rejection
        for rejection in rejections(tmp_path)
        if rejection["step"] in ("step", "candidates", "support")
    ]
    assert len(steps) + len(rejected) == sum(map(len, chosen.values()))
    records = read_annotations(tmp_path / "steps.jsonl")
    assert {record.environment for record in records} <= {"indoor", None}


def test_an_estimate_is_an_upper_bound_and_sends_nothing(tmp_path, serve):
    write_small(tmp_path)
    with serve() as server:
        estimated = build(tmp_path, "--estimate")
        assert estimated.exit_code == 0, estimated.output
        assert server.prompts == []
        assert not (tmp_path / "steps.jsonl").exists()
        assert build(tmp_path).exit_code == 0
        kinds = Counter(map(kind_of, server.prompts))
    counts = [int(count) for count in re.findall(r"(\d+) requests", estimated.stdout)]
    assert counts == [kinds["candidates"], kinds["support"], kinds["place"], kinds.total()]


def contents(folder):
    return [(folder / name).read_bytes() for name in ("steps.jsonl", "steps.rejections.jsonl")]


@pytest.mark.parametrize("bad", ["In a kitchen.", '{"place": "kitchen", "environment": "inside"}'])
def test_malformed_place_is_requested_once_more(tmp_path, serve, bad):
    write_small(tmp_path)

    def answer(prompt, before):
        is_first = kind_of(prompt) == "place" and "earlier reply" not in prompt
        return Reply(bad) if is_first else reply(prompt, before, lambda _: "")

    with serve(answer=answer) as server:
        assert build(tmp_path).exit_code == 0
    assert sum(kind_of(prompt) == "place" for prompt in server.prompts) == 2
    assert {step["scenario"] for step in steps_in(tmp_path)} == {"kitchen"}


def test_missing_place_rejects_no_step(tmp_path, serve):
    write_small(tmp_path)
    with serve(lambda prompt: "bad json" if kind_of(prompt) == "place" else "") as server:
        build(tmp_path)
    assert sum(kind_of(prompt) == "place" for prompt in server.prompts) == 2
    assert reasons(tmp_path)[CUT_OFF] == 1
    assert [(step["scenario"], step["environment"]) for step in steps_in(tmp_path)] == [
        (None, None)
    ] * 4
    prepared = prepare(tmp_path / "steps.jsonl", tmp_path)
    assert prepared.exit_code == 0, prepared.output
    assert {(row["scenario"], row["environment"]) for row in EGOINTENT.load("test")} == {
        (UNKNOWN, UNKNOWN)
    }


def prepare(steps, folder):
    arguments = ["data", "prepare", "egointent", str(steps), "--videos", str(folder / "videos")]
    return CliRunner().invoke(app, arguments)


def test_place_of_a_video_without_summaries_comes_from_frames(tmp_path, serve):
    write_small(tmp_path, {"narration_pass_1": narrated(*TEA, summaries=())})
    with serve() as server:
        assert build(tmp_path).exit_code == 0
    (content,) = [
        body["messages"][-1]["content"]
        for body in server.bodies
        if kind_of(server.prompt_of(body)) == "place"
    ]
    assert [part["type"] for part in content] == ["image_url"] * 4 + ["text"]

    def refuse(prompt):
        return "refused" if kind_of(prompt) == "place" and "images are frames" in prompt else ""

    with serve(refuse) as server:
        assert build(tmp_path, "--llm", "reads-texts").exit_code == 0
    assert [prompt for prompt in server.prompts if kind_of(prompt) == "place"][-1].count(
        "\n- C "
    ) == len(TEA)
    assert {step["scenario"] for step in steps_in(tmp_path)} == {"kitchen"}


def test_narrations_without_times_are_rejected(tmp_path, serve):
    first = narrated(*TEA)
    del first["narrations"][2]["timestamp_sec"]
    first["narrations"][3]["timestamp_sec"] = "2.6"
    first["narrations"][4] = "pours"
    write_small(tmp_path, {"narration_pass_1": first})
    with serve():
        result = build(tmp_path)
    assert result.exit_code == 0, result.output
    location = f"{tmp_path / 'narration.json'}, {UID}, narration_pass_1.narrations"
    untimed = {
        rejection["where"]: rejection
        for rejection in rejections(tmp_path)
        if rejection["step"] == "narration"
    }
    assert list(untimed) == [f"{location}[{number}]" for number in (2, 3, 4)]
    assert {rejection["reason"] for rejection in untimed.values()} == {NO_TIME}
    assert "'2.6'" in untimed[f"{location}[3]"]["detail"]
    assert "'pours'" in untimed[f"{location}[4]"]["detail"]
    assert re.search(rf"{NO_TIME}\D*3\b|\b3\D*{NO_TIME}", result.output), result.output
    assert [step["end_sec"] for step in steps_in(tmp_path)] == [TEA[0][0]]


def test_unreadable_video_rejects_only_its_steps(tmp_path, serve):
    damaged_uid = "0b0b0b0b-9648-40ea-a500-5493a1ad9eac"
    write_small(tmp_path, uids=(UID, damaged_uid))
    (tmp_path / "videos" / f"{damaged_uid}.mp4").write_bytes(b"no video")
    with serve():
        assert build(tmp_path).exit_code == 0
    assert {step["video_id"] for step in steps_in(tmp_path)} == {UID}
    rejected = [
        rejection for rejection in rejections(tmp_path) if rejection["reason"] == NO_FOOTAGE
    ]
    assert [rejection["where"] for rejection in rejected] == [
        f"0b0b0b0b_n{number}" for number in range(1, 5)
    ]
    assert all(f"{damaged_uid}.mp4" in rejection["detail"] for rejection in rejected)
    (tmp_path / "videos" / f"{UID}.mp4").write_bytes(b"")
    earlier_contents = contents(tmp_path)
    with serve() as server:
        result = build(tmp_path)
    assert result.exit_code == 1
    assert NO_FOOTAGE in result.output
    assert server.prompts == []
    assert contents(tmp_path) == earlier_contents


def test_narration_after_the_end_of_the_video_is_rejected(tmp_path, serve):
    write_small(tmp_path, frames=60)
    with serve():
        assert build(tmp_path).exit_code == 0
    assert [step["end_sec"] for step in steps_in(tmp_path)] == [0.5, 1.1, 1.9]
    assert reasons(tmp_path)[NO_FOOTAGE] == 1


def test_run_resumes_after_a_refused_key(tmp_path, serve, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_CONCURRENCY", "1")
    write_small(tmp_path)
    credit = [6]

    def answer(prompt, before):
        credit[0] -= 1
        return (
            Reply("no credit left", status=401)
            if credit[0] < 0
            else reply(prompt, before, lambda _: "")
        )

    with serve(answer=answer) as server:
        result = build(tmp_path)
        assert result.exit_code == 1
        assert "no credit left" in result.output
        assert KEY not in result.output
        assert not (tmp_path / "steps.jsonl").exists()
        credit[0] = 100
        paid = len(server.answered)
        assert build(tmp_path).exit_code == 0
    assert len(steps_in(tmp_path)) == 4
    assert len(server.answered) == paid + 3


def test_unsuitable_candidates_are_recorded(tmp_path, serve):
    write_small(tmp_path)

    def answer(prompt, before):
        if kind_of(prompt) == "candidates":
            if "question: C fills" in prompt:
                fields = {
                    "procedural_intent": ["Fills the  kettle", "make tea"],
                    "next_step": ["make tea", 5],
                }
            else:
                fields = {
                    "procedural_intent": ["x " * 26, "make tea"],
                    "next_step": ["a", "b", "c", "d"],
                }
            return Reply(json.dumps(fields))
        if kind_of(prompt) == "support" and "visible: C picks" in prompt:
            return Reply('{"procedural_intent": [false], "next_step": [true, true, false]}')
        return reply(prompt, before, lambda _: "")

    with serve(answer=answer):
        assert build(tmp_path).exit_code == 0
    assert [step["local_intent"] for step in steps_in(tmp_path)] == [
        "opens a box",
        "puts a bag in the cup",
    ]
    assert steps_in(tmp_path)[0]["next_step_candidates"] == ["a", "b", "c"]
    rejected = [rejection for rejection in rejections(tmp_path) if rejection["reason"] != LAST]
    assert Counter((rejection["step"], rejection["reason"]) for rejection in rejected) == {
        ("procedural_intent", NOT_BRIEF): 3,
        ("next_step", NOT_BRIEF): 1,
        ("next_step", SURPLUS): 3,
        ("procedural_intent", ALIKE): 1,
        ("next_step", ALIKE): 1,
        ("procedural_intent", UNSUPPORTED): 1,
        ("next_step", UNSUPPORTED): 1,
        ("step", NONE_LEFT): 2,
    }


def test_files_shown_in_the_documentation_are_read(tmp_path, serve):
    page = (Path(__file__).parents[3] / "docs" / "building-egointent.md").read_text(
        encoding="utf-8"
    )
    for name, text in zip(
        ("narration", "goalstep"), re.findall(r"```json\n(.*?)```", page, re.DOTALL), strict=True
    ):
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    write_videos(tmp_path / "videos", ["my-video"])
    with serve():
        assert build(tmp_path).exit_code == 0
    (step,) = steps_in(tmp_path)
    assert (step["step_id"], step["local_intent"], step["scenario"]) == (
        "81543935_n1",
        "picks a kettle",
        "kitchen",
    )


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        (("--before-end", "1"), "--narrations"),
        (("--out", "{folder}"), "{folder}"),
        (("--out", "{folder}/goalstep.json"), "goalstep.json"),
        (("--videos", "{folder}/none"), "{folder}/none"),
        (("--narrations", "{folder}/goalstep.json"), "narration_pass_1"),
    ],
)
def test_wrong_options_give_one_error(tmp_path, serve, options, fact):
    write_small(tmp_path)
    with serve() as server:
        result = build(tmp_path, *(text.format(folder=tmp_path) for text in options))
    assert result.exit_code in (1, 2)
    assert fact.format(folder=tmp_path) in result.output
    assert server.prompts == []


def test_error_without_a_language_model(tmp_path):
    write_small(tmp_path)
    result = build(tmp_path)
    assert result.exit_code == 1
    assert "LMMS_EGOPLAN_JUDGE_BASE_URL" in result.output


def test_a_language_model_without_narrations_is_refused(tmp_path):
    write_small(tmp_path)
    arguments = [
        "goalstep.json",
        "--videos",
        "videos",
        "--llm",
        "some-model",
        "--out",
        "steps.jsonl",
    ]
    result = CliRunner().invoke(app, ["data", "build", "egointent", *arguments])
    assert result.exit_code == 2
    assert "--narrations" in result.output


@pytest.mark.nightly
def test_same_output_after_a_kill(tmp_path):
    narrations = tuple((0.25 + 0.25 * number, f"#C C does work {number}") for number in range(36))
    parts = [segment(0, 10, "Work")]
    write_small(tmp_path, {"narration_pass_1": narrated(*narrations)}, segments=parts, frames=300)
    answer = Metered(reply)

    def start(out, data):
        return start_build(server, data, 2, *arguments(tmp_path, out))

    with JudgeServer(answer) as server:
        assert start(tmp_path / "whole.jsonl", tmp_path / "one").wait(FOREVER_S) == 0
        assert set(answer.paid.values()) <= {0, 1}
        prompts = answer.paid.total()
        answer.paid.clear()
        answer.kill_after(lambda: start(tmp_path / "killed.jsonl", tmp_path / "two"), prompts // 2)
        assert not (tmp_path / "killed.jsonl").exists()
        assert start(tmp_path / "killed.jsonl", tmp_path / "two").wait(FOREVER_S) == 0
        # Requests in flight at the kill may have been answered without a receiver.
        assert answer.paid.total() <= prompts + 2
    for suffix in (".jsonl", ".rejections.jsonl"):
        assert (tmp_path / f"killed{suffix}").read_bytes() == (
            tmp_path / f"whole{suffix}"
        ).read_bytes()
