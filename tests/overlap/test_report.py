"""An audit from the command to the report: scores by degree, and clean minus overlapping."""

import csv
import json
import shutil
from collections import Counter
from statistics import mean

import pytest
import sentence_transformers  # noqa: F401  # If it is not imported here, each report loads it in a separate process.
from typer.testing import CliRunner

from benchmarks.egointent.synthetic import egointent_answers, egointent_docs
from benchmarks.egoplan.report.synthetic_runs import DOCS, scores
from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.cli import app
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.overlap import DEGREES, JSON
from lmms_egoplan.report.runs import read_runs
from report.prepared import prepare_data
from report.synthetic import write_run

COUNT = len(DOCS)


def invoke(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write two runs of EgoPlan, one of EgoIntent, training data, audits and the report; return their folder."""
    root = tmp_path_factory.mktemp("overlap")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(root / "data"))
        prepare_data(root / "data", egoplan=COUNT, egointent=60)
        write_run(root / "runs" / "a", "lmms-eval", "org/Big", {"egoplan_val": egoplan_answers(COUNT, 0.6, 1)})
        write_run(
            root / "runs" / "b", "lm-eval", "org/Small", {"egoplan_val": egoplan_answers(COUNT, 0.3, 4, unscored=0.2)}
        )
        write_run(root / "runs" / "c", "lmms-eval", "org/Other", {"egointent": egointent_answers(60, 50, seed=1)})
        videos = list(dict.fromkeys(doc["video_id"] for doc in DOCS))
        (root / "list.txt").write_text("\n".join(f"clips/{video}.mp4" for video in videos[:10]) + "\nunknown\n")
        spans = "".join(f"{video},{first},{first + 9}\n" for video in videos[3:6] for first in (1, 900))
        (root / "spans.csv").write_text("video_id,start_frame,stop_frame\n" + spans)
        steps = [{"video_id": doc["video_id"], "start_sec": 0, "end_sec": 9999} for doc in egointent_docs(60)[:30]]
        (root / "steps.json").write_text(json.dumps(steps))
        printed = invoke(
            "audit", "egoplan", "--training", root / "list.txt", root / "spans.csv", "--out", root / "audit"
        )
        (root / "printed.txt").write_text(printed)
        invoke("audit", "egointent", "--training", root / "steps.json", "--out", root / "steps")
        words = (
            "report",
            root / "runs",
            root / "audit",
            root / "steps",
            "--out",
            root / "report",
            "--pictures",
            "none",
        )
        (root / "reported.txt").write_text(invoke(*words))
        yield root


@pytest.fixture(scope="module")
def rows(folder):
    with (folder / "audit" / "overlap.csv").open() as lines:
        return list(csv.DictReader(lines))


def section(folder, name):
    content = json.loads((folder / "report" / "report.json").read_text())
    return next(part for part in content["benchmarks"] if part["key"] == name)


def test_every_question_has_a_row(rows):
    assert [(row["sample_id"], row["video_id"]) for row in rows] == [
        (str(doc["sample_id"]), doc["video_id"]) for doc in DOCS
    ]
    assert len({row["degree"] for row in rows}) >= 4


def slices_of(folder, name, audit):
    return [part for part in section(folder, name)["slices"] if part["attribute"] == f"overlap with {audit}"]


def test_the_command_prints_counts_and_unknown_ids(folder, rows):
    printed = (folder / "printed.txt").read_text()
    assert "outside the benchmark: 1, such as unknown\n" in printed
    for degree in DEGREES[:-1]:
        count = sum(row["degree"] == degree for row in rows)
        assert f"{count:7} {degree}\n" in printed


def test_the_report_has_scores_by_degree(folder, rows):
    (part,) = slices_of(folder, "egoplan", folder / "audit")
    names = list(dict.fromkeys(group["name"] for group in part["groups"]))
    assert names == [degree for degree in DEGREES if degree in {row["degree"] for row in rows}]
    for run, name in (("Big", "Big (lmms-eval)"), ("Small", "Small")):
        groups = {group["name"]: group for group in part["groups"] if group["run"] == run}
        assert groups.keys() == set(names)
        for degree, group in groups.items():
            pairs = zip(scores(name), rows, strict=True)
            values = [100 * x for x, row in pairs if x is not None and row["degree"] == degree]
            assert (group["questions"], group["value"]) == (len(values), pytest.approx(mean(values)))
            assert (group["low"] is None) == bool(group["no_interval"])


def test_egointents_scores_are_compared(folder):
    (part,) = slices_of(folder, "egointent", folder / "steps")
    assert sum(group["questions"] for group in part["groups"]) == 60
    assert "clean" in {group["name"] for group in part["groups"]}


def test_the_gallery_filters_by_degree(folder):
    assert f"overlap with {folder / 'audit'}" in (folder / "report" / "index.html").read_text()


def test_questions_without_audit_are_counted_and_named(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    shutil.copytree(folder / "audit", tmp_path / "audit")
    content = json.loads((tmp_path / "audit" / JSON).read_text())
    removed = [f"{doc['video_id']} {doc['sample_id']}" for doc in DOCS[-5:]]
    for name in removed:
        del content["questions"][name]
    (tmp_path / "audit" / JSON).write_text(json.dumps(content))
    invoke("report", folder / "runs" / "a", tmp_path / "audit", "--out", tmp_path / "report", "--pictures", "none")
    (part,) = slices_of(tmp_path, "egoplan", tmp_path / "audit")
    assert {group["name"]: group["questions"] for group in part["groups"]}[DEGREES[-1]] == len(removed)


def test_questions_that_one_run_could_not_score_are_in_the_audit(folder, tmp_path, rows):
    """An answer without a score logs no video. Here, the first run has such answers."""
    write_run(tmp_path, "lm-eval", "org/First", {"egoplan_val": egoplan_answers(COUNT, 0.3, 4, unscored=0.2)})
    write_run(tmp_path, "lmms-eval", "org/Second", {"egoplan_val": egoplan_answers(COUNT, 0.6, 1)})
    inputs = Inputs(labelled={folder / "audit": "egoplan"})
    report = EgoPlanReport(read_runs([tmp_path]).runs, inputs)
    (part,) = (part for part in report.slices() if part.attribute.startswith("overlap"))
    sizes = {group.name: group.questions for group in part.groups if group.run.startswith("Second")}
    assert sizes == Counter(row["degree"] for row in rows)


def test_a_benchmark_with_one_degree_has_its_score(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    (tmp_path / "list.txt").write_text("elsewhere\n")
    invoke("audit", "egoplan", "--training", tmp_path / "list.txt", "--out", tmp_path / "audit")
    invoke("report", folder / "runs" / "a", tmp_path / "audit", "--out", tmp_path / "report", "--pictures", "none")
    (part,) = slices_of(tmp_path, "egoplan", tmp_path / "audit")
    assert [(group["name"], group["questions"]) for group in part["groups"]] == [("clean", COUNT)]


@pytest.mark.whole
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda content: content | {"fingerprint": "1" * 64}, ["1111", "Big"]),
        (lambda content: {"questions": {}}, [JSON, "fingerprint"]),
        (lambda content: content | {"questions": {"P01_0": 3}}, [JSON, "P01_0"]),
    ],
)
def test_audits_of_other_data_and_damaged_ones_are_refused(change, parts, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    shutil.copytree(folder / "runs" / "a", tmp_path / "runs")
    (results,) = (tmp_path / "runs").rglob("*results.json")
    content = json.loads(results.read_text())
    content["configs"]["egoplan_val"]["metadata"]["data"] = "0" * 64
    results.write_text(json.dumps(content))
    shutil.copytree(folder / "audit", tmp_path / "audit")
    words = ["report", tmp_path / "runs", tmp_path / "audit", "--out", tmp_path / "report", "--pictures", "none"]
    invoke(*words)
    audit = json.loads((tmp_path / "audit" / JSON).read_text())
    (tmp_path / "audit" / JSON).write_text(json.dumps(change(audit)))
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 1
    assert all(part in done.output for part in parts), done.output


def test_an_audit_of_another_benchmark_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    words = ("report", folder / "runs" / "c", folder / "audit", "--out", tmp_path / "report", "--pictures", "none")
    assert f"{folder / 'audit'}: skipped" in CliRunner().invoke(app, [str(word) for word in words]).output


@pytest.mark.whole
def test_two_audits_have_their_own_attributes(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    shutil.copytree(folder / "audit", tmp_path / "other")
    words = ("report", folder / "runs" / "a", folder / "audit", tmp_path / "other", "--out", tmp_path / "report")
    invoke(*words, "--pictures", "none")
    for name in (folder / "audit", tmp_path / "other"):
        assert slices_of(tmp_path, "egoplan", name)
