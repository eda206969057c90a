"""Replay narrated videos whose frames show their numbers."""

import csv
import json
from itertools import groupby

import pytest
from PIL import Image

from benchmarks.egointent.source import goalstep_video, segment, write_goalstep
from lmms_egoplan.benchmarks.egoplan.records import frames_per_second
from lmms_egoplan.construction.egoplan.narrations import hundredths
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import frame_path
from lmms_egoplan.planner.planner import ENVIRONMENT_FAILED, Proposal, run_episode
from lmms_egoplan.planner.recorded import (
    NarratedAction,
    RecordedVideo,
    egoplan_videos,
    goalstep_videos,
    guesses,
    step_accuracy,
)
from media.files import read_number, write_epic_folder, write_numbered_video
from planner.rows import PAST, row
from planner.says import Says
from shared_data import DATA

EXAMPLES = DATA / "egoplan" / "examples.json"
EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
GOALSTEP = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"


@pytest.fixture(scope="module")
def epic(tmp_path_factory):
    return write_epic_folder(tmp_path_factory.mktemp("epic") / "P01_01", 1, 120)


def test_a_goal_is_replayed_with_its_longest_progress(epic):
    (video,) = egoplan_videos([row(epic, PAST[:1], sample_id=2), row(epic)])
    assert video.actions == ["open tap", "take cup"]
    assert read_number(video.observe()) == 10  # half a second, 30 frames, before frame 40
    episode = run_episode(Says("open tap"), video, video.goal, video.num_actions)
    assert episode.is_success
    assert step_accuracy([episode]) == (2, 3)
    assert [step.outcome.real_action for step in episode.steps] == [
        "open tap",
        "take cup",
        "open tap",
    ]
    assert [read_number(step.view) for step in episode.steps] == [10, 50, 70]
    clip = episode.steps[0].outcome.clip
    # the action lasts until 60
    assert (len(clip), read_number(clip[0]), read_number(clip[-1])) == (
        8,
        40,
        50,
    )
    assert clip.fps == pytest.approx(7 * 60 / 10)
    assert read_number(episode.last_view) == 120  # the question's observation


class Frames:
    """Frames of one pixel whose value is their number. read: numbers of all frames read so far."""

    def __init__(self):
        self.read = []

    def __call__(self, numbers):
        self.read += numbers
        return [Image.new("I", (1, 1), number) for number in numbers]

    @staticmethod
    def number(image):
        return image.getpixel((0, 0))


class Sees:
    """Proposes an action.

    numbers_shown: frame numbers of each step's clips and view. latest: the last frame read by then.
    """

    def __init__(self, number, read=(0,)):
        self.number, self.read, self.numbers_shown, self.latest = number, read, [], []

    def propose(self, question, visuals, actions, step_name):
        *clips, view = visuals
        self.numbers_shown.append(
            ([[self.number(frame) for frame in clip] for clip in clips], self.number(view))
        )
        self.latest.append(max(self.read))
        return [Proposal(actions[0], -1.0, 1, actions[0])]


def check(sees, segments, first, half_second):
    """Compare the frames shown with sec. 3.3 and C.1; return the number of steps."""
    assert len(sees.numbers_shown) == len(segments)
    for number, ((start, _), (clips, view), latest) in enumerate(
        zip(segments, sees.numbers_shown, sees.latest, strict=True)
    ):
        assert view == max(first, start - half_second)
        assert latest <= view
        begun = [(begin, min(end, view)) for begin, end in segments[:number] if begin <= view]
        assert [(clip[0], clip[-1]) for clip in clips] == begun[-4:]
        assert all(len(clip) == 8 and clip == sorted(clip) for clip in clips)
    return len(segments)


def replay(segments, fps, last):
    """Return the frames shown for a video with these segments."""
    frames = Frames()
    narrated = [
        NarratedAction(f"action {number}", *segment) for number, segment in enumerate(segments)
    ]
    sees = Sees(Frames.number, frames.read)
    episode = run_episode(
        sees, RecordedVideo("v", "g", narrated, frames, fps, 1, last), "g", len(narrated)
    )
    assert (episode.problem, episode.is_success) == (None, True)
    assert max(frames.read) <= last
    return sees


@pytest.mark.parametrize(("video_id", "half_second"), [("P01_01", 30), ("P01_101", 25)])
@pytest.mark.parametrize(
    "segments",
    [
        [(40, 60), (80, 90), (100, 110)],
        [(40, 79), (80, 84), (84, 110)],  # actions that begin within half a second of the next one
        [
            (40, 400),
            (50, 300),
            (90, 95),
            (150, 160),
            (200, 210),
            (260, 270),
            (261, 262),
        ],  # long ones, over many steps
        [(1, 9), (1, 9), (1, 9), (60, 60)],
        [(10, 100), (100, 100), (131, 500)],
    ],
)
def test_no_frame_is_later_than_the_view(video_id, half_second, segments):
    fps = frames_per_second("EpicKitchens", video_id)
    check(replay(segments, fps, segments[-1][0] + 5), segments, 1, half_second)


@pytest.mark.parametrize(
    ("order", "chance", "not_done"),
    [
        ("ab", 1 / 2 + 1 / 2, 1 / 2 + 1),
        ("aab", 3 / 2, 1 / 2 + 0 + 1),  # an action is not guessed again while another one remains
        ("aba", 3 / 2, 1 / 2 + 1 + 1 / 2),  # once all were done, any is guessed
        ("abab", 4 / 2, 1 / 2 + 1 + 1 / 2 + 1),
        ("abac", 4 / 3, 1 / 3 + 1 / 2 + 0 + 1),
        ("aaaa", 4, 4),
    ],
)
def test_guesses_equal_hand_counted_averages(order, chance, not_done):
    segments = [(100 * number, 100 * number + 50) for number in range(1, len(order) + 1)]
    narrated = [
        NarratedAction(text, *segment) for text, segment in zip(order, segments, strict=True)
    ]
    video = RecordedVideo("v", "g", narrated, Frames(), 60, 1, 1000)
    episode = run_episode(Says("juggle"), video, "g", len(order))
    assert guesses(episode, video.actions) == pytest.approx((chance, not_done))
    # the proposal means nothing, and the video continues
    assert step_accuracy([episode]) == (
        0,
        len(order),
    )


def test_guesses_are_over_the_steps_before_a_failure(tmp_path):
    folder = write_epic_folder(tmp_path / "P01_01", 1, 120)
    frame_path(folder, 100).unlink()
    (video,) = egoplan_videos([row(folder)])
    episode = run_episode(Says("open tap"), video, video.goal)
    assert (episode.end, len(episode.steps)) == (ENVIRONMENT_FAILED, 2)
    assert guesses(episode, video.actions) == pytest.approx((2 / 2, 1 / 2 + 1))


def test_a_ready_clip_is_replayed_from_its_first_frame(tmp_path):
    path = write_numbered_video(tmp_path / "1.mp4", 81, fps=60)  # frames 40 to 120 of the source
    (video,) = egoplan_videos([row(path, clip_frames=81)])
    sees = Sees(read_number)
    episode = run_episode(sees, video, video.goal)
    assert (episode.problem, read_number(episode.last_view)) == (None, 80)
    check(sees, [(0, 20), (40, 50), (60, 70)], 0, 30)


@pytest.mark.nightly
@pytest.mark.skipif(not EPIC.exists(), reason=f"{EPIC} is not there")
def test_no_narration_of_epic_kitchens_shows_a_frame_later_than_the_view():
    with EPIC.open(encoding="utf-8", newline="") as file:
        rows = sorted(
            csv.DictReader(file), key=lambda row: (row["video_id"], int(row["start_frame"]))
        )
    steps = 0
    for video_id, group in groupby(rows, key=lambda row: row["video_id"]):
        of_video = list(group)
        segments = [(int(row["start_frame"]), int(row["stop_frame"])) for row in of_video]
        fps = frames_per_second("EpicKitchens", video_id)
        sees = replay(segments, fps, max(stop for _, stop in segments))
        steps += check(sees, segments, 1, fps // 2)
        # on the clock of the file's times
        for (_, view), narration in zip(sees.numbers_shown, of_video, strict=True):
            start = hundredths(narration["start_timestamp"]) / 100
            assert view == 1 or view / fps == pytest.approx(start - 0.5, abs=0.1)
    assert steps == 9668


def test_texts_with_the_same_words_are_one_action(epic):
    (video,) = egoplan_videos([row(epic, [PAST[0], ("Open the tap.", 80, 90)])])
    assert video.actions == ["open tap"]
    assert step_accuracy([run_episode(Says("open tap"), video, video.goal)]) == (2, 2)


@pytest.mark.parametrize("fault", [None, b"no picture"])
def test_an_unreadable_frame_ends_the_replay_with_the_earlier_steps(tmp_path, fault):
    folder = write_epic_folder(tmp_path / "P01_01", 1, 120)
    frame = frame_path(folder, 85)
    frame.write_bytes(fault) if fault else frame.unlink()
    (video,) = egoplan_videos([row(folder, [("x", 40, 60), ("y", 85, 90)])])
    episode = run_episode(Says("x"), video, video.goal)
    assert episode.end == ENVIRONMENT_FAILED
    assert str(frame.name) in episode.problem
    assert "P01_01" in episode.problem
    assert step_accuracy([episode]) == (1, 1)


UID = "11111111-2222-3333-4444-555555555555"


def write_steps(folder, *segments):
    videos = [
        goalstep_video(uid, *segments, goal="make a toast") for uid in (UID, UID.replace("1", "9"))
    ]
    return write_goalstep(folder / "goalstep.json", *videos)


def test_goal_step(tmp_path):
    write_numbered_video(tmp_path / f"{UID}.mp4", 90)
    rest = segment(2.0, 2.5, "rest", is_relevant="irrelevant")
    path = write_steps(
        tmp_path, segment(0.2, 0.9, "wash hands"), segment(1.0, 2.0, "cut bread"), rest
    )
    (video,) = goalstep_videos(path, tmp_path)
    assert video.goal == "make a toast"
    assert video.actions == ["cut bread", "wash hands"]
    episode = run_episode(Says("cut bread"), video, video.goal)
    assert step_accuracy([episode]) == (1, 2)
    assert [read_number(step.view) for step in episode.steps] == [0, 15]
    assert [read_number(frame) for frame in episode.steps[1].outcome.clip][::7] == [30, 60]
    with pytest.raises(LmmsEgoplanError, match="elsewhere"):
        goalstep_videos(path, tmp_path / "elsewhere")


def test_a_video_that_ends_before_its_steps(tmp_path):
    write_numbered_video(tmp_path / f"{UID}.mp4", 30)
    (video,) = goalstep_videos(
        write_steps(tmp_path, segment(0.2, 0.9, "wash"), segment(5, 6, "cut")), tmp_path
    )
    episode = run_episode(Says("wash"), video, video.goal)
    assert (episode.end, len(episode.steps)) == (ENVIRONMENT_FAILED, 1)
    assert all(seconds in episode.problem for seconds in ("1.0 s", "4.5 s"))


def test_an_invalid_video_is_named(tmp_path):
    (tmp_path / f"{UID}.mp4").write_bytes(b"no video")
    (video,) = goalstep_videos(
        write_steps(tmp_path, segment(0.2, 0.9, "wash"), segment(1, 2, "cut")), tmp_path
    )
    episode = run_episode(Says("wash"), video, video.goal)
    assert (episode.end, episode.steps) == (ENVIRONMENT_FAILED, [])
    assert f"{UID}.mp4" in episode.problem


def test_nothing_to_replay(epic, tmp_path):
    with pytest.raises(LmmsEgoplanError):
        egoplan_videos([row(epic, PAST[:1])])
    write_numbered_video(tmp_path / f"{UID}.mp4", 30)
    with pytest.raises(LmmsEgoplanError):
        goalstep_videos(write_steps(tmp_path), tmp_path)


@pytest.mark.skipif(not EXAMPLES.exists(), reason=f"{EXAMPLES} is not there")
def test_a_published_question_is_replayed(tmp_path):
    record = json.loads(EXAMPLES.read_text())["EgoPlan_validation"][0]
    folder = write_epic_folder(
        tmp_path / record["video_id"], 1, record["current_observation_frame"]
    )
    past = record["task_progress_metadata"]
    (video,) = egoplan_videos([record | {"media_path": str(folder), "past_actions": past}])
    assert (video.goal, video.num_actions) == ("store cereal", len(past))
    sees = Sees(read_number)
    run_episode(sees, video, video.goal)
    check(sees, [(action["start_frame"], action["stop_frame"]) for action in past], 1, 30)
    (video,) = egoplan_videos([record | {"media_path": str(folder), "past_actions": past}])
    episode = run_episode(Says(past[1]["narration_text"]), video, video.goal)
    assert [step.outcome.real_action for step in episode.steps] == [
        action["narration_text"] for action in past
    ]
    assert step_accuracy([episode]) == (
        sum(a["narration_text"] == past[1]["narration_text"] for a in past),
        len(past),
    )


@pytest.mark.skipif(not GOALSTEP.exists(), reason=f"{GOALSTEP} is not there")
def test_published_annotations_have_videos_to_replay(tmp_path):
    for video in json.loads(GOALSTEP.read_text())["videos"]:
        (tmp_path / f"{video['video_uid']}.mp4").touch()
    videos = goalstep_videos(GOALSTEP, tmp_path)
    assert len(videos) == 95
    assert all(1 <= len(video.actions) <= video.num_actions for video in videos)
