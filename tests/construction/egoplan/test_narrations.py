import csv
import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from construction.ego4d_files import narrated, write_narrations
from construction.egoplan.small import TEA, UID, epic_row, epic_rows, write_epic
from lmms_egoplan.benchmarks.egoplan.footage.sources import VideoInfo, read_video_info
from lmms_egoplan.benchmarks.egoplan.wording import normalised, tidy
from lmms_egoplan.construction import ego4d as layout
from lmms_egoplan.construction.ego4d import EGO4D_MEAN_GAP, segments
from lmms_egoplan.construction.egoplan import narrations as reading
from lmms_egoplan.construction.egoplan.narrations import (
    hundredths,
    read_ego4d,
    read_epic_kitchens,
    timestamp,
)
from lmms_egoplan.errors import LmmsEgoplanError
from shared_data import DATA

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
WORKS = (1.0, "#C C picks a pan"), (4.0, "#C C puts down the pan")


def reasons(rejections):
    return [rejection.reason for rejection in rejections]


def ego4d(tmp_path, videos, mean_gap=None, **options):
    return read_ego4d(write_narrations(tmp_path / "narration.json", videos, **options), mean_gap)


def test_rows_in_any_order_become_actions_by_time(tmp_path):
    rows = epic_rows()
    (video,), rejections = read_epic_kitchens(write_epic(tmp_path / "n.csv", rows[::-1]))
    assert [action.text for action in video.actions] == list(TEA)
    assert (video.video_id, video.scene, video.fps, rejections) == ("P01_01", "P01", 60, [])
    assert [(action.start, action.stop_frame) for action in video.actions[:2]] == [
        (100, 180),
        (400, 360),
    ]


@pytest.mark.skipif(not EPIC.exists(), reason=f"needs {EPIC}")
def test_all_real_narrations_are_read():
    videos, rejections = read_epic_kitchens(
        EPIC, read_video_info(EPIC.parent / "EPIC_100_video_info.csv")
    )
    assert (len(videos), sum(len(video.actions) for video in videos), rejections) == (138, 9668, [])
    # Frames were extracted at 60 per second, although five of these videos have a rate of 30, 48 or
    # 90.
    assert all(video.fps == 60 for video in videos)


@cache
def real_rows():
    with EPIC.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def at_rate(rows, rate):
    """Change the frame numbers of rows to another rate."""
    for row in rows:
        for end in ("start", "stop"):
            row[f"{end}_frame"] = max(1, int(hundredths(row[f"{end}_timestamp"]) * rate / 100))
    return rows


@pytest.mark.skipif(not EPIC.exists(), reason=f"needs {EPIC}")
@pytest.mark.parametrize("video_id", ["P01_11", "P29_05", "P18_09"])
@pytest.mark.parametrize("rate", [30, 50, 59.94 / 2, 120])
def test_a_real_video_at_another_frame_rate_is_rejected(tmp_path, video_id, rate):
    """All other videos are correct."""
    rows = [dict(row) for row in real_rows() if row["video_id"] in ("P01_12", "P18_10", video_id)]
    wrong = [row for row in rows if row["video_id"] == video_id]
    assert 0 < len(wrong) < len(rows)
    at_rate(wrong, rate)
    path = write_epic(tmp_path / "n.csv", rows)
    with pytest.raises(LmmsEgoplanError) as error:
        read_epic_kitchens(path)
    line, frame = re.search(
        r"n\.csv, line (\d+): (?:start|stop)_frame: (\d+)", str(error.value)
    ).groups()
    assert rows[int(line) - 2] in wrong
    assert frame in [str(rows[int(line) - 2][f"{end}_frame"]) for end in ("start", "stop")]
    assert re.search(rf"\b{video_id}\b.*\b60\b", str(error.value))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("video_id", "fps"), [("P01_01", 60), ("P01_101", 50)])
def test_both_frame_rates_of_epic_kitchens_are_known(tmp_path, video_id, fps):
    rows = epic_rows(TEA * 2, video_id)
    (video,), rejections = read_epic_kitchens(write_epic(tmp_path / "n.csv", at_rate(rows, fps)))
    assert (video.fps, len(video.actions), rejections) == (fps, 12, [])
    for rate in {25, 30, 50, 60} - {fps}:
        path = write_epic(tmp_path / "n.csv", at_rate(rows, rate))
        with pytest.raises(LmmsEgoplanError, match=rf"n\.csv, line .*\b{fps}\b"):
            read_epic_kitchens(path)


def test_narrations_after_the_end_of_their_video_are_named(tmp_path):
    """The last narration ends at 18 s."""
    path = write_epic(tmp_path / "n.csv", epic_rows())
    assert read_epic_kitchens(path, {"P01_01": VideoInfo(18.0, 29.97)})[1] == []
    (video,), (rejection,) = read_epic_kitchens(path, {"P01_01": VideoInfo(17.0, 29.97)})
    assert len(video.actions) == 5
    assert video.unknown == ((1600, 1800),)
    assert (rejection.reason, rejection.where) == (reading.NO_RATE, f"{path}, line 7")
    assert all(
        fact in rejection.detail for fact in ("stop_frame: 1080", "18.00 s", "P01_01", "17.00 s")
    )


@pytest.mark.parametrize(
    ("official", "field"),
    [
        ({"P01_01": VideoInfo(2.0, 60.0)}, "stop_frame: 180"),
        ({"P01_02": VideoInfo(99.0, 60.0)}, "video_id: 'P01_01'"),
    ],
)
def test_narrations_that_contradict_the_list_of_videos_are_rejected(tmp_path, official, field):
    path = write_epic(tmp_path / "n.csv", epic_rows())
    with pytest.raises(LmmsEgoplanError, match=rf"n\.csv, line \d: {field}"):
        read_epic_kitchens(path, official)


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"start_timestamp": ""}, layout.NO_TIME, "start_timestamp: ''"),
        ({"stop_timestamp": "soon"}, layout.NO_TIME, "stop_timestamp: 'soon'"),
        ({"start_frame": "-3"}, reading.NO_FRAMES, "start_frame: '-3'"),
        ({"stop_frame": ""}, reading.NO_FRAMES, "stop_frame: ''"),
        ({"stop_frame": "1e3"}, reading.NO_FRAMES, "stop_frame: '1e3'"),
        ({"stop_frame": "99999"}, reading.NO_RATE, "stop_frame: 99999.*1800.*00:00:30.00"),
        ({"start_frame": 1693}, reading.NO_RATE, "start_frame: 1693.*1680.*00:00:28.00"),
        ({"stop_timestamp": "00:00:00.10"}, reading.NO_LENGTH, "stop_timestamp: 00:00:00.10"),
        ({"video_id": "../../etc"}, reading.UNKNOWN_VIDEO, "video_id: '../../etc'"),
        ({"narration": " "}, layout.NO_TEXT, "narration: ' '"),
        ({"narration": "взять чашку"}, layout.OTHER_LETTERS, "narration: '"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, changes, reason, detail):
    row = epic_row(number=9, **changes)
    path = write_epic(tmp_path / "n.csv", [*epic_rows(), row])
    (video,), (rejection,) = read_epic_kitchens(path)
    assert len(video.actions) == len(TEA)
    assert (rejection.step, rejection.reason) == ("narration", reason)
    assert rejection.where == f"{path}, line 8"
    assert re.match(detail, rejection.detail)
    times = [
        time
        for end in ("start", "stop")
        if (time := hundredths(row[f"{end}_timestamp"])) is not None
    ]
    assert [start for start, _ in video.unknown] == (
        [] if reason == reading.UNKNOWN_VIDEO else [min(times)]
    )


def test_an_unusable_file_gives_a_one_line_error(tmp_path):
    path = write_epic(tmp_path / "n.csv", [epic_row(narration="拿杯子")])
    with pytest.raises(
        LmmsEgoplanError, match=r"n\.csv: [^\n]*: 1, [^\n]* line 2, narration: [^\n]*$"
    ):
        read_epic_kitchens(path)
    path.write_text("video_id,narration\nP01_01,take cup\n")
    with pytest.raises(LmmsEgoplanError, match="start_timestamp, stop_timestamp"):
        read_epic_kitchens(path)


def test_accents_are_latin(tmp_path):
    (video,), _ = read_epic_kitchens(
        write_epic(tmp_path / "n.csv", [epic_row(narration="take jalapeño.")])
    )
    assert video.actions[0].text == "take jalapeño"


def test_the_published_row_of_egovlp():
    # The video's mean gap follows from the printed segment of 0.753615 s.
    gap = (3.721266 - 2.967651) * EGO4D_MEAN_GAP
    (first, *_) = segments({UID: [3.3445, 3.3445 + gap]}, EGO4D_MEAN_GAP)[UID]
    assert first == pytest.approx((2.967651, 3.721266), abs=1e-4)


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text("abc", min_size=1), st.lists(st.floats(0, 1e5), min_size=2).map(sorted), min_size=1
    )
)
def test_segments_are_centred_and_follow_the_formula(times):
    gaps = {
        uid: (times_of_video[-1] - times_of_video[0]) / (len(times_of_video) - 1)
        for uid, times_of_video in times.items()
    }
    gaps = {uid: gap for uid, gap in gaps.items() if gap > 1e-3}
    segmented = segments({uid: times[uid] for uid in gaps})
    mean = sum(gaps.values()) / len(gaps) if gaps else 1
    for uid, gap in gaps.items():
        for time, (start, stop) in zip(times[uid], segmented[uid], strict=True):
            assert stop == pytest.approx(time + gap / mean / 2, abs=1e-5)
            assert start == pytest.approx(max(0, time - gap / mean / 2), abs=1e-5)


@pytest.mark.parametrize("wrapped", [False, True])
def test_ego4d_sentences_of_the_wearer_have_segments(tmp_path, wrapped):
    """The gap is 3 s in the first video, 5 s in the second and 4 s on average."""
    videos = {
        UID: {"narration_pass_1": narrated(*WORKS[::-1])},
        "b": {"narration_pass_2": narrated((0, "#C C a"), (5, "#C C b"))},
    }
    sentences, unknown, rejections = ego4d(tmp_path, videos, wrapped=wrapped)
    assert [sentence.text for sentence in sentences[UID]] == [
        "C picks a pan",
        "C puts down the pan",
    ]
    assert (sentences[UID][0].start, sentences[UID][0].stop) == (0.625, 1.375)
    assert sentences["b"][0].start == 0
    assert (dict(unknown), rejections) == ({}, [])


def test_rejected_ego4d_narrations_are_named(tmp_path):
    unusable = [
        (6.0, "#O A man X walks"),
        (7.0, "#C C takes a #unsure"),
        (8.0, "#C C берёт"),
        (None, "#C C waits"),
    ]
    narrations = narrated(*WORKS)["narrations"] + [
        narrated((0, text))["narrations"][0] | {"timestamp_sec": seconds}
        for seconds, text in unusable
    ]
    videos = {
        UID: {"narration_pass_1": {"narrations": narrations}},
        "empty": {},
        "still": {"narration_pass_1": narrated((3, "#C C waits"))},
        "../up": {"narration_pass_1": narrated(*WORKS)},
    }
    sentences, unknown, rejections = ego4d(tmp_path, videos)
    assert [len(video_sentences) for video_sentences in sentences.values()] == [2]
    assert reasons(rejections) == [
        *(layout.NO_TIME, layout.NO_NARRATIONS, reading.UNKNOWN_VIDEO),
        *(layout.OTHER_PERSON, layout.UNSURE, layout.OTHER_LETTERS, reading.NO_GAP),
    ]
    timeless = next(rejection for rejection in rejections if rejection.reason == layout.NO_TIME)
    assert timeless.where.endswith(f"{UID}, narration_pass_1.narrations[5]")
    # The unknown actions have an unclear object, or a text in non-Latin letters.
    assert [round((start + stop) / 2) for start, stop in unknown[UID]] == [700, 800]
    path = write_narrations(tmp_path / "narration.json", videos)
    sentences, unknown, dropping_rejections = read_ego4d(path, None, ["unsure-actions"])
    assert [round((start + stop) / 2) for start, stop in unknown[UID]] == [800]
    assert [len(video_sentences) for video_sentences in sentences.values()] == [2]
    assert dropping_rejections == rejections


@pytest.mark.parametrize(
    "content", ["[]", "{}", "3", '{"a": {}, "a": {}}', "#C C picks", '{"videos": []}']
)
def test_a_file_in_another_layout_gives_a_one_line_error(tmp_path, content):
    path = tmp_path / "narration.json"
    path.write_text(content)
    with pytest.raises(LmmsEgoplanError, match=r"narration\.json: ") as error:
        read_ego4d(path, None)
    assert "\n" not in str(error.value)


@given(st.integers(0, 100 * 3600 * 99))
def test_timestamps_survive_formatting_and_parsing(time):
    assert hundredths(timestamp(time)) == time


@pytest.mark.parametrize(
    "text", ["1:2:3", "00:61:00.0", "00:00:08.70s", "\u0660\u0660:00:08", "", None, 8.7]
)
def test_other_texts_are_no_times(text):
    assert hundredths(text) is None


def test_spellings_of_an_action():
    assert (
        normalised("Open  the fridge.") == normalised("open fridge") != normalised("open freezer")
    )
    texts = ("take caf\u00e9 cup", "take cafe\u0301 cup", "take caf\u00e9 c\u200bup")
    assert len({normalised(text) for text in texts}) == 1
    assert len({tidy(text) for text in texts}) == 1
