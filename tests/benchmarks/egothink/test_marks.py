"""Masks and boxes are read pixel by pixel as slow references read them, and drawn on images of the
right questions.
"""

import json
import random

import numpy as np
import pytest
from datasets import Image as ImageFeature
from PIL import Image
from typer.testing import CliRunner

from benchmarks.egothink.source import write_marks
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, DIMENSIONS
from lmms_egoplan.benchmarks.egothink.marks import decode_counts, draw_marks, read_marks
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import load_summary

SIZE = (24, 16)


def runs_of(mask):
    """Count equal pixels, column by column, from background on."""
    runs, current = [0], False
    for pixel in (
        bool(mask[row][column]) for column in range(mask.shape[1]) for row in range(mask.shape[0])
    ):
        if pixel != current:
            runs.append(0)
            current = pixel
        runs[-1] += 1
    return runs


def compressed(runs):
    """Write each number, or its difference to the run before the last one, in groups of five bits,
    lowest first.
    """
    text = ""
    for index, run in enumerate(runs):
        number = run - runs[index - 2] if index > 2 else run
        while True:
            bits, number = number % 32, number // 32
            is_last = number == (-1 if bits & 16 else 0)
            text += chr(48 + bits + (0 if is_last else 32))
            if is_last:
                break
    return text


def masks():
    generator = random.Random(5)
    for density in (0.02, 0.5, 0.98):
        yield np.array(
            [[generator.random() < density for _ in range(SIZE[0])] for _ in range(SIZE[1])]
        )
    blocks = np.zeros(SIZE[::-1], bool)
    blocks[2:14, 3:20] = True
    blocks[5:9, 8:11] = False
    yield blocks


@pytest.mark.parametrize("mask", [*masks()])
def test_both_forms_of_rle_and_label_maps_are_read(tmp_path, mask):
    runs = runs_of(mask)
    assert decode_counts(compressed(runs)) == runs
    entries = [
        {"segmentation": {"size": [16, 24], "counts": counts}}
        for counts in (runs, compressed(runs))
    ]
    for content in (entries, {"image": {}, "annotations": entries}):
        (tmp_path / "1.json").write_text(json.dumps(content))
        read = read_marks(tmp_path / "1.json", SIZE)
        assert [*read] == [1, 2]
        assert all((part == mask).all() for part in read.values())
    for labels in (np.where(mask, 7, 0).astype(np.uint8), np.where(mask, 300, 0).astype(np.uint16)):
        Image.fromarray(labels).save(tmp_path / "1.png")
        ((number, read),) = read_marks(tmp_path / "1.png", SIZE).items()
        assert number == labels.max()
        assert (read == mask).all()


def test_compressed_rle_is_that_of_cocos_tools():
    coco = pytest.importorskip("pycocotools.mask")
    for mask in masks():
        text = coco.encode(np.asfortranarray(mask, np.uint8))["counts"].decode()
        assert decode_counts(text) == runs_of(mask)
        assert text == compressed(runs_of(mask))


def test_boxes_and_polygons_include_their_edges(tmp_path):
    path = tmp_path / "1.json"
    path.write_text(
        json.dumps(
            [[4, 2, 10, 5], {"bbox": [4, 2, 0, 5]}, {"segmentation": [[4, 2, 14, 2, 14, 7, 4, 7]]}]
        )
    )
    box, line, polygon = read_marks(path, SIZE).values()
    inside = np.array(
        [[4 <= column <= 14 and 2 <= row <= 7 for column in range(24)] for row in range(16)]
    )
    assert (box == inside).all()
    assert (polygon == inside).all()
    assert line.sum() == 6


def test_small_marks_stay_visible_and_other_pixels_are_unchanged():
    image = Image.effect_noise((300, 200), 60).convert("RGB")
    whole, small = np.zeros((2, 200, 300), bool)
    whole[20:180, 20:280] = True
    small[90:115, 140:165] = True  # in the middle, where the number of the large mask would be
    before, after = np.array(image), np.array(draw_marks(image, {1: whole, 2: small}))
    changed = (before != after).any(2)
    assert not changed[:20].any()
    assert changed[90, 140:165].all()  # the outline of the small mask
    assert changed[20, 20:280].all()
    interior = changed[26:174, 26:274].copy()
    interior[60:95, 110:145] = False  # the small mask
    rows, columns = interior.nonzero()
    assert len(rows)  # the number of the large mask, in one place
    assert np.ptp(rows) < 20
    assert np.ptp(columns) < 20
    (only,) = {tuple(after[row, 140]) for row in range(90, 115)}
    assert only != tuple(after[20, 20])


WRONG = [
    (
        "1.json",
        "[[4, 2, 21, 5]]",
        "entry 1, bbox: expected a box, RLE or polygons, found [4, 2, 21, 5], which does not fit",
    ),
    ("1.json", "[[4, 2, 3, 5], [4, 2, -1, 5]]", "entry 2, bbox"),
    ("1.json", "[[-1, 2, 3, 5]]", "entry 1, bbox"),
    ("1.json", "[[1, 2, 3]]", "entry 1, bbox"),
    ("1.json", '["box"]', "entry 1, bbox"),
    ("1.json", '[{"area": 3}]', "entry 1, bbox"),
    ("1.json", '[{"segmentation": [[1, 2, 30, 4, 5, 6]]}]', "entry 1, segmentation"),
    ("1.json", '[{"segmentation": [[1, 2, 3, 4, 5]]}]', "entry 1, segmentation"),
    ("1.json", '[{"segmentation": {"size": [16, 24]}}]', "entry 1, segmentation"),
    (
        "1.json",
        '[{"segmentation": {"size": [24, 16], "counts": [1, 383]}}]',
        "size [24, 16], 384 pixels",
    ),
    ("1.json", '[{"segmentation": {"size": [16, 24], "counts": [1, 382]}}]', "383 pixels"),
    (
        "1.json",
        '[{"segmentation": {"size": [16, 24], "counts": [-1, 385]}}]',
        "entry 1, segmentation",
    ),
    (
        "1.json",
        f'[{{"segmentation": {{"size": [16, 24], "counts": [1{"0" * 30}, -1{"0" * 30}, 384]}}}}]',
        "segmentation",
    ),
    ("1.json", '[{"segmentation": [[1, 1, NaN, 2, 3, 3]]}]', "entry 1, segmentation"),
    ("1.json", '[{"segmentation": {"size": [16, 24], "counts": "~~"}}]', "entry 1, segmentation"),
    (
        "1.json",
        '[{"segmentation": {"size": [16, 24], "counts": [384]}}]',
        "entry 1: empty mask; remove it",
    ),
    ("1.json", "[]", "no marks; remove the file"),
    ("1.json", '{"masks": []}', "expected a list, found nothing"),
    ("1.json", "[", "invalid JSON"),
    ("1.png", "not an image", "not an image"),
    (
        "1.png",
        Image.new("L", (23, 16), 1),
        "expected one channel of shape (16, 24) (image), found (16, 23)",
    ),
    ("1.png", Image.new("RGB", SIZE, "red"), "found (16, 24, 3)"),
    ("1.png", Image.new("L", SIZE), "no marks; remove the file"),
    ("9.json", "[[4, 2, 14, 9]]", "no marks of a question; expected one file per image"),
    (None, None, "no marks of a question; expected one file per image"),
]


@pytest.mark.usefixtures("data")
def test_wrong_marks_are_refused_with_file_entry_and_field(source, tmp_path):
    unexplained = []
    for number, (name, content, message) in enumerate(WRONG):
        folder = tmp_path / f"marks {number}" / "counting"
        folder.mkdir(parents=True)
        if isinstance(content, Image.Image):
            content.save(folder / name)
        elif name:
            (folder / name).write_text(content)
        try:
            prepare_egothink(source, folder.parent)
            refusal = ""
        except LmmsEgoplanError as error:
            refusal = str(error)
        if (
            not refusal.startswith(str(folder / name if name else folder.parent))
            or message not in refusal
        ):
            unexplained.append((name, content, refusal))
    assert unexplained == []
    assert load_summary("egothink", "counting") is None


@pytest.mark.usefixtures("data")
def test_two_files_for_one_image_are_refused(source, tmp_path):
    folder = write_marks(tmp_path / "marks", [1])
    Image.new("L", SIZE, 1).save(folder / "counting" / "1.png")
    with pytest.raises(
        LmmsEgoplanError,
        match=r"counting.1\.json: no marks of a question; expected one file per image",
    ):
        prepare_egothink(source, folder)


@pytest.mark.usefixtures("data")
def test_the_command_stores_marked_images_and_counts_the_others(source, tmp_path):
    result = CliRunner().invoke(
        app,
        [
            "data",
            "prepare",
            "egothink",
            str(source),
            "--marks",
            str(write_marks(tmp_path / "marks", [2])),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "navigation_marked: marks drawn on 1 of 2 images" in result.output
    assert "24 questions from" in result.output
    for dimension in DIMENSIONS[::11]:
        rows = EGOTHINK.load(dimension.name)
        (marked,) = EGOTHINK.load(f"{dimension.name}_marked")
        image, stored_image = rows[1]["image"], marked.pop("image")
        drawn = draw_marks(image, read_marks(tmp_path / "marks" / dimension.name / "2.json", SIZE))
        assert stored_image.tobytes() == drawn.tobytes() != image.convert("RGB").tobytes()
        assert marked == rows.remove_columns("image")[1] | {"without_partner": 1}
        summary = load_summary("egothink", f"{dimension.name}_marked")
        assert (summary["questions"], summary["split_size"]) == (1, 2)
        assert summary["fingerprint"] != EGOTHINK.fingerprint(dimension.name)
    stored = EGOTHINK.load("counting_marked").cast_column("image", ImageFeature(decode=False))[0][
        "image"
    ]["bytes"]
    assert stored.startswith(b"\x89PNG")
    prepare_egothink(source)
    assert len(EGOTHINK.load("counting_marked")) == 1
    annotations = source / BY_NAME["counting"].folder / "annotations.json"
    annotations.write_text(annotations.read_text().replace("?", " now?", 1))
    prepare_egothink(source)
    assert len(EGOTHINK.load("activity_marked")) == 1
    with pytest.raises(
        LmmsEgoplanError, match=r"counting_marked: made from other data than counting now has"
    ):
        EGOTHINK.load("counting_marked")
