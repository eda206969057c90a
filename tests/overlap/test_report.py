"""An audit from the command to the report: scores by degree, and clean minus overlapping."""

import csv
import json
import shutil
from collections import Counter
from statistics import mean

import pytest
from typer.testing import CliRunner

from benchmarks.egointent.synthetic import egointent_answers, egointent_docs
from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.overlap import DEGREES, JSON
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.slices import slices_of
from lmms_egoplan.report.spec import Inputs
from report.egoplan.synthetic_runs import DOCS, scores
from report.prepared import prepare_data
from report.synthetic import write_run

COUNT = len(DOCS)


def invoke(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(encoder_library, tmp_path_factory):
    """Write two runs of EgoPlan, training data, and the audit of these; return their folder."""
    root = tmp_path_factory.mktemp("overlap")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(root / "data"))
        prepare_data(root / "data", egoplan=COUNT)
        write_run(
            root / "runs" / "a",
            "lmms-eval",
            "org/Big",
            {"egoplan_val": egoplan_answers(COUNT, 0.6, 1)},
        )
        write_run(
            root / "runs" / "b",
            "lm-eval",
            "org/Small",
            {"egoplan_val": egoplan_answers(COUNT, 0.3, 4, unscored=0.2)},
        )
        videos = list(dict.fromkeys(doc["video_id"] for doc in DOCS))
        (root / "list.txt").write_text(
            "\n".join(f"clips/{video}.mp4" for video in videos[:10]) + "\nunknown\n"
        )
        spans = "".join(
            f"{video},{first},{first + 9}\n" for video in videos[3:6] for first in (1, 900)
        )
        (root / "spans.csv").write_text("video_id,start_frame,stop_frame\n" + spans)
        printed = invoke(
            "audit",
            "egoplan",
            "--training",
            root / "list.txt",
            root / "spans.csv",
            "--out",
            root / "audit",
        )
        (root / "printed.txt").write_text(printed)
        yield root


@pytest.fixture(scope="module")
def rows(folder):
    with (folder / "audit" / "overlap.csv").open() as lines:
        return list(csv.DictReader(lines))


def test_every_question_has_a_row(rows):
    assert [(row["sample_id"], row["video_id"]) for row in rows] == [
        (str(doc["sample_id"]), doc["video_id"]) for doc in DOCS
    ]
    assert len({row["degree"] for row in rows}) >= 4


def test_the_command_prints_counts_and_unknown_ids(folder, rows):
    printed = (folder / "printed.txt").read_text()
    assert "outside the benchmark: 1, such as unknown\n" in printed
    assert "\n11 training records without times\n" in printed  # those of list.txt
    for degree in DEGREES[:-1]:
        count = sum(row["degree"] == degree for row in rows)
        assert f"{count:7} {degree}\n" in printed


def test_the_command_names_questions_without_answers(folder, tmp_path):
    records = [
        {"video": "a.mp4", "question": "What next?"},
        {"video": "a.mp4", "question": "Now?", "answer": "B"},
    ]
    (tmp_path / "questions.json").write_text(json.dumps(records))
    printed = invoke(
        "audit", "egoplan", "--training", tmp_path / "questions.json", "--out", tmp_path / "audit"
    )
    assert f"{tmp_path / 'questions.json'}, 1" in printed
    assert f"{tmp_path / 'questions.json'}, 2\n" in printed


def groups_of(runs, audit):
    """Return the groups of EgoPlan's questions by overlap, as the report has them."""
    report = EgoPlanReport(read_runs([runs]).runs, Inputs(labelled={audit: "egoplan"}))
    (part,) = (part for part in slices_of(report) if part.attribute == f"overlap with {audit}")
    return part.groups


def check_scores(groups, rows):
    """Compare the groups, each (name, run, value, questions), with the runs' scores by row of the
    audit.
    """
    names = list(dict.fromkeys(name for name, *_ in groups))
    assert names == [degree for degree in DEGREES if degree in {row["degree"] for row in rows}]
    for prefix, run in (("Big", "Big (lmms-eval)"), ("Small", "Small")):
        groups_of_run = {
            name: rest for name, group_run, *rest in groups if group_run.startswith(prefix)
        }
        assert groups_of_run.keys() == set(names)
        for degree, (value, questions) in groups_of_run.items():
            pairs = zip(scores(run), rows, strict=True)
            values = [100 * x for x, row in pairs if x is not None and row["degree"] == degree]
            assert (questions, value) == (len(values), pytest.approx(mean(values)))


def test_the_report_has_scores_by_degree(folder, rows):
    groups = groups_of(folder / "runs", folder / "audit")
    check_scores([(group.name, group.run, group.value, group.questions) for group in groups], rows)
    assert all((group.interval is None) == bool(group.no_interval) for group in groups)


def test_questions_without_audit_are_counted_and_named(folder, tmp_path):
    shutil.copytree(folder / "audit", tmp_path / "audit")
    content = json.loads((tmp_path / "audit" / JSON).read_text())
    removed = [f"{doc['video_id']} {doc['sample_id']}" for doc in DOCS[-5:]]
    for name in removed:
        del content["questions"][name]
    (tmp_path / "audit" / JSON).write_text(json.dumps(content))
    groups = groups_of(folder / "runs" / "a", tmp_path / "audit")
    assert {group.name: group.questions for group in groups}[DEGREES[-1]] == len(removed)


def test_questions_that_one_run_could_not_score_are_in_the_audit(folder, tmp_path, rows):
    """An answer without a score logs no video. Here, the first run has such answers."""
    write_run(
        tmp_path,
        "lm-eval",
        "org/First",
        {"egoplan_val": egoplan_answers(COUNT, 0.3, 4, unscored=0.2)},
    )
    write_run(tmp_path, "lmms-eval", "org/Second", {"egoplan_val": egoplan_answers(COUNT, 0.6, 1)})
    groups = groups_of(tmp_path, folder / "audit")
    sizes = {group.name: group.questions for group in groups if group.run.startswith("Second")}
    assert sizes == Counter(row["degree"] for row in rows)


def test_a_benchmark_with_one_degree_has_its_score(folder, tmp_path):
    (tmp_path / "list.txt").write_text("elsewhere\n")
    invoke("audit", "egoplan", "--training", tmp_path / "list.txt", "--out", tmp_path / "audit")
    groups = groups_of(folder / "runs" / "a", tmp_path / "audit")
    assert [(group.name, group.questions) for group in groups] == [("clean", COUNT)]


def write_egointent(folder):
    """Prepare EgoIntent's questions, and write a run and the audit of data that contain half of its
    videos.
    """
    prepare_data(folder / "data", egointent=60)
    write_run(
        folder / "steps-run",
        "lmms-eval",
        "org/Other",
        {"egointent": egointent_answers(60, 50, seed=1)},
    )
    steps = [
        {"video_id": doc["video_id"], "start_sec": 0, "end_sec": 9999}
        for doc in egointent_docs(60)[:30]
    ]
    (folder / "steps.json").write_text(json.dumps(steps))
    invoke("audit", "egointent", "--training", folder / "steps.json", "--out", folder / "steps")


def overlap_slices(folder, name, audit):
    """Return a section's groups of questions by overlap with an audit's training data, from
    ``report.json``.
    """
    content = json.loads((folder / "report" / "report.json").read_text())
    section = next(part for part in content["benchmarks"] if part["key"] == name)
    return [part for part in section["slices"] if part["attribute"] == f"overlap with {audit}"]


@pytest.mark.whole
def test_audits_of_two_benchmarks_reach_the_report(folder, rows, tmp_path):
    write_egointent(folder)
    audits = (folder / "audit", folder / "steps")
    runs = (folder / "runs", folder / "steps-run")
    invoke("report", *runs, *audits, "--out", tmp_path / "report", "--pictures", "none")
    (part,) = overlap_slices(tmp_path, "egoplan", folder / "audit")
    groups = part["groups"]
    check_scores(
        [(group["name"], group["run"], group["value"], group["questions"]) for group in groups],
        rows,
    )
    assert all((group["low"] is None) == bool(group["no_interval"]) for group in groups)
    (part,) = overlap_slices(tmp_path, "egointent", folder / "steps")
    assert sum(group["questions"] for group in part["groups"]) == 60
    assert "clean" in {group["name"] for group in part["groups"]}
    # in the gallery
    assert f"overlap with {folder / 'audit'}" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda content: content | {"fingerprint": "1" * 64}, ["1111", "Big"]),
        (lambda content: {"questions": {}}, [JSON, "fingerprint"]),
        (lambda content: content | {"questions": {"P01_0": 3}}, [JSON, "P01_0"]),
    ],
)
def test_audits_of_other_data_and_damaged_ones_are_refused(change, parts, folder, tmp_path):
    shutil.copytree(folder / "runs" / "a", tmp_path / "runs")
    (results,) = (tmp_path / "runs").rglob("*results.json")
    content = json.loads(results.read_text())
    content["configs"]["egoplan_val"]["metadata"]["data"] = "0" * 64
    results.write_text(json.dumps(content))
    shutil.copytree(folder / "audit", tmp_path / "audit")
    assert groups_of(tmp_path / "runs", tmp_path / "audit")
    audit = json.loads((tmp_path / "audit" / JSON).read_text())
    (tmp_path / "audit" / JSON).write_text(json.dumps(change(audit)))
    with pytest.raises(LmmsEgoplanError) as error:
        groups_of(tmp_path / "runs", tmp_path / "audit")
    assert all(part in str(error.value) for part in parts), error.value


def test_an_audit_of_another_benchmark_is_refused(folder, tmp_path):
    write_run(
        tmp_path / "run", "lmms-eval", "org/Other", {"egointent": egointent_answers(10, 50, seed=1)}
    )
    words = (
        "report",
        tmp_path / "run",
        folder / "audit",
        "--out",
        tmp_path / "report",
        "--pictures",
        "none",
    )
    assert (
        f"{folder / 'audit'}: skipped"
        in CliRunner().invoke(app, [str(word) for word in words]).output
    )


def test_two_audits_have_their_own_attributes(folder, tmp_path):
    shutil.copytree(folder / "audit", tmp_path / "other")
    audits = (folder / "audit", tmp_path / "other")
    report = EgoPlanReport(
        read_runs([folder / "runs" / "a"]).runs, Inputs(labelled=dict.fromkeys(audits, "egoplan"))
    )
    assert {f"overlap with {audit}" for audit in audits} <= {
        part.attribute for part in slices_of(report)
    }
