"""An audit from the command to the report: scores by degree, and clean minus overlapping."""

import csv
import json
import shutil
from statistics import mean

import numpy as np
import pytest
import sentence_transformers  # noqa: F401  # If it is not imported here, each report loads it in a separate process.
from typer.testing import CliRunner

from benchmarks.egointent.synthetic import egointent_answers, egointent_docs
from benchmarks.egoplan.report.synthetic_runs import DOCS, scores
from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.cli import app
from lmms_egoplan.report.overlap import CLEAN, DEGREES, JSON
from report.prepared import prepare_data
from report.synthetic import write_run

COUNT = len(DOCS)
PRINTED = "overlap with training data"


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


def table_rows(part, key):
    (table,) = (table for table in part["tables"] if table["key"] == key)
    keys = [column["key"] for column in table["columns"]]
    return [dict(zip(keys, row["values"], strict=True)) for row in table["rows"]]


def test_every_question_has_a_row(rows):
    assert [(row["sample_id"], row["video_id"]) for row in rows] == [
        (str(doc["sample_id"]), doc["video_id"]) for doc in DOCS
    ]
    assert len({row["degree"] for row in rows}) >= 4


def test_the_command_prints_counts_examples_and_unknown_ids(folder, rows):
    printed = (folder / "printed.txt").read_text()
    assert "unknown" in printed
    for degree in DEGREES:
        ids = [row["sample_id"] for row in rows if row["degree"] == degree]
        (line,) = (line for line in printed.splitlines() if line.strip().startswith(f"{len(ids)} {degree}"))
        assert not ids or line.endswith(f" {ids[0]}")


def test_the_report_has_scores_by_degree(folder, rows):
    (part,) = (part for part in section(folder, "egoplan")["slices"] if part["attribute"] == PRINTED)
    names = list(dict.fromkeys(group["name"] for group in part["groups"]))
    assert names == [degree for degree in DEGREES if degree in names]
    for group in part["groups"]:
        if group["run"] == "Big":
            values = [
                100 * x
                for x, row in zip(scores("Big (lmms-eval)"), rows, strict=True)
                if row["degree"] == group["name"]
            ]
            assert (group["questions"], group["value"]) == (len(values), pytest.approx(mean(values)))


def test_the_report_has_clean_minus_overlapping(folder, rows):
    found_rows = table_rows(section(folder, "egoplan"), "egoplan_overlap")
    assert [row["run"] for row in found_rows] == 3 * ["Big"] + 3 * ["Small"]
    for number, name in enumerate(("Big (lmms-eval)", "Small")):
        groups = {True: [], False: []}
        for score, audited in zip(scores(name), rows, strict=True):
            if score is not None:
                groups[audited["degree"] in CLEAN].append(100 * score)
        clean, overlapping, difference = found_rows[3 * number : 3 * number + 3]
        assert [clean["questions"], overlapping["questions"]] == [*map(len, groups.values())]
        means = [*map(mean, groups.values())]
        assert [clean["score"], overlapping["score"], difference["score"]] == pytest.approx(
            [*means, means[0] - means[1]]
        )


def test_egointents_scores_are_compared(folder):
    clean, overlapping, difference = table_rows(section(folder, "egointent"), "egointent_overlap")
    assert clean["questions"] + overlapping["questions"] == 60
    assert difference["score"] == pytest.approx(clean["score"] - overlapping["score"])


def test_the_gallery_filters_by_degree(folder):
    assert PRINTED in (folder / "report" / "index.html").read_text()


def test_questions_without_audit_are_counted_and_named(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
    shutil.copytree(folder / "audit", tmp_path / "audit")
    content = json.loads((tmp_path / "audit" / JSON).read_text())
    removed = [str(doc["sample_id"]) for doc in DOCS[-5:]]
    for name in removed:
        del content["questions"][name]
    (tmp_path / "audit" / JSON).write_text(json.dumps(content))
    invoke("report", folder / "runs" / "a", tmp_path / "audit", "--out", tmp_path / "report", "--pictures", "none")
    part = section(tmp_path, "egoplan")
    clean, overlapping, _ = table_rows(part, "egoplan_overlap")
    assert clean["questions"] + overlapping["questions"] == COUNT - len(removed)
    assert any(f": {len(removed)}, such as {removed[0]}" in remark for remark in part["remarks"])


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
    part = section(tmp_path, "egoplan")
    assert [row["audit"] for row in table_rows(part, "egoplan_overlap")] == 3 * ["overlap with audit"] + 3 * [
        "overlap with other"
    ]
    assert {"overlap with audit", "overlap with other"} <= {item["attribute"] for item in part["slices"]}


@pytest.mark.whole
def test_the_interval_contains_the_difference_of_resampled_videos():
    from lmms_egoplan.report.overlap import Audit, overlap_rows
    from lmms_egoplan.report.scores import Answer

    chance = np.random.default_rng(5)
    answers = [
        Answer((number,), str(number), "", None, {"acc": float(chance.random() < 0.5)}, f"v{number // 4}")
        for number in range(160)
    ]
    degrees = {}
    for answer in answers:
        video = int(answer.cluster[1:])
        is_clean = video < 18 or (video < 22 and int(answer.id) % 2)  # Some videos have both kinds.
        degrees[answer.id] = CLEAN[0] if is_clean else DEGREES[0]
    audit = Audit(fingerprint="", questions={answer.id: [answer.cluster, degrees[answer.id]] for answer in answers})
    *_, row = overlap_rows(audit, answers, "acc", 100)
    draws = []
    videos = sorted({answer.cluster for answer in answers})
    for _ in range(2000):
        drawn = chance.choice(videos, len(videos))
        groups = {True: [], False: []}
        for video in drawn:
            for answer in answers:
                if answer.cluster == video:
                    groups[degrees[answer.id] in CLEAN].append(100 * answer.scores["acc"])
        draws.append(mean(groups[True]) - mean(groups[False]))
    assert (row["low"], row["high"]) == (
        pytest.approx(np.percentile(draws, 2.5), abs=1.2),
        pytest.approx(np.percentile(draws, 97.5), abs=1.2),
    )
