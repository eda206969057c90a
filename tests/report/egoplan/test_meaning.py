"""Accuracy by condition, information gain and baselines each separate a planted model from the
other ones.
"""

import json
from dataclasses import replace
from functools import cache
from statistics import mean

import pytest

from benchmarks.egoplan import planted, slow_baselines
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.conditions import SHORTCUTS
from lmms_egoplan.encoder import ENCODER_VARIABLE
from lmms_egoplan.report.build import build_report
from lmms_egoplan.report.document import json_of
from lmms_egoplan.report.egoplan.answers import EGOPLAN, read_choice
from lmms_egoplan.report.egoplan.baselines import baseline_points
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.stats.intervals import bootstrap_interval, score_interval
from report.egoplan.synthetic_runs import percent
from report.joined import figure, group_names, near, points_of, rows
from report.synthetic import write_run

LETTERS = "ABCD"
ORDER = sorted(planted.CONDITIONS, key=[None, *SHORTCUTS].index)
NATS = ("added to the right choice", "added to its margin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    planted.write(folder)
    return folder


@pytest.fixture(scope="module")
def runs(folder):
    return read_runs([folder]).runs


@pytest.fixture(scope="module", autouse=True)
def unprepared(encoder_library, tmp_path_factory):
    """Hide prepared data and encoders. lm-eval's run logs the questions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path_factory.mktemp("data") / "none"))
        patch.setenv(ENCODER_VARIABLE, "/no/such/folder")
        yield


@pytest.fixture(scope="module")
def section(runs):
    return build_section(EgoPlanReport(runs))


@cache
def right(model, condition):
    """Return by sample id whether the choice with the least mean loss is right."""
    by_id = {}
    for doc in planted.DOCS:
        means = [loss for loss, _ in planted.losses(model, doc, condition)]
        by_id[doc["sample_id"]] = float(
            LETTERS[means.index(min(means))] == doc["golden_choice_idx"]
        )
    return by_id


def asked(condition):
    return [doc for doc in planted.DOCS if condition != "same_goal_video" or doc["sample_id"] % 5]


@pytest.mark.parametrize("model", planted.MODELS)
def test_accuracy_by_condition(section, model):
    table_rows = [row for row in rows(section, "egoplan_conditions") if row["run"] == model]
    assert [row["task"] for row in table_rows] == [
        "_".join(filter(None, ["egoplan_val", x])) for x in ORDER
    ]
    usual = right(model, None)
    for row, condition in zip(table_rows, ORDER, strict=True):
        scores = right(model, condition)
        docs = asked(condition)
        videos = [doc["video_id"] for doc in docs]
        points = [100 * scores[doc["sample_id"]] for doc in docs]
        assert row["score"] == near(mean(points))
        assert (row["low"], row["high"]) == near(score_interval(points, videos, 100))
        assert row["questions"] == len(docs)
        if condition is None:
            assert (row["label"], row["pair_value"], row["pair_questions"]) == (
                "as asked",
                None,
                None,
            )
            continue
        assert (row["label"], row["missing"]) == (
            SHORTCUTS[condition].label,
            SHORTCUTS[condition].missing,
        )
        differences = [100 * (scores[doc["sample_id"]] - usual[doc["sample_id"]]) for doc in docs]
        assert row["pair_value"] == near(mean(differences))
        assert (row["pair_low"], row["pair_high"]) == near(bootstrap_interval(differences, videos))
        assert row["pair_questions"] == len(docs)


def by_condition(section, model):
    table_rows = [row for row in rows(section, "egoplan_conditions") if row["run"] == model]
    return {row["task"].removeprefix("egoplan_val").strip("_"): row for row in table_rows}


def test_a_model_that_sees_only_the_last_frame_is_found_by_the_conditions(section):
    conditions, watcher = by_condition(section, "LastFrame"), by_condition(section, "Watches")
    for name in ("last_frame", "frozen"):
        assert conditions[name]["pair_value"] == 0
        assert watcher[name]["pair_high"] < -30
    for name in ("blind", "first_frame", "reversed", "same_goal_video"):
        assert conditions[name]["pair_high"] < -30


def gains(section, model):
    return {
        (row["measure"], row["unit"]): row
        for row in rows(section, "egoplan_gain")
        if row["run"] == model
    }


def test_a_model_that_ignores_the_video_is_found_by_its_gain(section):
    for model in ("Ignores", "PrefersUndone"):
        for (measure, unit), row in gains(section, model).items():
            if unit != "%" or measure.startswith("right only"):
                assert (row["value"], row["low"]) == (0, 0)
                assert (row["high"] > 0) == (unit == "%")
    for model in ("Watches", "LastFrame"):
        for measure in NATS:
            assert all(
                gains(section, model)[measure, unit]["low"] > 0
                for unit in ("nats", "nats per token")
            )
        assert gains(section, model)["right only with seeing", "%"]["low"] > 30


def test_a_model_that_prefers_undone_actions_is_found_by_the_baseline(section):
    baselines = {baseline.name: baseline for baseline in section.baselines}
    assert baselines["not done yet"].value == near(
        100 * mean(slow_baselines.points(planted.DOCS)["not done yet"])
    )
    scores = {
        row["run"]: row for row in rows(section, "egoplan_scores") if row["task"] == "egoplan_val"
    }
    assert (
        scores["PrefersUndone"]["low"]
        <= baselines["not done yet"].value
        <= scores["PrefersUndone"]["high"]
    )
    assert scores["PrefersUndone"]["low"] > 25
    assert (
        max(x.value for name, x in baselines.items() if name != "not done yet")
        < scores["PrefersUndone"]["low"]
    )
    assert scores["Watches"]["low"] > baselines["not done yet"].value


def slow_gains(model):
    """Compute what the video adds to each question, from the planted losses."""
    measures = {}
    for doc in planted.DOCS:
        gold = LETTERS.index(doc["golden_choice_idx"])
        by_unit = {}
        for condition in (None, "blind"):
            losses = planted.losses(model, doc, condition)
            for unit, values in (
                ("nats", [-loss * tokens for loss, tokens in losses]),
                ("nats per token", [-loss for loss, _ in losses]),
            ):
                wrong = [value for position, value in enumerate(values) if position != gold]
                by_unit[unit, condition] = values[gold], values[gold] - max(wrong)
        for unit in ("nats", "nats per token"):
            for position, measure in enumerate(NATS):
                difference = by_unit[unit, None][position] - by_unit[unit, "blind"][position]
                measures.setdefault((measure, unit), []).append(difference)
        seen, unseen = (right(model, condition)[doc["sample_id"]] for condition in (None, "blind"))
        for measure, holds in (
            ("right without seeing", unseen),
            ("right only with seeing", seen and not unseen),
            ("right only without seeing", unseen and not seen),
            ("never right", not seen and not unseen),
        ):
            measures.setdefault((measure, "%"), []).append(100.0 * bool(holds))
    return measures


@pytest.mark.parametrize("model", ["Watches", "LastFrame"])
def test_gains_match_a_slow_reference(section, model):
    table, expected = gains(section, model), slow_gains(model)
    assert list(table) == list(expected)
    videos = [doc["video_id"] for doc in planted.DOCS]
    for measure, values in expected.items():
        row = table[measure]
        assert row["value"] == near(mean(values))
        interval = (
            score_interval(values, videos, 100)
            if measure[1] == "%"
            else bootstrap_interval(values, videos)
        )
        assert (row["low"], row["high"]) == near(interval)
        assert row["questions"] == row["asked"] == planted.COUNT


def test_each_question_of_the_gallery_has_its_gain(runs):
    expected = slow_gains("Watches")
    items = gallery_items(EgoPlanReport(runs))
    for number, item in enumerate(items):
        for (name, task), answer in item.answers.items():
            if (name, task) == ("Watches", "egoplan_val"):
                assert list(answer.gain) == near(
                    [expected[measure, "nats"][number] for measure in NATS]
                )
            else:
                assert (answer.gain == (None, None)) == ("_val_" in task)


@pytest.mark.parametrize(("lost", "unit"), [("num_tokens", "nats"), ("loss", "nats per token")])
def test_scores_that_a_backend_lacks_have_no_gain(tmp_path, lost, unit):
    """A backend without token counts has only means; one that reports only sums has no mean, and so
    no accuracy.
    """
    conditions = {"egoplan_val": None, "egoplan_val_blind": "blind"}
    answers = {
        task: planted.answers("Watches", condition) for task, condition in conditions.items()
    }
    for task_answers in answers.values():
        for texts in task_answers.responses:
            for position, text in enumerate(texts):
                values = json.loads(text)
                if lost == "loss":
                    values |= {"logprob": -values["loss"] * values["num_tokens"], "loss": None}
                texts[position] = json.dumps(values | {"num_tokens": None})
    write_run(tmp_path, "lmms-eval", "org/Watches", answers)
    report = EgoPlanReport(read_runs([tmp_path]).runs)
    table = gains(build_section(report), "Watches")
    for (measure, row_unit), row in table.items():
        is_missing = row_unit == unit or (lost == "loss" and row_unit == "%")
        assert (row["value"] is None, row["questions"] == 0) == (is_missing, is_missing), measure
        assert row["asked"] == planted.COUNT
    assert {
        None in answer.gain for item in gallery_items(report) for answer in item.answers.values()
    } >= {unit == "nats"}


def test_conditions_are_not_ranked_or_compared(section):
    assert {line.task for line in section.headlines} == {"egoplan_val"}
    assert not [name for name in SHORTCUTS for text in section.finding if name in text]
    for table in section.tables:
        if table.key.startswith(
            ("egoplan_comparisons", "egoplan_tasks", "egoplan_table", "egoplan_ledger")
        ):
            texts = {str(value) for row in table.rows if row.is_ours for value in row.values}
            assert not [
                text
                for text in texts
                for name in SHORTCUTS
                if name != "blind" and text.endswith(f"{name})")
            ]
    assert {row["task"] for row in rows(section, "egoplan_scores")} >= {
        "egoplan_val_shuffled",
        "egoplan_val_frozen",
    }
    assert {change.task for change in section.changes} <= {"egoplan_val"}


def test_the_figure_of_conditions_needs_no_colour(section):
    drawing = figure(section, "egoplan_conditions").draw()
    (axes,) = drawing.axes
    assert group_names(axes) == ["as asked", *(SHORTCUTS[name].label for name in ORDER[1:])]
    lines = {
        line.get_label(): line for line in axes.get_lines() if line.get_label() in planted.MODELS
    }
    assert len({line.get_marker() for line in lines.values()}) == len(planted.MODELS) == len(lines)
    expected = [
        percent(right("LastFrame", name)[doc["sample_id"]] for doc in asked(name)) for name in ORDER
    ]
    assert points_of(axes)["LastFrame"] == near(expected)
    assert any(list(line.get_xdata()) == [25, 25] for line in axes.get_lines())


def test_a_run_without_its_own_task_has_no_difference(runs):
    run = next(run for run in runs if run.name == "Watches")
    tasks = {name: task for name, task in run.tasks.items() if name != "egoplan_val"}
    metrics = tasks["egoplan_val_shuffled"].metrics | {"without_partner": 7}
    tasks["egoplan_val_shuffled"] = replace(tasks["egoplan_val_shuffled"], metrics=metrics)
    config = tasks["egoplan_val_frozen"].config
    later = config | {"metadata": config["metadata"] | {"shortcut": "upside_down"}}
    name = "egoplan_val_upside_down"
    tasks[name] = replace(tasks.pop("egoplan_val_frozen"), task=name, config=later)
    section = build_section(EgoPlanReport([replace(run, tasks=tasks)]))
    conditions = by_condition(section, "Watches")
    assert {row["pair_value"] for row in conditions.values()} == {None}
    assert conditions["shuffled"]["without_partner"] == 7
    assert (conditions["upside_down"]["label"], [*conditions][-1]) == ("upside_down", "upside_down")
    assert (section.headlines, section.finding, section.differences) == ((), (), ())
    assert not [table for table in section.tables if table.key == "egoplan_gain"]
    assert "upside_down" in json_of([section], [], [], 0)


@pytest.mark.parametrize("inexact", ["egoplan_val", "egoplan_val_blind"])
def test_inexact_tasks_have_neither_gain_nor_difference(runs, inexact):
    run = next(run for run in runs if run.name == "Watches")
    audited = run.tasks[inexact].metrics | {
        "ranking": {"difference": 2e-3, "tolerance": 1e-4},
    }
    tasks = run.tasks | {inexact: replace(run.tasks[inexact], metrics=audited)}
    section = build_section(EgoPlanReport([replace(run, tasks=tasks)]))
    assert not [table for table in section.tables if table.key == "egoplan_gain"]
    conditions = by_condition(section, "Watches")
    assert conditions["blind"]["pair_value"] is None
    assert (conditions["shuffled"]["pair_value"] is None) == (inexact == "egoplan_val")


def test_unknown_conditions_are_in_alphabetical_order(runs):
    run = next(run for run in runs if run.name == "Watches")
    base, names = run.tasks["egoplan_val_frozen"], ["mirrored", "dim", "cut", "askew", "blurred"]
    tasks = {
        task: replace(
            base,
            task=task,
            config=base.config | {"metadata": base.config["metadata"] | {"shortcut": name}},
        )
        for name in names
        for task in [f"egoplan_val_{name}"]
    }
    assert [
        *by_condition(build_section(EgoPlanReport([replace(run, tasks=tasks)])), "Watches")
    ] == sorted(names)


def test_a_logged_question_needs_its_video(folder):
    path = next(folder.glob("*PrefersUndone/samples_egoplan_val_20*.jsonl"))
    sample = json.loads(path.read_text().partition("\n")[0])
    assert read_choice(sample, EGOPLAN).doc
    del sample["doc"]["video_id"]
    with pytest.raises(ValueError, match="video_id"):
        read_choice(sample, EGOPLAN)


def test_baselines_match_a_slow_reference():
    expected = slow_baselines.points(planted.DOCS)
    assert baseline_points(planted.DOCS) == {
        name: near(points) for name, points in expected.items()
    }


def test_every_table_with_chance_has_the_baselines(section):
    means = {
        baseline.name: f"{baseline.name}, {baseline.value:.2f} %" for baseline in section.baselines
    }
    assert list(means) == list(slow_baselines.NAMES)
    assert all(baseline.note.startswith("Picks ") for baseline in section.baselines)
    for key in ("egoplan_table1", "egoplan_table3", "egoplan_scores", "egoplan_past_actions"):
        (table,) = (table for table in section.tables if table.key == key)
        (note,) = (note for note in table.notes if "Chance: 25 %" in note)
        assert all(text in note for text in means.values())
        assert f"{planted.COUNT} questions" in note


def test_without_questions_the_baselines_are_missing(runs):
    (run,) = (run for run in runs if run.name == "Watches")
    section = build_section(EgoPlanReport([run]))
    assert section.baselines == ()
    assert any("in the baselines without a model" in remark for remark in section.remarks)
    (table,) = (table for table in section.tables if table.key == "egoplan_scores")
    (note,) = (note for note in table.notes if "Chance" in note)
    assert "missing" in note


def test_report_json_has_all_figures(section):
    assert_has_all_figures(json.loads(json_of([section], [], [], 0)))


@pytest.mark.nightly
def test_report_json_and_page_have_all_figures(tmp_path, folder):
    build_report([folder], tmp_path, {}, BENCHMARKS, lambda *_: None, pictures="none")
    benchmark = assert_has_all_figures(json.loads((tmp_path / "report.json").read_text()))
    page = (tmp_path / "index.html").read_text()
    (not_done,) = (
        baseline for baseline in benchmark["baselines"] if baseline["name"] == "not done yet"
    )
    assert f"not done yet {not_done['value']:.2f}" in page


def assert_has_all_figures(report):
    (benchmark,) = report["benchmarks"]
    names = [figure["key"] for figure in benchmark["figures"]]
    assert len(names) == len({*names})
    assert {baseline["name"] for baseline in benchmark["baselines"]} == set(slow_baselines.NAMES)
    assert {"egoplan_conditions", "egoplan_gain"} <= {table["key"] for table in benchmark["tables"]}
    return benchmark
