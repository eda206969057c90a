"""Questions, images and requests to judges are counted from the prepared data."""

import re
from pathlib import Path

import pytest

from launch.mistakes import environment_of, prepare_folder
from lmms_egoplan.benchmarks.base import EGOINTENT, EGOTHINK
from lmms_egoplan.benchmarks.splits import ACTPLAN as ACTPLAN_SPLITS
from lmms_egoplan.benchmarks.splits import EGOTHINK as EGOTHINK_SPLITS
from lmms_egoplan.launch.counts import Stored, count_tasks, print_counts
from lmms_egoplan.launch.plan import Plan

QUESTIONS = 24  # of the demo's EgoPlan set
CHOICES = 4
JUDGE = {
    "LMMS_EGOPLAN_JUDGE_BASE_URL": "http://127.0.0.1:1/v1",
    "LMMS_EGOPLAN_JUDGE_MODEL": "judge",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted") / "set"
    prepare_folder(folder)
    return folder


@pytest.fixture
def counted(folder, monkeypatch):
    """Return a function that counts what tasks ask."""
    for name, value in (environment_of(folder) | JUDGE).items():
        monkeypatch.setenv(name, value)

    def count(*tasks, **settings):
        values = {"model": "m", "backend_name": "hf_vlm", "model_args": {}, "harness": "lmms-eval"}
        plan = Plan(**values | settings, tasks=tasks, out=Path("out"))
        return {counts.task: counts for counts in count_tasks(plan)}

    return count


def test_frames_and_choices_of_each_condition_are_counted(counted):
    images = {
        "egoplan_val": 8 * QUESTIONS,
        "egoplan_val_generate": 8 * QUESTIONS,
        "egoplan_val_blind": 0,
        "egoplan_val_candidates_only": 0,
        "egoplan_val_last_frame": QUESTIONS,
        "egoplan_val_shuffled": 8 * QUESTIONS,
    }
    counts = counted(*images)
    assert {task: part.images for task, part in counts.items()} == images
    for task, part in counts.items():
        assert part.questions == QUESTIONS
        assert part.judge_requests == 0
        ranks = task != "egoplan_val_generate"
        assert part.requests == QUESTIONS * (CHOICES if ranks else 1)
    (other_video,) = counted("egoplan_val_other_goal_video").values()
    assert 0 < other_video.questions <= QUESTIONS


def test_a_backend_may_have_other_frames_or_choose_them(counted):
    assert counted("egoplan_val", backend_name="llava")["egoplan_val"].images == 6 * QUESTIONS
    assert counted("egoplan_val", backend_name="vila")["egoplan_val"].images is None


def test_limits_and_compact_runs_are_counted(counted):
    limited = counted("egoplan_val", limit=5)["egoplan_val"]
    assert (limited.questions, limited.images, limited.requests) == (5, 40, 5 * CHOICES)
    compact = counted("egoplan_val", subset="7")["egoplan_val"]
    assert (compact.questions, compact.images) == (7, 56)


def test_views_are_those_of_the_instances(counted):
    stored = ACTPLAN_SPLITS.load("test")
    names = ("actplan", "actplan_text_only", "actplan_normal", "actplan_counterfactual")
    counts = counted(*names, "actplan_views_swapped")
    assert counts["actplan"].questions == len(stored)
    assert counts["actplan"].images == sum(len(row["images"]) for row in stored)
    assert counts["actplan_text_only"].images == 0
    parts = [counts["actplan_normal"], counts["actplan_counterfactual"]]
    assert sum(part.questions for part in parts) == len(stored)
    assert sum(part.images for part in parts) == counts["actplan"].images
    assert counts["actplan_views_swapped"].images > 0


def test_requests_to_the_judge_are_counted_unless_they_cost_nothing(counted, monkeypatch, capsys):
    questions = len(EGOTHINK_SPLITS.load("existence"))
    counts = counted("egothink_object_existence", "egothink_object_existence_blind", "egoplan_val")
    judged = counts["egothink_object_existence"]
    assert (judged.questions, judged.images, judged.judge_requests) == (questions,) * 3
    assert counts["egothink_object_existence_blind"].images == 0
    print_counts([*counts.values()])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["egoplan_val", f"{QUESTIONS}", f"{8 * QUESTIONS}", "none"] in rows
    total = 8 * QUESTIONS + questions
    expected = [f"{QUESTIONS + 2 * questions}", f"{total}", "up", "to", f"{2 * questions}"]
    assert ["all", "tasks", *expected] in rows
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    assert counted("egothink_object_existence")["egothink_object_existence"].judge_requests == 0


def test_stored_answers_and_judgements_are_not_counted_again(counted, capsys):
    counts = [*counted("egoplan_val", "egothink_bench").values()]
    questions = sum(part.questions for part in counts[1:])
    print_counts(counts, Stored({"egoplan_val": 5}, 5, "questions", 3))
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["task", "questions", "answered", "images", "requests to the judge"]
    assert [row[:3] for row in rows if len(row) > 4] == [
        rows[0][:3],
        ["egoplan_val", f"{QUESTIONS}", "5"],
        ["egothink_bench", f"{questions}", "0"],
        ["all tasks", f"{QUESTIONS + questions}", "5"],
    ]
    assert rows[-1][-1] == f"up to {questions}, 3 stored"


def test_requests_for_an_answer_are_those_of_the_judges():
    """As the tasks announce them when they start."""
    (egothink,) = EGOTHINK.judges.values()
    assert egothink("").requests == 1
    requests = {load("").requests for load in EGOINTENT.judges.values()}
    assert requests == {3, 4}
