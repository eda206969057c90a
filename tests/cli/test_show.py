"""`lmms-egoplan show` prints the main scores of runs in the terminal."""

import csv
import io
import json
import math
import re

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.cli import app
from report.reading import HARNESSES, all_tasks, one_task
from report.synthetic import write_run

NARROW = 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(NARROW))


def show(*paths):
    return CliRunner().invoke(app, ["show", *map(str, paths)])


def show_details(*paths):
    return show("--details", *paths)


def lines_of(result):
    """Return the output's lines without trailing blanks; fail if one is wider than the terminal."""
    assert max(map(len, result.stdout.splitlines())) <= NARROW
    return [line.rstrip() for line in result.stdout.splitlines()]


def cells(result, label):
    """Return the cells of all rows with this label."""
    rows = (re.split(r"  +", line.strip()) for line in lines_of(result))
    return [row[1:] for row in rows if row[0] == label]


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("harness", HARNESSES)
def test_scores_of_all_benchmarks_are_printed_with_coverage(tmp_path, harness):
    path = write_run(tmp_path, harness, "org/Model-7B", all_tasks(), log_samples=False)
    metrics = {
        task: {key.partition(",")[0]: value for key, value in entry.items()}
        for task, entry in json.loads(path.read_text())["results"].items()
    }
    result = show_details(tmp_path)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert lines_of(result)[0] == (
        f"Model-7B: {harness}, 2026-01-01 {'04' if harness == 'lmms-eval' else '12'}:00:00 UTC"
    )
    assert cells(result, "acc")[0] == [f"{100 * metrics['egoplan_val']['acc']:.2f} (0.9%)"]
    assert cells(result, "acc_sum")[0] == [f"{100 * metrics['egoplan_val']['acc_sum']:.2f} (0.9%)"]
    assert cells(result, "existence") == [
        [f"{metrics['egothink_object_existence']['score']:.1f} (6.0%)"]
    ]
    assert cells(result, "average of the twelve") == [
        [f"{metrics['egothink_bench']['score']:.1f} (5.1%)"]
    ]
    assert cells(result, "overall") == [[f"{metrics['egointent']['overall']:.2f} (0.3%)"]]
    assert cells(result, "Norm. LCS")[0] == [f"{metrics['actplan']['lcs_norm']:.3f} (1.0%)"]
    assert (["11.1%"] if harness == "lmms-eval" else ["n/a"]) in cells(result, "truncated")
    assert cells(result, "judge") == [["org/judge"], ["org/judge"]]


def test_runs_that_do_not_fit_side_by_side_are_below(tmp_path):
    for number in range(9):
        tasks = (
            {"egoplan_val": egoplan_answers(10, 0.4, seed=number)}
            if number == 8
            else egothink_bench(2, 0.5)
        )
        write_run(
            tmp_path / str(number),
            HARNESSES[number % 2],
            f"org/Model-{number}B",
            tasks,
            log_samples=False,
        )
    result = show_details(tmp_path)
    assert result.exit_code == 0
    heads = [re.findall(r"Model-\dB", line) for line in lines_of(result) if "Model-" in line]
    names = [name for head in heads for name in head]
    # in the list of runs and in a table
    assert all(names.count(f"Model-{number}B") >= 2 for number in range(9))
    assert max(map(len, heads)) >= 3
    rows = cells(result, "existence")
    assert sum(map(len, rows)) == 8
    assert len(cells(result, "acc")) == 1


def test_a_run_without_a_task_has_an_empty_cell(tmp_path):
    for name, task in (("one", "egoplan_val"), ("two", "egoplan_val_blind")):
        answers = {task: egoplan_answers(10, 0.4, seed=1)}
        write_run(tmp_path / name, "lmms-eval", f"org/{name}", answers, log_samples=False)
    result = show_details(tmp_path / "one", tmp_path / "two")
    assert [len(row) for row in cells(result, "acc")] == [1, 1]


def test_nan_is_not_a_score_and_paths_are_not_values(tmp_path):
    path = write_run(
        tmp_path,
        "lmms-eval",
        "/models/mine",
        {**egothink_bench(2, 0.5), "actplan": actplan_answers(10, 0.8, bleurt=0.5)},
        log_samples=False,
    )

    def edit(content):
        for task, entry in content["results"].items():
            if task.startswith("egothink_"):
                entry |= {"score,judged": math.nan, "judge_coverage,judged": 0.0}
        for task, details in content["details"].items():
            if task.startswith("egothink_"):
                details["judge_model"] = "/srv/judge"
        content["details"]["actplan"] |= {
            "encoder": "/home/me/encoder",
            "bleurt_model": "./bleurt",
        }

    change(path, edit)
    result = show_details(tmp_path)
    assert cells(result, "existence") == [["n/a (0%)"]]
    assert cells(result, "average of the twelve") == [["n/a (0%)"]]
    assert cells(result, "judge") == [["judge"]]
    assert cells(result, "Sentence encoder") == [["encoder"]]
    assert cells(result, "Classifier") == [["bleurt"]]
    assert "nan" not in result.stdout
    assert "/" not in result.stdout.replace("n/a", "")


def test_the_judge_is_named(tmp_path):
    path = write_run(
        tmp_path,
        "lmms-eval",
        "org/m",
        {
            **egothink_bench(2, 0.5, judge="demo"),
            "egointent": egointent_answers(10, 50, missing=1.0),
        },
    )
    result = show_details(path)
    assert cells(result, "judge") == [["demo"], ["not asked"]]
    assert cells(result, "judged") == [["100%"], ["n/a"]]
    assert result.stdout.count("'demo'") == 1


def test_goal_step_steps_have_a_separate_heading(tmp_path):
    answers = {"egointent": egointent_answers(10, 50)}
    write_run(tmp_path / "1", "lmms-eval", "org/one", answers, log_samples=False)
    other = write_run(tmp_path / "2", "lmms-eval", "org/two", answers, log_samples=False)
    change(
        other,
        lambda content: content["details"]["egointent"].update(category={"make bread": 50.0}),
    )
    result = show_details(tmp_path)
    assert [row[-1].endswith("(0.3%)") for row in cells(result, "overall")] == [True, False]
    assert cells(result, "overall")[1][-1].endswith("(100%)")
    assert "egointent (Goal-Step steps)" in result.stdout


def test_control_characters_in_results_are_harmless(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "org/m\x1b[31m[red]", one_task())
    change(path, lambda content: content["versions"].update(egoplan_val="\x1b[2J"))
    result = show(path)
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout
    assert "[red]" in result.stdout


def test_other_tasks_are_shown_too(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "org/m", one_task())

    def edit(content):
        content["results"]["egointent_diagnostics"] = {
            "alias": "x",
            "diagnostics,judged": math.nan,
            "gf,judged": 51.25,
            "gf_stderr,judged": "N/A",
        }
        content["details"]["egointent_diagnostics"] = {
            "judge_model": "[bold]org/judge[/bold]",
            "by_place": {"a": 1},
            "num_steps": 3,
        }
        content["configs"]["egointent_diagnostics"] = {"task": "egointent_diagnostics"}

    change(path, edit)
    result = show_details(path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert cells(result, "diagnostics") == [["n/a"]]
    assert cells(result, "gf") == [["51.2500"]]
    assert cells(result, "num_steps") == [["3"]]
    assert cells(result, "judge_model") == [["[bold]org/judge[/bold]"]]
    assert "by_place" not in result.stdout


def test_versions_of_a_task_are_not_side_by_side(tmp_path):
    write_run(tmp_path / "1", "lmms-eval", "org/one", one_task(), log_samples=False)
    other = write_run(tmp_path / "2", "lmms-eval", "org/two", one_task(), log_samples=False)

    def edit(content):
        content["versions"]["egoplan_val"] = 7.0
        content["configs"]["egoplan_val"]["metadata"] = {"version": 7.0}

    change(other, edit)
    result = show_details(tmp_path)
    assert result.exit_code == 0
    assert [len(row) for row in cells(result, "acc")] == [1, 1]
    assert "version 7.0" in result.stdout


def test_an_empty_folder_is_an_error(tmp_path):
    result = show(tmp_path)
    assert result.exit_code == 1
    assert str(tmp_path) in result.stderr
    result = show(tmp_path / "nowhere")
    assert result.exit_code == 1
    assert "nowhere" in result.stderr


def test_an_interrupted_run_is_reported_and_the_other_runs_are_shown(tmp_path):
    write_run(tmp_path / "good", "lmms-eval", "org/m", one_task(), log_samples=False)
    killed = write_run(tmp_path / "killed", "lmms-eval", "org/m", one_task())
    killed.write_bytes(killed.read_bytes()[:100])
    (tmp_path / "good" / "notes.json").write_text("[]")
    result = show_details(tmp_path / "good", killed)
    assert result.exit_code == 1
    assert len(cells(result, "acc")) == 1
    assert result.stderr.count(str(killed)) == 2
    assert str(tmp_path / "good" / "notes.json") in result.stderr
    assert show(tmp_path).exit_code == 0


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content["details"]["egothink_object_existence"].update(
            num_questions="many"
        ),
        lambda content: content["details"]["egothink_object_existence"].update(num_questions=1e400),
        lambda content: content["results"].update(egothink_object_existence=[]),
        lambda content: content["details"].update(egothink_object_existence=[1]),
        lambda content: content.update(details=[]),
        lambda content: content["configs"].update(egothink_object_existence=[]),
        lambda content: content.update(config=None, versions=[], date={}),
    ],
)
def test_edited_results_lead_to_a_message_or_a_table(tmp_path, damage):
    path = write_run(tmp_path, "lmms-eval", "org/m", egothink_bench(2, 0.5))
    change(path, damage)
    result = show(path)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert result.exit_code == 0 or str(path.parent) in result.stderr


def rows_of(result):
    """Return the rows of the only Markdown table, each by the columns' titles."""
    lines = [line for line in result.stdout.splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def printed(path, form, *options):
    result = CliRunner().invoke(app, ["show", "--format", form, *options, str(path)])
    assert result.exit_code == 0, result.output
    return result


def test_a_markdown_table_has_models_by_benchmarks(tmp_path):
    path = write_run(tmp_path / "1", "lmms-eval", "org/Model-7B", all_tasks())
    write_run(
        tmp_path / "2", "lm-eval", "org/Other-7B", {"egoplan_val": egoplan_answers(40, 0.9, seed=1)}
    )
    (log,) = path.parent.glob("*_samples_egoplan_val.jsonl")
    scored = [json.loads(line)["acc"] for line in log.read_text().splitlines()]
    result = printed(tmp_path, "md")
    assert result.stderr == ""
    rows = rows_of(result)
    assert [row["Model"] for row in rows] == ["Model-7B", "Other-7B"]
    titles = [re.sub("[^A-Za-z0-9 -]", "", title) for title in rows[0]]
    assert titles == ["Model", "EgoPlan", "EgoThink", "EgoIntent", "ActPlan-1K"]
    egoplan, egothink = [*rows[0]][1:3]
    value = 100 * sum(sample["score"] for sample in scored) / len(scored)
    assert rows[0][egoplan].startswith(f"{value:.2f}")
    assert [*rows[1].values()][2:] == ["\u2013"] * 3
    score, low, high = re.match(r"([\d.]+) \(([\d.]+)\u2013([\d.]+)\)", rows[0][egothink]).groups()
    assert float(low) < float(score) < float(high)
    notes = result.stdout.replace("\u202f", " ")
    videos = len({sample["cluster"] for sample in scored})
    for fact in (
        f"No interval: {videos} videos, fewer than 10.",
        "0.9 % of the official questions",
        "judge org/judge",
        "30 to 40 questions",
        "chance 25.00",
    ):
        assert fact in notes
    assert not list(tmp_path.glob("*.html"))


def test_a_csv_has_one_row_per_model_with_plain_numbers(tmp_path):
    write_run(tmp_path / "1", "lmms-eval", "org/=Model-7B", all_tasks())
    write_run(
        tmp_path / "2", "lm-eval", "org/Other-7B", {"egoplan_val": egoplan_answers(90, 0.4, seed=1)}
    )
    (tmp_path / "2" / "notes.json").write_text("[]")
    result = printed(tmp_path, "csv")
    assert "notes.json" in result.stderr
    head, *lines = csv.reader(io.StringIO(result.stdout), strict=True)
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    # no formula in a spreadsheet
    assert [row["model"] for row in rows] == ["'=Model-7B", "Other-7B"]
    tasks = [name.removesuffix("_low") for name in head if name.endswith("_low")]
    assert tasks == ["egoplan_val", "egothink_bench", "egointent", "actplan"]
    for row in rows:
        for task in tasks:
            if not row[task]:
                assert not any(row[f"{task}_{name}"] for name in ("low", "questions", "protocol"))
                continue
            assert int(row[f"{task}_questions"]) > 0
            assert row[f"{task}_protocol"].startswith(f"{task}, ")
            if row[f"{task}_low"]:
                low, high = float(row[f"{task}_low"]), float(row[f"{task}_high"])
                assert low <= float(row[task]) <= high
            else:
                assert "No interval" in row[f"{task}_remarks"]
    assert not re.search(r"\b(None|True|False|nan)\b|[\[{]", result.stdout)


def test_a_latex_table_is_escaped_and_alone_on_standard_output(tmp_path):
    write_run(tmp_path / "1", "lmms-eval", r"org/a_b 50% & \x [2]", one_task())
    result = printed(tmp_path, "latex")
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    row, _ = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert row.startswith(r"a\_b 50\% \& \textbackslash{}x {[}2{]} & ")
    assert row.endswith(r" \\")
    assert lines[-1] == r"\end{table}"


def test_details_have_no_other_form(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/m", one_task())
    result = CliRunner().invoke(app, ["show", "--details", "--format", "md", str(tmp_path)])
    assert result.exit_code == 2
    assert "--details" in result.stderr


def test_the_terminal_has_the_cells_of_the_other_forms(tmp_path):
    for seed, name in enumerate(("One-7B", "Two-7B")):
        write_run(
            tmp_path / name,
            "lmms-eval",
            f"org/{name}",
            {"egoplan_val": egoplan_answers(90, 0.3 + seed / 2, seed), **egothink_bench(3, 0.5)},
        )
    rows = rows_of(printed(tmp_path, "md"))
    lines = lines_of(show(tmp_path))
    for row in rows:
        (index,) = [n for n, line in enumerate(lines) if line.startswith(row["Model"])]
        cells = [cell for title, cell in row.items() if title != "Model"]
        scores = re.split(r"  +", lines[index])[1:]
        assert [score.replace(" ", "") for score in scores] == [
            re.sub(r" \(.*\)", "", cell).replace("\\", "") for cell in cells
        ]
        assert lines[index + 1].split() == [
            match for cell in cells for match in re.findall(r"\((.*)\)", cell)
        ]


def test_sentences_and_intervals_follow_the_scores(tmp_path):
    for seed, name in enumerate(("One-7B", "Two-7B")):
        write_run(
            tmp_path / name,
            "lmms-eval",
            f"org/{name}",
            {"egoplan_val": egoplan_answers(90, 0.4, seed)},
        )
    result = show_details(tmp_path)
    assert result.exit_code == 0
    text = " ".join(result.stdout.replace("\u202f", " ").split())
    assert all(fact in text for fact in ("EgoPlan", "egoplan_val", "One-7B", "Two-7B"))
    assert cells(result, "acc") == []  # only in the table with intervals
    assert len(cells(result, "acc_sum")[0]) == 2
    assert re.search(r"\d\d\.\d\d \d\d\.\d\d\u2013\d\d\.\d\d", text)


def test_runs_without_samples_have_a_row_without_an_interval(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/m", one_task(), log_samples=False)
    result = printed(tmp_path, "md")
    (row,) = rows_of(result)
    assert re.fullmatch(r"[\d.]+\u00b2", [*row.values()][1])
    assert "No interval: no samples." in result.stdout
    empty = CliRunner().invoke(app, ["show", "--format", "md", str(tmp_path / "nothing")])
    assert empty.exit_code == 1


def test_a_contradicted_score_is_missing_and_the_others_are_whole(tmp_path):
    tasks = {"egoplan_val": egoplan_answers(90, 0.4, 1), **egothink_bench(3, 0.5)}
    cut = write_run(tmp_path / "cut", "lmms-eval", "org/Cut", tasks)
    write_run(tmp_path / "whole", "lmms-eval", "org/Whole", tasks)
    (log,) = cut.parent.glob("*_samples_egoplan_val.jsonl")
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:10]))
    for form in ("md", "csv", "latex", "text"):
        result = CliRunner().invoke(app, ["show", "--format", form, str(tmp_path)])
        assert result.exit_code == 1
        assert all(fact in result.stderr for fact in (str(cut.parent), "egoplan_val", "10 samples"))
        if form == "md":
            rows = {row["Model"]: [*row.values()][1:] for row in rows_of(result)}
            assert rows["Cut"][0].startswith("\u2013")
            assert all("(" in cell for cell in (rows["Cut"][1], *rows["Whole"]))


def test_runs_with_one_name_are_one_run(tmp_path):
    write_run(tmp_path / "1", "lmms-eval", "one", one_task())
    write_run(tmp_path / "2=b", "lmms-eval", "two", egothink_bench(2, 0.5))
    result = show("--name", f"A={tmp_path / '1'}", "--name", f"A={tmp_path / '2=b'}")
    assert result.exit_code == 0, result.output
    assert [len(row) for row in cells(result, "A")] == [2]
    assert "one" not in result.stdout.split()
    assert show().exit_code == 2
