"""Test the settings of a question's visual input."""

import pytest

from lmms_egoplan.benchmarks.egoplan.frame_settings import (
    ClipSettings,
    FramesByRate,
    FrameSettings,
    read_visual_settings,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.task_files import read_task_file


def test_settings_have_types():
    by_rate = {"media": "timed_frames", "fps": 2, "max_frames": 16, "size": [252, 252]}
    assert read_visual_settings(by_rate | {"preset": "x"}) == FrameSettings(
        sampling=FramesByRate(fps=2, max_frames=16, min_frames=None),
        is_timed=True,
        size=(252, 252),
        has_observation=False,
        needs_actions=False,
        shortcut=None,
    )
    clips = {"media": "clips", "num_clips": 4, "frames_per_clip": 8, "clip_marks": True}
    assert read_visual_settings(clips | {"shortcut": "last_2_actions"}) == ClipSettings(
        num_clips=4,
        frames_per_clip=8,
        is_flat=False,
        has_marks=True,
        as_published=False,
        shortcut="last_2_actions",
    )


def test_the_settings_of_all_tasks_are_valid():
    count = 0
    for path in LMMS_EVAL_TASKS.glob("egoplan*/**/[a-z]*.yaml"):
        for settings in read_task_file(path).get("lmms_eval_specific_kwargs", {}).values():
            if settings:
                read_visual_settings(settings)
                count += 1
    for path in LM_EVAL_TASKS.glob("egoplan*/**/[a-z]*.yaml"):
        metadata = read_task_file(path)["metadata"]
        if {"num_frames", "fps"} & metadata.keys():
            read_visual_settings({"media": "frames", **metadata})
            count += 1
    assert count > 100


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"media": "frames", "fps": 0, "max_frames": 8}, "fps .* above 0, got 0"),
        ({"media": "frames", "fps": "2", "max_frames": 8}, "fps .* above 0, got '2'"),
        ({"media": "frames", "fps": float("nan"), "max_frames": 8}, "fps .* above 0"),
        ({"media": "frames", "fps": True, "max_frames": 8}, "fps .* above 0"),
        ({"media": "frames", "fps": 2}, "max_frames"),
        ({"media": "frames", "fps": 2, "max_frames": 0}, "max_frames"),
        ({}, "media must be .* got None"),
        ({"media": "film"}, "got 'film'"),
        ({"media": "frames"}, "needs num_frames.* got None"),
        ({"media": "frames", "num_frames": 0}, "at least 1, got 0"),
        ({"media": "frames", "num_frames": True}, "got True"),
        ({"media": "clips", "num_clips": 4}, "needs frames_per_clip"),
        (
            {"media": "clip_frames", "num_clips": "4", "frames_per_clip": 1},
            "needs num_clips.* got '4'",
        ),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(LmmsEgoplanError, match=message):
        read_visual_settings(settings)
