"""All kinds of visuals become the content of one chat message."""

import numpy as np
import pytest
from PIL import Image

from lmms_egoplan.media.messages import MediaLoader
from media.files import number_image, read_numbers, write_numbered_video


def content(visuals, text="What next?", takes_video=True, max_frames_num=8):
    (message,) = MediaLoader(max_frames_num, takes_video=takes_video).messages(text, visuals)
    assert message["role"] == "user"
    return message["content"]


def kinds(items):
    return [item["type"] for item in items]


def test_text_only():
    assert content([]) == [{"type": "text", "text": "What next?"}]


def test_images_come_before_the_text_in_their_order():
    items = content([number_image(3), number_image(1)])
    assert kinds(items) == ["image", "image", "text"]
    assert read_numbers([item["image"] for item in items[:2]]) == [3, 1]


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "RGB"])
def test_images_of_any_mode_become_rgb(mode):
    assert content([number_image(5).convert(mode)])[0]["image"].mode == "RGB"


@pytest.mark.parametrize("suffix", [".png", ".JPG", ".webp"])
def test_path_of_an_image(tmp_path, suffix):
    path = tmp_path / f"frame{suffix}"
    number_image(9).save(path)
    for visual in (path, str(path)):
        items = content([visual])
        assert kinds(items) == ["image", "text"]
        assert read_numbers([items[0]["image"]]) == [9]


def test_video_path_is_a_video_of_evenly_spaced_frames(tmp_path):
    path = write_numbered_video(tmp_path / "video.mp4", 29)
    video, text = content([str(path)], max_frames_num=5)
    assert read_numbers(video["video"]) == [0, 7, 14, 21, 28]
    assert text == {"type": "text", "text": "What next?"}


def test_short_videos_are_complete_and_a_single_frame_is_the_last(tmp_path):
    path = write_numbered_video(tmp_path / "video.mp4", 3)
    assert read_numbers(content([path])[0]["video"]) == [0, 1, 2]
    assert read_numbers([content([path], max_frames_num=1)[0]["image"]]) == [2]


def test_list_of_frames_is_a_video_of_all_of_them():
    frames = [number_image(number) for number in range(12)]
    video, image, _ = content([frames, frames[0]], max_frames_num=4)
    assert read_numbers(video["video"]) == list(range(12))
    assert read_numbers([image["image"]]) == [0]


def test_frames_are_images_for_a_model_without_video(tmp_path):
    path = write_numbered_video(tmp_path / "video.mp4", 3)
    items = content([[number_image(8), number_image(9)], path], takes_video=False)
    assert kinds(items) == ["image"] * 5 + ["text"]
    assert read_numbers([item["image"] for item in items[:-1]]) == [8, 9, 0, 1, 2]


def test_visuals_replace_their_placeholders():
    items = content([number_image(1), number_image(2)], "First <image> then <image>, what next?")
    assert kinds(items) == ["text", "image", "text", "image", "text"]
    assert items[0]["text"] == "First "
    assert read_numbers([items[1]["image"], items[3]["image"]]) == [1, 2]


def test_a_different_number_of_placeholders_is_text():
    items = content([number_image(1)], "<image> and <image>")
    assert kinds(items) == ["image", "text"]
    assert items[1]["text"] == "<image> and <image>"


@pytest.mark.parametrize(
    "visual", [5, [], [1, 2], np.zeros((4, 4, 3)), [Image.new("RGB", (2, 2)), "a.jpg"]]
)
def test_other_values_are_rejected(visual):
    with pytest.raises(TypeError):
        content([visual])
