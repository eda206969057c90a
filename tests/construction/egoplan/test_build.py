"""Test the command with a loopback language model that replies and fails by rule."""

import json
import re
from collections import Counter
from functools import partial

import pytest
from typer.testing import CliRunner

from construction.ego4d_files import write_narrations
from construction.egoplan.language_model import FAULTS, fault_of, reply, rows_of
from construction.egoplan.language_model import goals_of as goals_of_prompt
from construction.egoplan.small import as_ego4d, epic_rows, goals_of, some_videos, write_epic
from construction.language_model import KEY, Metered, environment, served, start_build
from judge_server import JudgeServer, Reply
from lmms_egoplan.benchmarks.egoplan.records import read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.construction.egoplan import goals as goal_reasons
from lmms_egoplan.construction.egoplan.goals import goal_prompt
from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens
from lmms_egoplan.construction.egoplan.questions import (
    COPY,
    DONE_BEFORE,
    NEAR_END,
    NOTHING_DONE,
)
from lmms_egoplan.files import LOCK
from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.json_replies import CUT_OFF, NO_REPLY, NOT_JSON
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import DEFAULT_MODEL, JudgeSettings
from lmms_egoplan.judging.tokens import prompt_tokens
from lmms_egoplan.outputs import MARKER
from patience import FOREVER_S
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
QUESTIONS, IT, RECOGNITION = (
    "EgoPlan_validation.json",
    "EgoPlan_IT.json",
    "EgoPlan_IT_action_recognition.json",
)

__all__ = ["environment", "served"]  # fixtures
pytestmark = pytest.mark.usefixtures("environment")
real = pytest.mark.skipif(not EPIC.exists(), reason=f"needs {EPIC}")


def build(narrations, out, *options, source="epic-kitchens"):
    arguments = ["data", "build", "egoplan", narrations, "--source", source, "--out", out, *options]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def contents(out):
    return {
        path.name: path.read_bytes() for path in out.iterdir() if path.name not in (MARKER, LOCK)
    }


def rejections(out):
    lines = (out / "rejections.jsonl").read_text(encoding="utf-8").splitlines()
    return Counter(json.loads(line)["reason"] for line in lines)


@pytest.fixture
def narrations(tmp_path):
    return write_epic(tmp_path / "n.csv", epic_rows())


@pytest.fixture
def goals(tmp_path):
    """Write goals for the fixture `narrations`, in Figure 10's form."""
    path = tmp_path / "goals.json"
    path.write_text(json.dumps({"P01_01": goals_of()}))
    return path


def tea(prompt, before):
    return Reply(json.dumps(goals_of()), model="gpt-4-test")


def test_narrations_become_questions(tmp_path, narrations, served):
    out = tmp_path / "built"
    with served(tea) as server:
        result = build(narrations, out, "--instruction-data")
        assert result.exit_code == 0, result.output
        assert len(server.prompts) == 1
        assert server.bodies[0]["model"] == "gpt-4o-2024-11-20"
        files = contents(out)
        assert build(narrations, out, "--instruction-data").exit_code == 0
        assert len(server.prompts) == 1
    assert contents(out) == files
    facts = ("16 questions", "3 task goals", "1 video", str(out / QUESTIONS))
    assert all(fact in result.stdout for fact in facts)
    records = read_annotations(out / QUESTIONS, "val")
    assert Counter(record.task_goal for record in records) == {
        "Make tea": 6,
        "prepare a cup": 6,
        "heat water": 4,
    }
    assert [record["answer"] for record in json.loads((out / IT).read_text())] == [
        record.answer for record in records
    ]
    assert len(json.loads((out / RECOGNITION).read_text())) == 13
    assert rejections(out) == {NOTHING_DONE: 3}
    assert set(files) == {
        QUESTIONS,
        IT,
        RECOGNITION,
        *(
            "goals.json",
            "narrations.csv",
            "rejections.jsonl",
            "summary.json",
            "table_2.csv",
            "table_2.md",
        ),
        *("figure_4.csv", "figure_5.csv", "figure_4.png", "figure_5.png"),
    }
    assert KEY.encode() not in b"".join([*files.values(), default_cache_path().read_bytes()])
    assert KEY not in result.output


def test_summary_is_stored_and_printed(tmp_path, narrations):
    """The expected counts are computed by hand.

    Two goals have all six actions, and one has the first four.
    """
    listing = goals_of(overall_goal="Fill the kettle, switch on the kettle and take a cup")
    (tmp_path / "goals.json").write_text(json.dumps({"P01_01": listing}))
    result = build(narrations, tmp_path / "built", "--goals", tmp_path / "goals.json")
    summary = json.loads((tmp_path / "built" / "summary.json").read_text())
    facts = [summary[name] for name in ("questions", "task_goals", "videos", "dropped", "left_out")]
    assert facts == [16, 3, 1, [], {}]
    kinds = {
        "near-equal": 0,
        "concurrent": 0,
        "copies": 16,
        "listing-goals": 1,
        "unsure-actions": 0,
    }
    assert summary["kinds_to_drop"] == kinds
    accuracies = summary["accuracy_without_video"]
    assert (accuracies["n"], accuracies["chance"], accuracies["most common action"]) == (
        16,
        0.25,
        0.25,
    )
    for name in ("kinds_to_drop", "accuracy_without_video"):
        for key, value in summary[name].items():
            assert f"{key}: {value}" in result.stdout
    result = build(
        *(narrations, tmp_path / "fewer", "--goals", tmp_path / "goals.json"),
        *("--drop", "copies,listing-goals", "--epic-video-info", _info(tmp_path, 18.5)),
    )
    assert result.exit_code == 0, result.output
    assert rejections(tmp_path / "fewer") == {goal_reasons.LISTING: 1, COPY: 4}
    records = read_annotations(tmp_path / "fewer" / QUESTIONS, "val")
    assert Counter(record.task_goal for record in records) == {"prepare a cup": 6}


def test_the_summary_of_a_balanced_build_has_the_accuracy_before_and_after(
    tmp_path, narrations, goals
):
    """The goals of six, six and four actions keep three, three and one question."""
    assert build(narrations, tmp_path / "usual", "--goals", goals).exit_code == 0
    before = json.loads((tmp_path / "usual" / "summary.json").read_text())
    assert {"not_balanced", "accuracy_without_video_unbalanced"}.isdisjoint(before)
    result = build(narrations, tmp_path / "built", "--goals", goals, "--balance")
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "built" / "summary.json").read_text())
    assert summary["questions"] == summary["accuracy_without_video"]["n"] == 7
    assert summary["accuracy_without_video"]["not done yet"] == 0.25
    assert summary["accuracy_without_video_unbalanced"] == before["accuracy_without_video"]
    assert before["accuracy_without_video"]["not done yet"] > 0.5
    assert summary["not_balanced"] == {NEAR_END: 9, DONE_BEFORE: 0}
    assert "Not balanced: " in result.stdout
    assert rejections(tmp_path / "built") == {NEAR_END: 9}


def _info(tmp_path, seconds):
    path = tmp_path / "info.csv"
    path.write_text(f"video_id,duration,fps,resolution\nP01_01,{seconds},59.94,1920x1080\n")
    return path


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        (
            ["--drop", "copies,near"],
            ["--drop copies,near", "near-equal,concurrent,copies,listing-goals,unsure-actions"],
        ),
        (["--epic-video-info", 2.0], ["n.csv, line 2", "stop_frame: 180", "P01_01", "2.00 s"]),
        ([], ["n.csv, line 2", "start_frame: 30", "60", "00:00:01.00"]),
    ],
)
def test_wrong_input_is_rejected_before_any_request(tmp_path, options, facts):
    rows = epic_rows()
    if not options:
        rows = [
            row | {f"{end}_frame": row[f"{end}_frame"] // 2 for end in ("start", "stop")}
            for row in rows
        ]
    narrations = write_epic(tmp_path / "n.csv", rows)
    options = [
        _info(tmp_path, option) if isinstance(option, float) else option for option in options
    ]
    result = build(narrations, tmp_path / "built", *options)
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in facts), result.stderr
    assert not (tmp_path / "built").exists()


@pytest.mark.nightly
@real
def test_unsure_actions_reject_their_goals_or_only_themselves(tmp_path, served):
    """Every 25th narration is unsure."""
    videos, _ = read_epic_kitchens(some_videos(tmp_path, EPIC, 6))
    narrated = as_ego4d(videos)
    unsure = [
        row for video in narrated.values() for row in video["narration_pass_1"]["narrations"]
    ][::25]
    for row in unsure:
        row["narration_text"] += " #unsure"
    narrations = write_narrations(tmp_path / "narration.json", narrated)
    counts = {}
    with served(lambda prompt, before: reply(prompt, before, lambda _: "")):
        for name, options in (("kept", ["--drop", "unsure-actions"]), ("lost", [])):
            result = build(
                narrations, tmp_path / name, "--mean-gap", "4.9", *options, source="ego4d"
            )
            assert result.exit_code == 0, result.output
            counts[name] = json.loads((tmp_path / name / "summary.json").read_text())
    unknown = goal_reasons.UNKNOWN_ACTION
    assert unknown not in counts["kept"]["left_out"]
    assert counts["kept"]["task_goals"] > counts["lost"]["task_goals"]
    assert counts["lost"]["left_out"][unknown] > 0
    for summary in counts.values():
        assert summary["kinds_to_drop"]["unsure-actions"] == len(unsure)
    records = read_annotations(tmp_path / "kept" / QUESTIONS, "val")
    assert not any("unsure" in choice for record in records for choice in record.choices)


def test_goals_of_a_file_need_no_language_model(tmp_path, narrations, goals):
    assert build(narrations, tmp_path / "one", "--goals", goals).exit_code == 0
    # The written goals and narrations can be read again.
    built = tmp_path / "one"
    result = build(built / "narrations.csv", tmp_path / "two", "--goals", built / "goals.json")
    assert result.exit_code == 0, result.output
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_unpaired_surrogates_can_be_written(tmp_path, narrations):
    reply = goals_of(**{"note \ud800": "\udc00"}, overall_goal="tea \ud800")
    (tmp_path / "goals.json").write_text(json.dumps({"P01_01": reply, "P9\ud800": reply}))
    result = build(narrations, tmp_path / "built", "--goals", tmp_path / "goals.json")
    assert result.exit_code == 0, result.output
    assert dict(rejections(tmp_path / "built")) == {
        goal_reasons.UNKNOWN_VIDEO: 1,
        goal_reasons.NO_GOAL: 1,
    }


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        (Reply("no such key", status=401), r"401: no such key.*P01_01"),
        (Reply("I am sorry, I cannot help with that."), f"{NOT_JSON}.*1"),
        (Reply(json.dumps(goals_of()), finish="length"), f"{CUT_OFF}.*1"),
        (Reply("no prompts of kitchens", status=400), f"{NO_REPLY}.*1"),
    ],
)
def test_exit_code_is_1_without_any_goals(tmp_path, narrations, served, answer, facts):
    with served(lambda *_: answer):
        result = build(narrations, tmp_path / "built")
    assert result.exit_code == 1
    assert re.search(facts, result.stderr), result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "built").exists()


GREETING = (
    "Sure! Here are the goals of {the video}, as you asked [1]:\n\n```json\n%s\n```\nAnything else?"
)
CARELESS = ("Of course: %s", "\ufeff%s", "%s,", "comma", "quotes", "comment", "```\n%s\n```\nDone.")


def careless(text, number):
    kind = CARELESS[number % len(CARELESS)]
    if kind == "comma":
        return text.replace("]}", "],}")
    if kind == "quotes":
        return text.replace('"', "'")
    return text.replace("{", "{ // an object\n") if kind == "comment" else kind % text


@pytest.mark.nightly
@real
def test_all_138_replies_of_careless_models_are_read(tmp_path, served):
    """35 replies are malformed JSON, and all others begin with a greeting."""
    numbers = {}

    def answer(prompt, _):
        text = json.dumps(goals_of_prompt(rows_of(prompt)))
        number = numbers.setdefault(prompt, len(numbers))
        return Reply(careless(text, number) if number < 35 else GREETING % text)

    with served(answer) as server:
        result = build(EPIC, tmp_path / "built")
        assert result.exit_code == 0, result.output
        assert len(server.prompts) == 138
    assert len(json.loads((tmp_path / "built" / "goals.json").read_text())) == 138
    assert not any("reply" in reason for reason in rejections(tmp_path / "built"))


def figures(text):
    """Return the numbers of requests, prompt tokens and reply tokens."""
    return [int(figure.replace(",", "")) for figure in re.findall(r"\d[\d,]*\b", text)[:3]]


@real
def test_estimate_sends_nothing_and_counts_missing_replies(tmp_path, monkeypatch, served):
    (tmp_path / "few").mkdir()
    few, more = some_videos(tmp_path / "few", EPIC, 2), some_videos(tmp_path, EPIC, 6)
    with served(tea) as server:
        # The replies have goals of another video. All are rejected, but the replies are cached.
        assert build(few, tmp_path / "built").exit_code == 1
        sent = len(server.prompts)
        (tmp_path / "prices.json").write_text('{"gpt-4o-2024-11-20": {"input": 2.5, "output": 10}}')
        priced = build(more, tmp_path / "built", "--estimate", "--prices", tmp_path / "prices.json")
        assert len(server.prompts) == sent
    assert priced.exit_code == 0, priced.output
    step, total = priced.stdout.splitlines()[:2]
    requests, prompt, reply = figures(total)
    assert figures(step) == [requests, prompt, reply]
    assert (requests, reply) == (4, 4 * 4096)
    money = [float(amount) for amount in re.findall(r"\d+\.\d\d\b", priced.stdout)]
    assert money == [round(prompt * 2.5 / 1e6, 2), round(reply * 10 / 1e6, 2)]
    # An estimate needs no endpoint. The cache has no replies of this other model.
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_BASE_URL")
    monkeypatch.delenv("LMMS_EGOPLAN_JUDGE_API_KEY")
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "gpt-4")
    result = build(more, tmp_path / "built", "--estimate")
    assert figures(result.stdout.splitlines()[1])[0] == 6
    assert not (tmp_path / "built").exists()
    assert (
        build(
            more, tmp_path / "built", "--estimate", "--prices", tmp_path / "prices.json"
        ).exit_code
        == 1
    )


@pytest.mark.parametrize(
    ("prices", "options", "facts"),
    [
        ("gpt-4: 3", ["--estimate"], ["prices.json", "JSON"]),
        ('{"gpt-4": 3}', ["--estimate"], ["prices.json", "gpt-4"]),
        (
            '{"gpt-4": {"input": 1, "output": 2, "input": 3}}',
            ["--estimate"],
            ["prices.json", "input"],
        ),
        ('{"gpt-4": {"input": -1, "output": 2}}', ["--estimate"], ["prices.json", "input", "-1"]),
        ('{"gpt-4": {"input": 1}}', ["--estimate"], ["prices.json", "output"]),
        ('{"gpt-4": {"input": NaN, "output": true}}', ["--estimate"], ["prices.json", "input"]),
        (
            '{"gpt-4": {"input": 1, "output": 2}}',
            ["--estimate"],
            ["prices.json", "gpt-4o-2024-11-20"],
        ),
    ],
)
def test_wrong_prices_are_named_before_anything_is_sent(
    tmp_path, narrations, prices, options, facts
):
    (tmp_path / "prices.json").write_text(prices)
    result = build(narrations, tmp_path / "built", "--prices", tmp_path / "prices.json", *options)
    assert result.exit_code == 1
    assert all(fact in result.stderr for fact in facts), result.stderr


# Context lengths in tokens, as OpenAI publishes them.
CONTEXTS = {"gpt-4": 8192, "gpt-4o-2024-11-20": 128_000}


@real
def test_the_default_model_has_room_for_all_prompts():
    videos, _ = read_epic_kitchens(EPIC)
    tokens = [prompt_tokens(Prompt(goal_prompt(video))) for video in videos]
    assert sum(count + JudgeSettings.max_tokens > CONTEXTS["gpt-4"] for count in tokens) == 13
    assert max(tokens) + JudgeSettings.max_tokens < CONTEXTS[DEFAULT_MODEL]


def test_without_a_language_model_the_command_says_how_to_set_one(tmp_path, narrations):
    result = build(narrations, tmp_path / "built")
    assert (result.exit_code, "LMMS_EGOPLAN_JUDGE_BASE_URL" in result.stderr) == (1, True)


def test_inputs_and_other_files_are_not_overwritten(tmp_path, narrations, goals):
    before = contents(tmp_path)
    for out in (tmp_path, narrations):
        assert build(narrations, out, "--goals", goals).exit_code == 1
        assert contents(tmp_path) == before


def test_instruction_data_of_an_earlier_build_are_deleted(tmp_path, narrations, goals):
    assert (
        build(narrations, tmp_path / "out", "--goals", goals, "--instruction-data").exit_code == 0
    )
    assert {IT, RECOGNITION} < {*contents(tmp_path / "out")}
    assert build(narrations, tmp_path / "out", "--goals", goals).exit_code == 0
    assert not {IT, RECOGNITION} & {*contents(tmp_path / "out")}


FAULT_REASONS = {
    "bad json": {CUT_OFF: 1},
    "prose": {},
    "invented times": {goal_reasons.INVENTED_TIME: 5},
    "cut off": {CUT_OFF: 1},
    "refused": {NO_REPLY: 1},
    "broken": {NO_REPLY: 1},
    "overlap": {goal_reasons.OVERLAP: 1},
    "fenced": {},
    "twice 500": {},
}


def test_each_fault_has_its_reason(tmp_path, served):
    """Each fault affects one video. One further video has no fault."""
    videos = {f"P02_{number:02}": fault for number, fault in enumerate(FAULTS, 1)}
    texts = [f"take cup {number}" for number in range(16)]
    rows = epic_rows(texts, "P01_01")
    for video_id, fault in videos.items():
        rows += epic_rows([f"{text} with {fault}" for text in texts], video_id)
    narrations = write_epic(tmp_path / "n.csv", rows)

    def fault_in(prompt):
        return next((fault for fault in FAULTS if f" with {fault}" in prompt), "")

    with served(lambda prompt, before: reply(prompt, before, fault_in)):
        result = build(narrations, tmp_path / "built")
    assert result.exit_code == 1
    is_lost = [{CUT_OFF, NO_REPLY} & reasons.keys() != set() for reasons in FAULT_REASONS.values()]
    assert f"{sum(is_lost)} of {1 + len(FAULTS)}" in result.stderr
    lines = (tmp_path / "built" / "rejections.jsonl").read_text(encoding="utf-8").splitlines()
    reasons = {fault: Counter() for fault in FAULTS}
    for rejection in map(json.loads, lines):
        reasons[videos[rejection["where"].partition(",")[0]]][rejection["reason"]] += 1
    assert reasons == FAULT_REASONS
    counts = Counter(
        record.video_id for record in read_annotations(tmp_path / "built" / QUESTIONS, "val")
    )
    # 16 from the overall goal, 12 + 4 from the clips, and 6 + 6 + 4 from the sub-clips.
    unharmed = [
        "P01_01",
        *(video_id for video_id, fault in videos.items() if not FAULT_REASONS[fault]),
    ]
    assert {video_id: counts[video_id] for video_id in unharmed} == dict.fromkeys(unharmed, 48)


@real
def test_ego4d_narrations_become_phrases_and_questions(tmp_path, served):
    """The narrations are EPIC-KITCHENS' in Ego4D's layout."""
    videos, _ = read_epic_kitchens(some_videos(tmp_path, EPIC, 4))
    narrations = write_narrations(tmp_path / "narration.json", as_ego4d(videos))
    first = "\n1. C takes plate\n"
    with served(
        lambda prompt, before: reply(
            prompt, before, lambda _: "bad json" if first in prompt else ""
        )
    ) as server:
        result = build(narrations, tmp_path / "built", "--mean-gap", "4.9", source="ego4d")
    assert result.exit_code == 0, result.output
    records = read_annotations(tmp_path / "built" / QUESTIONS, "val")
    assert {record.video_source for record in records} == {"Ego4D"}
    assert {record.answer for record in records} <= {
        action.text for video in videos for action in video.actions
    }
    assert sum(bool(rows_of(prompt)) for prompt in server.prompts) == len(videos)
    counts = rejections(tmp_path / "built")
    # One reply with 50 sentences is lost, and with it the goals around these narrations.
    assert counts[CUT_OFF] >= 50
    assert counts[goal_reasons.UNKNOWN_ACTION] >= 1


def same_output(tmp_path, narrations, concurrencies):
    """Check that runs at several concurrencies, and a run that is killed half way and resumed, have
    equal output.
    """
    answer = Metered(reply)

    def start(out, data, concurrency):
        inputs = (narrations, "--source", "epic-kitchens", "--out", out)
        return start_build(server, tmp_path / data, concurrency, "egoplan", *inputs)

    with JudgeServer(answer) as server:
        outputs, codes = [], set()
        for concurrency in concurrencies:
            out = tmp_path / f"at-{concurrency}"
            codes.add(start(out, f"data-{concurrency}", concurrency).wait(FOREVER_S))
            outputs.append(contents(out))
            assert all(
                count <= 2 if fault_of(prompt) else count == 1
                for prompt, count in answer.paid.items()
            )
            prompts = answer.paid.total()
            answer.paid.clear()
        start_again = partial(start, tmp_path / "killed", "data", concurrencies[0])
        before = answer.kill_after(start_again, prompts // 2)
        assert not (tmp_path / "killed" / QUESTIONS).exists()
        codes.add(start_again().wait(FOREVER_S))
        assert len(codes) == 1
        # Requests in flight at the kill may have been answered without a receiver.
        assert answer.paid.total() <= prompts + concurrencies[0]
        assert before >= prompts // 2
        outputs.append(contents(tmp_path / "killed"))
    assert all(output == outputs[0] for output in outputs)
    return json.loads(outputs[0][QUESTIONS])


@pytest.mark.whole
@real
def test_same_output_after_a_kill(tmp_path):
    assert len(same_output(tmp_path, some_videos(tmp_path, EPIC, 12), (4,))) > 100


@pytest.mark.nightly
@real
def test_same_output_over_all_9668_narrations_and_at_any_concurrency(tmp_path):
    prompts = 138
    assert len(same_output(tmp_path, EPIC, (32, 5))) > 100 * prompts
