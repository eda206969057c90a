"""Test questions shown from public copies, on small files in the layouts of these copies."""

import json
import shutil
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.egoplan.derived_questions import DATA, available
from benchmarks.egoplan.public_copies import (
    CHOICES,
    COUNT,
    RATES,
    bench2,
    iffyuan_row,
    images_of,
    nv_njb_row,
    observation_of,
    prepare,
    seed_bench_rows,
    source_frames,
    with_rows,
    write_egolife,
    write_lines,
    write_official,
    write_parquet,
    write_seed_bench,
)
from lmms_egoplan.benchmarks.egoplan.letter import read_clear, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN as VISUALS
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN_BENCH2 as BENCH2_VISUALS
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.coverage import coverage
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import count_video_frames, read_video_frames, write_video
from lmms_egoplan.storage import load_summary

pytestmark = pytest.mark.skipif(not available(), reason=f"needs the public annotations in {DATA}")


@pytest.fixture(scope="module")
def official(tmp_path_factory):
    """Questions in the official layout; some have no past actions."""
    rendered = write_official(tmp_path_factory.mktemp("official"))
    assert any(not record["task_progress_metadata"] for record in rendered.records)
    return rendered


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture(scope="module")
def seed_bench(official, tmp_path_factory):
    return write_seed_bench(
        tmp_path_factory.mktemp("seed"), official, seed_bench_rows(official.records)
    )


def report_of(benchmark="egoplan", split="val"):
    summary = load_summary(benchmark, split)
    assert summary["copy"]["matched"] >= summary["questions"]
    return summary, summary["copy"]


def differences(copy):
    return {
        name: len(copy[name])
        for name in ("missing", "changed", "extra", "duplicates", "ambiguous", "unreadable")
    }


NOTHING = dict.fromkeys(("missing", "changed", "extra", "duplicates", "ambiguous", "unreadable"), 0)


def pixels(image):
    return np.asarray(image, int)


def test_a_complete_copy_shows_its_own_media(official, seed_bench, folder):
    result = prepare(official, "seed-bench-r1", seed_bench, "--verify")
    assert result.exit_code == 0, result.output
    summary, copy = report_of()
    assert (copy["rows"], copy["matched"], differences(copy)) == (COUNT, COUNT, NOTHING)
    alone = sum(not record["task_progress_metadata"] for record in official.records)
    assert summary["clips"]["observation only"] == alone > 0
    rows = {row["sample_id"]: row for row in EGOPLAN.load("val")}
    assert [*rows] == [record["sample_id"] for record in official.records]
    for record in official.records:
        row = rows[record["sample_id"]]
        assert row["choices"] == [record[name] for name in CHOICES]
        images = VISUALS.visual_input(row, {"media": "frames", "num_frames": 1000})
        source = source_frames(official, record)
        assert len(images) == len(source)
        assert (pixels(images[-1]) == pixels(observation_of(official, record))).all()
        for image, expected in zip(images[:-1], source[:-1], strict=True):
            assert np.abs(pixels(image) - pixels(expected)).mean() < 6
        (video,) = VISUALS.visual_input(row, {"media": "video"})
        first, *later = read_video_frames(video, range(count_video_frames(video)))
        assert first.size == (images[0].size if later else (96, 72))
        values = score_letter(row, "A", EGOPLAN_VAL, read_clear)
        assert values["details"]["media"] == "public copy seed-bench-r1"
        assert values["details"]["split_size"] == COUNT
        clips = VISUALS.visual_input(row, {"media": "clips", "num_clips": 4, "frames_per_clip": 8})
        assert len(clips) == min(4, len(record["task_progress_metadata"])) + 1


def test_differences_are_counted_and_named(official, seed_bench, folder):
    """Rows in another order, with other ids, and with one difference each."""
    rows = seed_bench_rows(official.records)
    for number, row in enumerate(rows):
        row["sample_id"] = 5000 + number  # The copy has new ids.
    first, other_order, other_choice, other_right = (row["sample_id"] for row in rows[:4])
    dropped = rows[4]
    rows[1] |= {"choice_a": rows[1]["choice_b"], "choice_b": rows[1]["choice_a"]}
    rows[1]["golden_choice_idx"] = {"A": "B", "B": "A"}.get(
        rows[1]["golden_choice_idx"], rows[1]["golden_choice_idx"]
    )
    wrong = next(letter for letter in "ABCD" if letter != rows[2]["golden_choice_idx"]).lower()
    rows[2][f"choice_{wrong}"] = "sing a song"
    wrong = next(letter for letter in "ABCD" if letter != rows[3]["golden_choice_idx"])
    rows[3] |= {"golden_choice_idx": wrong, "answer": rows[3][f"choice_{wrong.lower()}"]}
    extra = rows[5] | {"sample_id": 6000, "task_goal": "fly to the moon"}
    copy = with_rows(folder, seed_bench, [*reversed(rows[5:]), *rows[:4], extra, rows[0]])
    result = prepare(official, "seed-bench-r1", copy)
    assert result.exit_code == 0, result.output
    summary, report = report_of()
    assert report["rows"] == COUNT + 1
    assert report["matched"] == summary["questions"] == COUNT - 4
    assert report["missing"] == [official.records[4]["sample_id"]]
    changed = dict(text.split(": ", 1) for text in report["changed"])
    assert [*changed] == [str(record["sample_id"]) for record in official.records[1:4]]
    assert [text.split(" (")[0] for text in changed.values()] == [
        "order of choices",
        "choices",
        "right choice",
    ]
    for number, text in zip(
        (other_order, other_choice, other_right), changed.values(), strict=True
    ):
        assert str(number) in text
    assert ["6000" in text for text in report["extra"]] == [True]
    assert [str(first) in text for text in report["duplicates"]] == [True]
    rows = EGOPLAN.load("val")
    assert {*rows["sample_id"]} == {
        record["sample_id"] for record in (official.records[0], *official.records[5:])
    }
    assert coverage(
        [score_letter(row, "A", EGOPLAN_VAL, read_clear)["coverage"] for row in rows]
    ) == pytest.approx((COUNT - 4) / COUNT)
    for count in (
        f"{COUNT - 4} of {COUNT}",
        "missing (1)",
        "changed (3)",
        "extra (1)",
        "duplicates (1)",
    ):
        assert count in result.output
    assert dropped["sample_id"] not in rows["sample_id"]


def test_a_copy_that_has_shrunk(official, folder):
    """EgoLife's copy had 3,355 rows and later 3,343, with two more fields."""
    rows = [
        record | {"is_valid": True, "rearranged_id": n}
        for n, record in enumerate(official.records[3:])
    ]
    copy = write_egolife(folder / "copy", official, rows)
    result = prepare(official, "egolife", copy)
    assert result.exit_code == 0, result.output
    summary, report = report_of()
    assert differences(report) == NOTHING | {"missing": 3}
    assert report["missing"] == [record["sample_id"] for record in official.records[:3]]
    assert (summary["split_size"], summary["questions"]) == (COUNT, COUNT - 3)
    for row, record in zip(EGOPLAN.load("val"), official.records[3:], strict=True):
        assert row["media_path"] == str(copy / "videos" / f"{record['sample_id']}.mp4")
        images = VISUALS.visual_input(row, {"media": "frames", "num_frames": 1000})
        source = source_frames(official, record)
        assert (
            max(np.abs(pixels(a) - pixels(b)).mean() for a, b in zip(images, source, strict=True))
            < 9
        )


@pytest.mark.parametrize(
    ("name", "make_row", "fields"),
    [
        ("iffyuan", iffyuan_row, ()),
        (
            "iffyuan",
            lambda *of: iffyuan_row(*of) | {"image": iffyuan_row(*of)["image"]["bytes"]},
            (),
        ),
        ("nv-njb", nv_njb_row, ("task_start_frame", "current_observation_frame")),
    ],
)
def test_copies_of_bench2_with_images(official, folder, name, make_row, fields):
    records = bench2(official, folder)
    rows = [make_row(official, record, number) for number, record in enumerate(records)]
    write_parquet(folder / "copy" / "data" / "train-00000-of-00001.parquet", rows)
    options = {"benchmark": "egoplan_bench2", "annotations": folder / "bench2.json"}
    result = prepare(official, name, folder / "copy", "--verify", **options)
    assert result.exit_code == 0, result.output
    _, report = report_of("egoplan_bench2", "test")
    contents = Counter(
        tuple(record[name] for name in ("task_goal", *CHOICES, "answer", *fields))
        for record in records
    )
    equal = sum(count for count in contents.values() if count > 1)
    assert equal == (0 if fields else 2)
    assert differences(report) == NOTHING | {"ambiguous": equal, "missing": equal}
    rows = EGOPLAN_BENCH2.load("test")
    by_id = {record["sample_id"]: record for record in records}
    assert len(rows) == len(records) - equal > 5
    for row in rows:
        progress, observation = images_of(official, by_id[row["sample_id"]])
        images = BENCH2_VISUALS.visual_input(row, {"media": "frames", "num_frames": 8})
        copied = [*progress, observation]
        expected = [
            image
            for image, later in zip(copied, [*copied[1:], None], strict=True)
            if image != later
        ]
        assert [image.size for image in images] == [image.size for image in expected]
        assert all((pixels(a) == pixels(b)).all() for a, b in zip(images, expected, strict=True))
        with pytest.raises(LmmsEgoplanError, match=f"public copy {name}"):
            BENCH2_VISUALS.visual_input(
                row, {"media": "clips", "num_clips": 4, "frames_per_clip": 8}
            )
    again = prepare(official, name, folder / "copy", **options)
    assert again.exit_code == 0


def test_seed_bench_level_3(official, folder):
    records = bench2(official, folder)
    rows = seed_bench_rows([record | {"video_source": "Ego4D"} for record in records])
    copy = folder / "copy"
    write_lines(copy / "annotations" / "validation_L3.jsonl", rows)
    for record in records:
        if record["task_progress_metadata"]:
            write_video(
                copy / "videos" / "Ego4D" / f"{record['sample_id']}.mp4",
                source_frames(official, record),
                30,
            )
        image = copy / "images" / "Ego4D" / f"{record['sample_id']}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        observation_of(official, record).save(image)
    result = prepare(
        official,
        "seed-bench-r1",
        copy,
        benchmark="egoplan_bench2",
        annotations=folder / "bench2.json",
    )
    assert result.exit_code == 0, result.output
    summary, report = report_of("egoplan_bench2", "test")
    assert differences(report) == NOTHING
    alone = [record["sample_id"] for record in records if not record["task_progress_metadata"]]
    assert summary["clips"]["observation only"] == len(alone) > 0
    for row in EGOPLAN_BENCH2.load("test"):
        images = BENCH2_VISUALS.visual_input(row, {"media": "frames", "fps": 2, "max_frames": 256})
        assert (len(images) == 1) or row["sample_id"] not in alone
        assert images[-1].size == (96, 72)


def test_equal_questions_are_separated_by_id_or_left_as_ambiguous(official, seed_bench, folder):
    """Two official questions that differ only in the observation, which the copy's rows do not
    have.
    """
    record = next(record for record in official.records if record["task_progress_metadata"])
    twin = record | {
        "sample_id": 900,
        "current_observation_frame": record["current_observation_frame"] - 1,
    }
    annotations = folder / "twins.json"
    annotations.write_text(json.dumps([record, twin]))
    rows = seed_bench_rows([record, record | {"sample_id": 901}])
    copy = with_rows(folder, seed_bench, rows)
    result = prepare(official, "seed-bench-r1", copy, annotations=annotations)
    assert result.exit_code == 0, result.output
    _, report = report_of()
    assert differences(report) == NOTHING | {"ambiguous": 1, "missing": 1}
    assert (report["matched"], report["missing"]) == (1, [900])
    assert "901" in report["ambiguous"][0]


def test_observations_are_compared_with_the_videos(official, seed_bench, folder):
    """Replace one image by another photograph. Ego4D's images get the size of the videos."""
    copy = with_rows(folder, seed_bench, seed_bench_rows(official.records))
    epic, ego4d = (
        [r for r in official.records if r["video_source"] == source]
        for source in ("EpicKitchens", "Ego4D")
    )
    for record in ego4d:
        source_frames(official, record)[-1].save(
            copy / "images" / "Ego4D" / f"{record['sample_id']}.png"
        )
    last, other = (
        ego4d[-1],
        next(record for record in ego4d if record["video_id"] != ego4d[-1]["video_id"]),
    )
    images = copy / "images" / "Ego4D"
    shutil.copy(images / f"{other['sample_id']}.png", images / f"{last['sample_id']}.png")
    result = prepare(official, "seed-bench-r1", copy, "--ego4d", str(official.ego4d))
    assert result.exit_code == 0, result.output
    _, report = report_of()
    assert report["observations"] == {
        "compared": len(ego4d),
        "other_size": [],
        "different": [last["sample_id"]],
    }
    roots = ["--ego4d", str(official.ego4d), "--epic-kitchens", str(official.epic_kitchens)]
    result = prepare(official, "seed-bench-r1", copy, *roots)
    sizes = [record["sample_id"] for record in epic]
    assert sorted(report_of()[1]["observations"]["other_size"]) == sorted(sizes)
    assert f"{COUNT}; {len(epic)} have another size, 1 differ: {last['sample_id']}" in result.output
    for row in EGOPLAN.load("val"):
        assert row["media_path"].startswith(str(copy))


DAMAGES = {
    "golden_choice_idx": {"golden_choice_idx": "E", "answer": None},
    "golden_choice_idx/answer": {"answer": "sing a song"},
    "choice_a/choice_b/choice_c/choice_d": {"choice_c": 7},
    "task_goal": {"task_goal": None},
    "task_progress_metadata": {"task_progress_metadata": "[]"},
}


def test_rows_with_wrong_fields(official, seed_bench, folder):
    rows = seed_bench_rows(official.records)
    lines = {field: line for line, field in enumerate(DAMAGES, 8)}
    for field, line in lines.items():
        rows[line - 1] |= DAMAGES[field]
    copy = with_rows(folder, seed_bench, rows)
    result = prepare(official, "seed-bench-r1", copy)
    assert result.exit_code == 0, result.output
    _, report = report_of()
    assert differences(report) == NOTHING | {"unreadable": len(DAMAGES), "missing": len(DAMAGES)}
    assert report["missing"] == [official.records[line - 1]["sample_id"] for line in lines.values()]
    for text, (field, line) in zip(report["unreadable"], lines.items(), strict=True):
        assert f"validation_L1.jsonl, line {line}" in text
        assert field in text


def test_missing_and_damaged_media(official, seed_bench, folder):
    """Damage the media of one question in each way."""
    copy = with_rows(folder, seed_bench, seed_bench_rows(official.records))
    kinds = ("missing video", "truncated video", "missing image", "truncated image")
    damaged = dict(
        zip(kinds, [x for x in official.records if x["task_progress_metadata"]], strict=False)
    )
    names = []
    for kind, record in damaged.items():
        part, extension = ("images", "png") if "image" in kind else ("videos", "mp4")
        path = copy / part / record["video_source"] / f"{record['sample_id']}.{extension}"
        names.append(f"/{path.name}")
        if "missing" in kind:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    refused = prepare(official, "seed-bench-r1", copy)
    assert refused.exit_code == 1
    assert load_summary("egoplan", "val") is None
    ids = [record["sample_id"] for record in damaged.values()]
    for text in (
        *names,
        *(f"sample_id {number}" for number in ids),
        "validation_L1.jsonl, line",
        "--skip-missing",
    ):
        assert text in refused.output
    result = prepare(official, "seed-bench-r1", copy, "--skip-missing")
    assert result.exit_code == 0, result.output
    summary, report = report_of()
    assert differences(report) == NOTHING
    assert (report["matched"], summary["questions"]) == (COUNT, COUNT - len(kinds))
    assert (
        sorted(sample_id for lost in summary["missing"] for sample_id in lost["sample_ids"]) == ids
    )


def test_clips_need_the_times_of_actions(official, seed_bench, folder):
    copy = with_rows(folder, seed_bench, seed_bench_rows(official.records))
    record = next(record for record in official.records if record["task_progress_metadata"])
    path = copy / "videos" / record["video_source"] / f"{record['sample_id']}.mp4"
    write_video(path, source_frames(official, record)[:4], RATES[record["video_source"]])
    assert prepare(official, "seed-bench-r1", copy).exit_code == 0
    summary, _ = report_of()
    assert summary["clips"]["shorter"] == 1
    row = EGOPLAN.load("val")[0]
    VISUALS.visual_input(row, {"media": "frames", "num_frames": 8})
    with pytest.raises(LmmsEgoplanError, match="egoplan_val"):
        VISUALS.visual_input(row, {"media": "clip_frames", "num_clips": 4, "frames_per_clip": 8})


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("nowhere", [], "seed-bench-r1, egolife"),
        ("iffyuan", [], "seed-bench-r1, egolife"),
        ("egolife", [], "no file **/*.parquet"),
        ("seed-bench-r1", ["--clips", "clips"], "--clips cannot be combined with --copy"),
    ],
)
def test_refuses(official, folder, name, options, part):
    (folder / "copy").mkdir()
    result = prepare(official, name, folder / "copy", *options)
    assert result.exit_code == 1
    assert part in " ".join(result.output.split())


@pytest.mark.parametrize("content", ["empty", "damaged", "other"])
def test_tables_without_a_question(official, folder, content):
    path = folder / "copy" / "validation.parquet"
    write_parquet(path, [{"sample_id": 1, "task_goal": "fly to the moon"}])
    if content == "empty":
        parquet.write_table(pa.table({"sample_id": pa.array([], pa.int64())}), path)
    elif content == "damaged":
        path.write_bytes(path.read_bytes()[:-20])
    result = prepare(official, "egolife", folder / "copy")
    assert result.exit_code == 1
    assert str(folder / "copy") in result.output
    assert load_summary("egoplan", "val") is None


UNREADABLE = {
    "options": lambda row: {"options": ["B" + row["options"][0][1:], *row["options"][1:]]},
    "options[2]": lambda row: {"options": [*row["options"][:2], None, row["options"][3]]},
    "answer": lambda _: {"answer": "E"},
    "question": lambda _: {"question": " "},
}
WITHOUT_MEDIA = {
    "image[0]": lambda _: {"image": None},
    "image": lambda _: {"video": [], "image": []},
    "video[1]": lambda row: {"video": [row["video"][0], "train.jsonl"]},
    "expected a text": lambda row: {"image": [row["video"]]},
    "not an image": lambda _: {"image": {"bytes": "iVBORw0KGgo=", "path": None}},
    "nowhere.png": lambda _: {"image": {"bytes": None, "path": "images/nowhere.png"}},
    "must be a relative path": lambda _: {"image": "../secret.png"},
}


def write_json_rows(official, folder, changes):
    """Write questions of EgoPlan-Bench2 with a copy in JSON lines, whose images are files.

    Change one row by each of the `changes`, but none of those that are ambiguous. Return the
    records, and the changed rows' records by their line.
    """
    records = bench2(official, folder)
    rows = [iffyuan_row(official, record, number) for number, record in enumerate(records)]
    (folder / "copy" / "images").mkdir(parents=True)
    for number, row in enumerate(rows):
        for index, image in enumerate([*row["video"], row["image"]]):
            path = folder / "copy" / "images" / f"{number}_{index}.png"
            path.write_bytes(image["bytes"])
            image |= {"bytes": None, "path": str(path.relative_to(folder / "copy"))}
        row["video"] = [image["path"] for image in row["video"]]
    answers = Counter(record["answer"] for record in records)
    changed = [number for number, record in enumerate(records) if answers[record["answer"]] == 1][
        : len(changes)
    ]
    for number, change in zip(changed, changes, strict=True):
        rows[number] |= change(rows[number])
    write_lines(folder / "copy" / "train.jsonl", rows)
    return records, {number + 1: records[number] for number in changed}


def test_json_rows_with_paths_and_wrong_fields(official, folder):
    records, changed = write_json_rows(official, folder, UNREADABLE.values())
    options = {"benchmark": "egoplan_bench2", "annotations": folder / "bench2.json"}
    result = prepare(official, "iffyuan", folder / "copy", **options)
    assert result.exit_code == 0, result.output
    summary, report = report_of("egoplan_bench2", "test")
    assert summary["questions"] == len(records) - len(UNREADABLE) - len(report["ambiguous"]) > 0
    for part, line, text in zip(UNREADABLE, changed, report["unreadable"], strict=True):
        assert part.partition("[")[0] in text
        assert f"train.jsonl, line {line}," in text
    excluded = {record["sample_id"] for record in changed.values()}
    assert not excluded & {*EGOPLAN_BENCH2.load("test")["sample_id"]}


def test_json_rows_with_paths_and_without_some_media(official, folder):
    records, changed = write_json_rows(official, folder, WITHOUT_MEDIA.values())
    options = {"benchmark": "egoplan_bench2", "annotations": folder / "bench2.json"}
    result = prepare(official, "iffyuan", folder / "copy", **options)
    assert result.exit_code == 1
    problems = [text for text in result.output.splitlines() if "train.jsonl" in text]
    for part, line in zip(WITHOUT_MEDIA, changed, strict=True):
        assert [part in text for text in problems if f"train.jsonl, line {line}," in text] == [
            True
        ], part
    assert "--skip-missing" in result.output
    result = prepare(official, "iffyuan", folder / "copy", "--skip-missing", **options)
    assert result.exit_code == 0, result.output
    assert f"Skipped {len(WITHOUT_MEDIA)} questions" in result.output
    summary, report = report_of("egoplan_bench2", "test")
    assert summary["questions"] == len(records) - len(WITHOUT_MEDIA) - len(report["ambiguous"]) > 0
    excluded = {record["sample_id"] for record in changed.values()}
    assert not excluded & {*EGOPLAN_BENCH2.load("test")["sample_id"]}


def test_videos_next_to_the_table_and_fields_of_the_other_benchmark(official, folder):
    """EgoPlan-Bench has no task_start_frame, so the field is not compared."""
    rows = [record | {"task_start_frame": 3, "video_id": None} for record in official.records]
    copy = write_egolife(folder / "copy", official, rows)
    for path in (copy / "videos").iterdir():
        path.rename(copy / path.name)
    result = prepare(official, "egolife", copy)
    assert result.exit_code == 0, result.output
    assert differences(report_of()[1]) == NOTHING
