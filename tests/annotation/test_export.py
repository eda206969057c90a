import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from annotation.rating import Rating, new_store
from lmms_egoplan.annotation.export import export
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.outputs import MANIFEST, claimed_folder


class Other(Rating):
    name = "other"


@pytest.fixture
def store(tmp_path):
    store = new_store(tmp_path / "labels.sqlite", 2, 2, 2)
    yield store
    store.close()


def label(store, *people):
    for person in people:
        slot = store.assignments.next_slot(person)
        store.save(slot, "form", {"rating": "1"})


def names(out):
    return sorted(path.name for path in out.iterdir() if path.name != MANIFEST)


COMMON = ["agreement.csv", "annotation.json", "labels.jsonl"]


def test_what_a_former_export_wrote_goes(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1", "annotator-2")
    with claimed_folder(out, "annotate export"):
        assert any(str(out / "ratings.json") in line for line in export(Rating(), store.labelled(), out))
    assert names(out) == sorted([*COMMON, "ratings.json"])
    (out / "notes.txt").write_text("one's own")
    slot = store.assignments.slot(store.own_labels("annotator-2", "", 0)[0][0], "annotator-2")
    store.save(slot, "skip", None, skipped="too dark")
    with claimed_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
    assert names(out) == sorted([*COMMON, "notes.txt", "skipped.jsonl"])
    skipped = {"item": "text/0", "stage": "rate", "person": "annotator-2", "reason": "too dark"}
    assert json.loads((out / "skipped.jsonl").read_text()) == skipped
    header, row = (out / "agreement.csv").read_text().splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["items_skipped"] == "1"


def test_an_export_that_fails_leaves_the_former_one(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1", "annotator-2")
    export(Rating(), store.labelled(), out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    none = replace(store.labelled(), labels={})
    with pytest.raises(LmmsEgoplanError):
        export(Rating(), none, out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_folder_of_something_else_is_refused(store, tmp_path):
    label(store, "annotator-1")
    export(Rating(), store.labelled(), tmp_path / "out")
    with pytest.raises(LmmsEgoplanError, match=r"out: .*rating.*other"):
        export(Other(), store.labelled(), tmp_path / "out")
    (tmp_path / "out" / "annotation.json").write_text(
        json.dumps({"benchmark": "rating", "files": ["../labels.sqlite"]})
    )
    with pytest.raises(LmmsEgoplanError, match="files"):
        export(Rating(), store.labelled(), tmp_path / "out")
    assert store.database.path.exists()


def test_an_export_that_was_killed_is_refused_and_made_again(store, tmp_path):
    out = tmp_path / "out"
    label(store, "annotator-1")
    with claimed_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
        (out / "ratings.json").write_text("{}")
    mark = json.loads((out / "annotation.json").read_text())
    (out / "annotation.json").write_text(
        json.dumps(mark | {"finished": False, "files": [*mark["files"], "ratings.json"]})
    )
    (out / ".export.left").mkdir()
    done = CliRunner().invoke(app, ["report", str(out), "--out", str(tmp_path / "report")])
    assert done.exit_code == 1
    assert str(out) in done.output
    with claimed_folder(out, "annotate export"):
        export(Rating(), store.labelled(), out)
    assert names(out) == COMMON


def test_labels_of_who_failed_are_not_among_those_that_count(tmp_path):
    store = new_store(tmp_path / "labels.sqlite", 3, 2, 1, qualification=1, seniors=1)
    people = ("annotator-1", "annotator-2")
    label(store, *people)
    for person in people:
        store.judge_qualification(person, "senior-1", passed=True)
    label(store, *people)
    store.judge_qualification("annotator-2", "senior-1", passed=False)
    export(Rating(), store.labelled(), tmp_path / "out")
    store.close()
    lines = [json.loads(line) for line in (tmp_path / "out" / "labels.jsonl").read_text().splitlines()]
    assert {(line["person"], line["stage"]) for line in lines} == {
        ("annotator-1", "qualification"),
        ("annotator-1", "rate"),
    }
    assert {line["about"]["model"] for line in lines} == {"secret-model"}
