"""EgoThink's scores in the report, compared with slow computations from the logged lines."""

import random
from statistics import fmean

import pytest

from benchmarks.egothink.report.synthetic_runs import CAPABILITIES, COUNT, NAMES, RUNS, records, score
from benchmarks.egothink.synthetic import egothink_answers, egothink_bench
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs
from report.joined import rows, run_rows
from report.synthetic import write_run


@pytest.mark.parametrize(("run", "name"), RUNS.items())
def test_table_3_has_the_scores_of_each_run_and_their_plain_mean(section, written, run, name):
    (row,) = (row for row in run_rows(section, "egothink_table3") if row["model"] == name)
    scores = {dimension: score(answers) for dimension, answers in records(written, run).items()}
    assert {dimension: row[dimension] for dimension in NAMES} == pytest.approx(scores)
    assert row["average"] == pytest.approx(sum(scores.values()) / 12)
    answers = [answer for group in records(written, run).values() for answer in group]
    judged = [answer for answer in answers if answer["rating"] is not None]
    assert row["questions"] == len(answers) == 12 * COUNT
    assert row["coverage"] == pytest.approx(100 * len(judged) / 700)
    assert row["judged"] == pytest.approx(100 * len(judged) / len(answers))
    cut = [answer["truncated"] for answer in answers if answer["truncated"] is not None]
    assert row["truncated"] == (pytest.approx(100 * sum(cut) / len(cut)) if cut else None)
    assert row["suspect"] == 0
    assert row["judge"] == ("qwen" if run == "c" else "gpt")
    assert row["low"] < row["average"] < row["high"]


@pytest.mark.parametrize("key", ["egothink_dimensions", "egothink_capabilities"])
def test_scores_by_group_are_means_of_the_dimensions(section, written, key):
    groups = CAPABILITIES if key == "egothink_capabilities" else {name: [name] for name in NAMES}
    found = {(row["group"], row["model"]): row for row in rows(section, key)}
    assert len(found) == 3 * len(groups)
    for run, name in RUNS.items():
        answers = records(written, run)
        for group, names in groups.items():
            row = found[group, name]
            assert row["score"] == pytest.approx(fmean(score(answers[each]) for each in names))
            judged = sum(answer["rating"] is not None for each in names for answer in answers[each])
            official = sum(100 if each in ("activity", "forecasting") else 50 for each in names)
            assert row["questions"] == COUNT * len(names)
            assert row["coverage"] == pytest.approx(100 * judged / official)
            assert row["judged"] == pytest.approx(100 * judged / (COUNT * len(names)))


def test_intervals_are_those_of_a_bootstrap_within_dimensions(section, written):
    chance = random.Random(5)
    for run, name in (("a", "First-7B"), ("b", "Second-7B")):
        groups = [
            [100 * a["rating"] for a in each if a["rating"] is not None] for each in records(written, run).values()
        ]
        means = sorted(fmean(fmean(chance.choices(group, k=len(group))) for group in groups) for _ in range(3000))
        (row,) = (row for row in rows(section, "egothink_table3") if row["model"] == name)
        width = means[2925] - means[75]
        assert row["low"] == pytest.approx(means[75], abs=0.1 * width)
        assert row["high"] == pytest.approx(means[2925], abs=0.1 * width)


def test_a_large_dimension_weighs_no_more_in_the_average_and_its_interval(tmp_path):
    activity = egothink_answers("activity", 60, 0.95, truncated=1.0)
    activity.responses[:30] = [
        [text.replace('"truncated": true', '"truncated": null')] for (text,) in activity.responses[:30]
    ]
    tasks = egothink_bench(COUNT, 0.2, 1, truncated=0.0) | {"egothink_activity_activity": activity}
    write_run(tmp_path / "run", "lmms-eval", "org/Model-7B", tasks)
    found = EgoThinkReport(read_runs([tmp_path]).runs).section()
    (row,) = run_rows(found, "egothink_table3")
    answers = records(tmp_path, "run")
    assert row["average"] == pytest.approx(fmean(map(score, answers.values())))
    assert row["low"] < row["average"] < row["high"] < score([each for group in answers.values() for each in group])
    assert row["truncated"] == pytest.approx(100 * 30 / (30 + 11 * COUNT))


def test_one_question_in_a_dimension_gives_no_interval(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/Model-7B", egothink_bench(1, 0.5, 1))
    found = EgoThinkReport(read_runs([tmp_path]).runs).section()
    assert found.headlines[0].value is not None
    assert found.headlines[0].interval is None


def test_figures_show_each_score_with_its_interval(section):
    capabilities, dimensions = section.figures
    for figure, key in ((capabilities, "egothink_capabilities"), (dimensions, "egothink_dimensions")):
        (axes,) = figure.draw().axes
        found = rows(section, key)
        groups = [label.get_text() for label in axes.get_xticklabels()]
        assert groups == list(dict.fromkeys(row["group"] for row in found))
        names = [*RUNS.values()]
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == pytest.approx([row["score"] for name in names for row in found if row["model"] == name])
        assert len({bar.get_hatch() for bar in axes.patches}) == 3
        legend = [text.get_text() for text in axes.figure.legends[0].get_texts()]
        assert {*names, "GPT-4V, published"} == {*legend}
        ends = {tuple(round(y, 6) for _, y in path) for lines in axes.collections for path in lines.get_segments()}
        known = [(row["low"], row["high"]) for row in found if row["low"] is not None]
        assert {(round(low, 6), round(high, 6)) for low, high in known} <= ends
        gpt_4v = (62 + 82 + 58) / 3 if figure is capabilities else 62
        assert (round(gpt_4v, 6), round(gpt_4v, 6)) in ends
