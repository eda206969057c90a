"""Frames by rate: as many a second, up to a number of them, the observation last."""

import pytest

from lmms_egoplan.benchmarks.egoplan.visuals import num_images, progress_of
from lmms_egoplan.errors import LmmsEgoplanError


def doc(first, last, source="Ego4D", video="v"):
    return {
        "video_source": source,
        "video_id": video,
        "current_observation_frame": last,
        "past_actions": [{"start_frame": first, "stop_frame": last}],
        "first_frame": None,
    }


@pytest.mark.parametrize(
    ("question", "settings", "count"),
    [
        (doc(0, 300), {"fps": 2, "max_frames": 256}, 21),  # ten seconds
        (doc(0, 300), {"fps": 0.5, "max_frames": 256}, 6),
        (doc(0, 300), {"fps": 2, "max_frames": 8}, 8),
        (doc(0, 30 * 3600), {"fps": 2, "max_frames": 256}, 256),
        (doc(7, 7), {"fps": 2, "max_frames": 256}, 1),
        (doc(0, 3), {"fps": 60, "max_frames": 256}, 4),
        (doc(1, 501, "EpicKitchens", "P01_103"), {"fps": 2, "max_frames": 256}, 21),  # 50 frames a second
        (doc(1, 601, "EpicKitchens", "P01_13"), {"fps": 2, "max_frames": 256}, 21),  # 60
        (doc(0, 300), {"num_frames": 8}, 8),
    ],
)
def test_number(question, settings, count):
    assert num_images(question, settings) == count
    assert progress_of(question).uniform_frames(count)[-1] == question["current_observation_frame"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"fps": 0, "max_frames": 8}, "fps must be a number above 0, got 0"),
        ({"fps": "2", "max_frames": 8}, "fps must be a number above 0, got '2'"),
        ({"fps": float("nan"), "max_frames": 8}, "fps must be a number above 0"),
        ({"fps": True, "max_frames": 8}, "fps must be a number above 0"),
        ({"fps": 2}, "max_frames"),
        ({"fps": 2, "max_frames": 0}, "max_frames"),
    ],
)
def test_wrong_settings_are_named(settings, told):
    with pytest.raises(LmmsEgoplanError, match=told):
        num_images(doc(0, 300), settings)
