import json
import re
from html import unescape

import pytest

from annotation.serving import export, form_in, label_all, post, run, visited
from annotation.studies import open_store
from benchmarks.actplan.release import write_release
from lmms_egoplan.annotation.actplan import FLOW, read_items
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.benchmarks.actplan.instances import find_instances, read_instance
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, read_plans
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.errors import LmmsEgoplanError
from shared_data import DATA

PLAN = "walk_to(table)\ngrab(cup)\nplace_inside(sink, cup)"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a release, which no test changes."""
    return write_release(tmp_path_factory.mktemp("actplan") / "release", instances=4)


@pytest.fixture
def release(written, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return written


def write_plans(path, source, plan=PLAN):
    lines = []
    for instance in find_instances(source)[0]:
        gold = "\n".join(read_instance(source, instance).gold_plan_1)
        lines.append({"id": str(instance), "candidate": plan, "references": [gold]})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def start(tmp_path, plans, instances, annotators=2, per_item=2):
    db = tmp_path / "labels.sqlite"
    return open_store(
        FLOW,
        db,
        lambda folder: read_items(plans, folder, instances),
        "plans",
        Team(annotators, per_item),
    )


def exported(store):
    output, out = export(store)
    plans = out / "plans.jsonl"
    return [
        json.loads(line) for line in plans.read_text().splitlines()
    ] if plans.exists() else [], output


def test_page_shows_task_pictures_and_numbered_steps(release, tmp_path):
    store = start(tmp_path, [write_plans(tmp_path / "secret-model.jsonl", release)], release)
    with visited(store) as client:
        page = client.page.text
        assert [unescape(step) for step in re.findall("<code>(.*?)</code>", page)] == PLAN.split(
            "\n"
        )
        assert "secret-model" not in page
        pictures = re.findall(r'src="([^"]+/media/[^"]+)"', page)
        assert len(pictures) >= 2
        assert all(
            client.get(picture).headers["content-type"].startswith("image/") for picture in pictures
        )


def label_plans_of_two_models(release, tmp_path):
    """Label and export the plans of two models. Return the export's records and output."""
    samples = [write_plans(tmp_path / f"{name}.jsonl", release) for name in ("one", "two")]
    store = start(tmp_path, samples, release)
    label_all(
        store,
        lambda person, page: {"correct": "1", "commonsense": "0", "errors": ["object:2", "form:0"]},
    )
    store.close()
    return exported(store)


def test_exported_plans_have_labels_models_and_errors(release, tmp_path):
    records, output = label_plans_of_two_models(release, tmp_path)
    assert "8 of 8" in output
    labels = {(record["model"], record["correct"], record["commonsense"]) for record in records}
    assert labels == {("one", True, False), ("two", True, False)}
    assert records[0]["errors"] == {"object": [2], "form": [0]}
    errors = (tmp_path / "out" / "errors.csv").read_text().splitlines()
    assert f"one,{ERRORS['form']},4,4,50.0" in errors
    # `score actplan` reads the same.
    plans = read_plans(tmp_path / "out" / "plans.jsonl")
    assert len({(plan.model, plan.plan.id) for plan in plans}) == 8
    assert [(plan.model, plan.labels, plan.errors) for plan in plans] == [
        (record["model"], {"correct": True, "commonsense": False}, record["errors"])
        for record in records
    ]


@pytest.mark.nightly
def test_score_actplan_scores_the_export(release, tmp_path, real_encoder):
    label_plans_of_two_models(release, tmp_path)
    code, output = run(
        "score", "actplan", tmp_path / "out" / "plans.jsonl", "--out", tmp_path / "scores.json"
    )
    assert code == 0, output
    summary = json.loads((tmp_path / "scores.json").read_text())["summary"]
    assert (summary["correct"], summary["commonsense"], summary["repeated_ids"]) == (1.0, 0.0, 0)
    assert summary["by_model"]["one"]["labelled"] == {"correct": 4, "commonsense": 4}


def test_lead_decides_where_verdicts_differ(release, tmp_path):
    store = start(tmp_path, [write_plans(tmp_path / "one.jsonl", release)], release)
    label_all(
        store, lambda person, page: {"correct": person[-1].replace("2", "0"), "commonsense": "1"}
    )
    assert exported(store)[0] == []
    with visited(store, "lead") as lead:
        lead.page = lead.get("/adjudicate/2")
        post(lead, correct="0", commonsense="1", errors=["image:3"])
    records, output = exported(store)
    assert "1 of 4" in output
    assert [(record["correct"], record["errors"]) for record in records] == [
        (False, {"image": [3]})
    ]


def sent_by(page):
    """Return what a browser sends for an unchanged form."""
    inputs = re.findall(
        r'<input type="(?:radio|checkbox)"[^>]* name="([^"]+)" value="([^"]+)"[^>]* checked', page
    )
    return {
        name: [value for input_name, value in inputs if input_name == name] for name, _ in inputs
    }


@pytest.mark.parametrize(("annotators", "mark"), [(2, "image:3"), (3, None)])
def test_decision_keeps_the_majoritys_errors(release, tmp_path, annotators, mark):
    """Only the verdict or mark that the lead changes differs."""
    store = start(
        tmp_path, [write_plans(tmp_path / "one.jsonl", release)], release, annotators, annotators
    )
    marks = {
        "annotator-1": ["event:1", "form:0", "object:2"],
        "annotator-2": ["event:2", "form:0"],
        "annotator-3": [],
    }
    correct = {"annotator-1": "0", "annotator-2": "1", "annotator-3": "0"}
    label_all(
        store,
        lambda person, page: {
            "correct": correct[person],
            "commonsense": "0",
            "errors": marks[person],
        },
    )
    with visited(store, "lead") as lead:
        for position in range(4):
            lead.page = lead.get(f"/adjudicate/{position}")
            sent = sent_by(lead.page.text)
            # With two annotators, the verdict has no majority and starts empty.
            assert sent.get("correct") == (["0"] if annotators == 3 else None)
            post(
                lead, **sent | {"correct": "0", "errors": sent["errors"] + ([mark] if mark else [])}
            )
        # After a withdrawal, the form starts with the lead's previous values.
        lead.page = lead.get("/")
        post(lead, "/undecide/0")
        lead.page = lead.get("/adjudicate/0")
        assert sent_by(lead.page.text)["correct"] == ["0"]
        post(lead, **sent_by(lead.page.text) | {"commonsense": "1"})
    records, _ = exported(store)
    errors = {"event": [1, 2], "form": [0]} | ({"image": [3]} if mark else {})
    assert [(record["correct"], record["errors"]) for record in records] == [(False, errors)] * 4
    assert sorted(record["commonsense"] for record in records) == [False, False, False, True]


def test_an_error_counts_by_majority(release, tmp_path):
    store = start(tmp_path, [write_plans(tmp_path / "one.jsonl", release)], release, 3, 3)
    marks = {"annotator-1": ["event:1"], "annotator-2": ["event:2", "form:1"], "annotator-3": []}
    label_all(
        store, lambda person, page: {"correct": "0", "commonsense": "1", "errors": marks[person]}
    )
    store.close()
    assert {json.dumps(record["errors"]) for record in exported(store)[0]} == {'{"event": [1, 2]}'}


def test_marks_of_unknown_steps_are_refused(release, tmp_path):
    store = start(tmp_path, [write_plans(tmp_path / "one.jsonl", release)], release)
    unknown = ("event:4", "other:1", "event:x", "event", "event:-1", "event:\u0663")
    with visited(store) as client:
        # The next form is the one that the refusal shows.
        statuses = {
            mark: post(client, correct="1", commonsense="1", errors=[mark]).status_code
            for mark in unknown
        }
        assert statuses == dict.fromkeys(unknown, 422)
        assert form_in(client.page.text)[0]


def test_prepared_data_can_replace_the_release(release, tmp_path):
    prepare_actplan(release)
    store = start(tmp_path, [write_plans(tmp_path / "one.jsonl", release)], None)
    store.close()
    start(tmp_path, [tmp_path / "one.jsonl"], release).close()


def test_plan_with_an_unpaired_surrogate_can_be_labelled(release, tmp_path):
    plans = write_plans(tmp_path / "one.jsonl", release, "grab(cup \ud83d)")
    assert "\\ud83d" in plans.read_text()
    store = start(tmp_path, [plans], release, 1, 1)
    label_all(
        store, lambda person, page: {"correct": "1", "commonsense": str(int("grab(cup ?)" in page))}
    )
    store.close()
    records, _ = exported(store)
    assert {(record["candidate"], record["commonsense"]) for record in records} == {
        ("grab(cup ?)", True)
    }


def test_error_names_the_missing_instance(release, tmp_path):
    plans = write_plans(tmp_path / "one.jsonl", release)
    plans.write_text(
        plans.read_text()
        + json.dumps({"id": "S/x/0/sample_7", "candidate": "", "references": ["a(b)"]})
    )
    with pytest.raises(LmmsEgoplanError, match=r"5[^*]*S/x/0/sample_7"):
        start(tmp_path, [plans], release)


@pytest.mark.nightly
def test_published_plans_can_be_labelled_and_reported(tmp_path, real_encoder):
    source = DATA / "actplan" / "annotation"
    if not source.is_dir():
        pytest.skip(f"{source} is absent")
    for name in ("gemini", "gpt-4v"):
        lines = []
        for instance in find_instances(source)[0]:
            folder = source / str(instance)
            golds = [(folder / f"plan_gold_{number}.txt").read_text() for number in (1, 2)]
            plan = (folder / f"plan_{name}.txt").read_text()
            lines.append(json.dumps({"id": str(instance), "candidate": plan, "references": golds}))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    store = start(tmp_path, [tmp_path / f"{name}.jsonl" for name in ("gemini", "gpt-4v")], source)
    label_all(
        store,
        lambda person, page: {"correct": "0", "commonsense": "1", "errors": ["missing_actions:1"]},
    )
    store.close()
    assert len(exported(store)[0]) == 4
    code, output = run(
        "score", "actplan", tmp_path / "out" / "plans.jsonl", "--out", tmp_path / "scores.json"
    )
    assert code == 0, output
    code, output = run("report", tmp_path / "out", "--out", tmp_path / "report")
    assert code == 0, output
    page = (tmp_path / "report" / "index.html").read_text()
    assert all(f"{name} (people)" in page for name in ("gemini", "gpt-4v"))
