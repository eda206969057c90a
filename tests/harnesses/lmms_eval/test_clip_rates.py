"""A clip's frame rate reaches the processors, which derive time stamps and positions from it."""

import copy
from itertools import groupby

import pytest
import torch
from transformers.video_utils import VideoMetadata

from harnesses.lmms_eval.small_requests import generation_requests
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import on_device
from media.files import number_image, read_numbers, write_numbered_video
from zoo import FAMILIES, build, save

# Families with seconds per grid as an input, with time stamps in the text, or with neither.
RATED = {
    "qwen2_5_vl": True,
    "qwen3_vl": True,
    "qwen3_5": True,
    "llava_onevision": False,
    "internvl": False,
}
VIDEO_FAMILIES = [name for name, family in FAMILIES.items() if family.takes_video]


def frames(count, first=0):
    return [number_image(number) for number in range(first, first + count)]


def messages(*videos):
    content = [{"type": "video", "video": video} for video in videos]
    return [{"role": "user", "content": [*content, {"type": "text", "text": "What next?"}]}]


def inputs(name, *conversations):
    _, processor = build(name)
    return QuestionEncoder(processor).generation_inputs(conversations)


def as_the_processor_gives_them(name, videos, rates):
    """Call the processor directly, with the metadata of videos that were decoded at these rates."""
    _, processor = build(name)
    metadata = [
        VideoMetadata(
            total_num_frames=len(video),
            fps=rate,
            duration=len(video) / rate,
            frames_indices=list(range(len(video))),
        )
        for video, rate in zip(videos, rates, strict=True)
    ]
    text = processor.apply_chat_template(messages(*videos), add_generation_prompt=True)
    return processor(
        text=[text],
        videos=[videos],
        video_metadata=[metadata],
        do_sample_frames=False,
        return_tensors="pt",
    )


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(
            actual[name], value if torch.is_tensor(value) else torch.tensor(value)
        )


@pytest.mark.parametrize("rate", [6, 2.975, 1.5])
@pytest.mark.parametrize("name", RATED)
def test_encoding_equals_the_processors_with_true_metadata(name, rate):
    video = frames(6)
    rated = inputs(name, messages(Clip(video, rate)))
    assert_same(rated, as_the_processor_gives_them(name, [video], [rate]))
    unrated = inputs(name, messages(video))
    is_same = all(
        torch.equal(torch.as_tensor(rated[key]), torch.as_tensor(unrated[key])) for key in unrated
    )
    assert is_same != RATED[name]  # without a rate, most processors assume 24 frames per second


def test_time_stamps_and_seconds_are_those_of_the_rate():
    _, processor = build("qwen3_vl")
    text = processor.tokenizer.decode(
        inputs("qwen3_vl", messages(Clip(frames(6), 6)))["input_ids"][0]
    )
    assert [stamp in text for stamp in ("<0.1 seconds>", "<0.4 seconds>", "<0.8 seconds>")] == [
        True
    ] * 3
    seconds = inputs("qwen2_5_vl", messages(Clip(frames(6), 6), Clip(frames(4), 3)))[
        "second_per_grid_ts"
    ]
    assert torch.as_tensor(seconds).tolist() == pytest.approx([2 / 6, 2 / 3])


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl"])
def test_each_of_several_videos_has_its_own_rate(name):
    videos = [frames(4), frames(6, first=10)]
    encoded = inputs(name, messages(Clip(videos[0], 6), Clip(videos[1], 2)))
    assert_same(encoded, as_the_processor_gives_them(name, videos, [6, 2]))


def test_a_video_without_a_rate_is_not_affected_by_another_with_one():
    rated, unrated = Clip(frames(4), 6), frames(4, first=10)
    together = torch.as_tensor(inputs("qwen2_5_vl", messages(rated, unrated))["second_per_grid_ts"])
    alone = torch.as_tensor(inputs("qwen2_5_vl", messages(unrated))["second_per_grid_ts"])
    assert together.tolist() == pytest.approx([2 / 6, alone.item()])


@pytest.mark.parametrize("name", VIDEO_FAMILIES)
def test_questions_of_a_batch_keep_their_rates(name):
    alone = [inputs(name, messages(Clip(frames(4), rate))) for rate in (6, 2)]
    together = inputs(name, *(messages(Clip(frames(4), rate)) for rate in (6, 2)))
    for row, single in enumerate(alone):
        length = single["input_ids"].shape[1]
        assert torch.equal(together["input_ids"][row, -length:], single["input_ids"][0])
        if "second_per_grid_ts" in single:
            assert together["second_per_grid_ts"][row] == single["second_per_grid_ts"][0]


@pytest.mark.parametrize(
    "name", ["qwen2_5_vl", pytest.param("qwen3_vl", marks=pytest.mark.nightly)]
)
def test_the_rate_is_in_likelihoods_and_answers(name, tmp_path):
    model, processor = build(name)
    ranker = CandidateRanker(model, processor)
    losses = [
        [score.nll for score in ranker.score(messages(video), ["take the mug", "pour water"])]
        for video in (Clip(frames(8), 6), Clip(frames(8), 0.5), frames(8))
    ]
    assert losses[0] != pytest.approx(losses[1], abs=1e-5)
    assert losses[0] != pytest.approx(losses[2], abs=1e-5)
    backend = HFVLM(str(save(name, tmp_path)), dtype="float32", batch_size=4)
    docs = [
        {"text": "What next?", "visuals": [Clip(frames(4, first), rate)]}
        for first in (0, 9)
        for rate in (6, 0.5)
    ]
    together = list(backend.generate_until(generation_requests(backend, docs, max_new_tokens=6)))
    for doc, answer in zip(docs, together, strict=True):
        (alone,) = backend.generate_until(generation_requests(backend, [doc], max_new_tokens=6))
        assert (alone.text, alone.token_counts) == (answer.text, answer.token_counts)


@pytest.mark.parametrize("rates", [(6,), (1.5, 24), (0.5, None)])
def test_frames_are_positioned_by_their_seconds(rates):
    """Also with transformers before 5.18, which truncates the seconds between temporal patches to
    integers.
    """
    model, processor = build("qwen2_5_vl")
    clips = [Clip(frames(8, 10 * number), rate) for number, rate in enumerate(rates)]
    content = [{"type": "image", "image": number_image(99)}, *messages(*clips)[0]["content"]]
    conversation, positions = [{"role": "user", "content": content}], []
    with model.model.language_model.register_forward_pre_hook(
        lambda _, __, keywords: positions.append(keywords["position_ids"]), with_kwargs=True
    ):
        CandidateRanker(model, processor, path="full").score(conversation, ["take the mug"])
    kinds = inputs("qwen2_5_vl", conversation)["mm_token_type_ids"][0].tolist()
    times, offsets = positions[0][-3, 0].tolist(), []
    for kind, run in groupby(range(len(kinds)), kinds.__getitem__):
        if kind == 2:  # a video
            first, *_ = run = list(run)
            offsets.append([times[token] - times[first] for token in run[:: len(run) // 4]])
    per_second = model.config.vision_config.tokens_per_second
    assert offsets == [
        [int(patch * per_second * 2 / (rate or 24)) for patch in range(4)] for rate in rates
    ]


def test_seconds_keep_their_precision_in_half_precision():
    """2 / 6 is 0.3340 in bfloat16, which would move positions of late frames."""
    model, _ = build("qwen2_5_vl")
    moved = on_device(
        inputs("qwen2_5_vl", messages(Clip(frames(6), 6))), copy.deepcopy(model).bfloat16()
    )
    assert moved["pixel_values_videos"].dtype == torch.bfloat16
    assert torch.as_tensor(moved["second_per_grid_ts"]).tolist() == pytest.approx([2 / 6], abs=1e-7)


@pytest.mark.parametrize(
    ("fps", "gaps", "limit", "rate"), [(30, (1,), 16, 30), (30, (1,), 4, 6), (30, (2,), 8, 15)]
)
def test_a_video_file_has_the_rate_of_the_frames_that_are_shown(tmp_path, fps, gaps, limit, rate):
    path = write_numbered_video(tmp_path / "v.mp4", 16, fps=fps, gaps=gaps)
    (item,) = MediaLoader(limit, takes_video=True).items(path)
    numbers = read_numbers(item["video"])
    assert (numbers[0], numbers[-1], len(numbers)) == (0, 15, limit)
    assert item["video"].fps == pytest.approx(rate * (limit - 1) / 15 if limit == 8 else rate)


def test_a_clip_keeps_its_rate_and_one_frame_is_an_image():
    loader = MediaLoader(8, takes_video=True)
    (video,) = loader.items(Clip([frame.convert("L") for frame in frames(12)], 2.5))
    assert (video["video"].fps, len(video["video"]), video["video"][0].mode) == (2.5, 12, "RGB")
    (unknown,) = loader.items(frames(3))
    assert unknown["video"].fps is None
    assert [item["type"] for item in loader.items(Clip(frames(1), 6))] == ["image"]


@pytest.mark.parametrize("rate", [0, -6, float("nan"), float("inf")])
def test_an_invalid_rate_is_rejected(rate):
    with pytest.raises(ValueError, match=str(rate)):
        Clip(frames(2), rate)
