"""Test the visual inputs of a model: the frames of the progress and their form."""

import json
from pathlib import Path

import av
import pytest

from lmms_egoplan.benchmarks.egoplan.frames import progress_of
from lmms_egoplan.benchmarks.egoplan.visuals import EGOPLAN, EGOPLAN_BENCH2, num_images
from lmms_egoplan.media.frames import (
    DamagedFrameError,
    FrameError,
    count_video_frames,
    frame_path,
    read_video_frames,
)
from media.files import (
    damage_packet,
    number_image,
    read_number,
    read_numbers,
    write_epic_folder,
    write_numbered_video,
)

EXAMPLES = Path(__file__).parents[4] / "shared" / "data" / "egoplan" / "examples.json"


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    write_epic_folder(folder / "P01_02", 1, 150)
    write_numbered_video(folder / "video.mp4", 200, gaps=(1, 3), gop=30)
    write_numbered_video(folder / "long.mp4", 2551, gop=250)
    return folder


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def row(source, path, observation, *past):
    return {
        "video_source": source,
        "video_id": path.stem,
        "media_path": str(path),
        "current_observation_frame": observation,
        "past_actions": [
            {"narration_text": "x", "start_frame": start, "stop_frame": stop}
            for start, stop in past
        ],
    }


def uniform_images(doc, num_frames=8):
    return EGOPLAN.visual_input(doc, {"media": "frames", "num_frames": num_frames})


def clip_images(doc, num_clips=4, frames_per_clip=8):
    settings = {"media": "clips", "num_clips": num_clips, "frames_per_clip": frames_per_clip}
    *clips, observation = EGOPLAN.visual_input(doc, settings)
    return clips, observation


def progress_video(doc):
    (path,) = EGOPLAN.visual_input(doc, {"media": "video"})
    return path


def sources(media):
    return [("EpicKitchens", media / "P01_02"), ("Ego4D", media / "video.mp4")]


def test_uniform_images(media):
    for source, path in sources(media):
        doc = row(source, path, 120, (10, 30), (20, 140))
        assert read_numbers(uniform_images(doc, 5)) == [10, 38, 65, 93, 120]
        assert len(uniform_images(doc)) == 8
        assert read_numbers(uniform_images(row(source, path, 77))) == [77]


def test_clip_images(media):
    for source, path, fps in zip(*zip(*sources(media), strict=True), (60, 30), strict=True):
        clips, observation = clip_images(row(source, path, 50, (1, 5), (10, 30), (20, 90)), 2, 3)
        assert [read_numbers(clip) for clip in clips] == [[10, 20, 30], [20, 35, 50]]
        assert read_number(observation) == 50
        # 10 to 30 and 20 to 50 in steps of 10 and 15 frames.
        assert [clip.fps for clip in clips] == [fps / 10, fps / 15]
        (short,), _ = clip_images(row(source, path, 50, (7, 7)), 1, 3)
        assert (read_numbers(short), short.fps) == ([7, 7, 7], 2 * fps)
        (single,), _ = clip_images(row(source, path, 50, (10, 30)), 1, 1)
        assert (len(single), single.fps) == (1, None)
        clips, observation = clip_images(row(source, path, 50))
        assert (clips, read_number(observation)) == ([], 50)


def test_progress_video_ends_with_the_observation(media, data):
    for source, path, fps in zip(*zip(*sources(media), strict=True), (60, 30), strict=True):
        doc = row(source, path, 131, (11, 200))
        video = Path(progress_video(doc))
        assert video.parent == data / "egoplan" / "progress_videos"
        assert video.name.startswith(f"{source}_{path.stem}_11_131_")
        frames = count_video_frames(video)
        numbers = read_numbers(read_video_frames(video, range(frames)))
        assert (numbers[0], numbers[-1]) == (11, 131)
        assert numbers == sorted(set(numbers))
        with av.open(video) as container:
            rate = float(container.streams.video[0].average_rate)
        assert rate <= 4.001
        assert (frames - 1) / rate == pytest.approx(120 / fps, rel=1e-2)


def test_progress_video_is_written_once(media):
    doc = row("EpicKitchens", media / "P01_02", 90, (1, 20))
    path = Path(progress_video(doc))
    written = path.stat().st_mtime_ns
    assert progress_video(doc) == str(path)
    assert path.stat().st_mtime_ns == written


def test_progress_video_is_written_again_for_changed_media(tmp_path):
    video, folder = tmp_path / "v.mp4", tmp_path / "P01_02"
    write_numbered_video(video, 40)
    write_epic_folder(folder, 1, 40)
    docs = [row("Ego4D", video, 30, (20, 25)), row("EpicKitchens", folder, 30, (20, 25))]
    old = [progress_video(doc) for doc in docs]
    write_numbered_video(video, 50, gop=7)
    number_image(25).save(frame_path(folder, 30), quality=60)
    new = [progress_video(doc) for doc in docs]
    assert len({*old, *new}) == 4
    assert read_number(read_video_frames(new[1], [count_video_frames(new[1]) - 1])[0]) == 25


def test_progress_video_of_one_observation(media):
    path = progress_video(row("EpicKitchens", media / "P01_02", 90))
    assert read_numbers(read_video_frames(path, range(count_video_frames(path)))) == [90]


def test_long_progress_is_thinned(media):
    path = progress_video(row("Ego4D", media / "long.mp4", 2550, (0, 10)))
    assert count_video_frames(path) == 256
    assert read_numbers(read_video_frames(path, [0, 100, 255])) == [0, 1000, 2550]


def test_missing_frames_leave_no_video(media, data):
    with pytest.raises(FrameError, match=r"frame_0000000151.jpg: no such frame"):
        progress_video(row("EpicKitchens", media / "P01_02", 151, (100, 120)))
    assert list(data.rglob("*.mp4")) == []


def test_nothing_after_the_observation_is_read(tmp_path):
    """Uses the published example with a folder that contains no frame after the observation."""
    if not EXAMPLES.exists():
        pytest.skip(f"{EXAMPLES} is absent")
    (record,) = json.loads(EXAMPLES.read_text())["EgoPlan_validation"]
    folder = write_epic_folder(tmp_path / "P01_13", 36, 760)
    doc = record | {"media_path": str(folder), "past_actions": record["task_progress_metadata"]}
    assert not frame_path(folder, 761).exists()
    assert read_numbers(uniform_images(doc)) == [36, 139, 243, 346, 450, 553, 657, 760]
    clips, observation = clip_images(doc)
    assert [(read_number(clip[0]), read_number(clip[-1])) for clip in clips] == [
        (111, 253),
        (274, 456),
        (457, 606),
        (689, 760),
    ]
    assert read_number(observation) == 760
    video = progress_video(doc)
    assert read_number(read_video_frames(video, [count_video_frames(video) - 1])[0]) == 760


def test_the_error_about_a_damaged_frame_gives_a_command(tmp_path):
    path = damage_packet(write_numbered_video(tmp_path / "v.mp4", 48), 13)
    damaged = row("Ego4D", path, 23, (0, 20)) | {"sample_id": 115}
    message = r"sample_id 115: .*v.mp4: frame \d+, at 0\.\d+ s, .* --verify --skip-missing"
    for show in (uniform_images, clip_images, progress_video):
        with pytest.raises(DamagedFrameError, match=message):
            show(damaged)
    assert read_numbers(uniform_images(row("Ego4D", path, 11, (0, 8)), 3)) == [0, 6, 11]
    assert read_numbers(uniform_images(row("Ego4D", path, 40, (36, 40)), 3)) == [36, 38, 40]


def test_a_task_may_start_before_its_first_action(media, data):
    """Tasks of EgoPlan-Bench2 do so."""
    doc = row("Ego4D", media / "video.mp4", 30, (10, 20)) | {"first_frame": 4}
    assert (progress_of(doc).first, progress_of(doc).observation) == (4, 30)
    images = EGOPLAN_BENCH2.visual_input(doc, {"media": "frames", "num_frames": 3})
    assert read_numbers(images) == [4, 17, 30]
    assert num_images(doc, {"num_frames": 100}) == 27
    (video,) = EGOPLAN_BENCH2.visual_input(doc, {"media": "video"})
    assert Path(video).parent == data / "egoplan_bench2" / "progress_videos"


@pytest.fixture
def doc(media):
    return row("EpicKitchens", media / "P01_02", 30, (1, 10), (11, 20), (21, 29))


def test_clips_nested_and_flat(doc):
    settings = {"num_clips": 2, "frames_per_clip": 3}
    *clips, observation = EGOPLAN.visual_input(doc, settings | {"media": "clips"})
    assert [len(clip) for clip in clips] == [3, 3]
    flat = EGOPLAN.visual_input(doc, settings | {"media": "clip_frames"})
    expected = [*clips[0], *clips[1], observation]
    assert [image.tobytes() for image in flat] == [image.tobytes() for image in expected]


@pytest.mark.parametrize("layout", ["clips", "clip_frames"])
def test_marks_precede_clips_and_observation(doc, layout):
    """C.1: <Clip1> is the oldest clip that is shown.

    Without past actions, only the observation has a mark.
    """
    settings = {"media": layout, "num_clips": 2, "frames_per_clip": 3}
    parts = EGOPLAN.visual_input(doc, settings | {"clip_marks": True})
    marks = {index: part for index, part in enumerate(parts) if isinstance(part, str)}
    step = 2 if layout == "clips" else 4
    assert marks == {0: "<Clip1>", step: "<Clip2>", 2 * step: "<Observation>"}
    images = [part for index, part in enumerate(parts) if index not in marks]
    assert images == EGOPLAN.visual_input(doc, settings)
    alone = EGOPLAN.visual_input(doc | {"past_actions": []}, settings | {"clip_marks": True})
    assert (alone[0], len(alone)) == ("<Observation>", 2)


def span(first, last, source="Ego4D", video="v"):
    return row(source, Path(video), last, (first, last))


@pytest.mark.parametrize(
    ("question", "settings", "count"),
    [
        (span(0, 300), {"fps": 2, "max_frames": 256}, 21),  # ten seconds
        (span(0, 300), {"fps": 0.5, "max_frames": 256}, 6),
        (span(0, 300), {"fps": 2, "max_frames": 8}, 8),
        (span(0, 30 * 3600), {"fps": 2, "max_frames": 256}, 256),
        (span(7, 7), {"fps": 2, "max_frames": 256}, 1),
        (span(0, 3), {"fps": 60, "max_frames": 256}, 4),
        # 50 frames a second
        (
            span(1, 501, "EpicKitchens", "P01_103"),
            {"fps": 2, "max_frames": 256},
            21,
        ),
        (span(1, 601, "EpicKitchens", "P01_13"), {"fps": 2, "max_frames": 256}, 21),  # 60
        (span(0, 300), {"num_frames": 8}, 8),
    ],
)
def test_number_of_images(question, settings, count):
    assert num_images(question, settings) == count
    assert progress_of(question).uniform_frames(count)[-1] == question["current_observation_frame"]
