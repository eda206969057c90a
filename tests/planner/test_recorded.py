"""Narrated videos: frames tell their numbers."""

import json

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import frame_path
from lmms_egoplan.planner.planner import ENVIRONMENT_FAILED, run_episode
from lmms_egoplan.planner.proposals import Proposal
from lmms_egoplan.planner.recorded import egoplan_videos, goalstep_videos, step_accuracy
from media.files import read_number, write_epic_folder, write_numbered_video
from shared_data import DATA


class Always:
    def __init__(self, text):
        self.text = text

    def propose(self, question, visuals, actions, place):
        return [Proposal(self.text, -1.0, 1, self.text if self.text in actions else None)]


def row(media_path, **changes):
    past = [("open tap", 40, 60), ("take cup", 80, 90), ("open tap", 100, 110)]
    return {
        "video_source": "EpicKitchens",
        "video_id": "P01_01",
        "task_goal": "drink water",
        "media_path": str(media_path),
        "sample_id": 1,
        "current_observation_frame": 120,
        "past_actions": [{"narration_text": text, "start_frame": a, "stop_frame": b} for text, a, b in past],
    } | changes


@pytest.fixture(scope="module")
def epic(tmp_path_factory):
    return write_epic_folder(tmp_path_factory.mktemp("epic") / "P01_01", 1, 120)


def test_a_goal_is_replayed_with_its_longest_progress(epic):
    shorter = row(epic, sample_id=2, past_actions=row(epic)["past_actions"][:1])
    (video,) = egoplan_videos([shorter, row(epic)])
    assert video.actions() == ["open tap", "take cup"]
    assert read_number(video.observe()) == 10  # half a second, 30 frames, before frame 40
    episode = run_episode(Always("open tap"), video, video.goal, video.num_actions)
    assert episode.is_success
    assert step_accuracy([episode]) == (2, 3)
    assert [step.outcome.done for step in episode.steps] == ["open tap", "take cup", "open tap"]
    assert [read_number(step.view) for step in episode.steps] == [10, 50, 70]
    clip = episode.steps[0].outcome.clip
    assert (len(clip), read_number(clip[0]), read_number(clip[-1])) == (8, 40, 60)
    assert read_number(episode.last_view) == 110


def test_a_proposal_that_means_nothing_is_wrong_and_the_video_goes_on(epic):
    (video,) = egoplan_videos([row(epic)])
    episode = run_episode(Always("juggle"), video, video.goal, video.num_actions)
    assert step_accuracy([episode]) == (0, 3)


def test_texts_with_the_same_words_are_one_action(epic):
    past = [{"narration_text": "Open the tap.", "start_frame": 80, "stop_frame": 90}]
    (video,) = egoplan_videos([row(epic, past_actions=row(epic)["past_actions"][:1] + past)])
    assert video.actions() == ["open tap"]
    assert step_accuracy([run_episode(Always("open tap"), video, video.goal)]) == (2, 2)


@pytest.mark.parametrize("fault", [None, b"no picture"])
def test_a_frame_that_cannot_be_read_ends_the_replay_with_the_steps_before(tmp_path, fault):
    folder = write_epic_folder(tmp_path / "P01_01", 1, 120)
    frame = frame_path(folder, 85)
    frame.write_bytes(fault) if fault else frame.unlink()
    past = [
        {"narration_text": text, "start_frame": a, "stop_frame": b} for text, a, b in [("x", 40, 60), ("y", 85, 90)]
    ]
    (video,) = egoplan_videos([row(folder, past_actions=past)])
    episode = run_episode(Always("x"), video, video.goal)
    assert episode.end == ENVIRONMENT_FAILED
    assert str(frame.name) in episode.problem
    assert episode.problem.startswith("P01_01, drink water: ")
    assert step_accuracy([episode]) == (1, 1)


def test_no_goal_with_two_actions(epic):
    with pytest.raises(LmmsEgoplanError, match="no goal of these questions has two past actions"):
        egoplan_videos([row(epic, past_actions=row(epic)["past_actions"][:1])])


EXAMPLES = DATA / "egoplan" / "examples.json"
GOALSTEP = DATA / "ego4d-goalstep" / "goalstep_valid_public.json"
UID = "11111111-2222-3333-4444-555555555555"


def write_goalstep(folder, steps):
    segments = [{"start_time": a, "end_time": b, "step_description": text, "segments": []} for text, a, b in steps]
    videos = [
        {"video_uid": uid, "goal_category": "COOKING:X", "goal_description": "make a toast", "segments": segments}
        for uid in (UID, UID.replace("1", "9"))
    ]
    path = folder / "goalstep.json"
    path.write_text(json.dumps({"videos": videos}))
    return path


def test_goal_step(tmp_path):
    write_numbered_video(tmp_path / f"{UID}.mp4", 90)
    path = write_goalstep(tmp_path, [("wash hands", 0.2, 0.9), ("cut bread", 1.0, 2.0), ("rest", 2.0, 2.5)])
    content = json.loads(path.read_text())
    for video in content["videos"]:
        video["segments"][2]["is_relevant"] = "irrelevant"
    path.write_text(json.dumps(content))
    (video,) = goalstep_videos(path, tmp_path)
    assert video.goal == "make a toast"
    assert video.actions() == ["cut bread", "wash hands"]
    episode = run_episode(Always("cut bread"), video, video.goal)
    assert step_accuracy([episode]) == (1, 2)
    assert [read_number(step.view) for step in episode.steps] == [0, 15]
    assert [read_number(frame) for frame in episode.steps[1].outcome.clip][::7] == [30, 60]
    with pytest.raises(LmmsEgoplanError, match="none of the videos with two steps"):
        goalstep_videos(path, tmp_path / "elsewhere")


def test_a_video_that_ends_before_its_steps(tmp_path):
    write_numbered_video(tmp_path / f"{UID}.mp4", 30)
    (video,) = goalstep_videos(write_goalstep(tmp_path, [("wash", 0.2, 0.9), ("cut", 5, 6)]), tmp_path)
    episode = run_episode(Always("wash"), video, video.goal)
    assert (episode.end, len(episode.steps)) == (ENVIRONMENT_FAILED, 1)
    assert "ends after 1.0 s; an action of it is at 4.5 s" in episode.problem


def test_a_file_that_is_no_video(tmp_path):
    (tmp_path / f"{UID}.mp4").write_bytes(b"no video")
    (video,) = goalstep_videos(write_goalstep(tmp_path, [("wash", 0.2, 0.9), ("cut", 1, 2)]), tmp_path)
    episode = run_episode(Always("wash"), video, video.goal)
    assert (episode.end, episode.steps) == (ENVIRONMENT_FAILED, [])
    assert f"{UID}.mp4" in episode.problem


def test_a_video_without_steps(tmp_path):
    write_numbered_video(tmp_path / f"{UID}.mp4", 30)
    with pytest.raises(LmmsEgoplanError, match="none of the videos with two steps or more"):
        goalstep_videos(write_goalstep(tmp_path, []), tmp_path)


@pytest.mark.skipif(not EXAMPLES.exists(), reason=f"{EXAMPLES} is not there")
def test_a_published_question_is_replayed(tmp_path):
    record = json.loads(EXAMPLES.read_text())["EgoPlan_validation"][0]
    folder = write_epic_folder(tmp_path / record["video_id"], 1, record["current_observation_frame"])
    past = [dict(action) for action in record["task_progress_metadata"]]
    (video,) = egoplan_videos([record | {"media_path": str(folder), "past_actions": past}])
    assert (video.goal, video.num_actions) == ("store cereal", len(past))
    episode = run_episode(Always(past[1]["narration_text"]), video, video.goal)
    assert [step.outcome.done for step in episode.steps] == [action["narration_text"] for action in past]
    assert step_accuracy([episode]) == (sum(a["narration_text"] == past[1]["narration_text"] for a in past), len(past))


@pytest.mark.skipif(not GOALSTEP.exists(), reason=f"{GOALSTEP} is not there")
def test_published_annotations_have_videos_to_replay(tmp_path):
    for video in json.loads(GOALSTEP.read_text())["videos"]:
        (tmp_path / f"{video['video_uid']}.mp4").touch()
    videos = goalstep_videos(GOALSTEP, tmp_path)
    assert len(videos) == 95
    assert all(1 <= len(video.actions()) <= video.num_actions for video in videos)
