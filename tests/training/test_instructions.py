"""Read the layouts of LLaVA, MiniGPT-4 and VideoChat. Errors name invalid records."""

import json

import pytest
from PIL import Image

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.training.instructions import DESCRIBE, read_instructions
from lmms_egoplan.training.samples import Drawn
from media.files import write_numbered_video


def llava(*turns, **media):
    speakers = ("human", "gpt")
    return {
        "conversations": [{"from": speakers[n % 2], "value": text} for n, text in enumerate(turns)],
        **media,
    }


@pytest.fixture
def read(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    Image.new("RGB", (8, 8)).save(tmp_path / "COCO_train2014_7.jpg")
    (tmp_path / "image").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "image" / "2.jpg")
    write_numbered_video(tmp_path / "v" / "b.mp4", 20)

    def read(content):
        (tmp_path / "data.json").write_text(json.dumps(content), encoding="utf-8")
        return read_instructions(tmp_path / "data.json")

    return read


def kinds(sample, turn=0):
    messages = Drawn(sample, turn, None).messages(MediaLoader(8, takes_video=True))
    return [
        (message["role"], [item["type"] for item in message["content"]]) for message in messages
    ]


def test_llava_with_an_image_a_video_or_neither(read):
    image, coco, video, text = read(
        [
            llava("<image>\nWhat is it?", "A cup.", "And its colour?", "Red. ", image="a.jpg"),
            llava("What is it?\n<image>", "A pan.", image="7.jpg"),
            llava("<video>\nWhat happens?", "Nothing.", video="v/b.mp4"),
            llava("Hello", "Hi"),
        ]
    )
    assert image.turns == (("What is it?", "A cup."), ("And its colour?", "Red."))
    assert kinds(image) == [("user", ["image", "text"])]
    assert kinds(image, 1) == [
        ("user", ["image", "text"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]
    assert kinds(coco) == [("user", ["image", "text"])]
    assert kinds(video) == [("user", ["video", "text"])]
    assert kinds(text) == [("user", ["text"])]


def test_videochat_and_minigpt4(read):
    (chat,) = read(
        [
            {
                "video": "v/b.mp4",
                "QA": [{"i": "", "q": "What?", "a": "This."}, {"q": "Why?", "a": "So."}],
            }
        ]
    )
    assert chat.turns == (("What?", "This."), ("Why?", "So."))
    (caption,) = read({"annotations": [{"image_id": "2", "caption": "A street."}]})
    assert caption.turns == ((DESCRIBE, "A street."),)
    assert kinds(caption) == [("user", ["image", "text"])]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (llava("<image>\nWhat?", "x", image="none.jpg"), r"image: .*none\.jpg"),
        (llava("<image>\nWhat?", "x"), "conversations: .*1"),
        (llava("<image><image>What?", "x", image="a.jpg"), "conversations: .*2"),
        (llava("What?", "x", image="../a.jpg"), r"image: .*'\.\./a\.jpg'"),
        (llava("What?"), "conversations: .*'human'.*'gpt'"),
        (
            {"conversations": [{"from": "cat", "value": "x"}]},
            r"conversations\[0\]\.from: .*'human'.*'gpt'",
        ),
        ({"video": "/b.mp4", "QA": [{"q": "x", "a": "y"}]}, r"video: .*'/b\.mp4'"),
        ({"caption": "x", "image_id": "../9"}, r"image_id: .*'\.\./9\.jpg'"),
        ({"video": "v/b.mp4", "QA": []}, "QA: "),
        ({"video": "v/b.mp4", "QA": [{"q": "x"}]}, r"QA\[0\]\.a: "),
        ({"caption": "x", "image_id": "9"}, r"image_id: .*9\.jpg"),
        ({"text": "x"}, "conversations.*QA"),
    ],
)
def test_errors_name_record_and_field(read, record, message):
    with pytest.raises(LmmsEgoplanError, match=f"record 0, .*{message}"):
        read([record])


@pytest.mark.parametrize("content", [[], {}, {"annotations": []}, "x"])
def test_other_layouts_are_refused(read, content):
    with pytest.raises(LmmsEgoplanError, match=r"\.json: "):
        read(content)
