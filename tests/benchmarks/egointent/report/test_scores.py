"""EgoIntent's scores in the report, compared with slow computations from the logged lines."""

import random
from statistics import fmean

import pytest

from benchmarks.egointent.report.synthetic_runs import COUNT, NAMES, SCORES, records, score
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport
from lmms_egoplan.report.runs import read_runs
from report.joined import rows, run_rows
from report.synthetic import write_run


@pytest.mark.parametrize("run", NAMES)
def test_table_3_has_the_scores_of_each_run_and_what_they_are_over(section, written, run):
    (row,) = (row for row in run_rows(section, "egointent_table3") if row["model"] == NAMES[run])
    steps = records(written, run)
    assert {name: row[name] for name in SCORES} == pytest.approx({name: score(steps, name) for name in SCORES})
    found = sum(len(step["fields"]) for step in steps)
    judged = sum(step["ratings"][field] is not None for step in steps for field in step["fields"])
    cut = [step["truncated"] for step in steps if step["truncated"] is not None]
    assert row["questions"] == len(steps) == COUNT
    assert row["parsed"] == pytest.approx(100 * found / (3 * COUNT))
    assert row["judged"] == pytest.approx(100 * judged / found)
    assert row["truncated"] == (pytest.approx(100 * sum(cut) / len(cut)) if cut else None)
    unjudged = sum(rating is None for step in steps for rating in step["ratings"].values())
    assert row["coverage"] == pytest.approx(100 * COUNT / 3014 * (1 - unjudged / (3 * COUNT)))
    assert (row["unverified"], row["suspect"]) == (0, 0)
    assert row["judge"] == ("other" if run == "c" else "org/judge")
    assert row["low"] < row["overall"] < row["high"]


def test_intervals_are_those_of_a_bootstrap_that_draws_videos(section, written):
    heads = ("Overall", "Local intent", "Procedural intent", "Next step", "Indoor", "Outdoor")
    titles = dict(zip(SCORES, heads, strict=True))
    found = {(row["score_of"], row["model"]): row for row in rows(section, "egointent_scores")}
    assert len(found) == len(SCORES) * len(NAMES)
    chance = random.Random(5)
    for run in "ab":
        steps = records(written, run)
        videos = {}
        for step in steps:
            videos.setdefault(step["video_id"], []).append(step)
        drawn = [
            [step for group in chance.choices([*videos.values()], k=len(videos)) for step in group] for _ in range(1000)
        ]
        for name in SCORES:
            row = found[titles[name], NAMES[run]]
            values = sorted(score(resample, name) for resample in drawn)
            low, high = values[25], values[975]
            assert row["low"] == pytest.approx(low, abs=0.15 * (high - low))
            assert row["high"] == pytest.approx(high, abs=0.15 * (high - low))
            chosen = [step for step in steps if name not in ("indoor", "outdoor") or step["environment"] == name]
            assert row["score"] == pytest.approx(score(steps, name))
            assert (row["steps"], row["videos"]) == (len(chosen), len({step["video_id"] for step in chosen}))
            fields = [name] if name in FIELDS else FIELDS
            assert row["rated"] == sum(step["ratings"][field] is not None for step in chosen for field in fields)


def test_steps_of_one_video_give_no_interval(tmp_path):
    answers = egointent_answers(COUNT, 50, 1)
    for doc in answers.docs:
        doc["video_id"] = "one"
    write_run(tmp_path, "lmms-eval", "org/Model-7B", {"egointent": answers})
    found = EgoIntentReport(read_runs([tmp_path]).runs).section()
    assert {(row["low"], row["high"]) for row in rows(found, "egointent_scores")} == {(None, None)}
    assert found.headlines[0].interval is None


def test_scenarios_have_the_overall_score_of_their_steps(section, written):
    found = rows(section, "egointent_scenarios")
    steps = {name: records(written, run) for run, name in NAMES.items()}
    assert len(found) == len({step["scenario"] for step in steps["First-7B"]})
    averages = []
    for row in found:
        of_scenario = {n: [s for s in each if s["scenario"] == row["scenario"]] for n, each in steps.items()}
        assert {name: row[name] for name in steps} == pytest.approx(
            {name: score(each, "overall") for name, each in of_scenario.items()}
        )
        assert row["steps"] == len(of_scenario["First-7B"])
        averages.append(fmean(row[name] for name in steps))
    assert averages == sorted(averages)


def test_the_heat_map_shows_runs_by_scenarios(section):
    (figure,) = section.figures
    (axes,) = figure.draw().axes
    found = rows(section, "egointent_scenarios")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["First-7B", "Third-7B", "Second-7B"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["Overall", *(row["scenario"] for row in found)]
    shown = [text.get_text().rstrip("*") for text in axes.texts]
    overall = {row["model"]: row["overall"] for row in run_rows(section, "egointent_table3")}
    assert shown == [
        f"{value:.1f}"
        for name in ("First-7B", "Third-7B", "Second-7B")
        for value in (overall[name], *(row[name] for row in found))
    ]
    assert "First-7B" in figure.description
