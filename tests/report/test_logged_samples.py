"""Files of samples are known by their names, as both harnesses give them."""

import inspect
from pathlib import Path

import pytest

from lmms_egoplan.report.logged_samples import find_sample_files, sample_file, start_time

LM_TIME, LMMS_TIME = "2026-11-21T09-36-43.624982", "20261121_093643"


@pytest.mark.parametrize("task", ["egothink_object_existence", "egointent", "egoplan_val_clips", "a_samples_b"])
def test_names_of_both_harnesses(task):
    lm = sample_file(Path("runs/m") / f"samples_{task}_{LM_TIME}.jsonl")
    assert (lm.task, lm.time, lm.results) == (task, LM_TIME, Path("runs/m") / f"results_{LM_TIME}.json")
    lmms = sample_file(Path("runs/m") / f"{LMMS_TIME}_samples_{task}.jsonl")
    assert (lmms.task, lmms.time, lmms.results) == (task, LMMS_TIME, Path("runs/m") / f"{LMMS_TIME}_results.json")


def test_results_under_another_name(tmp_path):
    results = tmp_path / f"mine_{LM_TIME}.json"
    results.touch()
    assert sample_file(tmp_path / f"samples_egointent_{LM_TIME}.jsonl").results == results


@pytest.mark.parametrize("name", ["samples.jsonl", f"results_{LM_TIME}.json", "samples_egointent.jsonl", "x.json"])
def test_other_files_are_none(name):
    assert sample_file(Path(name)) is None


def test_found_below_a_folder_by_the_beginning_of_the_task(tmp_path):
    (tmp_path / "model").mkdir()
    for name in (
        f"samples_egointent_{LM_TIME}.jsonl",
        f"{LMMS_TIME}_samples_egointent_16.jsonl",
        f"{LMMS_TIME}_samples_egoplan_val.jsonl",
        f"{LMMS_TIME}_samples_not_samples_egointent.jsonl",
    ):
        (tmp_path / "model" / name).touch()
    assert [file.task for file in find_sample_files(tmp_path, "egointent")] == ["egointent_16", "egointent"]


@pytest.mark.parametrize(
    ("name", "results", "expected"),
    [
        (f"{LMMS_TIME}_results.json", {}, "2026-11-21 01:36:43 UTC"),
        (f"{LMMS_TIME}_results.json", {"date": "20261121_093700"}, "2026-11-21 01:37:00 UTC"),
        ("mine.json", {"date": LMMS_TIME}, "2026-11-21 01:36:43 UTC"),
        (f"results_{LM_TIME}.json", {"date": 1795253754.8}, "2026-11-21 09:35:54 UTC"),
        (f"results_{LM_TIME}.json", {"date": True}, "2026-11-21 09:36:43 (time zone unknown)"),
        (f"results_{LM_TIME}.json", {"date": 1e300}, "2026-11-21 09:36:43 (time zone unknown)"),
        (f"results_{LM_TIME}.json", {"date": float("nan")}, "2026-11-21 09:36:43 (time zone unknown)"),
        ("mine.json", {}, "mine"),
        ("00010101_000000_results.json", {}, "00010101_000000"),
    ],
)
def test_a_run_began_at_a_time_in_utc(name, results, expected):
    assert start_time(Path("runs") / name, results) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Asia/Singapore", "2026-11-21 01:36:43 UTC"),
        ("America/New_York", "2026-11-21 14:36:43 UTC"),
        ("UTC", "2026-11-21 09:36:43 UTC"),
        (None, "2026-11-21 01:36:43 UTC"),
        ("Nowhere/Else", "2026-11-21 09:36:43 (time zone unknown)"),
        ("../etc/passwd", "2026-11-21 09:36:43 (time zone unknown)"),
        ("", "2026-11-21 09:36:43 (time zone unknown)"),
    ],
)
def test_lmms_evals_clock_is_that_of_its_time_zone(zone, expected):
    results = {"config": {"resolved_cli_args": {"timezone": zone}}}
    assert start_time(Path(f"{LMMS_TIME}_results.json"), results) == expected


def test_lmms_eval_has_the_time_zone_that_is_taken_for_its_default():
    from lmms_eval import utils

    assert inspect.signature(utils.get_datetime_str).parameters["timezone"].default == "Asia/Singapore"
