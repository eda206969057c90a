"""Check the tables of panels against slow versions, from files of runs to the page, the terminal
and CSV.
"""

import csv
import json
import random
import re
from dataclasses import replace
from statistics import fmean, median

import numpy as np
import pytest
from krippendorff import alpha
from typer.testing import CliRunner

from benchmarks.egointent.synthetic import egointent_docs
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_docs, prepare
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.cli import app
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.egothink.answer_files import write_judged
from lmms_egoplan.report.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import panel_tables
from report.answers import Answers
from report.joined import Cells
from report.synthetic import write_run

COUNT = 8
JUDGES = ("claude-x", "gpt-4o", "judge-z")
MODELS = ("Qwen/Qwen2-VL", "openai/gpt-4v", "org/Odd")
FIELDS = ("local_intent", "global_intent", "next_step_plan")


def words(model, name):
    """Return an answer's text, the same for all judges."""
    chance = random.Random(f"{model} {name}")
    return " ".join(["word"] * chance.choice((1, 2, 4, 8, 16)) + [f"{model}/{name}"])


def rating(judge, model, name, levels):
    """Return a judge's rating; judge-z favours long answers, gpt-4o its own family."""
    chance, text = random.Random(f"{judge} {model} {name}"), words(model, name)
    value = random.Random(f"quality {model} {name}").uniform(20, 70) + chance.gauss(0, 14)
    value += 9 * np.log2(len(text.split())) * (judge == "judge-z") + 30 * (
        judge == "gpt-4o" and "gpt" in model
    )
    return min(levels, key=lambda level: abs(level - value))


def egothink(judge, model, unrated=()):
    tasks = {}
    for task, dimension in EGOTHINK_TASKS.items():
        docs, responses = egothink_docs(dimension.name, COUNT), []
        for doc in docs:
            score = (
                None
                if doc["id"] in unrated
                else rating(judge, model, doc["id"], (0.0, 50.0, 100.0)) / 100
            )
            text, error = words(model, doc["id"]), "no reply" if score is None else None
            reply = None if score is None else f"[[{score}]]"
            responses.append(
                [JudgedAnswer(doc["id"], text, None, False, score, reply, judge, error).to_text()]
            )
        tasks[task] = Answers(docs, responses)
    return tasks


def egointent(judge, model, unrated=()):
    docs, responses = egointent_docs(30), []
    for doc in docs:
        answered = [
            x for x in FIELDS if random.Random(f"{model} {doc['step_id']} {x}").random() > 0.1
        ]
        rated = {
            x: None
            if (doc["step_id"], x) in unrated
            else rating(judge, model, (doc["step_id"], x), [*map(float, range(101))])
            for x in answered
        }
        step = GradedStep(
            step_id=doc["step_id"],
            fields={x: words(model, (doc["step_id"], x)) for x in answered},
            ratings={x: rated.get(x, 0.0) for x in FIELDS},
            judgements=dict.fromkeys(FIELDS),
            judges={x: judge if rated.get(x) is not None else None for x in FIELDS},
            errors={x: "no reply" if x in answered and rated[x] is None else None for x in FIELDS},
            suspect=[],
            truncated=None,
            frames_shown=3,
            frames_sampled=3,
        )
        responses.append([step.to_text()])
    return {"egointent": Answers(docs, responses)}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panels")
    for judge in JUDGES:
        for model in MODELS:
            is_gap = judge == "claude-x" and model == MODELS[0]
            tasks = egothink(judge, model, {"existence/1"} if is_gap else ())
            tasks |= egointent(judge, model, {("step-1", "local_intent")} if is_gap else ())
            write_run(folder / judge, "lmms-eval", model, tasks)
    return folder


@pytest.fixture(scope="module")
def tables(written):
    """Return the tables of panels by benchmark."""
    runs = read_runs([written]).runs
    return {
        report.SPEC.name: [*panel_tables(report(runs))]
        for report in (EgoThinkReport, EgoIntentReport)
    }


def rows(tables, key):
    (table,) = (table for table in tables if table.key.endswith(f"_{key}"))
    return [
        Cells(zip([x.key for x in table.columns], row.values, strict=True)) for row in table.rows
    ]


def model_of(row):
    return next(model for model in MODELS if model.rpartition("/")[2] in row["name"])


def egothink_ratings(model):
    ids = [doc["id"] for x in EGOTHINK_TASKS.values() for doc in egothink_docs(x.name, COUNT)]
    gap = {"existence/1"} if model == MODELS[0] else set()
    return {
        x: [rating(judge, model, x, (0.0, 50.0, 100.0)) for judge in JUDGES]
        for x in ids
        if x not in gap
    }


def slow_average(scores):
    by_dimension = {}
    for name, score in scores.items():
        by_dimension.setdefault(dimension_of(name), []).append(score)
    return fmean(map(fmean, by_dimension.values()))


def test_a_panel_has_scores_and_agreement_and_no_finding_about_a_judge(tables):
    """In these runs, judge-z favours long answers and gpt-4o its own family; other causes would
    look alike.
    """
    assert {name: [table.key for table in of_name] for name, of_name in tables.items()} == {
        "egothink": ["egothink_panel"],
        "egointent": ["egointent_panel"],
    }
    columns = {
        column.key for of_name in tables.values() for table in of_name for column in table.columns
    }
    assert columns >= {"judges", "mean", "spread", "alpha"}
    assert columns.isdisjoint({"family", "kind", "effect", "finding", "p_value"})


def test_panels_of_egothink_equal_a_slow_version(tables):
    table = rows(tables["egothink"], "panel")
    assert [model_of(row) for row in table] == [*MODELS]
    for row in table:
        ratings = egothink_ratings(model_of(row))
        majority = {x: [r for r in {*of_x} if of_x.count(r) > 1] for x, of_x in ratings.items()}
        decided = {x: of_x[0] for x, of_x in majority.items() if of_x}
        assert (row["answers"], row["left_out"]) == (len(ratings), 96 - len(ratings))
        assert row["judges"] == "; ".join(JUDGES)
        assert row["mean"] == pytest.approx(
            slow_average({x: fmean(of_x) for x, of_x in ratings.items()})
        )
        assert row["low"] < row["mean"] < row["high"]
        assert row["majority"] == pytest.approx(slow_average(decided))
        assert row["majority_of"] == len(decided) < len(ratings)
        assert row["spread"] == pytest.approx(fmean(max(x) - min(x) for x in ratings.values()))
        assert row["alpha"] == pytest.approx(
            alpha(np.array([*ratings.values()]).T, level_of_measurement="interval")
        )


def test_panels_of_egointent_equal_a_slow_version(tables):
    table = rows(tables["egointent"], "panel")
    for row in table:
        model, steps = model_of(row), [doc["step_id"] for doc in egointent_docs(30)]
        gap = {("step-1", "local_intent")} if model == MODELS[0] else set()
        answered = {
            (x, y)
            for x in steps
            for y in FIELDS
            if random.Random(f"{model} {x} {y}").random() > 0.1
        }
        levels = [*map(float, range(101))]
        ratings = {x: [rating(judge, model, x, levels) for judge in JUDGES] for x in answered - gap}
        assert (row["answers"], row["left_out"]) == (len(ratings), len(answered & gap))
        for name, combine in (("mean", fmean), ("median", median)):
            scores = []
            for field in FIELDS:
                judged = [combine(ratings[x]) for x in ratings if x[1] == field]
                scores.append(sum(x[1] == field for x in answered) / len(steps) * fmean(judged))
            assert row[name] == pytest.approx(fmean(scores))
        assert row["low"] < row["mean"] < row["high"]


def panel_keys(*folders, report=EgoThinkReport):
    return [table.key for table in panel_tables(report(read_runs([*folders]).runs))]


@pytest.mark.parametrize(
    ("judge", "change"),
    [
        ("gpt-4o", ()),  # the same judge
        ("demo", ()),
        ("judge-z", ("word", "other")),  # other answers
    ],
)
def test_other_runs_form_no_panel(written, tmp_path, judge, change):
    results = write_run(tmp_path, "lmms-eval", MODELS[1], egothink(judge, MODELS[1]))
    for log in results.parent.glob("*existence*.jsonl") if change else ():
        log.write_text(log.read_text().replace(*change))
    assert panel_keys(written / "gpt-4o" / "openai__gpt-4v", tmp_path) == []


def test_runs_with_other_prompts_of_the_judge_form_no_panel(tmp_path):
    for judge in JUDGES[:2]:
        results = write_run(tmp_path / judge, "lmms-eval", MODELS[0], egointent(judge, MODELS[0]))
    assert panel_keys(tmp_path, report=EgoIntentReport) == ["egointent_panel"]
    content = json.loads(results.read_text())
    content["configs"]["egointent"]["metadata"]["judge_prompt"] = "9.9"
    results.write_text(json.dumps(content))
    assert panel_keys(tmp_path, report=EgoIntentReport) == []


def test_files_under_different_protocols_are_in_different_panels(tmp_path, monkeypatch):
    """Failed judgements, which count as -1 under one protocol, are no ratings."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare(tmp_path / "data", COUNT)
    for judge, protocol in (
        ("x", "paper"),
        ("y", "paper"),
        ("y", "lmms-eval-0.7.3"),
        ("z", "lmms-eval-0.7.3"),
    ):
        of_judge = egothink(judge, MODELS[1], {"existence/1"} if judge == "z" else ())
        answers = [
            JudgedAnswer.from_text(text) for x in of_judge.values() for (text,) in x.responses
        ]
        write_judged(
            tmp_path / f"{judge}-{protocol}.jsonl",
            [[replace(x, protocol=protocol) for x in answers]],
        )
    write_judged(tmp_path / "half.jsonl", [answers[::2]])
    (panel,) = panel_tables(
        EgoThinkReport(read_runs(sorted(tmp_path.glob("*.jsonl")), benchmarks=BENCHMARKS).runs)
    )
    panels = {row["judges"]: (row["answers"], row["left_out"]) for row in rows([panel], "panel")}
    assert panels == {"x; y": (96, 0), "y; z": (95, 1)}
    (note,) = (note for note in panel.notes if note.startswith("In no panel"))
    assert note.strip().endswith("half.")


def test_some_dimensions_have_no_average(tmp_path):
    for judge in JUDGES:
        tasks = {
            x: y
            for x, y in egothink(judge, MODELS[0]).items()
            if "existence" in x or "attribute" in x
        }
        write_run(tmp_path / judge, "lmms-eval", MODELS[0], tasks)
    (row,) = rows(panel_tables(EgoThinkReport(read_runs([tmp_path]).runs)), "panel")
    assert (row["answers"], row["mean"], row["majority"], row["low"]) == (16, None, None, None)
    assert row["spread"] > 0


@pytest.mark.nightly
def test_commands_show_panels_of_judged_answers_without_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare(tmp_path / "data", COUNT)
    files = []
    for judge in JUDGES:
        of_judge = egothink(judge, MODELS[1])
        answers = [
            JudgedAnswer.from_text(text) for x in of_judge.values() for (text,) in x.responses
        ]
        files.append(str(tmp_path / f"by-{judge}.jsonl"))
        write_judged(tmp_path / f"by-{judge}.jsonl", [answers])
    # The judge of another protocol saw another prompt.
    files.append(str(tmp_path / "by-authors.jsonl"))
    write_judged(
        tmp_path / "by-authors.jsonl",
        [[replace(x, judge="other", protocol="authors") for x in answers]],
    )
    printed = CliRunner().invoke(app, ["show", "--details", *files])
    assert printed.exit_code == 0, printed.output
    assert re.search(r"Panel of judges.*claude-x; gpt-4o; judge-z", printed.output, re.DOTALL)
    assert "favours" not in printed.output
    out = tmp_path / "report"
    reported = CliRunner().invoke(app, ["report", *files, "--out", str(out), "--pictures", "none"])
    assert reported.exit_code == 0, reported.output
    (row,) = csv.DictReader((out / "tables" / "egothink_panel.csv").read_text().splitlines())
    assert float(row["mean"]) == pytest.approx(
        slow_average({x: fmean(y) for x, y in egothink_ratings(MODELS[1]).items()})
    )
    page = (out / "index.html").read_text()
    assert "Panel of judges" in page
    assert "favours" not in page
