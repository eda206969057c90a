import json
import re
from statistics import fmean

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.release import instance_ids, write_release
from benchmarks.egointent.source import raw_record, raw_records, write_annotations
from benchmarks.egointent.source import write_videos as write_egointent_videos
from benchmarks.egothink.source import write_source
from example_record import RECORD
from example_summary import SUMMARY
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.splits import EGOINTENT, EGOPLAN, SPLITS
from lmms_egoplan.cli import app
from lmms_egoplan.storage import split_dir
from media.files import damage_packet, write_epic_folder, write_numbered_video

FIRST_STEP = RECORD | {"current_observation_frame": 5, "task_progress_metadata": []}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "300")
    write_epic_folder(tmp_path / "epic" / "P01" / "rgb_frames" / "P01_02", 5, 5)
    (tmp_path / "a.json").write_text(
        json.dumps([FIRST_STEP, FIRST_STEP | {"sample_id": 8, "video_id": "P01_03"}])
    )
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["data", *map(str, arguments)])


def prepare(folder, *arguments):
    return run(
        "prepare", "egoplan", folder / "a.json", "--split", "val",
        "--epic-kitchens", folder / "epic", *arguments,
    )  # fmt: skip


def rows(output):
    """Return the cells of the printed table, by row."""
    return [
        [cell.strip() for cell in line.strip("│┃").split("│")]
        for line in output.splitlines()
        if "│" in line
    ]


def status_rows(result):
    """Return the cells of `data status`, by row."""
    lines = [line.strip() for line in result.stdout.splitlines()]
    first = next(number for number, line in enumerate(lines) if set(line) == {"─"})
    table = [re.split(r"  +", line) for line in lines[first + 1 :]]
    return [row for row in table if len(row) == 7]


def test_missing_frames_end_with_one_message(folder):
    result = prepare(folder)
    assert result.exit_code == 1
    assert "1 of 2" in result.stderr
    assert "--skip-missing" in result.stderr
    assert "Traceback" not in result.output
    assert not split_dir("egoplan", "val").exists()


def test_prepares_and_shows_status(folder):
    result = prepare(folder, "--skip-missing")
    assert result.exit_code == 0, result.output
    assert ["questions", "1", "2", "3355", "no, -3353"] in rows(result.stdout)
    assert ["task goals", "1", "1", "2407", "no, -2406"] in rows(result.stdout)
    assert ["Ego4D", "0", "0", "923", "no, -923"] in rows(result.stdout)
    facts = ("1 question", "1 video", str(split_dir("egoplan", "val") / "summary.json"), "1 of 2")
    assert all(fact in result.stdout for fact in facts)

    result = run("status")
    assert result.exit_code == 0
    ((*counts, time),) = status_rows(result)
    assert counts == ["egoplan", "val", "1", "2", "1", "n/a"]
    assert re.search("egoplan/val", result.stdout.splitlines()[-1])
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d", time)
    assert str(folder / "data") in result.stdout.splitlines()[0]


def test_status_fits_a_narrow_terminal_and_cuts_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / ("a-folder-with-a-long-name" * 5)))
    monkeypatch.setenv("COLUMNS", "80")
    summary = {"split_size": 1234, "questions": 1200, "fingerprint": "", "missing": []}
    for benchmark, split in (
        ("egothink", "forecasting"),
        ("egoplan", "test"),
        ("egointent", "test"),
        ("mine", "new"),
    ):
        fields = {"counts": {"categories": {}}} if benchmark == "egointent" else {}
        if benchmark != "mine":
            fields["format"] = next(
                prepared.data_format for prepared in SPLITS if prepared.benchmark == benchmark
            )
        path = split_dir(benchmark, split) / "summary.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({**summary, **fields, "prepared": "2026-01-01T00:30:00+02:00"}))
    result = run("status")
    assert result.exit_code == 0, result.output
    time = "2025-12-31 22:30"
    assert status_rows(result) == [
        ["egointent", "test", "1200", "1234", "34", "n/a", time],
        ["egoplan", "test", "1200", "1234", "34", "1584", time],
        ["egothink", "forecasting", "1200", "1234", "34", "100", time],
        ["mine", "new", "1200", "1234", "34", "n/a", time],
    ]
    first, *table = result.stdout.splitlines()
    assert str(tmp_path) in first
    assert max(map(len, table)) <= 80
    assert "…" not in result.stdout
    assert "UTC" in result.stdout
    assert re.search("egointent/test.*Goal-Step", result.stdout)


@pytest.mark.parametrize("counts", [None, 3, "categories", []])
def test_status_of_a_summary_with_other_counts(folder, counts):
    path = split_dir("egointent", "test") / "summary.json"
    path.parent.mkdir(parents=True)
    summary = SUMMARY | {"counts": counts, "format": EGOINTENT.data_format}
    path.write_text(json.dumps(summary))
    result = run("status")
    assert result.exit_code == 0, result.output
    assert "Goal-Step" not in result.stdout


def test_counts_are_not_cut_at_80_columns(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run("prepare", "egothink", write_source(folder / "egothink"))
    assert result.exit_code == 0, result.output
    assert "forecasting" in result.stdout
    assert "…" not in result.stdout


def test_verify_refuses_or_skips_damaged_videos(folder):
    questions = [
        FIRST_STEP,
        FIRST_STEP | {"sample_id": 9, "video_source": "Ego4D", "video_id": "v"},
    ]
    (folder / "a.json").write_text(json.dumps(questions))
    damage_packet(write_numbered_video(folder / "ego4d" / "v.mp4", 30), 1)
    ego4d = ("--ego4d", folder / "ego4d")
    result = prepare(folder, *ego4d)
    assert result.exit_code == 0, result.output
    result = prepare(folder, *ego4d, "--verify")
    assert result.exit_code == 1
    assert "2/2" in result.stderr
    assert f"{folder}/ego4d/v.mp4: frame 5, at 0.167 s" in result.stderr
    result = prepare(folder, *ego4d, "--verify", "--skip-missing")
    assert result.exit_code == 0, result.output
    assert all(fact in result.stdout for fact in ("1 question", "1 video"))


def test_status_without_data_says_what_to_run(folder):
    result = run("status")
    assert result.exit_code == 0
    assert str(folder / "data") in result.stdout
    for benchmark in BENCHMARKS:
        assert f"lmms-egoplan data prepare {benchmark.name} --help" in result.stdout


def test_prepares_egothink_and_compares_with_the_paper(folder):
    source = write_source(folder / "egothink")
    record = {
        "image_path": ["1.jpg"],
        "question": "What am I doing?",
        "answer": "tightening screws",
    }
    (source / "Activity" / "annotations.json").write_text(json.dumps([record] * 100))
    result = run("prepare", "egothink", source)
    assert result.exit_code == 0, result.output
    *_, bar = (line for line in result.stderr.splitlines() if line.strip())
    assert " 122/122 " in bar
    table = rows(result.stdout)
    assert len(table) == 12
    numbers = [row[:5] for row in table]
    assert ["existence", "2 (50)", "6.00 (6.82)", "3.00 (1.60)", "1 (2)"] in numbers
    assert ["activity", "100 (100)", "4.00 (4.71)", "2.00 (2.42)", "1 (2)"] in numbers
    assert all(row[5].startswith("no") for row in table if row[0] in ("existence", "activity"))
    facts = (
        "Table 4",
        "0.2",
        "122 questions",
        str(source.resolve()),
        str(split_dir("egothink", "activity").parent),
    )
    assert all(fact in result.stdout for fact in facts)

    result = run("status")
    splits = status_rows(result)
    assert splits[0][:6] == [
        "egothink",
        "activity",
        "100",
        "100",
        "0",
        "n/a",
    ]  # not the published questions
    assert len(splits) == 12


def test_prepares_egointent_and_compares_with_the_paper(folder):
    videos = write_egointent_videos(folder / "videos")
    annotations = write_annotations(
        folder / "steps.jsonl", [*raw_records(), raw_record(9, video_id="absent")]
    )
    result = run("prepare", "egointent", annotations, "--videos", videos)
    assert result.exit_code == 1
    assert "1 of 7" in result.stderr
    assert "Traceback" not in result.output

    result = run("prepare", "egointent", annotations, "--videos", videos, "--skip-missing")
    assert result.exit_code == 0, result.output
    table = rows(result.stdout)
    assert ["steps", "6", "7", "3014", "no, -3007"] in table
    assert ["scenarios", "3", "3", "15", "no, -12"] in table
    assert ["median duration (s)", "0.4", "0.4", "1.87", "no, -1.47"] in table
    assert ["above 10 s", "0", "0", "183", "no, -183"] in table
    assert all(fact in result.stdout for fact in ("6 of 7", str(split_dir("egointent", "test"))))

    result = run("status")
    ((*counts, _),) = status_rows(result)
    assert counts == ["egointent", "test", "6", "7", "1", "n/a"]


def test_figures_of_both_benchmarks_are_next_to_the_prepared_data(folder):
    assert prepare(folder, "--skip-missing").exit_code == 0
    private = FIRST_STEP | {
        "golden_choice_idx": None,
        "answer": None,
        "choice_a": "dry the spoon",
        "task_goal": "dry",
    }
    (folder / "a.json").write_text(json.dumps([private]))
    result = run(
        "prepare", "egoplan", folder / "a.json", "--split", "test",
        "--epic-kitchens", folder / "epic", "--figures",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    figures = split_dir("egoplan", "test") / "figures"
    assert str(figures) in result.stdout
    table = [
        line.split(",")
        for line in (figures / "table_2.csv").read_text().replace('"', "").splitlines()
    ]
    assert (table[1][1], table[3][0]) == (" counted", "EgoPlan-Val")
    # They would lack in the numbers of both splits.
    assert "questions of val were skipped" in result.stdout
    (folder / "b.json").write_text(json.dumps([FIRST_STEP]))
    for file, *options in (("b.json", "val"), ("a.json", "test", "--figures")):
        result = run(
            "prepare",
            "egoplan",
            folder / file,
            "--epic-kitchens",
            folder / "epic",
            "--split",
            *options,
        )
        assert result.exit_code == 0, result.output
    table = [
        line.split(",")
        for line in (figures / "table_2.csv").read_text().replace('"', "").splitlines()
    ]
    names = [row[0] + row[1] * (row[1] == " counted") for row in table[1:5]]
    assert names == [
        "EgoPlan-Test counted",
        "difference from the paper",
        "EgoPlan-Bench counted",
        names[1],
    ]
    assert [row[-6:-4] for row in table[1:5]] == [
        ["1", "1"],
        ["-1583", "-901"],
        ["2", "2"],
        ["-4937", "-3267"],
    ]
    videos = write_egointent_videos(folder / "videos")
    annotations = write_annotations(folder / "steps.jsonl", raw_records())
    result = run("prepare", "egointent", annotations, "--videos", videos, "--figures")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (split_dir("egointent", "test") / "figures").iterdir()}
    assert names == {f"figure_{number}.{end}" for number in (3, 4, 6) for end in ("csv", "png")}
    assert run("prepare", "egointent", annotations, "--videos", videos).exit_code == 0
    assert not (
        split_dir("egointent", "test") / "figures"
    ).exists()  # Figures of earlier data are not left.


def test_prepares_actplan_and_compares_with_the_paper(folder):
    source = write_release(folder / "annotation", 40)
    first = source / str(next(instance_ids(1)))
    (first / "00014.png").write_bytes(b"")
    (source / "Rs_int" / "making_tea" / "2" / "sample_0").mkdir(parents=True)
    result = run("prepare", "actplan", folder)
    assert result.exit_code == 1
    assert str(source) in result.stderr

    result = run("prepare", "actplan", source)
    assert result.exit_code == 1
    assert f"{first}/00014.png" in result.stderr
    assert "Traceback" not in result.output
    assert not split_dir("actplan", "test").exists()

    result = run("prepare", "actplan", source, "--skip-missing")
    assert result.exit_code == 0, result.output
    table = rows(result.stdout)
    assert ["normal activities", "19", "19", "100", "no, -81"] in table
    assert ["normal instances", "20", "21", "825", "no, -804"] in table
    assert ["counterfactual instances", "19", "19", "362", "no, -343"] in table
    steps = str(
        round(
            fmean(
                3 + 7 * n % 58
                for n, instance in enumerate(instance_ids(40))
                if instance.description
            ),
            2,
        )
    )
    assert ["mean steps, counterfactual", steps, steps, "31.93", "no, -0.82"] in table
    assert ["instances, putting away", "6", "6", "", ""] in table
    assert re.search(r"0 of 39.*\b4\b", result.stdout)
    facts = ("1 instance", "2 folders", "39 of 40", str(split_dir("actplan", "test")))
    assert all(fact in result.stdout for fact in facts)

    result = run("status")
    ((*counts, _),) = status_rows(result)
    assert counts == ["actplan", "test", "39", "40", "1", "n/a"]


@pytest.mark.parametrize("content", ["{", "[{}]", "[]"])
def test_wrong_annotations_end_with_one_message(folder, content):
    (folder / "a.json").write_text(content)
    result = prepare(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"lmms-egoplan: {folder / 'a.json'}: ")


def test_damaged_summary_ends_with_one_message(folder):
    prepare(folder, "--skip-missing")
    path = split_dir("egoplan", "val") / "summary.json"
    summary = json.loads(path.read_text())
    del summary["prepared"]
    for damaged in ("{", "[]", json.dumps(summary)):
        path.write_text(damaged)
        result = run("status")
        assert result.exit_code == 1
        assert "summary.json" in result.stderr
        assert "Traceback" not in result.output


@pytest.mark.parametrize("data_format", [0, EGOPLAN.data_format + 1])
def test_data_of_another_format_are_shown_with_the_command_that_renews_them(folder, data_format):
    prepare(folder, "--skip-missing")
    path = split_dir("egoplan", "val") / "summary.json"
    summary = json.loads(path.read_text())
    assert summary["format"] == EGOPLAN.data_format
    path.write_text(json.dumps(summary | {"format": data_format}))
    result = run("status")
    assert result.exit_code == 1
    assert status_rows(result)[0][:4] == ["egoplan", "val", "1", "2"]
    facts = (
        "val",
        str(path.parent),
        str(folder / "a.json"),
        f"format {data_format}",
        f"format {EGOPLAN.data_format}",
    )
    assert all(fact in result.stderr for fact in facts)
    assert "lmms-egoplan data prepare egoplan EgoPlan_validation.json --split val " in result.stderr
    assert prepare(folder, "--skip-missing").exit_code == 0
    assert run("status").exit_code == 0
