import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest
from datasets import Image, load_from_disk

from benchmarks.egothink.source import image_bytes, write_hub_copy
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink, question_type
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import DataMissingError, load_summary, prepared_splits, split_dir

PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "egothink"

pytestmark = pytest.mark.usefixtures("data")


def stored_bytes(name):
    return [
        cell["bytes"]
        for cell in EGOTHINK.load(name).cast_column("image", Image(decode=False))["image"]
    ]


def test_writes_every_question(source):
    summaries = prepare_egothink(source)
    assert sorted(prepared_splits()) == sorted(
        ("egothink", dimension.name) for dimension in DIMENSIONS
    )
    for dimension, summary in zip(DIMENSIONS, summaries, strict=True):
        assert summary == load_summary("egothink", dimension.name)
        assert EGOTHINK.folder(dimension.name) == split_dir("egothink", dimension.name)
        assert EGOTHINK.fingerprint(dimension.name) == summary["fingerprint"]
        dataset = load_from_disk(split_dir("egothink", dimension.name))[dimension.name]
        assert dataset.column_names == [
            "id",
            "dimension",
            "question",
            "answer",
            "image",
            "split_size",
            "question_set",
        ]
        assert dataset.remove_columns("image")[:] == {
            "id": [f"{dimension.name}/1", f"{dimension.name}/2"],
            "dimension": [dimension.name] * 2,
            "question": [f"What is thing {number} of {dimension.name}? " for number in (1, 2)],
            "answer": [f"The {dimension.name} {number}." for number in (1, 2)],
            "split_size": [2, 2],
            "question_set": ["own", "own"],
        }
        assert [image.size for image in dataset["image"]] == [(24, 16)] * 2
        images = source / dimension.folder / "images"
        assert stored_bytes(dimension.name) == [
            (images / name).read_bytes() for name in ("1.jpg", "2.jpg")
        ]


def test_image_bytes_are_stored_despite_a_file_of_the_same_name(source, monkeypatch):
    monkeypatch.chdir(source / "Activity/images")
    prepare_egothink(source)
    assert stored_bytes("existence")[0] == (source / "Object/existence/images/1.jpg").read_bytes()


def test_summary_compares_with_table_4(source):
    path = source / "Object/attribute/annotations.json"
    records = json.loads(path.read_text())
    for record, words in zip(records, (10, 12), strict=True):
        record["question"] = " ".join(["word"] * words) + " "
        record["answer"] = "one\n two"
    path.write_text(json.dumps(records))
    summary = prepare_egothink(source)[1]
    assert datetime.fromisoformat(summary.pop("prepared")).tzinfo
    assert len(summary.pop("fingerprint")) == len(summary.pop("records_digest")) == 64
    assert summary.pop("datasets")
    assert summary == {
        "benchmark": "egothink",
        "format": 2,
        "split": "attribute",
        "source": str(source.resolve()),
        "split_size": 2,
        "question_set": "own",
        "questions": 2,
        "missing": [],
        "counts": {
            "instances": {"prepared": 2, "paper": 50, "matches": False},
            "question_words": {"prepared": 11.0, "paper": 10.92, "matches": True},
            "answer_words": {"prepared": 2.0, "paper": 2.14, "matches": True},
            "question_types": {"prepared": 1, "paper": 2, "matches": False},
        },
    }


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What's in my hands?", "what"),
        ("From top to bottom, on WHICH shelf is it, and where am I?", "which"),
        ("Am I holding something whatsoever?", None),
        ("Somehow\u2028who?", "who"),
        ("", None),
        ("什么?", None),
    ],
)
def test_the_first_interrogative_word_is_the_type(question, kind):
    assert question_type(question) == kind


def test_nothing_is_written_if_any_record_is_invalid(source):
    (source / "Planning/assistance/images/2.jpg").unlink()
    with pytest.raises(
        LmmsEgoplanError,
        match=r"Planning/assistance/annotations.json, record 2, image_path: no such image",
    ):
        prepare_egothink(source)
    assert prepared_splits() == []


def test_any_change_of_the_data_changes_the_fingerprint(source):
    def fingerprints():
        return [summary["fingerprint"] for summary in prepare_egothink(source)]

    first = fingerprints()
    assert len(set(first)) == 12
    assert fingerprints() == first
    (source / "Object/existence/images/1.jpg").write_bytes(image_bytes(200))
    second = fingerprints()
    path = source / "Object/existence/annotations.json"
    records = json.loads(path.read_text())
    path.write_text(json.dumps(records[::-1]))
    third = fingerprints()
    records[0]["answer"] += " "
    path.write_text(json.dumps(records[::-1]))
    changed = [first[0], second[0], third[0], fingerprints()[0]]
    assert len(set(changed)) == 4
    assert first[1:] == second[1:] == third[1:]


def test_a_folder_named_hub_needs_a_path(source, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    source.rename("hub")
    with pytest.raises(LmmsEgoplanError, match=r"EgoThink/EgoThink.* hub"):
        prepare_egothink("hub")
    from_folder = prepare_egothink("./hub")
    assert from_folder[0]["source"] == str(tmp_path.resolve() / "hub")
    write_hub_copy(tmp_path / "hub", tmp_path)
    from_hub = prepare_egothink("hub")
    assert from_hub[0]["source"] == "the dataset EgoThink/EgoThink"
    assert [s["fingerprint"] for s in from_hub] == [s["fingerprint"] for s in from_folder]
    assert stored_bytes("activity")[1] == (tmp_path / "hub/Activity/images/2.jpg").read_bytes()


@pytest.fixture
def published_texts(tmp_path):
    """Return a folder with the published records and small images."""
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} is absent")
    image = image_bytes(0)
    for dimension in DIMENSIONS:
        folder = tmp_path / "published" / dimension.folder
        (folder / "images").mkdir(parents=True)
        shutil.copy(PUBLISHED / dimension.folder / "annotations.json", folder)
        for number in range(1, dimension.instances + 1):
            (folder / "images" / f"{number}.jpg").write_bytes(image)
    return tmp_path / "published"


def edit(source, dimension, change):
    path = source / dimension / "annotations.json"
    records = json.loads(path.read_text())
    change(records)
    path.write_text(json.dumps(records))


def test_only_the_published_records_are_official(published_texts, tmp_path, monkeypatch):
    summaries = prepare_egothink(published_texts)
    assert {summary["question_set"] for summary in summaries} == {"official"}
    assert {*EGOTHINK.load("existence")["question_set"]} == {"official"}
    edit(published_texts, "Object/existence", lambda records: records[7].update(answer="a boat"))
    edit(
        published_texts,
        "Object/attribute",
        lambda records: records[7].update(question="What is it?"),
    )
    edit(
        published_texts,
        "Object/affordance",
        lambda records: records[7].update(image_path=["1.jpg"]),
    )
    edit(published_texts, "Planning/navigation", lambda records: records.pop())
    edit(published_texts, "Planning/assistance", lambda records: records.append(records[0]))
    sets = {
        summary["split"]: summary["question_set"] for summary in prepare_egothink(published_texts)
    }
    changed = {"existence", "attribute", "affordance", "navigation", "assistance"}
    assert {name for name, question_set in sets.items() if question_set != "official"} == changed
    assert {sets[name] for name in changed} == {"own"}
    monkeypatch.chdir(tmp_path)
    write_hub_copy(published_texts, tmp_path)
    from_hub = {summary["split"]: summary["question_set"] for summary in prepare_egothink("hub")}
    # Nobody has compared the hub's records with the repository's.
    not_official = {
        name: question_set for name, question_set in from_hub.items() if question_set != "official"
    }
    assert not_official == {
        "existence": "official by counts",
        "attribute": "official by counts",
        "navigation": "own",
        "assistance": "own",
    }


@pytest.mark.nightly
def test_published_data():
    if not PUBLISHED.exists():
        pytest.skip(f"{PUBLISHED} is absent")
    for dimension, summary in zip(DIMENSIONS, prepare_egothink(PUBLISHED), strict=True):
        assert summary["questions"] == dimension.instances
        differing = [name for name, count in summary["counts"].items() if not count["matches"]]
        assert differing == (
            ["question_types"] if dimension.name in ("counting", "forecasting") else []
        )
        records = json.loads((PUBLISHED / dimension.folder / "annotations.json").read_text())
        for field in ("question", "answer"):
            texts = [record[field] for record in records]
            assert EGOTHINK.load(dimension.name)[field][:] == texts
            words = sum(len(text.split()) for text in texts) / len(texts)
            assert abs(words - getattr(dimension, f"{field}_words")) <= 0.2
        images = [
            PUBLISHED / dimension.folder / "images" / record["image_path"][0] for record in records
        ]
        assert stored_bytes(dimension.name) == [image.read_bytes() for image in images]
        assert all(image.width > 0 for image in EGOTHINK.load(dimension.name)["image"])
    assert sum(load_summary(*split)["questions"] for split in prepared_splits()) == 700


@pytest.mark.parametrize("use", [EGOTHINK.folder, EGOTHINK.fingerprint, EGOTHINK.load])
def test_a_missing_dimension_names_the_command(use, tmp_path):
    with pytest.raises(DataMissingError) as caught:
        use("counting")
    for fact in (
        f"{tmp_path}/data/egothink/counting",
        "data prepare egothink hub",
        "https://github.com/AdaCheng/EgoThink",
    ):
        assert fact in str(caught.value)
