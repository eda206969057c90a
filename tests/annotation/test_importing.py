import json
import re
from xml.etree import ElementTree

import pytest

from annotation.rating import Rating, new_store
from annotation.serving import enter, post, run, served
from annotation.studies import open_store
from annotation.studio import exported_labels, label_on_page, results
from lmms_egoplan.annotation.database import Database
from lmms_egoplan.annotation.export import export, task_data, write_label_studio
from lmms_egoplan.annotation.flow import LABELLED, Item
from lmms_egoplan.annotation.flows import FLOWS
from lmms_egoplan.annotation.importing import import_file
from lmms_egoplan.annotation.serve import Team, media_folder
from lmms_egoplan.annotation.store import Store, kept_predictions
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import json_lines


def exported_tasks(store, out):
    """Write Label Studio's tasks and return the configuration and the data of each task."""
    write_label_studio(store.flow, store.items(), media_folder(store.database.path), out)
    tasks = json.loads((out / "tasks.json").read_text())
    return ElementTree.parse(out / "config.xml").getroot(), [task["data"] for task in tasks]


def annotation(number, user, result, **fields):
    fixed = {
        "ground_truth": False,
        "result_count": len(result),
        "created_at": "2026-03-09T22:16:08.728353Z",
    }
    return (
        {
            "id": number,
            "completed_by": user,
            "result": result,
            "was_cancelled": False,
            "lead_time": 4.25,
        }
        | fixed
        | fields
    )


def studio_file(path, data, annotations):
    """Write Label Studio's export of tasks, with the annotations of each."""
    tasks = [
        {
            "id": 100 + number,
            "project": 3,
            "data": values,
            "annotations": annotations[number],
            "predictions": [],
        }
        for number, values in enumerate(data)
    ]
    path.write_text(json.dumps(tasks))
    return path


def rating(number, user, value="1", **fields):
    result = {
        "from_name": "rating",
        "to_name": "prose_1",
        "type": "choices",
        "value": {"choices": [value]},
    }
    return annotation(number, user, [result], **fields)


@pytest.fixture
def studio(tmp_path):
    """Create a database of three texts for two people each.

    Return a function that imports annotations.
    """

    def imported(*annotations, code=0, db="labels.sqlite"):
        data = [
            {"number": n, "prose_1": text["text"], "prose_1_title": "Text"}
            for n, text in enumerate(contents)
        ]
        file = studio_file(tmp_path / "project.json", data, [*annotations, *[[]] * 3])
        return run_import(file, code)

    def run_import(file, code=0):
        store = Store(Database(tmp_path / "labels.sqlite", exclusive=True), Rating())
        try:
            return import_file(store, file)
        finally:
            store.close()

    with_items = new_store(tmp_path / "labels.sqlite", 3, 2, 2)
    contents = [item.contents for item in with_items.items()]
    with_items.close()
    imported.file = run_import
    imported.path = tmp_path / "labels.sqlite"
    return imported


def opened(path, flow=Rating):
    return Store(Database(path), flow())


def saved(path, flow=Rating):
    """Return item, person and values of all labels that count."""
    store = opened(path, flow)
    labels = [label for labels in store.labelled().labels.values() for label in labels]
    store.close()
    return [(label.item, label.person, label.values) for label in labels]


@pytest.mark.parametrize("name", LABELLED)
def test_labels_from_label_studio_equal_those_from_the_page(name, tmp_path):
    study = label_on_page(name, tmp_path)
    store = opened(study.unlabelled, lambda: FLOWS[name])
    view, data = exported_tasks(store, tmp_path / "studio")
    store.close()
    annotations = [
        [annotation(number, 7, results(view, task, values, texts=number % 2 == 1))]
        for number, (task, values) in enumerate(zip(data, study.in_studio, strict=True))
    ]
    file = studio_file(tmp_path / "project.json", data, annotations)
    code, output = run("annotate", "import", study.unlabelled, file)
    assert code == 0, output
    assert f"{file}: {len(data)} new and 0 not imported\n" in output
    assert exported_labels(study.unlabelled) == exported_labels(study.labelled)
    assert len(exported_labels(study.labelled)) == len(data)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [("0.1", 0.7), ("0.14", 0.7), ("0.2", 0.8), ("0.6", 1.2), ("0.64", 1.2)]
    + [(sent, None) for sent in ("0.04", "0", "-1", "0.66", "1.2", "nan", None)],
)
def test_times_of_the_clip_become_times_of_the_video(sent, stored, tmp_path):
    db = tmp_path / "labels.sqlite"
    contents = {
        "video": "video.mp4",
        "first": 6,
        "times": [number / 10 for number in range(6, 12)],
        # The round can move the end up to here, but Label Studio's clip has none of these frames.
        "after": [number / 10 for number in range(12, 20)],
        "fps": 10.0,
        "end_sec": 1.2,
        "labels": dict.fromkeys(FIELDS, "a text"),
        "titles": dict(zip(FIELDS, FIELDS, strict=True)),
    }
    flow = FLOWS["egointent"]
    store = open_store(flow, db, lambda _: [Item("step", contents)], "items", Team(2))
    data = {"number": 0, **task_data(flow.form(contents))}
    store.close()
    result = [
        {"from_name": f"supported_{name}", "value": {"choices": ["yes"]}} for name in FIELDS
    ] + [{"from_name": name, "value": {"text": ["a text"]}} for name in FIELDS]
    if sent is not None:
        result.append({"from_name": "end_sec", "value": {"number": float(sent)}})
    file = studio_file(tmp_path / "project.json", [data], [[annotation(4, 7, result)]])
    code, output = run("annotate", "import", db, file)
    labels = saved(db, lambda: flow)
    if stored is None:
        assert code == 1
        assert "task 1, annotation 4, End of the clip: expected a time from 0.100" in output
        assert labels == []
    else:
        assert code == 0, output
        assert [values["end_sec"] for _, _, values in labels] == [stored]


def test_import_without_new_labels_adds_no_person(studio):
    studio([rating(1, 7), rating(2, 8)])
    people = [person.called for person in opened(studio.path).people()]
    lines = studio([rating(1, 7), rating(2, 8), rating(3, 9), rating(4, 10)])
    assert lines[-1].endswith("2 unchanged and 2 not imported")
    assert "(Label Studio user 9)" in lines[0]
    assert "(Label Studio user 10)" in lines[0]
    store = opened(studio.path)
    assert [person.called for person in store.people()] == people
    assert store.database.study.people["annotator"].count == len(people) - 1


def test_users_become_annotators_who_keep_their_items(studio):
    first = [rating(1, 7), rating(2, {"id": 8, "email": "ana@example.org"}, "0"), rating(3, 9)]
    lines = studio(first, [rating(4, 9)], [rating(5, 8, was_cancelled=True)])
    assert lines[-1].endswith("4 new and 1 not imported")
    (reason,) = lines[:-1]
    assert "all of its labels" in reason
    assert "annotator-3" in reason
    items = [item.id for item in opened(studio.path).items()]
    expected = [
        (items[0], "annotator-1", "1"),
        (items[0], "annotator-2", "0"),
        (items[1], "annotator-3", "1"),
    ]
    assert [
        (item, person, values["rating"]) for item, person, values in saved(studio.path)
    ] == expected
    store = opened(studio.path)
    called = {person.name: person.called for person in store.people()}
    assert called == {
        "lead": None,
        "annotator-1": "Label Studio user 7",
        "annotator-2": "ana@example.org",
        "annotator-3": "Label Studio user 9",
    }
    assert store.database.study.people["annotator"].count == 3
    assert [(skip.item, skip.person) for skip in store.labelled().skips] == [
        (items[2], "annotator-2")
    ]
    # A person keeps their labels under a new name.
    store.call("annotator-2", "Ana")
    store.close()
    lines = studio(first, [rating(4, 9)], [rating(5, 8, was_cancelled=True)])
    assert lines[-1].endswith("4 unchanged and 1 not imported")
    assert len(opened(studio.path).people()) == 4
    lines = studio([rating(1, 7, "0"), first[1]])
    assert lines[-1].endswith("1 corrected, 1 unchanged and 0 not imported")
    assert (items[0], "annotator-1", {"rating": "0"}) in saved(studio.path)


def test_labels_of_the_page_stay(studio):
    store = opened(studio.path)
    slot = store.assignments.next_slot("annotator-1")
    store.save(slot, "page", {"rating": "0"})
    store.call("annotator-1", "ana@example.org")
    store.close()
    ana = {"id": 4, "email": "ana@example.org"}
    lines = studio([rating(1, ana)], [rating(2, ana)])
    assert lines[-1].endswith("1 new and 1 not imported")
    assert "another label of the person" in lines[0]
    assert [values["rating"] for _, _, values in saved(studio.path)] == ["0", "1"]
    # A correction on the page counts, and a repeated import does not undo it.
    store = opened(studio.path)
    number = store.own_labels("annotator-1", "", 0)[0].slot
    store.save(store.assignments.slot(number, "annotator-1"), "page 2", {"rating": "0"})
    store.close()
    assert studio([], [rating(2, ana)])[-1].endswith(": 1 not imported")
    assert [values["rating"] for _, _, values in saved(studio.path)] == ["0", "0"]


def test_labels_of_decided_items_stay(tmp_path, studio):
    first = [rating(1, 7), rating(2, 8, "0")]
    studio(first)
    store = opened(studio.path)
    store.save(store.adjudicate(0, "lead"), "decided", {"rating": "1"})
    store.close()
    lines = studio([rating(1, 7, "0"), first[1]])
    assert lines[-1].endswith("1 unchanged and 1 not imported")
    assert "decided" in lines[0]


DAMAGED = {
    r"project\.json: invalid JSON": "[{",
    r"project\.json, line 1: invalid JSON": "item,rating",
    "task 1: expected an object": "[1]",
    "task 1: data: .*annotations": '[{"id": 1}]',
    "line 1: item: .*values": '{"id": 1, "annotations": []}',
    "line 2: item: 'text/0' has an earlier line": 2
    * '{"item": "text/0", "values": {"rating": "1"}}\n',
    "text/9: not one of the items": '{"item": "text/9", "values": {"rating": "1"}}',
    "text/0, rating: .*'2'": '{"item": "text/0", "values": {"rating": "2"}}',
    "text/0, rating: .*1": '{"item": "text/0", "values": {"rating": 1}}',
    "text/0, mark: no such field": '{"item": "text/0", "values": {"mark": "1"}}',
}


def test_damaged_files_import_nothing(studio, tmp_path):
    unexplained = []
    for message, text in DAMAGED.items():
        (tmp_path / "project.json").write_text(text)
        try:
            unexplained.append((text, studio.file(tmp_path / "project.json")))
        except LmmsEgoplanError as error:
            if not re.search(message, str(error)):
                unexplained.append((text, str(error)))
    assert unexplained == []
    assert saved(studio.path) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"result": []}, "task 2, annotation 2, Rating: choose one"),
        (
            {"result": [{"from_name": "rating", "value": {"choices": ["2"]}}]},
            "task 2, annotation 2, Rating: choose one",
        ),
        (
            {"result": [{"from_name": "rating", "value": {"choices": ["0", "1"]}}]},
            "task 2, annotation 2, Rating",
        ),
        (
            {"result": [{"from_name": "rating", "value": {"choices": [{}]}}]},
            r"task 2: annotations.*value\.choices",
        ),
        (
            {"result": [{"from_name": "other", "value": {"choices": ["1"]}}]},
            "annotation 2, no such field as other",
        ),
        ({"completed_by": None}, r"task 2: annotations\[0\]\.completed_by: expected"),
        ({"lead_time": -1}, "task 2: annotations.*lead_time"),
    ],
)
def test_wrong_annotations_import_nothing(wrong, message, studio):
    with pytest.raises(LmmsEgoplanError, match=message):
        studio([rating(1, 7)], [rating(2, 7) | wrong])
    assert saved(studio.path) == []
    assert [person.called for person in opened(studio.path).people()] == [None] * 3


def test_tasks_of_another_database_are_refused(studio, tmp_path):
    studio([])
    (task, *_) = json.loads((tmp_path / "project.json").read_text())
    for change in ({"number": 3}, {"number": 1}, {"number": -1}, {"prose_1": "?"}):
        (tmp_path / "project.json").write_text(json.dumps([task | {"data": task["data"] | change}]))
        with pytest.raises(LmmsEgoplanError, match=r"task 1(, data|: data\.number): "):
            studio.file(tmp_path / "project.json")


def test_second_annotation_of_a_person_is_named(studio):
    lines = studio([rating(1, 7), rating(2, 7, "0")])
    assert lines[-1].endswith("1 new and 1 not imported")
    assert "annotator-1" in lines[0]


def test_served_databases_are_refused(studio, tmp_path):
    file = tmp_path / "known.jsonl"
    file.write_text("{}")
    store = Store(Database(studio.path, exclusive=True), Rating())
    code, output = run("annotate", "import", studio.path, file)
    store.close()
    assert code == 1
    assert "another server" in output or "does not support" in output


def predictions(path, values):
    path.write_text(
        json_lines({"item": item, "values": {"rating": value}} for item, value in values.items())
    )
    return path


def test_forms_start_with_predictions(studio, tmp_path):
    names = [item.id for item in opened(studio.path).items()]
    file = predictions(tmp_path / "known.jsonl", dict.fromkeys(names[:2], "1"))
    assert studio.file(file)[-1].endswith("2 predicted and 0 not imported")
    store = Store(Database(studio.path, exclusive=True), Rating())
    with served(store) as address:
        client = enter(address, store, "annotator-1")
        assert "The form starts with a prediction." in client.page.text
        assert 'value="1" required checked' in client.page.text
        post(client, rating="0")
        post(client, rating="1")
        assert "prediction" not in client.page.text
        client.page = client.get(f"/label/{store.own_labels('annotator-1', '', 0)[0].slot}")
        assert "prediction" not in client.page.text
        assert (
            "Labels that started with a prediction: 2, kept unchanged: 1"
            in enter(address, store, "lead").page.text
        )
    # An open form has no prediction.
    assert import_file(store, predictions(file, {names[2]: "0"}))[-1].endswith(": 1 not imported")
    store.assignments.release("annotator-1")
    store.close()
    # The labelled items keep the prediction that the person saw; an imported label starts without
    # one.
    lines = studio.file(predictions(file, {names[0]: "0", names[2]: "0"}))
    assert lines[-1].endswith("1 predicted and 1 not imported")
    assert names[0] in lines[0]
    studio([], [], [rating(1, 9)])
    store = opened(studio.path)
    labels = {
        label.item: label.initial for labels in store.labelled().labels.values() for label in labels
    }
    assert labels == {names[0]: {"rating": "1"}, names[1]: {"rating": "1"}, names[2]: None}
    assert kept_predictions(store.labelled()) == [
        "Labels that started with a prediction: 2, kept unchanged: 1"
    ]
    export(store.flow, store.labelled(), tmp_path / "out")
    rows = [
        json.loads(line) for line in (tmp_path / "out" / "labels.jsonl").read_text().splitlines()
    ]
    assert {row["item"]: row["initial"] for row in rows} == labels
    store.close()
