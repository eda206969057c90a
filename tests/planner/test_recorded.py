"""Narrated videos: frames tell their numbers."""

import json

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.planner.planner import run_episode
from lmms_egoplan.planner.proposals import Proposal
from lmms_egoplan.planner.recorded import egoplan_videos, goalstep_videos, step_accuracy
from media.files import read_number, write_epic_folder, write_numbered_video


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


def test_no_goal_with_two_actions(epic):
    with pytest.raises(LmmsEgoplanError, match="no goal of these questions has two past actions"):
        egoplan_videos([row(epic, past_actions=row(epic)["past_actions"][:1])])


def test_goal_step(tmp_path):
    uid = "11111111-2222-3333-4444-555555555555"
    write_numbered_video(tmp_path / f"{uid}.mp4", 90)
    steps = [("wash hands", 0.2, 0.9), ("cut bread", 1.0, 2.0), ("rest", 2.0, 2.5)]
    segments = [{"start_time": a, "end_time": b, "step_description": text, "segments": []} for text, a, b in steps]
    segments[2]["is_relevant"] = "irrelevant"
    content = {
        "videos": [
            {"video_uid": uid, "goal_category": "COOKING:X", "goal_description": "make a toast", "segments": segments},
            {"video_uid": uid.replace("1", "9"), "goal_category": "A", "goal_description": "b", "segments": segments},
        ]
    }
    (tmp_path / "goalstep.json").write_text(json.dumps(content))
    (video,) = goalstep_videos(tmp_path / "goalstep.json", tmp_path)
    assert video.goal == "make a toast"
    assert video.actions() == ["cut bread", "wash hands"]
    episode = run_episode(Always("cut bread"), video, video.goal)
    assert step_accuracy([episode]) == (1, 2)
    with pytest.raises(LmmsEgoplanError, match="none of the videos with two steps"):
        goalstep_videos(tmp_path / "goalstep.json", tmp_path / "elsewhere")
