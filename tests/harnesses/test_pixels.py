"""Limits on pixels have one unit for all processors, and the model gets the tokens that follow from
them.
"""

import math
from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from PIL import Image

from lmms_egoplan.benchmarks.base import PIXELS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.pixels import (
    NO_LIMITS,
    NOT_KNOWN,
    PIXEL_ARGUMENTS,
    in_effect,
    set_budget,
    set_engine_budget,
)
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.ranking.encoding import QuestionEncoder
from zoo import build, save

# The side of a token, in pixels.
SIDES = {"qwen2_vl": 28, "qwen2_5_vl": 28, "qwen3_vl": 32, "qwen3_5": 32}
# Tokens of pictures of different shapes, in tokens, under limits of 6 and 40 tokens: scaled down,
# scaled up, unchanged.
LEAST, MOST = 6, 40
EXPECTED = {(16, 9): 8 * 4, (2, 1): 4 * 2, (6, 5): 6 * 5}
WITHOUT_LIMITS = [
    "llava",
    "llava_next",
    "llava_onevision",
    "llava_next_video",
    "internvl",
    "idefics3",
    "gemma3",
    "mllama",
]


def limits(side, least=LEAST, most=MOST):
    return dict(zip(PIXEL_ARGUMENTS, 2 * [least * side**2, most * side**2], strict=True))


def picture(width, height):
    return Image.effect_mandelbrot((width, height), (-2, -1.5, 1, 1.5), 60).convert("RGB")


def loaded(family, **arguments):
    """Return a family's processor with a budget, and the limits in effect."""
    processor = deepcopy(build(family)[1])
    return processor, set_budget("hf_vlm", processor, arguments)


def visual_tokens(processor, *items):
    """Return the numbers of a question's tokens of images and of videos."""
    content = [{"type": kind, kind: medium} for kind, medium in items]
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": "Next?"}]}]
    ids = QuestionEncoder(processor).generation_inputs([messages])["input_ids"]
    return [
        int((ids == token).sum()) for token in (processor.image_token_id, processor.video_token_id)
    ]


def test_one_budget_gives_the_same_visual_tokens_to_each_processor():
    """Images and frames of a video of any length, alone and next to a video of another length."""
    failures = []
    for family in ("qwen2_5_vl", "qwen3_vl"):
        side = SIDES[family]
        processor, _ = loaded(family, **limits(side))
        for (width, height), expected in EXPECTED.items():
            image = picture(width * side, height * side)
            clips = {count: Clip([image] * count, 2.0) for count in (3, 8)}
            counts = {
                count: visual_tokens(processor, ("video", clip)) for count, clip in clips.items()
            }
            counts["image"] = visual_tokens(processor, ("image", image))
            counts["both"] = visual_tokens(
                processor, ("video", clips[3]), ("image", image), ("video", clips[8])
            )
            wanted = {count: [0, math.ceil(count / 2) * expected] for count in clips}
            wanted |= {"image": [expected, 0], "both": [expected, 6 * expected]}
            failures += [(family, width, height, counts)] if counts != wanted else []
    assert not failures


@pytest.mark.parametrize("family", SIDES)
def test_the_model_reads_what_a_limited_processor_encodes(family):
    side = SIDES[family]
    processor, pixels = loaded(family, **limits(side))
    frames = [picture(16 * side, 9 * side).rotate(number) for number in range(5)]
    content = [{"type": "video", "video": Clip(frames, 4.0)}, {"type": "image", "image": frames[0]}]
    inputs = QuestionEncoder(processor).generation_inputs([[{"role": "user", "content": content}]])
    assert inputs["video_grid_thw"].tolist() == [[3, 8, 16]]
    assert inputs["image_grid_thw"].tolist() == [[1, 8, 16]]
    with torch.no_grad():
        assert build(family)[0](**inputs).logits.isfinite().all()
    least, most = LEAST * side**2, MOST * side**2
    expected = {
        "image": {"min": least, "max": most},
        "video": {"min_frame": least, "max_frame": most},
    }
    assert pixels == expected | {"requested": limits(side)}


@pytest.mark.parametrize(
    ("image", "video"), [("Qwen2VL", "Qwen2VL"), ("Qwen2VL", "Qwen3VL"), ("Glm4v", "Glm4v")]
)
def test_processors_that_count_differently_give_the_same_sizes(image, video):
    """GLM takes an image for two frames; it and Qwen3-VL count all frames of a video together."""
    processor = SimpleNamespace(
        image_processor=getattr(hf, f"{image}ImageProcessor")(),
        video_processor=getattr(hf, f"{video}VideoProcessor")(),
    )
    sides = [
        part.patch_size * part.merge_size
        for part in (processor.image_processor, processor.video_processor)
    ]
    pixels = set_budget(
        "hf_vlm", processor, limits(sides[0]) | dict([*limits(sides[1]).items()][2:])
    )
    assert pixels["image"] == {"min": LEAST * sides[0] ** 2, "max": MOST * sides[0] ** 2}
    assert pixels["video"] == {
        "min_frame": LEAST * sides[1] ** 2,
        "max_frame": MOST * sides[1] ** 2,
    }
    for (width, height), expected in EXPECTED.items():
        one = processor.image_processor(
            images=[picture(width * sides[0], height * sides[0])], return_tensors="pt"
        )
        assert one["image_grid_thw"].prod() // 4 == expected
        clips = [[picture(width * sides[1], height * sides[1])] * count for count in (2, 7)]
        grids = processor.video_processor(clips, do_sample_frames=False, return_tensors="pt")[
            "video_grid_thw"
        ]
        assert (grids.prod(dim=1) // 4).tolist() == [expected, 4 * expected]


CAPPED = [(name, cap) for name in ("Qwen2VL", "Qwen3VL") for cap in (None, False, True)]


@pytest.mark.parametrize(("name", "cap"), CAPPED)
def test_the_stated_default_is_what_the_processor_does(name, cap):
    """Also with the limit per frame that transformers applies only if asked, and will apply by
    default.
    """
    kind = getattr(hf, f"{name}VideoProcessor")
    side = kind.patch_size * kind.merge_size
    most, tokens = (16, 40) if name == "Qwen2VL" else (128, 9)
    size = {"shortest_edge": side**2, "longest_edge": most * side**2}
    part = kind(size=size, max_video_tokens=tokens, cap_pixels_per_frame=cap)
    processor = SimpleNamespace(video_processor=part)
    stated = set_budget("hf_vlm", processor, {})["video"]
    assert stated == in_effect(processor)["video"]
    for count in (2, 8):
        frames = [Image.new("RGB", (12 * side, 12 * side))] * count
        grid = part([frames], do_sample_frames=False, return_tensors="pt")["video_grid_thw"]
        limit = min(stated.get("max_frame", math.inf), stated.get("max_video", math.inf) / count)
        assert grid[0, 1:].tolist() == [2 * math.floor(math.sqrt(limit) / side)] * 2
    if hasattr(kind, "cap_pixels_per_frame"):
        assert part.cap_pixels_per_frame is bool(cap)
        assert ({"max_frame", "max_video"} <= stated.keys()) is bool(cap)


@pytest.mark.parametrize("family", WITHOUT_LIMITS)
def test_limits_are_refused_where_the_processor_has_none(family):
    assert loaded(family)[1]["image"] == NO_LIMITS
    for name in PIXEL_ARGUMENTS:
        with pytest.raises(
            LmmsEgoplanError, match=rf"^hf_vlm: {name}: {type(build(family)[1]).__name__} "
        ):
            loaded(family, **{name: 100_000})


WRONG = [
    ({"max_pixels": "16*28*28"}, "max_pixels .*16.28.28"),
    ({"min_pixels": 0}, "min_pixels .*0"),
    ({"video_max_pixels": 2.5}, "video_max_pixels .*2.5"),
    ({"max_pixels": True}, "max_pixels .*True"),
    ({"max_pixels": 783}, "max_pixels=783 .* 784 "),
    ({"min_pixels": 8000, "max_pixels": 7999}, "min_pixels .8000. .*max_pixels .7999."),
    ({"min_pixels": 20_000}, "min_pixels .20000. .*max_pixels .12544 by default."),
    (
        {"video_min_pixels": 20_000},
        "video_min_pixels .20000. .*video_max_pixels .12544 by default.",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_limits_are_refused(arguments, message):
    with pytest.raises(LmmsEgoplanError, match=f"^hf_vlm: {message}"):
        loaded("qwen2_5_vl", **arguments)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: save(name, folder / name) for name in ("qwen3_vl", "llava")}


def backends(folder, **arguments):
    """Load the checkpoint in both harnesses."""
    yield HFVLM(str(folder), dtype="float32", device="cpu", **arguments)
    yield HFVLMRanker(str(folder), dtype="float32", device="cpu", **arguments)


def test_both_harnesses_record_the_limits_and_bind_the_cache_to_them(checkpoint):
    side = SIDES["qwen3_vl"]
    budgets = [{}, limits(side), {"video_max_pixels": MOST * side**2}]
    made = [[*backends(checkpoint["qwen3_vl"], **budget)] for budget in budgets]
    for budget, pair in zip(budgets, made, strict=True):
        recorded = [backend.recorded_settings["pixels"] for backend in pair]
        assert recorded[0] == recorded[1]
        assert recorded[0]["requested"] == budget
        assert recorded[0].keys() == {"image", "video", "requested"}
    for position in range(2):
        assert len({pair[position]._identity for pair in made}) == len(budgets)
    question = [
        {"role": "user", "content": [{"type": "image", "image": picture(16 * side, 9 * side)}]}
    ]
    for backend in made[1]:
        ranker = getattr(backend, "_ranker", None) or backend._rankers[True]
        encoded = ranker.encode(question, ["wash the cup"])
        assert encoded.inputs["image_grid_thw"].tolist() == [[1, 8, 16]]


def test_both_harnesses_refuse_limits_before_weights_load(checkpoint, tmp_path):
    folder = tmp_path / "without weights"
    folder.mkdir()
    for path in checkpoint["llava"].iterdir():
        if path.suffix != ".safetensors":
            (folder / path.name).write_bytes(path.read_bytes())
    for kind, name in ((HFVLM, "hf_vlm"), (HFVLMRanker, "hf-vlm-ranker")):
        with pytest.raises(LmmsEgoplanError, match=f"^{name}: video_max_pixels: LlavaProcessor "):
            kind(str(folder), dtype="float32", device="cpu", video_max_pixels=100_000)


def test_an_engine_gets_the_limits_in_its_processors_units():
    glm = SimpleNamespace(
        image_processor=hf.Glm4vImageProcessor(), video_processor=hf.Glm4vVideoProcessor()
    )
    limits = {"min_pixels": 7840, "max_pixels": 78400}
    for processor, times in ((deepcopy(build("qwen2_5_vl")[1]), 1), (glm, 2)):
        pixels, arguments = set_engine_budget("vllm_ranker", processor, limits, {"seed": 1})
        size = {"shortest_edge": times * 7840, "longest_edge": times * 78400}
        assert arguments == {"seed": 1, "mm_processor_kwargs": {"size": size}}
        assert pixels == {"image": {"min": 7840, "max": 78400}, "requested": limits}
    none, processor = dict.fromkeys(limits), build("qwen2_5_vl")[1]
    pixels, arguments = set_engine_budget("vllm_ranker", processor, none, {"seed": 1})
    assert (pixels, arguments) == (
        {"image": {"min": 784, "max": 12544}, "requested": {}},
        {"seed": 1},
    )
    chosen = {"mm_processor_kwargs": {"max_pixels": 7840}}
    assert set_engine_budget("vllm_ranker", processor, none, chosen) == (NOT_KNOWN, chosen)
    with pytest.raises(
        LmmsEgoplanError, match=r"^vllm_ranker: .*min_pixels, max_pixels .*mm_processor_kwargs"
    ):
        set_engine_budget("vllm_ranker", processor, limits, chosen)
    with pytest.raises(
        LmmsEgoplanError, match=r"^vllm_ranker: min_pixels, max_pixels: LlavaProcessor "
    ):
        set_engine_budget("vllm_ranker", build("llava")[1], limits, {})


def recorded_mark(pixels, preset="seed-bench-r1"):
    """Return the mark about pixels in the results of a preset's task on a backend."""
    results = {
        "results": {"task": {"acc,none": 0.5}},
        "configs": {"task": {"metadata": {"preset": preset, "version": 1.0}}},
        "versions": {"task": 1.0},
    }
    backend = SimpleNamespace(recorded_settings={} if pixels is None else {"pixels": pixels})
    return record.recorded(lambda lm: results)(backend)["configs"]["task"]["metadata"].get("pixels")


def test_a_preset_sets_the_limits_that_it_states(monkeypatch):
    assert loaded("qwen2_5_vl")[1]["requested"] == {}
    monkeypatch.setenv(PIXELS, "official")
    assert loaded("qwen2_5_vl")[1]["requested"] == {}
    monkeypatch.setenv(PIXELS, "seed-bench-r1")
    processor, pixels = loaded("qwen2_5_vl")
    assert pixels["image"] == {"min": 4 * 28**2, "max": 16384 * 28**2}
    frames = QuestionEncoder(processor).generation_inputs(
        [
            [
                {
                    "role": "user",
                    "content": [{"type": "video", "video": Clip([picture(252, 252)] * 4, 2.0)}],
                }
            ]
        ]
    )
    assert frames["video_grid_thw"].tolist() == [[2, 18, 18]]  # unchanged
    assert recorded_mark(pixels) is None
    assert loaded("qwen2_5_vl", max_pixels=7840)[1]["requested"] == {"max_pixels": 7840}


def test_a_preset_whose_limits_do_not_apply_is_marked(monkeypatch):
    default = loaded("qwen2_5_vl")[1]
    monkeypatch.setenv(PIXELS, "seed-bench-r1")
    without = loaded("llava")[1]
    assert without["requested"] == loaded("qwen2_5_vl")[1]["requested"]
    for pixels in (default, without, None):
        assert recorded_mark(pixels) == "other limits"
        assert recorded_mark(pixels, preset="official") is None
