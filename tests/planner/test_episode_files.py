"""An episode's page, data and video."""

import json

import av
import pytest
from PIL import Image

from lmms_egoplan.media.frames import Clip
from lmms_egoplan.planner.episode_files import write_episode
from lmms_egoplan.planner.planner import (
    DONE,
    ENVIRONMENT_FAILED,
    ActionOutcome,
    Episode,
    Proposal,
    Step,
)

BEAMS = [
    Proposal("<b>open</b> the tap", -3.0, 3, None, 0.25),
    Proposal("\u6253\u5f00 \u2192 " * 30, -4.0, 2, "open tap", 0.75),
]


@pytest.fixture
def episode():
    view, clip = Image.new("RGB", (321, 240)), Clip([Image.new("RGB", (321, 240), "red")] * 3)
    steps = [
        Step(1, view, BEAMS, BEAMS[0], ActionOutcome(False, "nothing happens", Clip()), 0.5, 0.1),
        Step(2, view, BEAMS, BEAMS[1], ActionOutcome(True, "it is open", clip), 0.5, 0.1),
    ]
    return Episode("drink <water>", "a kitchen", steps, DONE, None, view)


def frames_of(path):
    with av.open(path) as film:
        return [frame.to_image() for frame in film.decode(video=0)]


def test_an_episode_has_a_page_data_and_a_video(episode, tmp_path):
    page = write_episode(episode, tmp_path, model="a model").read_text(encoding="utf-8")
    content = json.loads((tmp_path / "episode.json").read_text(encoding="utf-8"))
    assert (content["goal"], content["success"], content["model"]) == (
        "drink <water>",
        True,
        "a model",
    )
    assert [step["tried"] for step in content["steps"]] == [0, 1]
    assert content["steps"][0]["proposals"][0] == vars(BEAMS[0])
    for text in (
        "drink &lt;water&gt;",
        "&lt;b&gt;open&lt;/b&gt; the tap",
        "similarity 0.25",
        "-1.00",
        "nothing happens",
    ):
        assert text in page
    assert "<b>" not in page
    assert sorted(path.name for path in (tmp_path / "frames").iterdir()) == [
        "001.jpg",
        "002.jpg",
        "003.jpg",
    ]
    frames = frames_of(tmp_path / "episode.mp4")
    assert len(frames) == 8 + 8 + 3 + 8
    assert frames[0].size == (320, 280)
    assert frames[18].getpixel((100, 100))[0] > 200


def test_large_views_make_a_small_film(episode, tmp_path):
    for number, step in enumerate(episode.steps):
        episode.steps[number] = Step(**vars(step) | {"view": Image.new("RGB", (1280, 720))})
    write_episode(episode, tmp_path)
    assert frames_of(tmp_path / "episode.mp4")[0].size == (640, 400)


def test_an_episode_that_failed_before_its_first_step(tmp_path):
    page = write_episode(
        Episode("x", "a kitchen", [], ENVIRONMENT_FAILED, "gone"), tmp_path
    ).read_text()
    assert "gone" in page
    assert "<video" not in page
    assert not (tmp_path / "episode.mp4").exists()
