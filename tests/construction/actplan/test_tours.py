"""Tours: finding them, their candidates for views, and selecting sharp and different ones."""

from io import BytesIO
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from construction.actplan.rooms import blurred, room, things_of, write_folder, write_tour
from lmms_egoplan.construction.actplan import tours
from lmms_egoplan.construction.actplan.tours import (
    find_tours,
    named_views,
    read_candidates,
    sharp_and_different,
    view_file,
)
from lmms_egoplan.construction.pictures import distance, sharpness, thumbnail
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import read_video_frames
from shared_data import DATA

RELEASED = DATA / "actplan" / "annotation"
ROOMS = [room("cup", "shelf"), room("sink"), room("table", "carton")]


@pytest.fixture
def video(tmp_path):
    write_tour(tmp_path / "home/making_tea/0/sample_0.mp4", ROOMS)
    return find_tours(tmp_path)[0][0]


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "home/making_tea/0/sample_1", ROOMS)
    return find_tours(tmp_path)[0][-1]


@given(arrays(np.uint8, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_sharpness_is_the_variance_of_the_laplacian(grey):
    height, width = grey.shape
    values = [
        int(grey[y - 1, x])
        + int(grey[y + 1, x])
        + int(grey[y, x - 1])
        + int(grey[y, x + 1])
        - 4 * int(grey[y, x])
        for y in range(1, height - 1)
        for x in range(1, width - 1)
    ]
    expected = (
        sum((value - sum(values) / len(values)) ** 2 for value in values) / len(values)
        if values
        else 0.0
    )
    assert sharpness(Image.fromarray(grey)) == pytest.approx(expected)


def test_distance_is_the_mean_colour_difference():
    black, white, red = (
        thumbnail(Image.new("RGB", (40, 30), colour)) for colour in ("black", "white", "red")
    )
    assert [distance(black, other) for other in (black, white, red)] == pytest.approx([0, 1, 1 / 3])


def test_a_video_has_one_candidate_per_second(video):
    candidates, rejections = read_candidates(video)
    assert rejections == []
    assert len(candidates) == 6
    times = [candidate.time for candidate in candidates]
    assert all(0.7 < b - a < 1.6 for a, b in pairwise(times))
    first_things = [things_of(candidate.image)[0] for candidate in candidates]
    assert first_things == ["cup"] * 2 + ["sink"] * 2 + ["table"] * 2
    assert all(candidate.name == f"{round(4 * candidate.time):05}" for candidate in candidates)


def test_blurred_and_repeated_frames_are_dropped(video):
    selected = sharp_and_different(read_candidates(video)[0], 12)
    assert [things_of(candidate.image) for candidate in selected] == [
        ["cup", "shelf"],
        ["sink"],
        ["table", "carton"],
    ]
    assert len(sharp_and_different(read_candidates(video)[0], 2)) == 2
    assert sharp_and_different([], 2) == []


def test_blurring_makes_a_view_less_sharp():
    assert all(sharpness(blurred(image)) < 0.01 * sharpness(image) for image in ROOMS)


def test_a_view_is_the_whole_frame_or_the_image_itself(video, folder):
    name, content = view_file(video, "00009")
    assert name == "00009.png"
    (frame,) = read_video_frames(video.path, [9])
    with Image.open(BytesIO(content)) as image:
        assert image.tobytes() == frame.tobytes()
    assert view_file(folder, "00001.png") == ("00001.png", (folder.path / "00001.png").read_bytes())


def test_views_that_people_chose(video, folder):
    assert [
        (candidate.name, candidate.time) for candidate in named_views(video, ["4.1", "0.3"])
    ] == [
        ("00001", 0.25),
        ("00016", 4.0),
    ]
    assert [candidate.name for candidate in named_views(folder, ["00002.png", "00000.png"])] == [
        "00000.png",
        "00002.png",
    ]
    for tour, view in (
        (video, "9"),
        (video, "-1"),
        (video, "soon"),
        (video, "nan"),
        (folder, "00009.png"),
    ):
        with pytest.raises(LmmsEgoplanError, match=view):
            named_views(tour, [view])
    (folder.path / "00001.png").write_bytes(b"no image")
    with pytest.raises(LmmsEgoplanError, match=r"00001\.png"):
        named_views(folder, ["00000.png", "00001.png"])


def test_unreadable_images_are_rejected_and_others_are_read(folder, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)  # as harnesses do
    (folder.path / "00001.png").write_bytes((folder.path / "00001.png").read_bytes()[:200])
    (folder.path / "00003.png").write_bytes(b"")
    candidates, rejections = read_candidates(folder)
    assert [candidate.name for candidate in candidates] == ["00000.png", "00002.png"]
    assert [(rejection.reason, rejection.where.rpartition("/")[2]) for rejection in rejections] == [
        (tours.BAD_IMAGE, "00001.png"),
        (tours.BAD_IMAGE, "00003.png"),
    ]


def test_a_damaged_video_is_rejected(video):
    video.path.write_bytes(b"no video")
    candidates, rejections = read_candidates(video)
    assert (candidates, [rejection.reason for rejection in rejections]) == ([], [tours.BAD_VIDEO])


def test_only_the_damaged_frame_is_lost(tmp_path):
    path = write_tour(tmp_path / "home/making_tea/0/sample_0.mp4", ROOMS)
    content = bytearray(path.read_bytes())
    # Damage the middle of the pictures' data, which follow the index or precede it.
    start = content.index(b"mdat")
    for position in range(
        start + (len(content) - start) // 2, start + (len(content) - start) // 2 + 400
    ):
        content[position] ^= 0x5A
    path.write_bytes(bytes(content))
    candidates, rejections = read_candidates(find_tours(tmp_path)[0][0])
    assert candidates
    assert {rejection.reason for rejection in rejections} <= {tours.BAD_FRAME}
    assert len(candidates) + len(rejections) == 6


def test_tours_and_rejections_in_a_folder(tmp_path):
    home = tmp_path / "home"
    write_folder(home / "making_tea/0/sample_0", ROOMS[:1])
    write_folder(home / "making_tea/1/sample_12", ROOMS[:1])
    (home / "making_tea/0/sample_0.mp4").write_bytes(b"")
    (home / "making_tea/0/sample_3.txt").write_text("")
    (home / "making_tea/2").mkdir()
    (home / "making_tea/2/sample_0.mp4").write_bytes(b"")
    (home / "making_tea/0/.hidden").mkdir()
    valid_tours, rejections = find_tours(tmp_path)
    assert [str(tour.id) for tour in valid_tours] == [
        "home/making_tea/0/sample_0",
        "home/making_tea/1/sample_12",
    ]
    assert [(rejection.reason, rejection.where) for rejection in rejections] == [
        (tours.TWICE, "home/making_tea/0/sample_0.mp4"),
        (tours.NO_TOUR, "home/making_tea/0/sample_3.txt"),
        (tours.STRAY, "home/making_tea/2/sample_0.mp4"),
    ]


@pytest.mark.skipif(not RELEASED.is_dir(), reason=f"{RELEASED} is absent")
def test_the_released_views_are_sharp_and_different():
    released_tours, rejections = find_tours(RELEASED)
    assert [str(tour.id)[-10:] for tour in released_tours] == ["0/sample_0", "1/sample_0"]
    assert rejections == []
    for tour in released_tours:
        candidates, rejections = read_candidates(tour)
        assert (len(candidates), rejections) == (3, [])
        assert sharp_and_different(candidates, 12) == candidates


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_without_tours_raises_an_error(tmp_path, exists):
    if exists:
        (tmp_path / "tours").mkdir()
    with pytest.raises(LmmsEgoplanError, match="expected DIR/<scene>/<activity>"):
        find_tours(tmp_path / "tours")
