"""Human labels of plans in ActPlan-1K's section of the report."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from benchmarks.actplan.labelled_plans import PLANS
from lmms_egoplan.benchmarks.actplan.metrics import length_bin
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, read_plans
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.report import ActPlanReport
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from report.actplan.synthetic_runs import GOOD, WEAK
from report.joined import near, run_rows


def write_labels(folder, plans):
    folder.mkdir()
    (folder / "annotation.json").write_text(json.dumps({"benchmark": "actplan"}))
    (folder / "plans.jsonl").write_text("".join(json.dumps(plan) + "\n" for plan in plans))
    return folder


def plan(number, description, correct, commonsense, images=True, **changes):
    fields = {
        "id": f"Rs_int/making_tea/{description}/sample_{number}",
        "model": "mine",
        "references": ["a(b)"],
    }
    fields |= {
        "candidate": "walk_to(table)\ngrab(cup)",
        "correct": correct,
        "commonsense": commonsense,
    }
    return fields | {"images": images, "errors": {}} | changes


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    plans = [
        plan(0, 0, True, True),
        plan(1, 0, False, True, errors={"form": [2]}),
        plan(0, 1, False, False),
    ]
    plans += [plan(0, 0, False, True, images=False), plan(0, 1, True, True, images=False)]
    return write_labels(tmp_path_factory.mktemp("people") / "labels", plans)


def section_with(folder, runs=()):
    return build_section(ActPlanReport(runs, Inputs(labelled={folder: "actplan"})))


@pytest.fixture(scope="module")
def labelled(runs, labels):
    """The section with people's labels."""
    return section_with(labels, runs)


def test_rows_of_people_in_tables_3_6_and_7(labelled):
    (row,) = [
        row for row in run_rows(labelled, "actplan_table3") if row["model"] == "mine (people)"
    ]
    expected = {
        "normal_correctness": 50,
        "normal_commonsense": 100,
        "counterfactual_correctness": 0,
    }
    expected |= {
        "counterfactual_commonsense": 0,
        "total_correctness": 100 / 3,
        "total_commonsense": 200 / 3,
        "plans": 3,
    }
    assert {name: row[name] for name in expected} == near(expected)
    rows = {row["model"]: row for row in run_rows(labelled, "actplan_table6")}
    assert rows["mine (w, people)"]["correctness"] == near(100 / 3)
    assert (rows["mine (w/o, people)"]["correctness"], rows["mine (w/o, people)"]["avg_len"]) == (
        50,
        2,
    )
    rows = {row["model"]: row for row in run_rows(labelled, "actplan_table7")}
    assert rows["mine, w/o image, people"]["counterfactual_correctness"] == 100
    assert rows["mine, w image, people"]["normal_correctness"] == 50


def test_correctness_by_length(tmp_path):
    """Fig.
    5 from people's verdicts: gold plans of 2 and 12 steps, one of them on a single line; one plan
    without.
    """
    golds = {
        2: "walk_to(table)\n\ngrab(cup)",
        12: " ".join(f"grab(cup_{number})" for number in range(12)),
    }
    verdicts = [(2, True), (2, True), (2, False), (12, True), (12, False), (12, False), (12, False)]
    plans = [
        plan(number, 0, verdict, True, references=[golds[n]])
        for number, (n, verdict) in enumerate(verdicts)
    ]
    plans += [plan(8, 0, True, True, references=[]), plan(9, 0, False, True, images=False)]
    report_section = section_with(write_labels(tmp_path / "labels", plans))
    rows = [(row["group"], row["model"], row["plans"], row["correct"]) for row in run_rows(
        report_section, "actplan_people_by_length"
    )]  # fmt: skip
    expected = [("unknown", 1, 100), ("1-10", 3, 200 / 3), ("11-20", 4, 25)]
    assert rows == [
        (group, "mine (people)", count, near(share)) for group, count, share in expected
    ]
    (figure,) = [
        figure for figure in report_section.figures if figure.key == "actplan_people_by_length"
    ]
    assert figure.description == "mine (people): 1-10 66.7, 11-20 25.0, unknown 100.0"
    assert figure.drawing.axes[0].get_ylim() == (0, 100)


@pytest.mark.skipif(not PLANS.is_file(), reason=f"needs {PLANS}")
def test_published_verdicts_by_length():
    """As the paper says, correctness falls with length (sec.
    5.2). Bins are recounted from the file's own lines.
    """
    stored = read_plans(PLANS)
    plans = [
        {"model": x.model, "length": length_bin(len(x.plan.references[0])), "id": x.plan.id}
        | x.labels
        for x in stored
    ]
    means = marks.correct_by_length(plans)
    for model, correct in (("GPT-4V", 23.7), ("Gemini-Pro-1.5", 31.5)):
        bins = means[model].values()
        assert sum(mean.questions for mean in bins) == 321
        assert sum(mean.value * mean.questions for mean in bins) / 321 == pytest.approx(
            correct, abs=0.05
        )
        assert means[model]["1-10"].value > 60
        assert means[model]["51+"].value < 20
    short = Counter()
    for line in PLANS.read_text().splitlines():
        record = json.loads(line)
        # Each step has one pair of parentheses. Without gold plan 1, gold plan 2 comes first.
        if [*record["gold_gpt"], *record["gold_gemini"]][0].count("(") <= 10:
            short += Counter(
                correct=len(record["pos_gpt"]), plans=len(record["pos_gpt"] + record["neg_gpt"])
            )
    assert means["GPT-4V"]["1-10"].value == pytest.approx(100 * short["correct"] / short["plans"])


def test_types_of_errors_with_an_example(labelled):
    rows = {(row["error"], row["model"]): row for row in run_rows(labelled, "actplan_errors")}
    row = rows[ERRORS["form"], "mine, people"]
    assert (row["count"], row["share"], row["example"], row["steps"]) == (
        1,
        100,
        "making tea",
        "grab(cup)",
    )


def test_the_classifier_is_compared_with_people(runs, logged, tmp_path):
    """People and classifier call the same plans of the run correct, with one exception."""
    samples = [sample for sample in logged[GOOD] if sample["Correct by classifier"] is not None]
    runs = [run for run in runs if run.name == GOOD]
    (task,) = [task for task in ActPlanReport(runs).tasks if task.name == GOOD]
    answers = [answer for answer in task.answers.values() if answer.record.score.bleurt is not None]
    assert len(answers) == len(samples)
    verdicts = [answer.record.score.bleurt for answer in answers]
    verdicts[0] = not verdicts[0]
    plans = [
        plan(0, 0, verdict, True)
        | {"id": answer.id, "candidate": "\n".join(answer.record.score.official)}
        for answer, verdict in zip(answers, verdicts, strict=True)
    ]
    report_section = section_with(write_labels(tmp_path / "own", plans), runs)
    rows = {row["vlm"]: row for row in run_rows(report_section, "actplan_table5")}
    assert rows[GOOD]["all_acc"] == near(100 * (len(answers) - 1) / len(answers))
    assert 0 < rows[GOOD]["mcc"] < 1
    assert rows[GOOD]["plans"] == len(answers)
    # Rules without a classifier: the more frequent label, and "correct" for a plan that equals a
    # gold plan.
    equal = [
        bool(sample["official"])
        and sample["official"] in (sample["gold_plan_1"], sample["gold_plan_2"])
        for sample in samples
    ]
    assert rows[GOOD]["majority_acc"] == near(
        100 * max(verdicts.count(True), verdicts.count(False)) / len(verdicts)
    )
    right = sum(is_equal == verdict for is_equal, verdict in zip(equal, verdicts, strict=True))
    assert rows[GOOD]["equal_acc"] == near(100 * right / len(verdicts))
    assert 0 < sum(equal) < len(equal)
    # The encoder's name, not BLEURT.
    assert rows[GOOD]["model"] == "all-MiniLM-L6-v2 (6 layers of 384): classifier"
    # If people call all plans wrong, the correlation is undefined, not 0.
    wrong = marks.ModelPlans(
        "mine", tuple(marks.LabelledPlan(**row | {"correct": False}) for row in plans)
    )
    assert [row["mcc"] for row in marks.table5_rows([wrong], [task])] == [None]


def test_without_labels_nothing_changes(section):
    assert not [table for table in section.tables if table.key == "actplan_errors"]
    assert "people)" not in str(section.tables)


def test_an_error_names_the_line_of_an_invalid_label(runs, tmp_path):
    folder = write_labels(tmp_path / "labels", [plan(0, 0, "yes", True)])
    with pytest.raises(LmmsEgoplanError, match=r"plans\.jsonl, line 1: correct"):
        section_with(folder, runs)


def test_the_same_plan_in_two_folders_is_refused(tmp_path):
    """Within one folder, they may be two answers of a model."""
    folders = [
        write_labels(tmp_path / name, [plan(0, 0, True, True)] * 2) for name in ("one", "two")
    ]
    with pytest.raises(
        LmmsEgoplanError, match=r"two/plans\.jsonl, line 1: .*_0 of mine is labelled in .*one, too"
    ):
        build_section(ActPlanReport([], Inputs(labelled=dict.fromkeys(folders, "actplan"))))
    other = write_labels(tmp_path / "three", [plan(0, 0, True, True, images=False)])
    both = build_section(
        ActPlanReport([], Inputs(labelled=dict.fromkeys([folders[0], other], "actplan")))
    )
    assert "mine (w/o, people)" in str(both.tables)


@pytest.mark.nightly
def test_the_command_takes_exports_among_the_runs(written, labels, tmp_path):
    arguments = [
        "report",
        str(written / "runs" / f"org__{WEAK}"),
        str(labels),
        "--out",
        str(tmp_path / "report"),
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report" / "index.html").read_text()
    assert "mine (people)" in page
    assert WEAK in page


def test_labels_without_any_run(labels, tmp_path):
    done = CliRunner().invoke(app, ["report", str(labels), "--out", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report" / "index.html").read_text()
    assert "mine (people)" in page
    assert "Types of errors" in page
    assert not list((tmp_path / "report" / "tables").glob("actplan_scores*"))
