"""Test the lists of videos for the publishers' downloaders, and the checks of frame rates and video
lengths.
"""

import csv
import json
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.test_prepare import bench2_question, question
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.footage.sources import (
    has_own_rate,
    needed_frames,
    read_video_info,
    too_many_frames,
)
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan, prepare_egoplan_bench2
from lmms_egoplan.benchmarks.egoplan.records import FIRST_FRAME, frames_per_second, read_annotations
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import read_video_frames
from lmms_egoplan.training.egoplan.data import find_frames, read_instructions
from media.files import copy_packets, read_numbers, write_epic_folder, write_numbered_video
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (tmp_path / "info.csv").write_text(
        "video_id,duration,fps,resolution\nP01_02,0.5,59.94,1920x1080\nP01_102,1.0,50.0,1920x1080\n"
    )
    return tmp_path


FROM_0 = {"task_start_frame": 0, "task_progress_metadata": []}


def prepare(folder, *questions, skip_missing=False):
    (folder / "a.json").write_text(json.dumps(questions))
    roots = {"EpicKitchens": folder / "epic", "Ego4D": None}
    media = Media(roots, epic_video_info=folder / "info.csv", skip_missing=skip_missing)
    return prepare_egoplan(folder / "a.json", "val", media)


def frames(folder, video_id, first, last):
    write_epic_folder(folder / "epic" / "P01" / "rgb_frames" / video_id, first, last)


def test_unknown_ids_and_observations_after_the_end_are_named(folder):
    frames(folder, "P01_02", 1, 30)
    good = question(5, "EpicKitchens", "P01_02", 30, (1, 9))
    unknown = question(6, "EpicKitchens", "P01_99", 30, (1, 9))
    late = question(7, "EpicKitchens", "P01_02", 60, (1, 9))
    with pytest.raises(LmmsEgoplanError) as caught:
        prepare(folder, good, unknown, late)
    for fact in (
        "a.json: record 1, sample_id 6, video_id: 'P01_99' .* 2 ",
        (
            "a.json: record 2, sample_id 7, current_observation_frame: 60 .* 1.00 s .*60 "
            "frames .*P01_02 .* 0.50 s"
        ),
    ):
        assert re.search(fact, str(caught.value))
    summary = prepare(folder, good, unknown, late, skip_missing=True)
    assert summary["questions"] == 1


def test_frames_numbered_from_0_are_rejected(folder):
    frames(folder, "P01_02", 0, 30)
    with pytest.raises(LmmsEgoplanError, match=r"frame_0000000000.jpg: .* from 0.* from 1"):
        prepare(folder, question(5, "EpicKitchens", "P01_02", 30, (1, 9)))


def test_frames_of_another_rate_are_rejected(folder):
    frames(folder, "P01_102", 1, 60)
    with pytest.raises(
        LmmsEgoplanError, match=r"P01_102: .* 60, .* 1.00 s .* 50 .* 60.00 per second"
    ):
        prepare(folder, question(5, "EpicKitchens", "P01_102", 30, (1, 9)))


def test_frames_at_the_videos_own_rate_give_a_warning(folder):
    (folder / "info.csv").write_text("video_id,duration,fps\nP01_02,1.0,29.97\n")
    frames(folder, "P01_02", 1, 30)
    summary = prepare(folder, question(5, "EpicKitchens", "P01_02", 30, (1, 9)))
    (warning,) = summary["warnings"]
    assert re.search("30 frames .* 1.00 s .* 29.97 .* 60", warning)


LAST = 89
# For each Ego4D video, how its frames are written, and the first one that is not at its time.
OFF_CLOCK = {
    "15": ({"fps": 15}, 1),
    "25": ({"fps": 25}, 3),
    "60": ({"fps": 60}, 2),
    "dropped": (None, 40),
    "added": ({"fps": 60, "gaps": (2,) * 40 + (1,) * 10 + (2,) * 49}, 42),
    "slower-later": ({"fps": 120, "gaps": (4,) * 60 + (5,) * 39}, 65),
}
ON_CLOCK = {"30": {}, "29.97": {"fps": Fraction(30_000, 1001)}, "late-start": {"start": 45}}


def test_ego4d_files_off_the_records_clock_count_as_missing(folder):
    """Frame numbers of Ego4D's records are times at 30 frames per second; a question before the
    fault is kept.
    """
    for name, options in [
        *ON_CLOCK.items(),
        *((name, options) for name, (options, _) in OFF_CLOCK.items()),
    ]:
        path = folder / "ego4d" / f"{name}.mp4"
        if options is None:
            intact = write_numbered_video(folder / "intact.mp4", 100, gop=1, b_frames=0)
            copy_packets(intact, path, dropped=range(40, 50))
        else:
            write_numbered_video(path, 100, **options)
    assert read_numbers(read_video_frames(folder / "ego4d" / "dropped.mp4", [39, 40])) == [39, 50]
    (folder / "ego4d" / "milliseconds.mp4").write_bytes(
        write_numbered_video(folder / "m.mkv", 100).read_bytes()
    )

    bad = {name: number for name, (_, number) in OFF_CLOCK.items()}
    ends = dict.fromkeys((*ON_CLOCK, "milliseconds"), (LAST,)) | {
        name: (n - 1, n) for name, n in bad.items()
    }
    observations = [(name, end) for name, of_name in ends.items() for end in of_name]
    media = Media({"EpicKitchens": None, "Ego4D": folder / "ego4d"}, skip_missing=True)
    records = [
        question(number, "Ego4D", name, end) for number, (name, end) in enumerate(observations)
    ]
    (folder / "a.json").write_text(json.dumps(records))
    records = [
        bench2_question(f"{name}_{end}", current_observation_frame=end, **FROM_0)
        for name, end in observations
    ]
    (folder / "bench2.json").write_text(json.dumps(records))
    for summary in (
        prepare_egoplan(folder / "a.json", "val", media),
        prepare_egoplan_bench2(folder / "bench2.json", media),
    ):
        assert summary["questions"] == len(observations) - len(bad)
        assert {
            row["video"]: len(row["sample_ids"]) for row in summary["missing"]
        } == dict.fromkeys(bad, 1)
        for row in summary["missing"]:
            number = bad[row["video"]]
            facts = rf"{row['video']}\.mp4: .*\b{number}\b .*s, .* 30 .*{number / 30:.3f} s"
            assert re.search(facts, row["reason"]), row
    with pytest.raises(
        LmmsEgoplanError,
        match=r"6 of 16 (?s:.*)dropped \(questions: 1\): .* 40 .*1\.667 s.*1\.333 s",
    ):
        prepare_egoplan(folder / "a.json", "val", replace(media, skip_missing=False))
    instructions = [
        record | {"negative_answers": ["wait"]}
        for record in json.loads((folder / "a.json").read_text())
    ]
    (folder / "it.json").write_text(json.dumps(instructions))
    with pytest.raises(LmmsEgoplanError, match=r"6 videos(?s:.*)dropped.mp4: .*1\.667 s"):
        find_frames(read_instructions(folder / "it.json"), dict(media.roots), 4, "it.json")


def test_some_frames_of_a_video_are_enough(folder):
    frames(folder, "P01_02", 9, 25)
    assert "warnings" not in prepare(folder, question(5, "EpicKitchens", "P01_02", 25, (9, 12)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("video,length\nP01_02,1\n", "video_id, duration, fps"),
        ("video_id,duration,fps\nP01_02,long,60\n", "line 2: duration: .*'long'"),
        ("video_id,duration,fps\nP01_02,1,nan\n", "line 2: fps: .*'nan'"),
        ("video_id,duration,fps\nP01_02,1\n", "line 2: fps: .*None"),
        ("video_id,duration,fps\n", "no videos"),
    ],
)
def test_a_wrong_list_is_named(folder, text, problem):
    path = folder / "info.csv"
    path.write_text(text)
    with pytest.raises(LmmsEgoplanError, match=f"{path}.*{problem}"):
        read_video_info(path)


@pytest.mark.skipif(
    not EPIC.is_dir(), reason="EPIC-KITCHENS-100's annotations are not in ../shared/data"
)
def test_narrations_use_this_clock_and_lie_within_their_videos():
    videos = read_video_info(EPIC / "EPIC_100_video_info.csv")
    assert len(videos) == 700
    with (EPIC / "EPIC_100_validation.csv").open(encoding="utf-8") as lines:
        rows = [*csv.DictReader(lines)]
    for row in rows:
        hours, minutes, seconds = map(float, row["stop_timestamp"].split(":"))
        seconds += 3600 * hours + 60 * minutes
        rate = frames_per_second("EpicKitchens", row["video_id"])
        assert int(row["stop_frame"]) == pytest.approx(seconds * rate, abs=1.01)
        assert (
            too_many_frames(row["video_id"], int(row["stop_frame"]), videos[row["video_id"]])
            is None
        )
    for video_id, video in videos.items():
        rate = frames_per_second("EpicKitchens", video_id)
        assert not has_own_rate(video_id, round(video.seconds * rate), video)


QUESTIONS = [
    question(1, "EpicKitchens", "P22_107", 100, (51, 60)),
    question(2, "EpicKitchens", "P01_13", 760, (36, 105), (689, 760)),
    question(3, "EpicKitchens", "P01_13", 800, (700, 900)),
    question(4, "EpicKitchens", "P01_13", 5),
    question(5, "Ego4D", "b-1", 299, (0, 12)),
    question(6, "Ego4D", "a-1", 10),
]


def run(folder, questions, *options, benchmark="egoplan"):
    (folder / "a.json").write_text(json.dumps(questions))
    arguments = [str(folder / "a.json"), "--out", str(folder / "ids.txt"), *options]
    return CliRunner().invoke(app, ["data", "list", benchmark, *arguments])


def test_lists_have_the_format_of_the_downloaders(tmp_path):
    result = run(tmp_path, QUESTIONS, "--frames")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "ids.txt").read_text() == "a-1\nb-1\n"
    assert (tmp_path / "ids_epic_kitchens.txt").read_text() == "P01_13\nP22_107\n"
    rows = list(csv.reader((tmp_path / "ids_frames.csv").read_text().splitlines()))
    assert rows == [
        ["video_source", "video_id", "first_frame", "last_frame"],
        ["Ego4D", "a-1", "10", "10"],
        ["Ego4D", "b-1", "0", "299"],
        ["EpicKitchens", "P01_13", "5", "5"],
        ["EpicKitchens", "P01_13", "36", "800"],
        ["EpicKitchens", "P22_107", "51", "100"],
    ]
    for fact in (
        "Ego4D: 2 .* 0.00 hours",
        r"EpicKitchens: 2 .* 2 .*\(P01, P22\)",
        "1117 frames.* 5 runs",
    ):
        assert re.search(fact, result.stdout)


def test_bench2_needs_frames_from_the_tasks_start(tmp_path):
    questions = [bench2_question(name) for name in ("v1_1", "v2_1", "v1_2")]
    result = run(tmp_path, questions, "--frames", benchmark="egoplan_bench2")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "ids.txt").read_text() == "v1\nv2\n"
    assert (tmp_path / "ids_frames.csv").read_text().splitlines()[1:] == [
        "Ego4D,v1,4,29",
        "Ego4D,v2,4,29",
    ]


def test_a_foreign_file_next_to_the_list_is_not_replaced(tmp_path):
    (tmp_path / "ids_frames.csv").write_text("mine")
    result = run(tmp_path, [bench2_question("v1_1")], "--frames", benchmark="egoplan_bench2")
    assert result.exit_code == 1
    assert "ids_frames.csv" in result.output
    assert (tmp_path / "ids_frames.csv").read_text() == "mine"
    assert not (tmp_path / "ids.txt").exists()


def test_hours_are_counted_once_by_each_videos_clock(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(QUESTIONS))
    videos = needed_frames(read_annotations(path, None))
    seconds = {
        source: sum(video.seconds for video in videos if video.source == source)
        for source in FIRST_FRAME
    }
    assert seconds == pytest.approx({"EpicKitchens": 766 / 60 + 50 / 50, "Ego4D": 301 / 30})


def test_no_empty_list_is_written(tmp_path):
    result = run(tmp_path, QUESTIONS[:1])
    assert re.search("Ego4D: no ", result.stdout)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.json",
        "ids_epic_kitchens.txt",
    ]


def test_wrong_records_are_named(tmp_path):
    result = run(tmp_path, [QUESTIONS[0] | {"video_source": "Charades"}])
    assert result.exit_code == 1
    assert re.search(
        "record 0, sample_id 1, video_source: .*'EpicKitchens' .*'Ego4D'", result.stderr
    )
