import csv
import json
import os
import shutil
from datetime import datetime

import numpy
import pytest
from typer.testing import CliRunner

from benchmarks.egointent.source import (
    FPS,
    VIDEO_IDS,
    raw_record,
    raw_records,
    write_annotations,
    write_videos,
)
from lmms_egoplan.benchmarks.egointent.frames import visual_input
from lmms_egoplan.benchmarks.egointent.judge import GradedStep, Prediction
from lmms_egoplan.benchmarks.egointent.metrics import score_step
from lmms_egoplan.benchmarks.egointent.prepare import PAPER, _leaked, prepare_egointent
from lmms_egoplan.benchmarks.egointent.records import Record
from lmms_egoplan.benchmarks.splits import EGOINTENT
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import load_summary, split_dir, summary_path
from media.files import damage_packet, read_numbers, write_numbered_video


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return write_videos(tmp_path_factory.mktemp("videos"))


@pytest.fixture
def folder(tmp_path, monkeypatch, videos):
    """A folder with a copy of the videos, which a test may change."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    shutil.copytree(videos, tmp_path / "videos")
    return tmp_path


def prepare(folder, records, skip_missing=False):
    return prepare_egointent(
        write_annotations(folder / "steps.jsonl", records),
        folder / "videos",
        skip_missing=skip_missing,
    )


def test_writes_every_step(folder):
    summary = prepare(folder, raw_records())
    dataset = EGOINTENT.load("test")
    assert dataset[0] == {
        "step_id": "s1",
        "video_id": "0a1b-2c",
        "start_sec": 0.5,
        "end_sec": 0.9,
        "local_intent": "hold board 1 steady",
        "global_intent": "assemble frame 1",
        "next_step_plan": "drive screw 1 in",
        "scenario": "Assemble Furniture",
        "environment": "indoor",
        "event": "Build Shelf",
        "goal": "put up a shelf",
        "unverified": False,
        "category": None,
        "video_path": str((folder / "videos" / "0a1b-2c.mp4").resolve()),
        "num_frames": 3,
        "num_frames_with_history": 6,
        "split_size": 6,
        "question_set": "own",
    }
    assert set(Record.model_fields) - {"origin"} < set(dataset.column_names)
    assert dataset["step_id"][:] == [f"s{number}" for number in range(1, 7)]
    assert dataset["num_frames"][:] == [3, 9, 3, 3, 3, 3]
    assert dataset["environment"][:] == ["indoor"] * 4 + ["outdoor"] * 2
    assert (dataset[2]["event"], dataset[2]["goal"]) == (None, None)
    assert summary == load_summary("egointent", "test")


def test_summary_compares_with_the_paper(folder):
    summary = prepare(folder, raw_records())
    assert datetime.fromisoformat(summary.pop("prepared")).tzinfo
    assert len(summary.pop("fingerprint")) == len(summary.pop("records_digest")) == 64
    assert summary.pop("datasets")
    assert summary.pop("mapping")[:2] == ["step_id: step_id (6)", "video_id: video_id (6)"]
    assert summary == {
        "benchmark": "egointent",
        "format": 4,
        "split": "test",
        "annotations": str((folder / "steps.jsonl").resolve()),
        "split_size": 6,
        "question_set": "own",
        "questions": 6,
        "unverified": 1,
        "missing": [],
        "counts": {
            "steps": {"prepared": 6, "annotations": 6, "paper": 3014, "matches": False},
            "scenarios": {"prepared": 3, "annotations": 3, "paper": 15, "matches": False},
            "videos": {"prepared": 2, "annotations": 2, "paper": 32, "matches": False},
            "median_sec": {"prepared": 0.4, "annotations": 0.4, "paper": 1.87, "matches": False},
            "mean_sec": {"prepared": 0.58, "annotations": 0.58, "paper": 3.42, "matches": False},
            "p75_sec": {"prepared": 0.4, "annotations": 0.4, "paper": 3.57, "matches": False},
            "above_10_sec": {"prepared": 0, "annotations": 0, "paper": 183, "matches": False},
        },
    }


def test_goalstep_steps_have_categories_which_the_paper_does_not_count(folder):
    steps = [
        raw_record(number, scenario=None, category=f"make {number % 2}", unverified=True)
        for number in range(1, 4)
    ]
    summary = prepare(folder, steps)
    assert summary["counts"]["categories"] == {
        "prepared": 2,
        "annotations": 2,
        "paper": None,
        "matches": None,
    }
    assert "scenarios" not in summary["counts"]
    rows = EGOINTENT.load("test")
    assert rows["scenario"][:] == [None] * 3
    assert rows["category"][:] == ["make 1", "make 0", "make 1"]


def test_data_of_an_earlier_version_are_refused_with_the_command(folder):
    prepare(folder, raw_records())
    path = summary_path("egointent", "test")
    path.write_text(path.read_text().replace('"format": 4', '"format": 3'))
    with pytest.raises(
        LmmsEgoplanError,
        match=r"in format 3; this version reads format 4. .*lmms-egoplan data prepare egoint",
    ):
        EGOINTENT.load("test")


def test_duration_counts_equal_numpy(folder):
    write_numbered_video(folder / "videos" / "long.mp4", 30, fps=1)
    lengths = [0.31, 10.0, 10.01, 2.2, 1.87, 20.5, 3.57]
    steps = [
        raw_record(i, video_id="long", start_sec=2, end_sec=2 + length)
        for i, length in enumerate(lengths)
    ]
    counts = prepare(folder, steps)["counts"]
    prepared = {name: count["prepared"] for name, count in counts.items()}
    assert prepared["median_sec"] == 3.57
    assert prepared["mean_sec"] == round(numpy.mean(lengths), 2)
    assert prepared["p75_sec"] == round(numpy.percentile(lengths, 75), 2)
    assert prepared["above_10_sec"] == 2
    counts = prepare(folder, steps[3:4])["counts"]
    assert {counts[name]["prepared"] for name in ("median_sec", "mean_sec", "p75_sec")} == {2.2}


@pytest.mark.nightly
def test_the_papers_counts_match(folder):
    for number in range(32):
        os.link(folder / "videos" / "0a1b-2c.mp4", folder / "videos" / f"v{number}.mp4")
    steps = [
        raw_record(
            number,
            video_id=f"v{number % 32}",
            scenario=f"scenario {number % 15}",
            start_sec=1,
            end_sec=1.5,
        )
        for number in range(3014)
    ]
    summary = prepare(folder, steps)
    assert (summary["question_set"], prepare(folder, steps[1:])["question_set"]) == (
        "official by counts",
        "own",
    )
    counts = summary["counts"]
    assert [name for name, count in counts.items() if count["matches"]] == [
        "steps",
        "scenarios",
        "videos",
    ]
    assert counts["steps"]["prepared"] == PAPER["steps"]


def test_missing_footage_is_listed_and_nothing_is_written(folder):
    (folder / "videos" / "damaged.mp4").write_bytes(b"no video")
    (folder / "elsewhere").mkdir()
    write_videos(folder / "elsewhere", ["linked"])
    (folder / "videos" / "linked.mp4").symlink_to(folder / "elsewhere" / "linked.mp4")
    steps = [
        *raw_records(),
        raw_record(10, video_id="absent"),
        raw_record(11, video_id="absent"),
        raw_record(12, video_id="damaged"),
        raw_record(13, video_id="linked"),
        raw_record(14, start_sec=3, end_sec=4.2),
        raw_record(15, start_sec=50, end_sec=60.5),
        raw_record(16, start_sec=0.001, end_sec=0.002),
    ]
    with pytest.raises(LmmsEgoplanError) as error:
        prepare(folder, steps)
    message = str(error.value)
    for part in (
        "7 of 13 steps have no footage, in 4 videos:",
        (
            f"absent (steps: 2, first 's10'): {folder}/videos/absent.mp4: cannot open the "
            "video: No such file"
        ),
        f"damaged (steps: 1, first 's12'): {folder}/videos/damaged.mp4: cannot read the video",
        "linked (steps: 1, first 's13'): 'linked.mp4' leads out of",
        f"0a1b-2c (steps: 3, first 's14'): {folder}/videos/0a1b-2c.mp4: step 's14', 3.00 to 4.20 s",
        "--skip-missing",
    ):
        assert part in message
    assert not split_dir("egointent", "test").exists()

    summary = prepare(folder, steps, skip_missing=True)
    assert (summary["questions"], summary["split_size"]) == (6, 13)
    assert summary["counts"]["steps"]["prepared"] == 6
    assert summary["counts"]["steps"]["annotations"] == 13
    assert {entry["video"]: entry["step_ids"] for entry in summary["missing"]} == {
        "absent": ["s10", "s11"],
        "damaged": ["s12"],
        "linked": ["s13"],
        "0a1b-2c": ["s14", "s15", "s16"],
    }
    assert all(entry["reason"] in message for entry in summary["missing"])
    assert EGOINTENT.load("test")["split_size"][:] == [13] * 6

    with pytest.raises(LmmsEgoplanError, match="no step is left to prepare"):
        prepare(folder, steps[6:], skip_missing=True)
    assert load_summary("egointent", "test") == summary


def test_at_most_20_videos_are_listed(folder):
    steps = [raw_record(number, video_id=f"absent-{number}") for number in range(60)]
    steps.append(raw_record(60, start_sec=0, end_sec=1))
    with pytest.raises(
        LmmsEgoplanError, match=r"60 of 61 steps .* 60 videos(.|\n)*\.\.\. and 40 more"
    ) as error:
        prepare(folder, steps)
    assert str(error.value).count("(steps: 1") == 20


@pytest.mark.parametrize("gaps", [(1,), (1, 4, 2)])
def test_steps_lie_inside_their_videos_by_time_stamps(folder, gaps):
    write_videos(folder / "videos", frames=30, gaps=gaps)
    end = sum(gaps[number % len(gaps)] for number in range(29)) / FPS + gaps[28 % len(gaps)] / FPS
    assert prepare(folder, [raw_record(start_sec=0, end_sec=end + 0.09)])["missing"] == []
    with pytest.raises(LmmsEgoplanError, match=rf"step 's1', 0\.00 to .*, 0\.00 to {end:.2f} s"):
        prepare(folder, [raw_record(start_sec=0, end_sec=end + 0.12)])


def with_keys(folder, suffix, *keys):
    """Prepare records with other keys by the command; without `--keys`, `next` would be read as the
    plan.
    """
    records = [
        {"begin": raw["start_sec"], "plan": raw["next_step_plan"], "next": "something else"}
        | {
            key: value
            for key, value in raw.items()
            if key not in ("start_sec", "next_step_plan") and value is not None
        }
        for raw in raw_records()[:2]
    ]
    path = folder / f"steps{suffix}"
    if suffix == ".csv":
        with path.open("w", newline="") as lines:
            writer = csv.DictWriter(lines, [*records[0]])
            writer.writeheader()
            writer.writerows(records)
    else:
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    options = [option for key in keys for option in ("--keys", key)]
    arguments = [
        "data",
        "prepare",
        "egointent",
        str(path),
        "--videos",
        str(folder / "videos"),
        *options,
    ]
    return CliRunner().invoke(app, arguments)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_keys_option_reads_fields_from_any_key(folder, suffix):
    result = with_keys(folder, suffix, "start_sec=begin", "next_step=plan")
    assert result.exit_code == 0, result.output
    assert EGOINTENT.load("test")["next_step_plan"][:] == ["drive screw 1 in", "drive screw 2 in"]
    assert EGOINTENT.load("test")["start_sec"][:] == [0.5, 1.0]
    assert "start_sec: begin (2)" in result.output
    assert "ignored: next" in result.output


@pytest.mark.parametrize(
    ("key", "facts"),
    [
        ("start_sec=absent", ["steps.jsonl", "absent"]),
        ("begin", ["--keys", "begin", "start_sec"]),
        ("start_sec=", ["--keys", "start_sec"]),
    ],
)
def test_wrong_keys_option_names_key_and_field(folder, key, facts):
    result = with_keys(folder, ".jsonl", key)
    assert result.exit_code != 0
    assert all(fact in result.output for fact in facts), result.output


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"sample_id": 1, "choice_a": "x", "task_goal": "y"}, "EgoPlan-Bench's"),
        ({"sample_id": "a", "choice_a": "x", "domain": "y"}, "EgoPlan-Bench2's"),
        ({"sample_id": 1, "negative_answers": ["x"]}, "EgoPlan-IT"),
        ({"image_path": ["1.jpg"], "question": "x", "answer": "y"}, "EgoThink's"),
        ({"video_uid": "a", "goal_category": "x", "segments": []}, "Goal-Step's"),
    ],
)
def test_error_names_the_benchmark_of_another_file(folder, record, name):
    (folder / "other.json").write_text(json.dumps([record]))
    with pytest.raises(LmmsEgoplanError) as error:
        prepare_egointent(folder / "other.json", folder / "videos")
    assert str(folder / "other.json") in str(error.value)
    assert f"looks like {name}" in str(error.value).replace("Ego4D ", "")


def test_unknown_place_is_prepared_as_unknown(folder):
    steps = [raw_record(1), raw_record(2, scenario=None), raw_record(3, environment=None)]
    assert prepare(folder, steps)["counts"]["scenarios"]["prepared"] == 1
    rows = EGOINTENT.load("test")
    assert rows["scenario"][:] == ["Assemble Furniture", "unknown", "Assemble Furniture"]
    assert rows["environment"][:] == ["indoor", "indoor", "unknown"]


def test_a_step_between_two_frames_has_no_footage(folder):
    write_videos(folder / "videos", frames=30, gaps=(30,))
    assert prepare(folder, [raw_record(start_sec=1.0, end_sec=1.5)])["questions"] == 1
    assert EGOINTENT.load("test")["num_frames"][:] == [1]
    with pytest.raises(LmmsEgoplanError, match=r"no frame from 1.01 s to before 2.0 s"):
        prepare(folder, [raw_record(start_sec=1.01, end_sec=2.0)])


def test_fingerprint_changes_with_the_data(folder):
    steps = raw_records()
    seen = [prepare(folder, steps)["fingerprint"]]
    write_videos(folder / "videos", ["another"])
    assert prepare(folder, steps)["fingerprint"] == seen[0] == EGOINTENT.fingerprint("test")
    shutil.copytree(folder / "videos", folder / "copy" / "videos")  # with the times of the files
    assert prepare(folder / "copy", steps)["fingerprint"] == seen[0]
    os.utime(folder / "videos" / f"{VIDEO_IDS[1]}.mp4", ns=(0, 7))
    seen.append(prepare(folder, steps)["fingerprint"])
    seen.append(prepare(folder, steps[::-1])["fingerprint"])
    seen.append(prepare(folder, [steps[0] | {"local_intent": "rest"}, *steps[1:]])["fingerprint"])
    seen.append(prepare(folder, steps[1:])["fingerprint"])
    assert len(set(seen)) == 5


def test_wrong_value_or_missing_folder_is_one_error(folder):
    with pytest.raises(LmmsEgoplanError, match=r"environment: .*'inside'"):
        prepare(folder, [raw_record(environment="inside")])
    with pytest.raises(LmmsEgoplanError, match=r"--videos .*absent: .*0a1b-2c.mp4"):
        prepare_egointent(
            write_annotations(folder / "steps.jsonl", raw_records()),
            folder / "absent",
            skip_missing=True,
        )


def test_verify_finds_damaged_frames(folder):
    records = raw_records()
    video = folder / "videos" / f"{records[0]['video_id']}.mp4"
    damage_packet(video, 12)
    assert prepare(folder, records)["missing"] == []
    annotations = folder / "steps.jsonl"
    with pytest.raises(
        LmmsEgoplanError,
        match=rf"no footage or damaged frames(.|\n)*{video}: frame \d+, at .* s, cannot be",
    ):
        prepare_egointent(annotations, folder / "videos", verify=True)
    summary = prepare_egointent(annotations, folder / "videos", skip_missing=True, verify=True)
    assert summary["verified"] is True
    (entry,) = summary["missing"]
    missing_ids = set(entry["step_ids"])
    assert missing_ids
    for row in EGOINTENT.load("test"):
        assert row["step_id"] not in missing_ids
        visual_input(row, {"media": "frames", "max_frames": 60})
    assert len(missing_ids) + summary["questions"] == len(records)


def test_only_the_leakage_split_shows_frames_after_the_cut(folder):
    """The videos have 120 frames at 30 per second: the last one is at 3.97 s."""
    steps = [
        raw_record(1),
        raw_record(6),
        raw_record(7, end_sec=3.97),
        raw_record(8, start_sec=3.5, end_sec=4.0),
    ]
    prepare(folder, steps)
    before = EGOINTENT.load("test").to_list()
    summary = prepare_egointent(
        folder / "steps.jsonl", folder / "videos", leakage=True, verify=True
    )
    assert EGOINTENT.load("test").to_list() == before
    assert (summary["split"], summary["split_size"], summary["questions"]) == ("leakage", 4, 2)
    assert summary["without_leakage"] == 2
    rows = EGOINTENT.load("leakage")
    assert rows["step_id"][:] == ["s1", "s6"]
    assert rows["cut_sec"][:] == [0.9, 3.4]
    assert rows["end_sec"][:] == [2.9, 5.4]
    for row, last, after in zip(rows, (85, 119), (12, 4), strict=True):
        numbers = read_numbers(visual_input(row, {"media": "frames", "max_frames": 60}))
        assert numbers[-1] == last
        assert row["leaked_sec"] == pytest.approx(last / 30 - row["cut_sec"])
        assert (
            row["leaked_frames"]
            == sum(number / 30 >= row["cut_sec"] for number in numbers)
            == after
        )
        assert row["num_frames"] == len(numbers)
    prediction = Prediction(
        step_id="s1",
        fields={},
        truncated=None,
        frames_shown=rows[0]["num_frames"],
        frames_sampled=rows[0]["num_frames"],
        references={},
    )
    values = score_step(rows[0], [GradedStep.from_prediction(prediction, {}).to_text()])
    assert values["question_set"] == {"name": "steps with frames after the cut"}


def test_a_frame_at_the_cut_is_leaked(folder):
    row = {"end_sec": 2.0, "video_path": str(next((folder / "videos").glob("*.mp4")))}
    leaked = _leaked(row, [58, 60, 62])
    assert leaked["leaked_frames"] == 2
    assert leaked["leaked_sec"] == pytest.approx(2 / 30)


def test_leakage_needs_videos_that_go_on(folder):
    write_annotations(folder / "steps.jsonl", [raw_record(8, start_sec=3.5, end_sec=4.0)])
    with pytest.raises(
        LmmsEgoplanError, match=r"steps\.jsonl: no video has a frame after .*--leakage"
    ):
        prepare_egointent(folder / "steps.jsonl", folder / "videos", leakage=True)
    assert not summary_path("egointent", "leakage").exists()
