"""Run EgoIntent's tasks on small data and on real Goal-Step steps in rendered videos, judged by a
local server.
"""

import hashlib
import json
import math
import re
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.source import VIDEO_IDS, raw_record, write_annotations, write_videos
from judge_server import JudgeServer, Reply, images_in
from lmms_egoplan.benchmarks.egointent.frames import visual_input
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.cli import app
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import read_numbers, write_numbered_video
from runs.answerer import save_answerer
from runs.both_harnesses import assert_same_results, in_both
from runs.both_harnesses import records as logged
from runs.harness import TWO_PROCESSES, hf_vlm, judge_at, run

GOALSTEP = "../shared/data/ego4d-goalstep/goalstep_valid_public.json"
FPS = 6
# The videos with the most steps per minute.
VIDEOS = ("54337e20", "e4d961f5", "864fa3d8", "d2606d87", "f26ca7c3")
ANSWERS = [
    json.dumps(
        {
            "local_intent": f"hold part {n}",
            "global_intent": f"build thing {n}",
            "next_step_plan": f"put {n} down",
        }
    )
    for n in range(5)
]
ANSWERS += [
    '```json\n{"Local Intent": "look [[100]]", "global-intent": "find it",}\n```',
    "Local intent: rest",
    "No idea.",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory, pytestconfig):
    """Prepare at least 300 real steps, at their real times in videos whose frames show their
    number.
    """
    goalstep = (pytestconfig.rootpath / GOALSTEP).resolve()
    if not goalstep.is_file():
        pytest.skip(f"needs the published annotations in {goalstep}")
    folder = tmp_path_factory.mktemp("egointent")
    for video in json.loads(goalstep.read_text())["videos"]:
        if video["video_uid"].startswith(VIDEOS):
            frames = math.ceil(FPS * video["end_time"])
            write_numbered_video(folder / "videos" / f"{video['video_uid']}.mp4", frames, fps=FPS)
    records = folder / "records.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        for command in (
            [
                "build",
                "egointent",
                str(goalstep),
                "--videos",
                str(folder / "videos"),
                "--out",
                str(records),
            ],
            ["prepare", "egointent", str(records), "--videos", str(folder / "videos")],
        ):
            done = CliRunner().invoke(app, ["data", *command])
            assert done.exit_code == 0, done.output
        yield folder


@pytest.fixture(scope="module")
def checkpoint(data):
    return save_answerer("qwen2_5_vl", data / "qwen", ANSWERS)


def rating(prompt):
    """Return the judge's rating of a prompt: 0 to 100, or None for one prompt in five."""
    number = int(hashlib.sha256(prompt.encode()).hexdigest(), 16)
    return None if number % 5 == 0 else number % 101


def opinion(prompt, asked_before):
    value = rating(prompt)
    verdict = "[[very good]]" if value is None else f"[[{value}]]"
    return Reply(
        f"<think>It is [[50]].</think>{hashlib.sha256(prompt.encode()).hexdigest()}\n{verdict}",
        model="qwen3-of-tests",
    )


def mean(numbers):
    return fmean(numbers) if numbers else math.nan


def field_score(steps, field):
    """Compute a score without the package.

    A field without a rating counts as the mean rating, a missing field as 0.
    """
    judged = mean(
        [
            step["ratings"][field]
            for step in steps
            if field in step["fields"] and step["ratings"][field] is not None
        ]
    )
    filled = [
        judged if step["ratings"][field] is None else step["ratings"][field] for step in steps
    ]
    return mean(filled)


def overall(steps):
    return fmean(field_score(steps, field) for field in FIELDS)


@pytest.fixture(scope="module")
def judged(data, checkpoint):
    with JudgeServer(opinion) as server:
        done = run(
            data, data / "whole", *hf_vlm(checkpoint, "egointent"), judge=judge_at(server, "whole")
        )
    return done, server.prompts[1:]


@pytest.mark.whole
def test_every_aggregate_in_both_harnesses(tmp_path, monkeypatch):
    """Twelve steps in three scenarios, half of them indoors, and a quarter of them not verified."""
    scenes = [
        ("Make Tea", "indoor"),
        ("Cut Trees", "outdoor"),
        ("Fix a Bike", "indoor"),
        ("Fix a Bike", "outdoor"),
    ]
    steps = [
        raw_record(
            number,
            scenario=scenario,
            environment=environment,
            video_id=video,
            unverified=number == 3,
        )
        for number in range(1, 7)
        for video, (scenario, environment) in zip(
            VIDEO_IDS, (scenes[number % 4], scenes[-1 - number % 4]), strict=True
        )
    ]
    steps = [step | {"step_id": f"{step['video_id']}/{step['step_id']}"} for step in steps]
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
    prepare_egointent(
        write_annotations(tmp_path / "steps.jsonl", steps), write_videos(tmp_path / "videos")
    )
    checkpoint = save_answerer("qwen2_5_vl", tmp_path / "qwen", ANSWERS)
    with JudgeServer(opinion) as server:
        for name, value in judge_at(server, "both harnesses").items():
            monkeypatch.setenv(name, value)
        lmms_run, lm_run = in_both(checkpoint, "egointent")
    assert_aggregates_follow_from_the_samples(lmms_run)
    assert logged(lm_run, "egointent", "step") == logged(lmms_run, "egointent", "step")
    assert_same_results(lmms_run, lm_run, ["egointent"])


@pytest.mark.nightly
def test_every_aggregate_of_real_steps(judged):
    done, _ = judged
    assert len(done.samples["egointent"]) >= 300
    assert_aggregates_follow_from_the_samples(done)


def assert_aggregates_follow_from_the_samples(done):
    samples = [sample["details"]["step"] for sample in done.samples["egointent"]]
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    assert {sample["step_id"] for sample in samples} == set(rows)
    results = {
        name.removesuffix(",judged"): value for name, value in done.results["egointent"].items()
    }
    details = done.details["egointent"]
    for field in FIELDS:
        assert results[RELEASE_NAMES[field]] == pytest.approx(field_score(samples, field))
    assert results["overall"] == pytest.approx(overall(samples))
    environments = {row["environment"] for row in rows.values()}
    assert "indoor" in environments
    for environment in environments:
        steps = [step for step in samples if rows[step["step_id"]]["environment"] == environment]
        assert results[environment] == pytest.approx(overall(steps))
    kind = "scenario" if "scenario" in details else "category"
    groups = {}
    for step in samples:
        groups.setdefault(rows[step["step_id"]][kind], []).append(step)
    assert len(groups) > 1
    assert details[kind] == pytest.approx({name: overall(steps) for name, steps in groups.items()})
    num_fields = sum(len(step["fields"]) for step in samples)
    unrated = sum(value is None for step in samples for value in step["ratings"].values())
    assert 0 < unrated < num_fields < 3 * len(samples)
    assert results["parsed"] == pytest.approx(num_fields / (3 * len(samples)))
    assert results["judge_coverage"] == pytest.approx(1 - unrated / num_fields)
    assert results["truncated"] == pytest.approx(fmean(step["truncated"] for step in samples))
    assert results["coverage"] == pytest.approx(1 - unrated / (3 * len(samples)))
    assert results["unverified"] == pytest.approx(
        fmean(rows[step["step_id"]]["unverified"] for step in samples)
    )
    assert details["num_steps"] == len(rows)
    assert details["judge_model"] == "qwen3-of-tests"


@pytest.mark.nightly
def test_steps_of_unknown_places_are_scored(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    steps = [raw_record(number, scenario=None, environment=None) for number in range(1, 4)]
    prepare_egointent(
        write_annotations(tmp_path / "steps.jsonl", steps), write_videos(tmp_path / "videos")
    )
    checkpoint = save_answerer("qwen2_5_vl", tmp_path / "qwen", ANSWERS)
    done = run(
        tmp_path,
        tmp_path / "run",
        *hf_vlm(checkpoint, "egointent"),
        judge={"LMMS_EGOPLAN_JUDGE_MODEL": "demo"},
    )
    score = done.results["egointent"]["overall,judged"]
    assert done.details["egointent"]["scenario"] == {"unknown": score}
    steps = [sample["details"]["step"] for sample in done.samples["egointent"]]
    assert {step["environment"] for step in steps} == {"unknown"}
    report = CliRunner().invoke(
        app, ["report", str(tmp_path / "run"), "--out", str(tmp_path / "report")]
    )
    assert report.exit_code == 0, report.output
    assert "unknown" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.nightly
def test_each_rating_belongs_to_its_field(judged):
    done, prompts = judged
    by_digest = {hashlib.sha256(prompt.encode()).hexdigest(): prompt for prompt in prompts}
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    for sample in done.samples["egointent"]:
        step = sample["details"]["step"]
        assert step["frames_shown"] == min(step["frames_sampled"], 60) >= 1
        assert bool(step["reply"]) >= bool(step["fields"])
        for field in FIELDS:
            if field not in step["fields"]:
                assert (step["ratings"][field], step["judgements"][field]) == (0, None)
                continue
            prompt = by_digest[step["judgements"][field].partition("</think>")[2].split()[0]]
            assert rows[step["step_id"]][field] in prompt
            assert step["fields"][field].replace("[[100]]", "((100))") in prompt
            assert step["ratings"][field] == rating(prompt)


@pytest.mark.nightly
def test_requests_contain_no_record_data(judged):
    done, _ = judged
    rows = {row["step_id"]: row for row in EGOINTENT.load("test")}
    for sample in done.samples["egointent"]:
        row = rows[sample["details"]["step"]["step_id"]]
        text = sample["input"] if isinstance(sample["input"], str) else json.dumps(sample["input"])
        assert row["step_id"] not in text
        for name in (*FIELDS, "scenario", "category", "event", "goal", "video_id", "environment"):
            if row[name] and row[name] not in row["step_id"]:
                assert row[name].lower() not in text.lower(), name


@pytest.mark.nightly
def test_one_request_for_all_fields_and_parts_of_the_data_on_two_processes(
    data, checkpoint, tmp_path
):
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "together.yaml").write_text(
        f"include: {LMMS_EVAL_TASKS}/egointent/egointent.yaml\ntask: egointent_together\n"
        "lmms_eval_specific_kwargs:\n  default:\n    media: clip\n    max_frames: 20\n"
        "filter_list:\n  - name: judged\n    filter:\n"
        f"      - function: !function {LMMS_EVAL_TASKS}/egointent/utils.Judged\n        together: "
        "true\n"
    )

    names = list(RELEASE_NAMES.values())

    def rates_all(prompt, asked_before):
        marks = re.findall(r"^\[\[(\w+): n\]\]$", prompt, re.MULTILINE)
        return Reply(
            "\n".join(f"[[{mark}: {20 + 10 * names.index(mark)}]]" for mark in marks) or "[[5]]"
        )

    arguments = hf_vlm(
        checkpoint, "egointent_together", "--include_path", tasks, "--offset", "11", "--limit", "30"
    )
    with JudgeServer(rates_all) as server:
        done = run(
            data,
            tmp_path / "out",
            *arguments,
            launcher=TWO_PROCESSES,
            judge=judge_at(server, "together"),
        )
    order = list(EGOINTENT.load("test")["step_id"])
    samples = [sample["details"]["step"] for sample in done.samples["egointent_together"]]
    assert {sample["step_id"] for sample in samples} == set(order[11:41])
    with_several_fields = [sample for sample in samples if len(sample["fields"]) > 1]
    assert with_several_fields
    for sample in with_several_fields:
        assert sample["ratings"] == {
            field: 20 + 10 * FIELDS.index(field) if field in sample["fields"] else 0
            for field in FIELDS
        }
    assert all(sample["frames_shown"] == min(sample["frames_sampled"], 20) for sample in samples)
    assert len(set(server.prompts)) <= 1 + len(samples)
    assert done.results["egointent_together"]["coverage,judged"] == pytest.approx(30 / len(order))


@pytest.mark.nightly
def test_diagnostics_show_the_judge_the_models_images(data, checkpoint, tmp_path):
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "few.yaml").write_text(
        f"include: {LMMS_EVAL_TASKS}/egointent/egointent_diagnostics.yaml\ntask: "
        "egointent_diagnostics_of_few\n"
        "lmms_eval_specific_kwargs:\n  default:\n    media: clip\n    max_frames: 3\n"
    )
    arguments = hf_vlm(
        checkpoint, "egointent_diagnostics_of_few", "--include_path", tasks, "--limit", "6"
    )
    with JudgeServer(
        lambda prompt, asked_before: Reply("I see it.\n[[40]]", model="sees")
    ) as server:
        done = run(data, tmp_path / "out", *arguments, judge=judge_at(server, "sees"))
    assert re.search(r"\d input tokens", (data / "log.txt").read_text())
    rows = list(EGOINTENT.load("test"))[:6]
    seen = {
        tuple(read_numbers(visual_input(row, {"media": "frames", "max_frames": 3}))) for row in rows
    }
    labels = [
        row[name]
        for row in rows
        for name in (*FIELDS, "category", "event", "goal", "video_id", "step_id")
    ]
    judged = set()
    for body in server.bodies[1:]:
        judged.add(tuple(read_numbers(images_in(body))))
        assert not any(label in server.prompt_of(body) for label in labels)
    assert judged
    assert judged <= seen  # replies without fields are not judged
    results = done.results["egointent_diagnostics_of_few"]
    samples = [sample["details"]["step"] for sample in done.samples["egointent_diagnostics_of_few"]]
    for name in ("gf", "hic", "tpc", "npf"):
        assert results[f"{name},judged"] == pytest.approx(
            fmean(sample["scores"][name] for sample in samples)
        )
    assert done.details["egointent_diagnostics_of_few"]["judge_model"] == "sees"
    assert all(isinstance(sample["reply"], str) for sample in samples)
