import itertools
import os
import random
import wave
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import pytest

from lmms_egoplan.frames import (
    FrameError,
    count_video_frames,
    frame_times,
    read_frame_folder,
    read_video_frames,
    write_video,
)
from media import SIZE, number_image, read_numbers, write_epic_folder, write_numbered_video

FRAMES = 90
VIDEOS = {
    "constant": {},
    "all_intra": {"gop": 1, "b_frames": 0},
    "one_key_frame": {"gop": 1000},
    "many_b_frames": {"b_frames": 7, "gop": 30},
    "open_gop": {"b_frames": 3, "gop": 10, "open_gop": True},
    "variable": {"gaps": (1, 4, 2)},
    "variable_b_frames": {"gaps": (3, 1, 1, 9), "b_frames": 5, "gop": 20},
    "late_start": {"start": 45},
}


@pytest.fixture(scope="module", params=[(name, suffix) for name in VIDEOS for suffix in (".mp4", ".mkv", ".ts")])
def video(request, tmp_path_factory):
    name, suffix = request.param
    return write_numbered_video(tmp_path_factory.mktemp("video") / f"{name}{suffix}", FRAMES, **VIDEOS[name])


def test_every_frame_alone(video):
    for index in range(FRAMES):
        assert read_numbers(read_video_frames(video, [index])) == [index]


def test_any_selection(video):
    choose = random.Random(0)
    for count in (0, 1, 2, 5, 40):
        indices = [choose.randrange(FRAMES) for _ in range(count)]
        assert read_numbers(read_video_frames(video, indices)) == indices
    everything = list(range(FRAMES))
    assert read_numbers(read_video_frames(video, everything[::-1])) == everything[::-1]


def test_counts_and_refuses_what_is_not_there(video):
    assert count_video_frames(video) == FRAMES
    for index in (-1, FRAMES, 10**6):
        with pytest.raises(FrameError, match=rf"{video.name}: no frame {index}, the video has {FRAMES} frames"):
            read_video_frames(video, [0, index])


def test_times_of_all_frames(video):
    name = video.stem
    gaps = itertools.islice(itertools.cycle(VIDEOS[name].get("gaps", (1,))), FRAMES - 1)
    expected = [units / 30 for units in itertools.accumulate(gaps, initial=0)]
    times = list(frame_times(video))
    if video.suffix == ".mkv":  # stores milliseconds
        assert times == pytest.approx(expected, abs=1.001e-3)
    else:
        assert times == expected


@pytest.mark.parametrize(("video_start", "sound_start"), [(0, 0.5), (0.5, 0), (0.5, 0.25), (0.5, 0.75)])
def test_times_count_from_the_first_frame_or_an_earlier_sound(tmp_path, video_start, sound_start):
    path = write_with_sound(tmp_path / "v.mkv", video_start, sound_start)
    offset = max(0, video_start - sound_start)
    assert list(frame_times(path)) == [offset + number / 4 for number in range(8)]


def write_with_sound(path, video_start, sound_start):
    """Two seconds at 4 frames per second, with silence."""
    with av.open(path, "w", options={"avoid_negative_ts": "disabled"}) as container:
        video = container.add_stream("libx264", rate=4)
        video.width, video.height = SIZE
        sound = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        silence = av.AudioFrame(format="s16", layout="mono", samples=8000)
        silence.sample_rate, silence.pts = 8000, int(sound_start * 8000)
        silence.time_base = Fraction(1, 8000)
        container.mux(sound.encode(silence))
        for number in range(8):
            frame = av.VideoFrame.from_image(number_image(number))
            frame.pts, frame.time_base = int(video_start * 4) + number, Fraction(1, 4)
            container.mux(video.encode(frame))
        container.mux([*video.encode(None), *sound.encode(None)])
    return path


def test_edit_list_hides_frames(tmp_path):
    """A cut without encoding anew: frames before the edit are in the file, but are not shown."""
    source = write_numbered_video(tmp_path / "source.mp4", FRAMES, gop=30)
    cut = tmp_path / "cut.mp4"
    with (
        av.open(source) as original,
        av.open(cut, "w", options={"avoid_negative_ts": "disabled"}) as container,
    ):
        stream = container.add_stream_from_template(original.streams.video[0])
        for packet in original.demux(original.streams.video[0]):
            if packet.size:
                skipped = round(10 / 30 / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts - skipped, packet.dts - skipped, stream
                container.mux(packet)
    shown = FRAMES - 10
    assert count_video_frames(cut) == shown
    assert list(frame_times(cut)) == pytest.approx([index / 30 for index in range(shown)])
    indices = [0, 3, 19, 20, 21, 50, shown - 1]
    assert read_numbers(read_video_frames(cut, indices)) == [index + 10 for index in indices]


def test_images_are_rgb_and_loaded(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 5)
    images = read_video_frames(path, [1, 1])
    path.unlink()
    assert [(image.mode, image.size) for image in images] == [("RGB", SIZE)] * 2
    assert read_numbers(images) == [1, 1]


def test_threads_share_a_video(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 60)
    wanted = [[i, 59 - i, (7 * i) % 60] for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda indices: read_numbers(read_video_frames(path, indices)), wanted))
    assert found == wanted


def test_a_replaced_video_is_read_anew(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 10)
    assert count_video_frames(path) == 10
    write_numbered_video(path, 20)
    os.utime(path, ns=(0, 1))
    assert count_video_frames(path) == 20


def test_no_file_stays_open(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 20)
    folder = write_epic_folder(tmp_path / "frames", 1, 3)
    read_video_frames(path, [3])
    read_frame_folder(folder, [1, 2, 3])
    handles = [handle.resolve() for handle in Path("/proc/self/fd").iterdir()]
    assert not [handle for handle in handles if handle.is_relative_to(tmp_path)]


def test_absent_and_broken_videos(tmp_path):
    with pytest.raises(FrameError, match=r"absent.mp4: cannot open the video: No such file"):
        read_video_frames(tmp_path / "absent.mp4", [0])
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(FrameError, match=r"text.mp4: cannot read the video"):
        count_video_frames(tmp_path / "text.mp4")
    whole = write_numbered_video(tmp_path / "whole.mp4", 30).read_bytes()
    (tmp_path / "half.mp4").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FrameError, match=r"half.mp4: cannot read the video"):
        count_video_frames(tmp_path / "half.mp4")


def test_damaged_frames_are_refused(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 40, gop=10, b_frames=0)
    with av.open(path) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
        start, size = packets[15].pos, packets[15].size
    content = bytearray(path.read_bytes())
    content[start + 4 : start + size] = bytes(size - 4)
    path.write_bytes(content)
    assert read_numbers(read_video_frames(path, [3, 35])) == [3, 35]
    with pytest.raises(FrameError, match=r"v.mp4: "):
        read_video_frames(path, [15])


def test_sound_is_no_video(tmp_path):
    path = tmp_path / "sound.wav"
    with wave.open(str(path), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(3200))
    with pytest.raises(FrameError, match="no video stream"):
        count_video_frames(path)


def test_frame_folder(tmp_path):
    folder = write_epic_folder(tmp_path / "P01_13", 1, 12)
    images = read_frame_folder(folder, [12, 1, 5, 1])
    assert read_numbers(images) == [12, 1, 5, 1]
    assert {image.mode for image in images} == {"RGB"}
    with pytest.raises(FrameError, match=r"frame_0000000013.jpg: no such frame"):
        read_frame_folder(folder, [1, 13])
    (folder / "frame_0000000002.jpg").write_bytes(b"no image")
    with pytest.raises(FrameError, match=r"frame_0000000002.jpg: cannot read the frame"):
        read_frame_folder(folder, [2])
    jpeg = (folder / "frame_0000000003.jpg").read_bytes()
    (folder / "frame_0000000003.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    with pytest.raises(FrameError, match=r"frame_0000000003.jpg: cannot read the frame"):
        read_frame_folder(folder, [3])


@pytest.mark.parametrize("fps", [4, 29.97, Fraction(30000, 1001), Fraction(1, 3)])
def test_written_videos_read_back(tmp_path, fps):
    path = tmp_path / "new" / "v.mp4"
    write_video(path, (number_image(number) for number in range(20)), fps)
    assert read_numbers(read_video_frames(path, range(20))) == list(range(20))
    with av.open(path) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert float(stream.average_rate) == pytest.approx(float(fps), rel=1e-3)
    assert [entry.name for entry in path.parent.iterdir()] == ["v.mp4"]


def test_writing_fails_whole(tmp_path):
    path = tmp_path / "v.mp4"
    path.write_bytes(b"older")
    sizes = [number_image(0), number_image(1).resize((64, 32))]
    for frames, message in (([], "no frames to write"), (sizes, "different sizes")):
        with pytest.raises(FrameError, match=message):
            write_video(path, iter(frames), 4)
    with pytest.raises(ZeroDivisionError):
        write_video(path, (number_image(1 // (2 - i)) for i in itertools.count()), 4)
    assert path.read_bytes() == b"older"
    assert [entry.name for entry in tmp_path.iterdir()] == ["v.mp4"]


def test_odd_sizes_lose_a_row_and_a_column(tmp_path):
    write_video(tmp_path / "v.mp4", [number_image(5).resize((65, 33))] * 3, 4)
    assert read_video_frames(tmp_path / "v.mp4", [2])[0].size == (64, 32)
