import json

import datasets
import pytest
from datasets import Dataset, load_from_disk

from example_summary import SUMMARY
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import PreparedData, load_summary, prepared_splits, split_dir

EGOPLAN = PreparedData("egoplan", "The {} split", "{split}")


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def save(rows=1, **summary):
    """Save this number of rows as EgoPlan's split val; return the summary."""
    return EGOPLAN.save("val", Dataset.from_dict({"a": [*range(1, rows + 1)]}), **SUMMARY | summary)


def save_as(summary):
    """Save the split, and replace its summary."""
    save()
    (split_dir("egoplan", "val") / "summary.json").write_text(json.dumps(summary))


def test_split_is_saved_with_its_summary(data):
    assert load_summary("egoplan", "val") is None
    assert prepared_splits() == []
    summary = save(2)
    assert summary == SUMMARY | {
        "benchmark": "egoplan",
        "split": "val",
        "format": 1,
        "datasets": datasets.__version__,
    }
    assert split_dir("egoplan", "val") == data / "egoplan" / "val"
    assert load_from_disk(data / "egoplan" / "val")["val"]["a"][:] == [1, 2]
    assert load_summary("egoplan", "val") == summary
    assert prepared_splits() == [("egoplan", "val")]


def test_a_split_is_replaced_completely(data):
    save(3)
    (split_dir("egoplan", "val") / "stale").touch()
    summary = save(1, questions=7)
    assert load_from_disk(split_dir("egoplan", "val"))["val"][:] == {"a": [1]}
    assert load_summary("egoplan", "val") == summary
    assert [entry.name for entry in (data / "egoplan").iterdir()] == ["val"]
    assert not (split_dir("egoplan", "val") / "stale").exists()


def test_a_failure_does_not_change_the_earlier_split(data):
    save(1)
    with pytest.raises(TypeError):
        save(2, questions=object())
    assert load_from_disk(split_dir("egoplan", "val"))["val"]["a"][:] == [1]
    assert [entry.name for entry in (data / "egoplan").iterdir()] == ["val"]


@pytest.mark.parametrize(
    ("damaged", "facts"),
    [
        *(
            (content, "")
            for content in (b"{", b"\xff", b"[" * 100_000, json.dumps({"a": 1}).encode("utf-16"))
        ),
        (b'{"prepared": 3}', "prepared: .*3.* split_size: .* questions: "),
        *(
            (json.dumps(SUMMARY | {"format": wrong}).encode(), "format: ")
            for wrong in ("1", None, 1.5, [1])
        ),
    ],
)
def test_a_damaged_summary_is_an_error(damaged, facts):
    save()
    (split_dir("egoplan", "val") / "summary.json").write_bytes(damaged)
    with pytest.raises(LmmsEgoplanError, match=rf"summary\.json: .*{facts}"):
        load_summary("egoplan", "val")


@pytest.mark.parametrize("field", SUMMARY)
def test_a_summary_without_a_promised_field_is_an_error(field):
    lacking = {name: value for name, value in SUMMARY.items() if name != field}
    for damaged in (lacking, SUMMARY | {field: None}):
        save_as(damaged)
        with pytest.raises(LmmsEgoplanError, match=rf"summary\.json.* {field}: "):
            load_summary("egoplan", "val")


@pytest.mark.parametrize("data_format", [{}, {"format": 1}])
def test_early_data_are_of_the_first_format(data_format):
    save_as(SUMMARY | data_format)
    for newest in (1, 2):
        assert PreparedData("egoplan", "The {} split", "{split}", newest).load("val")["a"][:] == [1]
    with pytest.raises(LmmsEgoplanError, match=r"format 1.* format 2.* val$"):
        PreparedData("egoplan", "The {} split", "{split}", 2, oldest_format=2).load("val")


def test_the_formats_that_each_benchmark_reads():
    prepared = {benchmark.name: benchmark.splits for benchmark in BENCHMARKS}
    formats = {
        name: (splits.oldest_format, splits.data_format) for name, splits in prepared.items()
    }
    published = {
        "egoplan": (3, 3),
        "egoplan_bench2": (2, 2),
        "egothink": (2, 2),
        "egointent": (4, 4),
        "actplan": (3, 4),
    }
    assert formats.items() >= published.items()


@pytest.mark.parametrize("method", ["folder", "load"])
def test_rows_that_cannot_be_read_name_the_versions_of_datasets(method):
    summary = save()
    info = split_dir("egoplan", "val") / "val" / "dataset_info.json"
    info.write_text(info.read_text().replace('"Value"', '"ListOfAnotherVersion"'))
    facts = [str(split_dir("egoplan", "val")), "ListOfAnotherVersion", "damaged"]
    for writer in (datasets.__version__, "99.1"):
        path = split_dir("egoplan", "val") / "summary.json"
        path.write_text(json.dumps(summary | {"datasets": writer}))
        with pytest.raises(LmmsEgoplanError) as error:
            getattr(EGOPLAN, method)("val")
        assert all(fact in str(error.value) for fact in facts)
        facts = [*facts[:2], "99.1", datasets.__version__, "prepare"]


@pytest.mark.parametrize("method", ["folder", "fingerprint", "load"])
def test_data_of_another_format_are_refused_by_all(method):
    save_as(SUMMARY | {"format": 3, "source": "/data"})
    with pytest.raises(LmmsEgoplanError, match=r"The val split.* /data.* format 3"):
        getattr(PreparedData("egoplan", "The {} split", "{split}", 2), method)("val")
