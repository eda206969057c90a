import json
import os
import re
from io import BytesIO
from pathlib import Path

import pytest
from datasets import Dataset, Features, Value
from datasets import Image as ImageFeature
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from benchmarks.egothink.source import image_bytes, write_hub_copy, write_source
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder, read_hub
from lmms_egoplan.errors import LmmsEgoplanError


@pytest.fixture
def hub(source, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    return source


def edit(source, folder, number, **fields):
    """Change fields of one record, counted from 1. None removes a field."""
    path = source / folder / "annotations.json"
    records = json.loads(path.read_text())
    record = records[number - 1] | fields
    records[number - 1] = {name: value for name, value in record.items() if value is not None}
    path.write_text(json.dumps(records))


def error_of(source):
    with pytest.raises(LmmsEgoplanError) as caught:
        check_records(read_folder(source))
    return str(caught.value)


def test_reads_everything_as_published(source):
    edit(source, "Object/existence", 2, question=" What…\n", answer="A Cup. ", image_path=["1.jpg"])
    records = check_records(read_folder(source))
    assert [record.id for record in records] == [
        f"{d.name}/{n}" for d in DIMENSIONS for n in (1, 2)
    ]
    assert [record.dimension for record in records] == [d.name for d in DIMENSIONS for _ in (1, 2)]
    assert (records[1].question, records[1].answer) == (" What…\n", "A Cup. ")
    assert (
        records[0].image
        == records[1].image
        == (source / "Object/existence/images/1.jpg").read_bytes()
    )
    assert records[2].question == "What is thing 1 of attribute? "


def test_all_missing_folders_and_files_are_named(source):
    (source / "Object/existence/annotations.json").unlink()
    (source / "Forecast").rename(source / "Forecasting")
    (source / "Activity/annotations.json").write_text('{"a": 1}')
    (source / "Planning/navigation/annotations.json").write_text("[]")
    (source / "Planning/assistance/annotations.json").write_text("[{")
    (source / "Localization/spatial/annotations.json").write_text("[" * 200_000)
    message = error_of(source)
    for part in (
        "6 problem(s)",
        f"{source}/Object/existence/annotations.json: ",
        f"{source}/Forecast: ",
        f"{source}/Activity/annotations.json: ",
        f"{source}/Planning/navigation/annotations.json: ",
        f"{source}/Planning/assistance/annotations.json: invalid JSON: Expecting property name",
        f"{source}/Localization/spatial/annotations.json: invalid JSON: ",
    ):
        assert part in message
    with pytest.raises(LmmsEgoplanError, match=r"elsewhere: .*Object/existence/annotations.json"):
        read_folder(source / "elsewhere")


@pytest.mark.parametrize("field", ["question", "answer"])
def test_an_invalid_text_is_an_error(source, field):
    reported = {
        None: "nothing",
        "": "''",
        " \n": "' \\n'",
        3: "3",
        ("a",): "['a']",
        "\ud800": "'\\ud800'",
    }
    where = re.escape(f"{source}/Reasoning/comparing/annotations.json, record 2, {field}: ")
    for value, text in reported.items():
        edit(source, "Reasoning/comparing", 2, **{field: value})
        assert re.search(f"{where}.*found {re.escape(text)}\n", error_of(source)), value


def test_image_path_is_a_list_with_one_name(source):
    for value in (None, "1.jpg", [], ["1.jpg", "2.jpg"], [1], {"0": "1.jpg"}):
        edit(source, "Activity", 1, image_path=value)
        assert "Activity/annotations.json, record 1, image_path: " in error_of(source), value


def test_a_record_must_be_an_object(source):
    (source / "Activity/annotations.json").write_text('["What?"]')
    message = error_of(source)
    assert "3 problem(s)" in message
    assert "Activity/annotations.json, record 1, question: " in message


def test_image_paths_must_stay_inside_the_images_folder(source, tmp_path):
    (tmp_path / "private.jpg").write_bytes(image_bytes(1))
    (source / "Activity/images/link.jpg").symlink_to(tmp_path / "private.jpg")
    for name in (
        "../annotations.json",
        str(tmp_path / "private.jpg"),
        "link.jpg",
        "",
        "a\0b",
        "\ud800",
    ):
        edit(source, "Activity", 2, image_path=[name])
        message = error_of(source)
        assert "1 problem(s)" in message
        assert f"{source}/Activity/annotations.json, record 2, image_path: " in message
        assert str(source / "Activity/images") in message.partition("image_path: ")[2]
        assert "no such image" not in message


def test_images_must_be_regular_files(source):
    images = source / "Activity/images"
    (images / "1.jpg").unlink()
    (images / "1.jpg").mkdir()
    (images / "2.jpg").unlink()
    os.mkfifo(images / "2.jpg")
    message = error_of(source)
    for number in (1, 2):
        assert f"record {number}, image_path: no such image: {images}/{number}.jpg\n" in message


def test_all_missing_images_are_listed_together(source):
    for folder in ("Object/existence", "Planning/assistance"):
        for image in (source / folder / "images").iterdir():
            image.unlink()
    edit(source, "Activity", 1, answer="")
    message = error_of(source)
    assert "EgoThink's data have 5 problem(s):" in message
    assert message.count("no such image") == 4
    for folder in ("Object/existence", "Planning/assistance"):
        for number in (1, 2):
            where = (
                f"{source}/{folder}/annotations.json, record {number}, image_path: no such image: "
            )
            assert f"{where}{source}/{folder}/images/{number}.jpg" in message
    assert "counted from 1" in message
    assert "https://github.com/AdaCheng/EgoThink" in message


def test_a_long_list_is_truncated(tmp_path):
    source = write_source(tmp_path / "source", count=5)
    for image in source.rglob("*.jpg"):
        image.unlink()
    message = error_of(source)
    assert "60 problem(s)" in message
    assert message.count("no such image") == 20
    assert "... and 40 more" in message


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", "not an image: the file is empty or of an unknown type"),
        (
            lambda data: b"version https://git-lfs.github.com/spec/v1\n",
            "not an image: the file is empty or of an unknown type",
        ),
        (
            lambda data: data[: len(data) // 2],
            "cannot decode the image: OSError: image file is truncated",
        ),
    ],
)
@pytest.mark.parametrize("lenient", [False, True])
def test_an_undecodable_image_is_an_error(source, monkeypatch, damage, reason, lenient):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", lenient)
    path = source / "Forecast/images/2.jpg"
    buffer = BytesIO()
    Image.effect_noise((200, 200), 90).save(buffer, "JPEG")
    path.write_bytes(damage(buffer.getvalue()))
    assert (
        f"{source}/Forecast/annotations.json, record 2, image_path: {path}: {reason}"
        in error_of(source)
    )
    assert ImageFile.LOAD_TRUNCATED_IMAGES is lenient


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    return read_folder(write_source(tmp_path_factory.mktemp("damaged")))[0]


@given(
    image_format=st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"]),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6),
    end=st.integers(0, 1200),
)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_damaged_images_are_decoded_or_rejected(draft, image_format, changes, end):
    data = bytearray(image_bytes(7, image_format)[:end])
    for position, value in changes:
        if position < len(data):
            data[position] = value
    Path(draft.where.partition("annotations.json")[0], "images", "1.jpg").write_bytes(data)
    message = ""
    try:
        (record,) = check_records([draft])
    except LmmsEgoplanError as error:
        message = str(error)
    if message:
        assert f"{draft.where}, image_path: " in message
        assert "0x" not in message
    else:
        assert record.image == data
        Image.open(BytesIO(data)).load()


def test_the_hub_has_the_same_records(hub, tmp_path):
    (hub / "Activity/images/2.jpg").write_bytes(image_bytes(3, "PNG"))
    write_hub_copy(hub, tmp_path)
    assert check_records(read_hub()) == check_records(read_folder(hub))


def test_a_record_of_the_hub_is_checked_too(hub, tmp_path):
    edit(hub, "Planning/navigation", 2, answer=" ")
    (hub / "Forecast/images/1.jpg").write_bytes(b"none")
    write_hub_copy(hub, tmp_path)
    with pytest.raises(LmmsEgoplanError) as caught:
        check_records(read_hub())
    for part in (
        "2 problem(s)",
        "EgoThink/EgoThink, config Planning_navigation, record 2, answer: ",
        (
            "EgoThink/EgoThink, config Forecasting, record 1, image: not an image: the file "
            "is empty or of an unknown type"
        ),
    ):
        assert part in str(caught.value)


def test_without_network_the_hub_gives_one_error(hub):
    reason = r"config Object_existence: cannot load from the hub: \S+ reach"
    with pytest.raises(LmmsEgoplanError, match=reason) as e:
        read_hub()
    assert "Without the hub: lmms-egoplan data prepare egothink DIR" in str(e.value)


def test_a_config_missing_on_the_hub_is_named(hub, tmp_path):
    write_hub_copy(
        hub, tmp_path, configs=[d.hub_config for d in DIMENSIONS if d.name != "counting"]
    )
    with pytest.raises(
        LmmsEgoplanError, match=r"config Reasoning_counting: cannot load from the hub: .*not found"
    ):
        read_hub()


def test_a_config_must_have_one_split(hub, tmp_path):
    write_hub_copy(hub, tmp_path, splits=("train", "test"))
    with pytest.raises(LmmsEgoplanError, match=r"config Object_existence: .*2: train, test"):
        read_hub()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            {"question": ["Q?"], "picture": ["1.jpg"]},
            "missing columns answer, image; it has question, picture",
        ),
        ({"question": ["Q?"], "answer": ["A"], "image": ["1.jpg"]}, "column image: .*Value"),
        (None, "cannot load from the hub: .*[Pp]arquet"),
    ],
)
def test_a_config_must_have_question_answer_and_image(hub, tmp_path, columns, reason):
    write_hub_copy(hub, tmp_path)
    path = tmp_path / "EgoThink/EgoThink/Object_existence/test-00000-of-00001.parquet"
    if columns is None:
        path.write_bytes(b"PAR1")
    else:
        Dataset.from_dict(columns).to_parquet(path)
    with pytest.raises(LmmsEgoplanError, match=f"config Object_existence: {reason}"):
        read_hub()


def test_a_row_of_the_hub_without_image_is_an_error(hub, tmp_path):
    write_hub_copy(hub, tmp_path)
    path = tmp_path / "EgoThink/EgoThink/Activity/test-00000-of-00001.parquet"
    features = Features(
        {"question": Value("string"), "answer": Value("string"), "image": ImageFeature()}
    )
    Dataset.from_list(
        [{"question": "Q?", "answer": "A", "image": None}], features=features
    ).to_parquet(path)
    with pytest.raises(LmmsEgoplanError, match="config Activity, record 1, image: missing"):
        check_records(read_hub())
