"""Frames: which are chosen and which are rejected, damaged input, and resuming."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from annotation.serving import run
from construction.egothink.footage import blurred, dark, film, scene
from lmms_egoplan.construction.egothink import frames as frames_module
from lmms_egoplan.construction.egothink.frames import (
    ALIKE,
    BAD_FRAME,
    BAD_VIDEO,
    BLURRED,
    DARK,
    SURPLUS,
)
from lmms_egoplan.construction.pictures import sharpness
from lmms_egoplan.jsonl import read_lines
from lmms_egoplan.media.frames import read_video_frames
from patience import running, wait_until
from shared_data import DATA

EVERY = 5
RELEASED = DATA / "egothink"


def build(folder, *options, out="built"):
    code, output = run(
        "data",
        "build",
        "egothink",
        folder / "videos",
        "--out",
        folder / out,
        "--every",
        EVERY,
        *options,
    )
    assert code == 0, output
    return lines(folder / out / "frames.jsonl"), lines(folder / out / "rejections.jsonl"), output


def lines(path):
    return [json.loads(line) for _, line in read_lines(path)]


def chosen(frames):
    return [(frame["video"], frame["frame"]) for frame in frames]


def contents(folder):
    """Return the files of a build, without the command's manifest and lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def videos(tmp_path):
    """Two videos: the second repeats a scene of the first."""
    film(tmp_path / "videos/a.mp4", scene(1), blurred(2), dark(3), scene(4), scene(4), scene(5))
    film(tmp_path / "videos/sub/b.mkv", scene(4), Image.new("RGB", (160, 120), "grey"), scene(6))
    return tmp_path


def slow_choice(folder, names, minimum):
    """Choose frames by obvious code: image by image, from the videos themselves."""
    accepted, hashes = {}, []
    for name, count in names.items():
        images = dict(
            zip(
                range(0, count, EVERY),
                read_video_frames(folder / name, range(0, count, EVERY)),
                strict=True,
            )
        )
        candidates = []
        for number, image in images.items():
            grey = np.asarray(image.convert("L"), float)
            if grey.mean() >= 30 and grey.std() >= 20 and sharpness(image) >= minimum:
                candidates.append((-sharpness(image), number, image))
        accepted[name] = []
        for _, number, image in sorted(candidates, key=lambda candidate: candidate[0]):
            small = image.convert("L").resize((9, 8), Image.Resampling.BOX)
            bits = [
                small.getpixel((x + 1, y)) > small.getpixel((x, y))
                for y in range(8)
                for x in range(8)
            ]
            is_far = all(3 * abs(number - other) >= max(images) for other in accepted[name])
            is_new = all(
                sum(a != b for a, b in zip(bits, other, strict=True)) > 10 for other in hashes
            )
            if len(accepted[name]) < 2 and is_far and is_new:
                accepted[name].append(number)
                hashes.append(bits)
    return [(name, number) for name, numbers in accepted.items() for number in numbers]


def test_clear_and_different_frames_are_chosen(videos):
    frames, rejections, output = build(videos)
    assert sorted(chosen(frames)) == sorted(
        slow_choice(videos / "videos", {"a.mp4": 30, "sub/b.mkv": 15}, 50)
    )
    reasons = Counter(rejection["reason"] for rejection in rejections)
    assert reasons[BLURRED] == 1
    assert reasons[DARK] == 2
    assert {
        "a.mp4, frame 5": BLURRED,
        "a.mp4, frame 10": DARK,
        "sub/b.mkv, frame 5": DARK,
    }.items() <= {rejection["where"]: rejection["reason"] for rejection in rejections}.items()
    assert len(frames) + len(rejections) == 9
    assert f"1: {BLURRED}" in output
    assert f"{len(frames)} frames of 2 videos" in output
    for frame in frames:
        assert frame["seconds"] == pytest.approx(frame["frame"] / 10)
        (original,) = read_video_frames(videos / "videos" / frame["video"], [frame["frame"]])
        with Image.open(videos / "built" / frame["image"]) as image:
            assert image.size == original.size
            assert np.abs(np.asarray(image, float) - np.asarray(original, float)).mean() < 3


def test_a_scene_is_chosen_once_over_all_videos(tmp_path):
    for name in "abc":
        film(tmp_path / f"videos/{name}.mp4", scene(1), scene(1), scene(1))
    frames, rejections, _ = build(tmp_path)
    assert len(frames) == 1
    reasons = Counter(rejection["reason"] for rejection in rejections)
    assert reasons.total() == 8
    assert reasons[ALIKE] >= 6


@pytest.mark.parametrize("count", [1, 2, 3, 12])
def test_at_most_two_frames_of_a_video_are_chosen_a_third_apart(tmp_path, count):
    film(tmp_path / "videos/a.mp4", *map(scene, range(count)))
    frames, rejections, _ = build(tmp_path)
    assert len(frames) == min(count, 2)
    assert Counter(rejection["reason"] for rejection in rejections) == (
        {SURPLUS: count - 2} if count > 2 else {}
    )
    if count > 1:
        assert abs(frames[0]["frame"] - frames[1]["frame"]) >= (count - 1) * EVERY / 3
        sharpest = max(frames, key=lambda frame: frame["sharpness"])
        assert all(frame["sharpness"] <= sharpest["sharpness"] for frame in frames)


def test_damaged_and_empty_videos_are_named(videos):
    (videos / "videos/empty.mp4").touch()
    (videos / "videos/notes.txt").write_text("no video")
    (videos / "videos/text.avi").write_text("no video")
    whole = film(videos / "videos/c.mp4", *map(scene, range(20, 32)))
    content = whole.read_bytes()
    middle = len(content) // 2
    whole.write_bytes(content[:middle] + b"\0" * 2000 + content[middle + 2000 :])
    frames, rejections, output = build(videos)
    unreadable = {
        rejection["where"]: rejection["detail"]
        for rejection in rejections
        if rejection["reason"] == BAD_VIDEO
    }
    assert unreadable.keys() == {"empty.mp4", "text.avi"}
    assert all("cannot read the video" in detail for detail in unreadable.values())
    assert "Unreadable: empty.mp4 and text.avi" in output
    damaged = [rejection for rejection in rejections if rejection["reason"] == BAD_FRAME]
    assert damaged
    assert {rejection["where"] for rejection in damaged} == {"c.mp4"}
    assert sum(frame["video"] == "c.mp4" for frame in frames) == 2


def test_images_and_folders_of_images(tmp_path):
    folder = tmp_path / "videos"
    (folder / "P01").mkdir(parents=True)
    for number in range(1, 21):
        scene(number if number != 6 else 5).save(folder / f"P01/frame_{number:010}.jpg", quality=95)
    turned = scene(40).rotate(90, expand=True)
    exif = turned.getexif()
    exif[0x0112] = 6
    turned.save(folder / "single.jpg", exif=exif, quality=95)
    (folder / "broken.jpg").write_bytes((folder / "single.jpg").read_bytes()[:500])
    frames, rejections, _ = build(tmp_path)
    assert {frame["video"] for frame in frames} == {"P01", "single.jpg"}
    assert {frame["frame"] for frame in frames if frame["video"] == "P01"} <= {0, 5, 10, 15}
    assert all(frame["seconds"] is None for frame in frames)
    assert [
        (rejection["where"], rejection["reason"]) for rejection in rejections if rejection["detail"]
    ] == [("broken.jpg", BAD_FRAME)]
    with Image.open(tmp_path / "built/frames/single.jpg_000000.jpg") as image:
        assert image.size == (160, 120)
        assert (
            np.abs(
                np.asarray(image.convert("L"), float) - np.asarray(scene(40).convert("L"), float)
            ).mean()
            < 3
        )


def test_later_runs_measure_only_new_videos(videos, monkeypatch):
    build(videos)
    first = contents(videos / "built")
    measured = []
    measure = frames_module._measure
    monkeypatch.setattr(
        frames_module, "_measure", lambda name, *rest: measured.append(name) or measure(name, *rest)
    )
    build(videos)
    assert contents(videos / "built") == first
    frames, _, _ = build(videos, "--min-sharpness", 1)
    assert measured == []
    assert len(frames) >= len(first["frames.jsonl"].splitlines())
    film(videos / "videos/a.mp4", scene(50), scene(51))
    (videos / "mine").mkdir()
    build(videos)
    assert {*measured} == {"a.mp4"}
    for name, content in contents(videos / "built").items():
        assert name.startswith(
            ("frames/a.mp4", "sampled/a.mp4", "frames.jsonl", "rejections.jsonl")
        ) or (content == first.get(name, content))
    with Image.open(videos / "built/frames/a.mp4_000000.jpg") as image:
        assert np.abs(np.asarray(image, float) - np.asarray(scene(50), float)).mean() < 6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "expected a folder with videos"),
        (lambda folder: folder.mkdir(), "expected a folder with videos"),
        (
            lambda folder: film(folder / "a.mp4", dark(1), blurred(2)),
            "no frames left. All items were rejected",
        ),
    ],
)
def test_nothing_to_choose_from_is_an_error(tmp_path, make, message):
    make(tmp_path / "videos")
    code, output = run(
        "data",
        "build",
        "egothink",
        tmp_path / "videos",
        "--out",
        tmp_path / "built",
        "--every",
        EVERY,
    )
    assert code == 1
    assert message in " ".join(output.split())
    assert not (tmp_path / "built/frames.jsonl").exists()


def test_no_file_of_the_user_is_replaced(videos):
    (videos / "built").mkdir()
    (videos / "built/frames.jsonl").write_text("mine")
    code, output = run("data", "build", "egothink", videos / "videos", "--out", videos / "built")
    assert code == 1
    assert "contains other files" in output
    assert (videos / "built/frames.jsonl").read_text() == "mine"


@pytest.mark.nightly
def test_a_killed_run_resumes(tmp_path):
    for number in range(6):
        film(
            tmp_path / f"videos/{number:02}.mp4",
            *(scene(100 * number + part) for part in range(8)),
            every=30,
        )
    command = [
        sys.executable,
        "-m",
        "lmms_egoplan",
        "data",
        "build",
        "egothink",
        tmp_path / "videos",
        "--every",
        "2",
    ]

    def start(name):
        return subprocess.Popen(
            [*map(str, command), "--out", str(tmp_path / name)],
            env=os.environ,
            stdout=-3,
            stderr=-3,
        )

    code, output = run(*command[3:], "--out", tmp_path / "whole")
    assert code == 0, output
    process = start("killed")
    wait_until(lambda: len([*(tmp_path / "killed/sampled").glob("*.json")]) >= 2, running(process))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed/frames.jsonl").exists()
    stored = {
        path: path.stat().st_mtime_ns for path in (tmp_path / "killed/sampled").glob("*.json")
    }
    assert start("killed").wait() == 0
    assert all(path.stat().st_mtime_ns == time for path, time in stored.items())
    whole, killed = contents(tmp_path / "whole"), contents(tmp_path / "killed")
    assert killed == whole


@pytest.mark.nightly
def test_almost_all_released_images_are_clear(tmp_path):
    if not RELEASED.is_dir():
        pytest.skip(f"{RELEASED} is absent")
    (tmp_path / "videos").mkdir()
    for path in sorted(RELEASED.rglob("*.jpg"))[::5]:
        name = "-".join(path.relative_to(RELEASED).parts)
        (tmp_path / "videos" / name).symlink_to(path)
    frames, rejections, _ = build(tmp_path)
    reasons = Counter(rejection["reason"] for rejection in rejections)
    assert len(frames) + reasons.total() == 140
    assert reasons[BLURRED] + reasons[DARK] <= 0.04 * 140
    assert reasons[ALIKE] <= 0.04 * 140
