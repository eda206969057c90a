import csv
import json
import random
import re

import pytest

from annotation.serving import enter, export, form_in, label_all, post, run, served, visited
from benchmarks.egothink.source import write_source
from lmms_egoplan.annotation.database import Settings, create
from lmms_egoplan.annotation.egothink import FLOW, num_judged, read_items
from lmms_egoplan.annotation.flow import Item, Label, Labelled
from lmms_egoplan.annotation.serve import Team, open_store
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_source(tmp_path / "source")
    prepare_egothink(str(tmp_path / "source"))
    return [row["id"] for name in ("existence", "assistance") for row in EGOTHINK.load(name)]


def write_answers(path, ids, text="Yes.", **fields):
    path.write_text("".join(json.dumps({"id": id_, "answer": text} | fields) + "\n" for id_ in ids))
    return path


def start(tmp_path, samples, per_item=2, annotators=2, judged=()):
    db = tmp_path / "labels.sqlite"
    return open_store(FLOW, db, lambda folder: read_items(samples, folder, judged), "items", Team(annotators, per_item))


def rate(store, rating_of):
    label_all(store, lambda person, page: {"rating": rating_of(person, page)})


def test_exported_ratings_can_be_compared_with_a_judge(prepared, tmp_path):
    judged = write_answers(
        tmp_path / "gpt.jsonl", prepared, rating=1.0, judge="judge-model", judgement="[[1]] because-of-the-judge"
    )
    store = start(tmp_path, [judged], judged=[judged])
    count = iter(range(10_000))
    rate(store, lambda person, page: ("0", "0.5", "1")[next(count) % 3])
    store.close()
    assert f"{len(prepared)} of {len(prepared)}" in export(store)[0]
    for name in ("annotators", "ratings", "pooled"):
        code, output = run("agreement", "egothink", judged, "--human", tmp_path / "out" / f"gpt-{name}.csv")
        assert code == 0, output
        assert str(len(prepared)) in output
    code, output = run("annotate", "status", store.database.path)
    assert code == 0, output
    assert f"{2 * len(prepared)} of {2 * len(prepared)}" in output


def test_pearson_interval_is_the_same_on_all_pages(prepared, tmp_path):
    """Compare the lead's page, which uses the order of labels, with `agreement` on the exported ratings."""
    source = random.Random(0)
    judged = {
        f"{name}/{number}": source.choice((0.0, 0.5, 1.0))
        for name in ("counting", "spatial")
        for number in range(1, 21)
    }
    people = {person: {id_: source.choice((rating, 0.5)) for id_, rating in judged.items()} for person in ("Ann", "Bo")}
    items = [
        Item(id_, {"answer": "x"}, {"question": id_, "model": "m", "rating": rating}) for id_, rating in judged.items()
    ]
    source.shuffle(items)
    labels = {
        id_: [Label(id_, "rate", name, {"rating": f"{rated[id_]:g}"}, "", 1.0, "") for name, rated in people.items()]
        for id_ in judged
    }
    labelled = Labelled(items, labels, list(people), list(people), frozenset(), 2, {})
    (remark,) = FLOW.remarks(labelled)
    lines = [{"id": id_, "answer": "x", "rating": rating, "judge": "j"} for id_, rating in judged.items()]
    (tmp_path / "m.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for name, file in FLOW.export(labelled).files.items():
        (tmp_path / name).write_text(file.text)
    code, output = run(
        "agreement",
        "egothink",
        tmp_path / "m.jsonl",
        "--human",
        tmp_path / "m-annotators.csv",
        "--out",
        tmp_path / "out.csv",
    )
    assert code == 0, output
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (row,) = (row for row in rows if (row["second"], row["dimension"]) == ("mean of 2 people", "overall"))
    value, low, high = (float(row[name]) for name in ("pearson", "pearson_low", "pearson_high"))
    assert "40" in remark
    assert f"{value:.3f} [{low:.3f}, {high:.3f}]" in remark


def test_raters_see_neither_model_nor_judge(prepared, tmp_path):
    judged = write_answers(
        tmp_path / "secret-model.jsonl", prepared, rating=0.5, judge="judge-model", judgement="[[0.5]]"
    )
    store = start(tmp_path, [judged], judged=[judged])
    with visited(store) as client:
        while 'id="label"' in client.page.text:
            for text in ("secret-model", "judge-model", "[[0.5]]"):
                assert text not in client.page.text
            where, _ = form_in(client.page.text)
            image = client.get(where.replace("label", "media") + "/0")
            assert image.headers["content-type"].startswith("image/")
            assert client.get(where.replace("label", "media") + "/1").status_code == 404
            post(client, rating="1")


def test_models_are_mixed_but_exported_separately(prepared, tmp_path):
    samples = [write_answers(tmp_path / f"{name}.jsonl", prepared, text=name) for name in ("one", "two")]
    store = start(tmp_path, samples, per_item=1)
    models = [item.hidden["model"] for item in store.items()]
    assert models != sorted(models)
    rate(store, lambda person, page: "1" if ">one<" in page else "0")
    store.close()
    export(store)
    for name, rating in (("one", "1.0"), ("two", "0.0")):
        lines = (tmp_path / "out" / f"{name}-pooled.csv").read_text().splitlines()
        assert lines[0] == "id,people"
        assert sorted(lines[1:]) == sorted(f"{id_},{rating}" for id_ in prepared)


def test_unfinished_answers_are_counted_but_not_pooled(prepared, tmp_path):
    store = start(tmp_path, [write_answers(tmp_path / "one.jsonl", prepared)])
    slot = store.assignments.next_slot("annotator-1")
    store.save(slot, "form", {"rating": "1"})
    store.close()
    assert f"0 of {len(prepared)}" in export(store)[0]
    assert not (tmp_path / "out" / "one-pooled.csv").exists()
    assert "1.0" in (tmp_path / "out" / "one-annotators.csv").read_text()


def test_mean_of_differing_ratings_counts(prepared, tmp_path):
    """The lead sees the difference but cannot decide."""
    store = start(tmp_path, [write_answers(tmp_path / "one.jsonl", prepared[:1])])
    rate(store, lambda person, page: {"annotator-1": "0", "annotator-2": "0.5"}[person])
    with visited(store, "lead") as lead:
        assert "/adjudicate/" not in lead.page.text
        assert '/item/0"' in lead.page.text
        assert lead.get("/adjudicate/0").status_code == 404
    export(store)
    (line,) = (tmp_path / "out" / "people.jsonl").read_text().splitlines()
    assert json.loads(line)["rating"] == 0.25


def test_errors_name_changed_and_missing_items(prepared, tmp_path):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    store = start(tmp_path, [answers])
    store.close()
    write_answers(answers, prepared, text="No.")
    with pytest.raises(LmmsEgoplanError, match=str(store.database.path)):
        start(tmp_path, [answers])
    answers.unlink()
    with pytest.raises(LmmsEgoplanError, match=r"one\.jsonl"):
        start(tmp_path, [answers])
    write_answers(answers, prepared)
    start(tmp_path, [answers]).close()
    code, output = run("annotate", "export", store.database.path, "--out", tmp_path / "out")
    assert (code, len(output.splitlines())) == (1, 1)
    assert not (tmp_path / "out").exists()
    code, output = run("annotate", "status", tmp_path / "absent.sqlite")
    assert (code, "absent.sqlite" in output) == (1, True)


def test_judge_can_be_added_at_a_later_start(prepared, tmp_path):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    judged = write_answers(tmp_path / "judged.jsonl", prepared[:3], rating=0.5, judge="j")
    start(tmp_path, [answers]).close()
    store = start(tmp_path, [answers], judged=[judged])
    assert num_judged(store.items()) == 3
    store.close()
    other = write_answers(tmp_path / "other.jsonl", prepared, text="No.", rating=0.5, judge="j")
    with pytest.raises(LmmsEgoplanError, match=rf"other\.jsonl.*{len(prepared)}"):
        start(tmp_path, [answers], judged=[other])


def test_database_of_another_benchmark_is_refused_without_writing_media(prepared, tmp_path):
    create(tmp_path / "labels.sqlite", Settings("actplan", 2, 2), [Item("a", {})], FLOW.stages)
    with pytest.raises(LmmsEgoplanError, match=r"labels\.sqlite.*actplan.*egothink"):
        start(tmp_path, [write_answers(tmp_path / "one.jsonl", prepared)])
    assert not (tmp_path / "labels.sqlite.media").exists()


def test_picture_addresses_differ_between_databases(prepared, tmp_path):
    """Browsers cache pictures, and another database may use the same slot numbers at the same address."""
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    addresses = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        store = start(tmp_path / name, [answers])
        with served(store) as address:
            client = enter(address, store, "annotator-1")
            addresses.add(re.search('src="([^"]+/media/[^"]+)"', client.page.text)[1])
        store.close()
    assert len(addresses) == 2


@pytest.mark.parametrize("rating", [-1, 2, "0.5", [1]])
def test_invalid_judge_rating_names_file_and_line(prepared, tmp_path, rating):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    judged = write_answers(tmp_path / "judged.jsonl", prepared, rating=rating, judge="j")
    with pytest.raises(LmmsEgoplanError, match=r"judged\.jsonl, line 1: rating"):
        start(tmp_path, [answers], judged=[judged])
