import itertools
import os
import random
import subprocess
import sys
import wave
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import av
import pytest
from PIL import Image, ImageFile

from lmms_egoplan.media.decoding import _frames
from lmms_egoplan.media.frames import (
    DamagedFrameError,
    FrameError,
    _time_table,
    check_frame_folder,
    check_video_frames,
    count_video_frames,
    frame_path,
    frame_times,
    read_frame_folder,
    read_video_frames,
    write_video,
)
from media.files import (
    SIZE,
    copy_packets,
    damage_packet,
    number_image,
    read_numbers,
    write_epic_folder,
    write_numbered_video,
)
from patience import FOREVER_S

FRAMES = 60
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


# The containers differ in time stamps and key frames. The other videos in them are nightly.
FIRST = [
    *((name, ".mp4") for name in VIDEOS),
    ("open_gop", ".mkv"),
    ("open_gop", ".ts"),
    ("variable_b_frames", ".mkv"),
    ("late_start", ".ts"),
]
OTHERS = [
    (name, suffix) for name in VIDEOS for suffix in (".mkv", ".ts") if (name, suffix) not in FIRST
]


@pytest.fixture(
    scope="module",
    params=[*FIRST, *(pytest.param(case, marks=pytest.mark.nightly) for case in OTHERS)],
)
def video(request, tmp_path_factory):
    name, suffix = request.param
    return write_numbered_video(
        tmp_path_factory.mktemp("video") / f"{name}{suffix}", FRAMES, **VIDEOS[name]
    )


def test_every_single_frame(video):
    for index in range(FRAMES):
        assert read_numbers(read_video_frames(video, [index])) == [index]


def test_any_selection(video):
    choose = random.Random(0)
    for count in (0, 1, 2, 5, 40):
        indices = [choose.randrange(FRAMES) for _ in range(count)]
        assert read_numbers(read_video_frames(video, indices)) == indices
    everything = list(range(FRAMES))
    assert read_numbers(read_video_frames(video, everything[::-1])) == everything[::-1]


def test_unused_frames_are_not_decoded(tmp_path):
    path = write_numbered_video(tmp_path / "video.mp4", 60, gop=60, b_frames=2)
    skipped: set[int] = set()
    with av.open(path) as container:
        frames = _frames(container, _time_table(path), {25, 50}, skipped)
        decoded = read_numbers([frame.to_image() for frame in frames])
    assert len(skipped) > 15
    assert not {25, 50} & skipped
    assert decoded == [number for number in range(60) if number not in skipped]


def test_missing_frames_raise_with_the_frame_count(video):
    assert count_video_frames(video) == FRAMES
    for index in (-1, FRAMES, 10**6):
        with pytest.raises(FrameError, match=rf"{video.name}: .*{index}.*{FRAMES}"):
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


@pytest.mark.parametrize(
    ("video_start", "sound_start"), [(0, 0.5), (0.5, 0), (0.5, 0.25), (0.5, 0.75)]
)
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
    """In a cut without re-encoding, the file contains frames before the edit, but players skip
    them.
    """
    source = write_numbered_video(tmp_path / "source.mp4", FRAMES, gop=30)
    cut = copy_packets(source, tmp_path / "cut.mp4", shift=10)
    num_visible = FRAMES - 10
    assert count_video_frames(cut) == num_visible
    assert list(frame_times(cut)) == pytest.approx([index / 30 for index in range(num_visible)])
    indices = [0, 3, 19, 20, 21, 40, num_visible - 1]
    assert read_numbers(read_video_frames(cut, indices)) == [index + 10 for index in indices]


def test_images_are_rgb_and_loaded(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 5)
    images = read_video_frames(path, [1, 1])
    path.unlink()
    assert [(image.mode, image.size) for image in images] == [("RGB", SIZE)] * 2
    assert read_numbers(images) == [1, 1]


def test_threads_share_a_video(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 60)
    selections = [[i, 59 - i, (7 * i) % 60] for i in range(24)]
    with ThreadPoolExecutor(4) as pool:
        numbers = list(
            pool.map(lambda indices: read_numbers(read_video_frames(path, indices)), selections)
        )
    assert numbers == selections


def test_a_replaced_video_is_read_again(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 10)
    assert count_video_frames(path) == 10
    write_numbered_video(path, 20)
    os.utime(path, ns=(0, 1))
    assert count_video_frames(path) == 20


def test_files_are_closed(tmp_path):
    path = write_numbered_video(tmp_path / "v.mp4", 20)
    folder = write_epic_folder(tmp_path / "frames", 1, 3)
    read_video_frames(path, [3])
    read_frame_folder(folder, [1, 2, 3])
    handles = [handle.resolve() for handle in Path("/proc/self/fd").iterdir()]
    assert not [handle for handle in handles if handle.is_relative_to(tmp_path)]


def test_missing_and_broken_videos(tmp_path):
    with pytest.raises(FrameError, match=r"absent\.mp4: "):
        read_video_frames(tmp_path / "absent.mp4", [0])
    whole = write_numbered_video(tmp_path / "whole.mp4", 30).read_bytes()
    for content in (b"no video", whole[: len(whole) // 2]):
        (tmp_path / "broken.mp4").write_bytes(content)
        with pytest.raises(FrameError, match=r"broken\.mp4: "):
            count_video_frames(tmp_path / "broken.mp4")


def test_damaged_frames_are_rejected(tmp_path):
    path = damage_packet(
        write_numbered_video(tmp_path / "v.mp4", 40, gop=10, b_frames=0), 15, offset=4
    )
    assert read_numbers(read_video_frames(path, [3, 35])) == [3, 35]
    with pytest.raises(FrameError, match=r"v.mp4: "):
        read_video_frames(path, [15])


def decoding_order(path):
    """Positions in decoding order, those of frames that no other frame needs, and whether each
    frame is a key frame.
    """
    with av.open(path) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    times = sorted(packet.pts for packet in packets)
    order = [times.index(packet.pts) for packet in packets]
    with av.open(path) as container:
        container.streams.video[0].codec_context.skip_frame = "NONREF"
        visible = {times.index(frame.pts) for frame in container.decode(video=0)}
    return order, set(order) - visible, [packet.is_keyframe for packet in packets]


LOGGING = """
import sys
import av.logging
from lmms_egoplan.media.frames import read_video_frames

av.logging.set_level(av.logging.ERROR)
for _ in range(200):
    read_video_frames(sys.argv[1], [30, 50])
"""


@pytest.mark.nightly
def test_a_decoder_that_logs_is_closed(tmp_path):
    """If another package, such as torchvision 0.21, turns on PyAV's log, decoding threads must not
    deadlock.
    """
    path = damage_packet(write_numbered_video(tmp_path / "v.mp4", FRAMES), 40)
    command = [sys.executable, "-c", LOGGING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FOREVER_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


# Key frames, frames that others need, and frames that none needs; in the middle and at both ends.
DAMAGED = [
    ("constant", 0),
    ("constant", 14),
    ("open_gop", 13),
    ("open_gop", 31),
    ("many_b_frames", 15),
    ("many_b_frames", 59),
    ("all_intra", 32),
]
ALSO_DAMAGED = itertools.product(
    ["constant", "open_gop", "many_b_frames", "all_intra"], [0, 13, 14, 15, 31, 32, 59]
)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        *DAMAGED,
        *(
            pytest.param(*case, marks=pytest.mark.nightly)
            for case in ALSO_DAMAGED
            if case not in DAMAGED
        ),
    ],
)
def test_damage_affects_only_dependent_frames(tmp_path, kind, number):
    path = write_numbered_video(tmp_path / "v.mp4", FRAMES, **VIDEOS[kind])
    order, unused, keys = decoding_order(path)
    damage_packet(path, number)
    damaged = order[number]
    next_keys = [*(i for i in range(number + 1, FRAMES) if keys[i]), FRAMES, FRAMES]
    for index in range(FRAMES):
        rank = order.index(index)
        after = next_keys[0] <= rank and index >= order[next_keys[0]]
        if (
            rank < number
            or (damaged in unused and rank != number)
            or (after and kind != "open_gop")
        ):
            assert read_numbers(read_video_frames(path, [index])) == [index]
        elif not after:
            where = "" if rank == number else rf"{damaged / 30:.3f} s"
            with pytest.raises(
                DamagedFrameError, match=rf"v\.mp4: .*{index}.*{index / 30:.3f} s.*{where}"
            ):
                read_video_frames(path, [index])
        elif next_keys[1] <= rank and index >= order[next_keys[1]]:
            assert read_numbers(read_video_frames(path, [index])) == [index]


def test_the_error_names_the_first_damaged_frame(tmp_path):
    path = damage_packet(write_numbered_video(tmp_path / "v.mp4", 60, gop=20, b_frames=0), 23)
    with pytest.raises(
        DamagedFrameError, match=r"v\.mp4: frame 35.* 1\.167 s.* 0\.767 s.*frame 23"
    ):
        read_video_frames(path, [3, 35, 59])
    checked = dict(check_video_frames(path, range(60)))
    assert [index for index, error in checked.items() if error] == list(range(23, 40))
    assert read_numbers(read_video_frames(path, [59, 22, 0, 40])) == [59, 22, 0, 40]


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 12), marks=pytest.mark.nightly)])
def test_a_damaged_video_never_returns_a_wrong_frame(tmp_path, seeds):
    """Replace 200 random bytes within 20 KB, as after a bad disk or a broken download."""
    pixels = random.Random(1)
    noise = [
        Image.frombytes("RGB", (64, 64), pixels.randbytes(64 * 64 * 3)).resize((256, 192))
        for _ in range(3)
    ]
    path = tmp_path / "v.mp4"

    def picture(number):
        image = noise[number // 20].rotate(number % 20)
        image.paste(number_image(number), (64, 80))
        return image

    write_video(path, map(picture, range(60)), 30)
    whole = [image.crop((64, 80, 192, 112)) for image in read_video_frames(path, range(60))]
    assert read_numbers(whole) == list(range(60))
    content = path.read_bytes()
    refused = 0
    for seed in seeds:
        choose = random.Random(seed)
        spoilt = bytearray(content)
        start = choose.randrange(len(content) // 10, len(content) - 20000)
        for _ in range(200):
            spoilt[start + choose.randrange(20000)] = choose.randrange(256)
        path.write_bytes(spoilt)
        for index in choose.sample(range(60), 5):
            try:
                (image,) = read_video_frames(path, [index])
            except FrameError:
                refused += 1
            else:
                assert read_numbers([image.crop((64, 80, 192, 112))]) == [index], (seed, index)
    assert len(seeds) / 2 < refused < 4.5 * len(seeds)


@pytest.mark.parametrize(
    ("codec", "suffix", "options"),
    [
        ("mpeg4", ".avi", {"g": "10", "bf": "2"}),
        ("mpeg4", ".mp4", {"g": "10"}),
        ("mjpeg", ".avi", {}),
        ("mpeg2video", ".ts", {"g": "10", "bf": "2"}),
        ("libvpx", ".webm", {"g": "10", "cpu-used": "8", "deadline": "realtime"}),
        (
            "libvpx",
            ".webm",
            {"g": "30", "auto-alt-ref": "1", "lag-in-frames": "10", "cpu-used": "5"},
        ),
        ("libvpx-vp9", ".webm", {"g": "10", "cpu-used": "8", "deadline": "realtime"}),
        ("libx265", ".mp4", {"x265-params": "keyint=10:log-level=none", "preset": "ultrafast"}),
        (
            "libx265",
            ".mkv",
            {"x265-params": "keyint=10:open-gop=1:log-level=none", "preset": "ultrafast"},
        ),
        ("libx264", ".mp4", {"profile": "baseline"}),
        ("libx264", ".ts", {"x264-params": "intra-refresh=1:keyint=20"}),
        ("libx264", ".mp4", {"x264-params": "tff=1:slices=4"}),
    ],
)
def test_other_encoders(tmp_path, codec, suffix, options):
    if codec not in av.codecs_available:
        pytest.skip(f"no encoder {codec}")
    path = tmp_path / f"v{suffix}"
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.bit_rate = 2_000_000
        for number in range(40):
            frame = av.VideoFrame.from_image(number_image(number)).reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = number, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert read_numbers(read_video_frames(path, range(40))) == list(range(40))
    for index in (0, 7, 9, 10, 11, 25, 39):
        assert read_numbers(read_video_frames(path, [index])) == [index]


def test_frames_after_a_loss_in_a_transport_stream_are_rejected(tmp_path):
    path = write_numbered_video(tmp_path / "v.ts", 60, gop=10)
    content = path.read_bytes()
    middle = len(content) // 2 // 188 * 188
    path.write_bytes(content[:middle] + content[middle + 3 * 188 :])
    assert read_numbers(read_video_frames(path, [0, 20])) == [0, 20]
    with pytest.raises(DamagedFrameError, match=r"v\.ts: frame 50.* 0\.9\d\d s"):
        read_video_frames(path, [50])


def test_an_audio_file_is_rejected(tmp_path):
    path = tmp_path / "sound.wav"
    with wave.open(str(path), "wb") as sound:
        sound.setparams((1, 2, 16000, 0, "NONE", ""))
        sound.writeframes(bytes(3200))
    with pytest.raises(FrameError, match=r"sound\.wav"):
        count_video_frames(path)


def test_frame_folder(tmp_path):
    folder = write_epic_folder(tmp_path / "P01_13", 1, 12)
    images = read_frame_folder(folder, [12, 1, 5, 1])
    assert read_numbers(images) == [12, 1, 5, 1]
    assert {image.mode for image in images} == {"RGB"}
    with pytest.raises(FrameError, match=r"frame_0000000013\.jpg"):
        read_frame_folder(folder, [1, 13])
    frame = frame_path(folder, 3)
    jpeg = frame.read_bytes()
    for content in (jpeg[: len(jpeg) // 2], b"no image"):
        frame.write_bytes(content)
        with pytest.raises(FrameError, match=frame.name):
            read_frame_folder(folder, [3])


def test_damaged_jpegs(tmp_path, monkeypatch):
    folder = write_epic_folder(tmp_path / "P01_13", 1, 4)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)  # as harnesses do
    content = frame_path(folder, 2).read_bytes()
    frame_path(folder, 2).write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFrameError, match=r"frame_0000000002\.jpg"):
        read_frame_folder(folder, [2])
    start = len(content) * 3 // 4
    frame_path(folder, 3).write_bytes(content[:start] + bytes(100) + content[start + 100 :])
    errors = {number: error for number, error in check_frame_folder(folder, [4, 3, 2, 1]) if error}
    assert list(errors) == [2, 3]
    assert "frame_0000000003.jpg: " in str(errors[3])
    with pytest.raises(FrameError, match=r"frame_0000000005\.jpg"):
        list(check_frame_folder(folder, [5]))


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


def test_failed_writing_leaves_no_file(tmp_path):
    path = tmp_path / "v.mp4"
    path.write_bytes(b"older")
    sizes = [number_image(0), number_image(1).resize((64, 32))]
    for frames, facts in (([], ""), (sizes, r"\(64, 32\)")):
        with pytest.raises(FrameError, match=rf"v\.mp4: .*{facts}"):
            write_video(path, iter(frames), 4)
    with pytest.raises(ZeroDivisionError):
        write_video(path, (number_image(1 // (2 - i)) for i in itertools.count()), 4)
    assert path.read_bytes() == b"older"
    assert [entry.name for entry in tmp_path.iterdir()] == ["v.mp4"]


def test_odd_sizes_lose_a_row_and_a_column(tmp_path):
    write_video(tmp_path / "v.mp4", [number_image(5).resize((65, 33))] * 3, 4)
    assert read_video_frames(tmp_path / "v.mp4", [2])[0].size == (64, 32)
