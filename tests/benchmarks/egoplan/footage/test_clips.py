"""Test questions shown from clips: cut by the package, or made elsewhere."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace

import av
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from benchmarks.egoplan.test_prepare import bench2_question, question, write
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.footage import clips
from lmms_egoplan.benchmarks.egoplan.footage.clips import Label, find_clip, read_label
from lmms_egoplan.benchmarks.egoplan.frames import progress_of
from lmms_egoplan.benchmarks.egoplan.letter import read_clear, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_TEST, EGOPLAN_VAL, details
from lmms_egoplan.benchmarks.egoplan.prepare import (
    Media,
    find_media,
    prepare_egoplan,
    prepare_egoplan_bench2,
)
from lmms_egoplan.benchmarks.egoplan.presets import load_presets
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, read_annotations
from lmms_egoplan.benchmarks.egoplan.visuals import num_images
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import (
    count_video_frames,
    frame_path,
    frame_times,
    read_video_frames,
    write_video,
)
from media.files import (
    damage_packet,
    number_image,
    read_numbers,
    write_epic_folder,
    write_numbered_video,
)

QUESTIONS = [
    question(11, "EpicKitchens", "P01_02", 95, (12, 30), (28, 44), (50, 110)),
    question(12, "EpicKitchens", "P01_102", 90, (31, 40), (60, 61), (70, 80), (81, 82), (83, 90)),
    question(13, "EpicKitchens", "P01_02", 7),
    question(20, "Ego4D", "0a1b-2c", 149, (3, 12), (40, 90), goal="wash car"),
    question(21, "Ego4D", "0a1b-2c", 29, (28, 28), goal="wash car"),
]
MEDIA = [
    {"media": "frames", "num_frames": 8},
    {"media": "frames", "num_frames": 1000},
    {"media": "clips", "num_clips": 4, "frames_per_clip": 8},
    {"media": "clip_frames", "num_clips": 2, "frames_per_clip": 3},
    {"media": "video"},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path


def write_sources(folder):
    for video_id in ("P01_02", "P01_102"):
        write_epic_folder(folder / "epic" / "P01" / "rgb_frames" / video_id, 1, 110)
    write_numbered_video(folder / "ego4d" / "0a1b-2c.mp4", 150, gop=50)
    return write(folder, QUESTIONS)


def sources(folder):
    return Media({EPIC_KITCHENS: folder / "epic", EGO4D: folder / "ego4d"})


def ready(folder, **options):
    return Media({EPIC_KITCHENS: None, EGO4D: None}, folder / "clips", **options)


def cut_clips(folder, media):
    annotations = folder / "annotations.json"
    records = read_annotations(annotations, "val")
    footage = find_media(annotations, records, media).footage
    return clips.cut_clips(
        annotations, records, footage, folder / "clips", skip_missing=media.skip_missing
    )


def images_of(visuals):
    """Return all images of a visual input, and the rates of its clips or its video file."""
    images, rates = [], []
    for visual in visuals:
        if isinstance(visual, str):
            times = frame_times(visual)
            rates.append(len(times) / (times[-1] or 1))
            images += read_video_frames(visual, range(len(times)))
        elif isinstance(visual, list):
            rates.append(visual.fps)
            images += visual
        else:
            images.append(visual)
    return images, rates


def images_shown(folder, media):
    """Return the numbers that the images show, their pixels, and the rates, for each row and
    medium.
    """
    prepare_egoplan(folder / "annotations.json", "val", media)
    rows = EGOPLAN.load("val")
    inputs = [
        [images_of(visuals.EGOPLAN.visual_input(row, settings)) for settings in MEDIA]
        for row in rows
    ]
    return [row["sample_id"] for row in rows], inputs


def difference(images, other_images):
    pairs = zip(images, other_images, strict=True)
    return max(
        np.abs(np.asarray(image, int) - np.asarray(other_image, int)).mean()
        for image, other_image in pairs
    )


def test_cut_clips_show_the_frames_of_the_sources(folder):
    write_sources(folder)
    result = cut_clips(folder, sources(folder))
    assert (result.cut, result.reused, result.failed) == (5, 0, {})
    ids, expected = images_shown(folder, sources(folder))
    ids_of_clips, clip_images = images_shown(folder, ready(folder))
    assert ids_of_clips == ids
    for of_source, of_clip in zip(expected, clip_images, strict=True):
        for (images, rates), (clip_images, clip_rates) in zip(of_source, of_clip, strict=True):
            assert read_numbers(clip_images) == read_numbers(images)
            assert [image.size for image in clip_images] == [image.size for image in images]
            assert clip_rates == rates
            assert difference(images, clip_images) < 3


def test_cut_clips_of_bench2_begin_with_the_tasks_start(folder):
    write_numbered_video(folder / "ego4d" / "v1.mp4", 40)
    annotations = str(write(folder, [bench2_question("v1_1", current_observation_frame=30)]))
    options = ["--ego4d", str(folder / "ego4d"), "--out", str(folder / "clips")]
    result = CliRunner().invoke(app, ["data", "cut", "egoplan_bench2", annotations, *options])
    assert result.exit_code == 0, result.output
    summary = prepare_egoplan_bench2(
        annotations, Media({EGO4D: None}, folder / "clips", verify=True)
    )
    assert (summary["clips"], summary["verified"]) == ({"labelled": 1}, True)
    (row,) = EGOPLAN_BENCH2.load("test")
    assert row["clip_frames"] == 27
    images = visuals.EGOPLAN_BENCH2.visual_input(row, {"media": "frames", "num_frames": 3})
    assert read_numbers(images) == [pytest.approx(number, abs=1) for number in (4, 17, 30)]


def test_a_clip_has_every_frame_up_to_the_observation_and_no_other(folder):
    write_sources(folder)
    cut_clips(folder, sources(folder))
    for record in QUESTIONS:
        path = folder / "clips" / f"{record['sample_id']}.mp4"
        last = record["current_observation_frame"]
        first = min(
            (action["start_frame"] for action in record["task_progress_metadata"]), default=last
        )
        assert read_numbers(read_video_frames(path, range(count_video_frames(path)))) == [
            *range(first, last + 1)
        ]
        with av.open(path) as container:
            assert container.streams.video[0].codec_context.name == "h264"
            assert container.streams.video[0].average_rate == {"P01_02": 60, "P01_102": 50}.get(
                record["video_id"], 30
            )
    assert sorted(path.name for path in (folder / "clips").iterdir()) == [
        f"{record['sample_id']}.mp4" for record in QUESTIONS
    ]


def test_photographs_of_an_odd_size_keep_size_and_look(folder):
    y, x = np.mgrid[0:63, 0:95]
    frames = [
        Image.fromarray(np.stack([x * 2 + i, y * 3, (x + y) % 256], axis=-1).astype("uint8"))
        for i in range(12)
    ]
    for number, frame in enumerate(frames, 1):
        path = frame_path(folder / "epic/P01/rgb_frames/P01_02", number)
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.save(path, quality=95)
    write(folder, [question(1, "EpicKitchens", "P01_02", 12, (1, 6))])
    cut_clips(folder, sources(folder))
    (((images, _), *_),) = images_shown(folder, sources(folder))[1]
    (((of_clip, _), *_),) = images_shown(folder, ready(folder))[1]
    assert {image.size for image in of_clip} == {(95, 63)}
    assert difference(images, of_clip) < 3


def test_only_results_from_clips_report_ready_clips(folder):
    annotations = write_sources(folder)
    cut_clips(folder, sources(folder))
    summary = prepare_egoplan(annotations, "val", ready(folder))
    assert summary["media"] == "ready clips"
    assert summary["clips"] == {"labelled": 5}
    row = EGOPLAN.load("val")[0]
    losses = [(1.0, False)] * 4
    for values in (
        score_ranking(row, losses, EGOPLAN_VAL),
        score_letter(row, "B", EGOPLAN_VAL, read_clear),
        score_ranking(row, losses, EGOPLAN_TEST),
    ):
        assert details([values["details"]])["media"] == "ready clips"
    prepared = prepare_egoplan(annotations, "val", sources(folder))
    assert "media" not in prepared
    values = score_ranking(EGOPLAN.load("val")[0], losses, EGOPLAN_VAL)
    assert "media" not in values["details"]


def test_cutting_resumes_and_repeats_changed_clips(folder):
    write_sources(folder)
    out = folder / "clips"
    cut_clips(folder, sources(folder))
    (out / "20.mp4").unlink()
    (out / "21.mp4").write_bytes(b"half a clip")
    (out / ".22.mp4.left").mkdir()
    times = {path: path.stat().st_mtime_ns for path in out.glob("1*.mp4")}
    result = cut_clips(folder, sources(folder))
    assert (result.cut, result.reused) == (2, 3)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    write_numbered_video(folder / "ego4d" / "0a1b-2c.mp4", 151)
    assert cut_clips(folder, sources(folder)).cut == 2
    write(folder, [QUESTIONS[0] | {"current_observation_frame": 90}, *QUESTIONS[1:]])
    assert cut_clips(folder, sources(folder)).cut == 1
    assert read_label(out / "11.mp4").observation_frame == 90


@pytest.mark.whole
def test_a_killed_cut_leaves_only_whole_clips_and_resumes(folder):
    annotations = write_sources(folder)
    program = (
        "import os\nfrom lmms_egoplan.benchmarks.egoplan.footage import clips\n"
        "from lmms_egoplan.cli import app\n"
        "write, left = clips.write_video, [3]\n"
        "def write_some(path, frames, *args, **options):\n"
        "    left[0] -= 1\n"
        "    def dying():\n"
        "        for number, frame in enumerate(frames):\n"
        "            if left[0] < 0 and number == 5: os._exit(9)\n"
        "            yield frame\n"
        "    return write(path, dying(), *args, **options)\n"
        "clips.write_video = write_some\n"
        "app()\n"
    )
    arguments = [
        "data",
        "cut",
        "egoplan",
        str(annotations),
        *options(folder),
        "--out",
        str(folder / "clips"),
    ]
    assert (
        subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True).returncode
        == 9
    )
    files = [path for path in (folder / "clips").iterdir() if path.is_file()]
    assert sorted(path.name for path in files if path.suffix == ".mp4") == [
        "11.mp4",
        "12.mp4",
        "13.mp4",
    ]
    result = cut_clips(folder, sources(folder))
    assert (result.cut, result.reused) == (2, 3)
    resumed = {path.name: path.read_bytes() for path in (folder / "clips").glob("*.mp4")}
    shutil.rmtree(folder / "clips")
    cut_clips(folder, sources(folder))
    assert {path.name: path.read_bytes() for path in (folder / "clips").glob("*.mp4")} == resumed


def options(folder):
    return [
        "--split",
        "val",
        "--epic-kitchens",
        str(folder / "epic"),
        "--ego4d",
        str(folder / "ego4d"),
    ]


def other_clip(folder, frames, fps=30, sample_id=1, name=None):
    path = folder / "clips" / (name or f"{sample_id}.mp4")
    return write_video(path, map(number_image, frames), fps)


def numbers(**settings):
    return read_numbers(
        images_of(visuals.EGOPLAN.visual_input(EGOPLAN.load("val")[0], settings))[0]
    )


PROGRESS = question(1, "Ego4D", "0a1b-2c", 99, (40, 60), (70, 130))


@pytest.mark.parametrize(
    ("frames", "fps", "fit", "seen"),
    [
        (range(40, 100), 30, "frame for frame", [40, 48, 57, 65, 74, 82, 91, 99]),
        (range(40, 100), 12, "frame for frame", [40, 48, 57, 65, 74, 82, 91, 99]),
        (range(40, 150), 30, "cut off", [40, 48, 57, 65, 74, 82, 91, 99]),
        (range(40, 150, 2), 15, "cut off", [40, 48, 56, 64, 74, 82, 90, 98]),
        (range(40, 99, 6), 5, "other rate", [40, 46, 58, 64, 70, 76, 88, 94]),
        (range(40, 80), 30, "shorter", [40, 46, 51, 57, 62, 68, 73, 79]),
        ([40], 30, "shorter", [40]),
    ],
)
def test_clips_from_elsewhere_show_nothing_after_the_observation(folder, frames, fps, fit, seen):
    other_clip(folder, frames, fps)
    summary = prepare_egoplan(write(folder, [PROGRESS]), "val", ready(folder))
    assert summary["clips"] == {fit: 1}
    assert summary.get("cut_off_ids") == ([1] if fit == "cut off" else None)
    assert numbers(media="frames", num_frames=8) == seen
    assert num_images(EGOPLAN.load("val")[0], {"num_frames": 8}) == len(seen)
    for settings in MEDIA:
        assert max(numbers(**settings)) <= 99
    assert numbers(media="frames", num_frames=1)[-1] == seen[-1]


def test_the_pace_is_that_of_the_progress(folder):
    other_clip(folder, range(40, 100, 2), fps=8)
    prepare_egoplan(write(folder, [PROGRESS]), "val", ready(folder))
    row = EGOPLAN.load("val")[0]
    progress = progress_of(row)
    assert progress.observation == row["clip_frames"] - 1
    clip, *_ = visuals.EGOPLAN.visual_input(
        row, {"media": "clips", "num_clips": 2, "frames_per_clip": 8}
    )
    assert float(progress.fps) * (99 - 40) / 30 == pytest.approx(progress.observation)
    assert clip.fps > 0


def test_clips_with_uneven_frames_are_missing(folder):
    """A clip's positions would not be evenly spaced times."""
    spacings = {
        "dropped": (1,) * 29 + (11,) + (1,) * 30,
        "slower later": (4,) * 30 + (5,) * 30,
        "late end": (1,) * 60,
    }
    for number, gaps in enumerate(spacings.values(), 1):
        fps = 120 if gaps[0] == 4 else 30
        write_numbered_video(
            folder / "clips" / f"{number}.mp4", 60, fps=fps, gaps=(*gaps[:59], 30), base=40
        )
    records = [PROGRESS | {"sample_id": number} for number in (1, 2, 3)]
    summary = prepare_egoplan(write(folder, records), "val", ready(folder, skip_missing=True))
    assert summary["clips"] == {"frame for frame": 1}
    reasons = {row["sample_ids"][0]: row["reason"] for row in summary["missing"]}
    assert reasons.keys() == {1, 2}
    assert re.search(r"/1\.mp4: .*0\.033 to 0\.367 s", reasons[1])
    assert re.search(r"/2\.mp4: .*0\.033 to 0\.042 s", reasons[2])


def test_the_number_of_frames_by_rate_does_not_depend_on_the_clips_rate():
    settings = load_presets("egoplan")["seed-bench-r1"].visual_settings
    doc = {"sample_id": 1, "video_source": "Ego4D", "video_id": "v"}
    for length in range(16, 300):
        past = [{"narration_text": "x", "start_frame": 5, "stop_frame": 6}]
        doc |= {"past_actions": past, "current_observation_frame": 4 + length}
        for num_frames in (-(-length // 2), length, 2 * length):  # 15, 30 and 60 per second
            assert num_images(doc | {"clip_frames": num_frames}, settings) == num_images(
                doc, settings
            ), length


@pytest.mark.parametrize(
    ("record", "frames", "reason"),
    [
        (question(1, "Ego4D", "v", 99), range(90, 100), "1.mp4: 10 .*observation"),
        (PROGRESS, None, "1.mp4: "),
    ],
)
def test_clips_that_do_not_fit_are_missing(folder, record, frames, reason):
    if frames:
        other_clip(folder, frames)
    other_clip(folder, range(40, 100), sample_id=2)
    annotations = write(folder, [record, PROGRESS | {"sample_id": 2}])
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare_egoplan(annotations, "val", ready(folder))
    assert "1 of 2" in str(caught.value)
    assert re.search(f"sample_id 1: {folder / 'clips'}/{reason}", str(caught.value))
    summary = prepare_egoplan(annotations, "val", ready(folder, skip_missing=True))
    assert (summary["questions"], summary["missing"][0]["sample_ids"]) == (1, [1])


def test_one_frame_is_the_observation_of_a_first_step(folder):
    other_clip(folder, [99])
    prepare_egoplan(write(folder, [question(1, "Ego4D", "v", 99)]), "val", ready(folder))
    for settings in MEDIA:
        assert set(numbers(**settings)) == {99}


@pytest.mark.parametrize("name", ["1.MP4", "1.mkv", "Ego4D/1.mp4"])
def test_clips_are_found_by_their_names(folder, name):
    other_clip(folder, range(40, 100), name=name)
    (record,) = read_annotations(write(folder, [PROGRESS]), "val")
    assert find_clip(folder / "clips", record).path == folder / "clips" / name
    other_clip(folder, range(40, 100))
    if not (folder / "clips" / "1.mp4").samefile(folder / "clips" / name):
        with pytest.raises(LmmsEgoplanError, match="remove"):
            find_clip(folder / "clips", record)


def test_clips_of_other_annotations_are_rejected(folder):
    for sample_id, last, comment in (
        (1, 99, Label(1, "Ego4D", "another", 40, 99, "v", "e").to_text()),
        (2, 89, Label(2, "Ego4D", "0a1b-2c", 40, 99, "v", "e").to_text()),
        (3, 89, '{"lmms-egoplan clip": 7}'),
    ):
        path = folder / "clips" / f"{sample_id}.mp4"
        write_video(path, map(number_image, range(40, last + 1)), 30, comment=comment)
    records = read_annotations(
        write(folder, [PROGRESS | {"sample_id": i} for i in (1, 2, 3)]), "val"
    )
    assert re.search(
        "1.mp4: .*video_id .*'another'.*'0a1b-2c'", find_clip(folder / "clips", records[0])
    )
    assert re.search("2.mp4: 50 .* 60", find_clip(folder / "clips", records[1]))
    with pytest.raises(LmmsEgoplanError, match=r"3\.mp4: .*label"):
        find_clip(folder / "clips", records[2])


def test_damaged_clips_and_sources_are_named(folder):
    annotations = write(folder, [PROGRESS])
    write_numbered_video(folder / "ego4d" / "0a1b-2c.mp4", 150, gop=50)
    cut_clips(folder, sources(folder))
    damage_packet(folder / "clips" / "1.mp4", 35)
    with pytest.raises(LmmsEgoplanError, match=r"sample_id 1: .*clips/1.mp4: frame 3\d"):
        prepare_egoplan(annotations, "val", ready(folder, verify=True))
    damage_packet(folder / "ego4d" / "0a1b-2c.mp4", 60)
    (folder / "clips" / "1.mp4").unlink()
    with pytest.raises(LmmsEgoplanError, match=r"sample_id 1: .*0a1b-2c.mp4: frame "):
        cut_clips(folder, sources(folder))
    result = cut_clips(folder, replace(sources(folder), skip_missing=True))
    assert (result.cut, list(result.failed)) == (0, [1])
    assert not list((folder / "clips").iterdir())


def test_the_commands_print_a_summary(folder):
    annotations, out = str(write_sources(folder)), str(folder / "clips")

    def run(command, *arguments):
        return CliRunner().invoke(app, ["data", command, "egoplan", annotations, *arguments])

    result = run("cut", *options(folder), "--out", out)
    assert result.exit_code == 0, result.output
    assert re.search(f"^5 of 5 clips, 0.00 hours, .*in {out} .*5 .* 0 .* 0 ", result.stdout)
    result = run("prepare", "--split", "val", "--clips", out)
    assert result.exit_code == 0, result.output
    assert "ready clips" in result.stdout
    assert "  5: " in result.stdout
    result = run("prepare", "--split", "val", "--clips", out, "--ego4d", str(folder / "ego4d"))
    assert result.exit_code == 1
    assert re.search("--clips .*--epic-kitchens .*--ego4d", result.stderr)
    assert "absent" in run("prepare", "--split", "val", "--clips", f"{out}/absent").stderr
