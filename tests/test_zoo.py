"""The zoo's checkpoints load like real ones, use their family's prompt format, and depend on their
inputs.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from packaging.version import Version
from PIL import Image
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    BatchFeature,
    PreTrainedModel,
    ProcessorMixin,
)

from zoo import FAMILIES, Family, build, save

TEXT = "What should I do next — naïve? Take the mug from the shelf."
FIRST = ("llava", "qwen2_5_vl", "gemma3", "blip2")
most_families_at_night = pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=name, marks=() if name in FIRST else pytest.mark.nightly)
        for name, family in FAMILIES.items()
    ],
)


def picture(seed: int) -> Image.Image:
    """Return an image of 90 x 60 pixels with six squares of random colours."""
    colours = np.random.default_rng(seed).integers(0, 256, (2, 3, 3), dtype=np.uint8)
    return Image.fromarray(colours.repeat(30, axis=0).repeat(30, axis=1))


def encode(
    family: Family,
    processor: ProcessorMixin,
    images: list[Image.Image],
    video: list[Image.Image] | None = None,
) -> BatchFeature:
    """Encode a question. For a model with a separate decoder, add four tokens of an answer."""
    if family.has_chat_template:
        content: list[dict[str, Any]] = [{"type": "image", "image": image} for image in images]
        if video:
            content.append({"type": "video", "video": video})
        return processor.apply_chat_template(
            [{"role": "user", "content": [*content, {"type": "text", "text": TEXT}]}],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
            processor_kwargs={"do_sample_frames": False} if video else None,
        )
    placeholders = "<image>" * len(images) if family.name == "paligemma" else ""
    inputs = processor(images=images, text=placeholders + TEXT, return_tensors="pt")
    if family.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.tensor([[0, 15, 26, 37, 48]])
    return inputs


@torch.no_grad()
def logprobs(
    model: PreTrainedModel, inputs: BatchFeature, **settings: torch.Tensor
) -> torch.Tensor:
    """Return the log-probabilities of the next token, shape (vocabulary,)."""
    logits = model(**inputs, **settings).logits
    length = inputs["decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"].shape[1]
    assert logits.shape[:2] == (1, length)
    return logits[0, -1].log_softmax(-1)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one - other).abs().mean().item()


@most_families_at_night
def test_a_saved_checkpoint_loads_as_it_was_built(family: Family, tmp_path: Path) -> None:
    model, processor = build(family.name)
    save(family.name, tmp_path)
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path)
    images = [picture(1)] if "blip" in family.name else [picture(1), picture(2)]
    inputs = encode(family, processor, images)
    again = encode(family, AutoProcessor.from_pretrained(tmp_path), images)
    assert inputs.keys() == again.keys()
    if family.name == "idefics3" and Version(torchvision.__version__) < Version("0.27"):
        # the loaded processor resizes with torchvision, and earlier versions give other pixels
        return
    assert all(torch.equal(inputs[key], again[key]) for key in inputs)
    torch.testing.assert_close(logprobs(loaded, again), logprobs(model, inputs))
    assert model.dtype == torch.float32
    assert not loaded.training


def test_tokens_and_images_matter() -> None:
    deviations, distances = {}, {}
    for family in FAMILIES.values():
        model, processor = build(family.name)
        base = logprobs(model, encode(family, processor, [picture(1)]))
        deviations[family.name] = base.std().item()
        distances[family.name] = distance(
            base, logprobs(model, encode(family, processor, [picture(2)]))
        )
    assert {name: value for name, value in deviations.items() if not value > 0.5} == {}
    assert {name: value for name, value in distances.items() if not value > 0.01} == {}


@pytest.mark.parametrize(
    "family",
    # The BLIPs take position ids in their language model only.
    [f for f in FAMILIES.values() if not (f.is_encoder_decoder or "blip" in f.name)],
    ids=lambda f: f.name,
)
def test_positions_matter(family: Family) -> None:
    """Shift the last three tokens by one position. Use only text if the processor allows it."""
    model, processor = build(family.name)
    inputs = encode(family, processor, [picture(1)] if family.needs_image else [])
    positions = torch.arange(inputs["input_ids"].shape[1])[None]
    base = logprobs(model, inputs)
    torch.testing.assert_close(
        logprobs(model, inputs, position_ids=positions), base, atol=1e-4, rtol=0
    )
    positions[:, -3:] += 1
    assert distance(base, logprobs(model, inputs, position_ids=positions)) > 0.01


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES.values() if f.is_encoder_decoder], ids=lambda f: f.name
)
def test_positions_matter_to_encoder_and_decoder(family: Family) -> None:
    """Send text to the language model inside, because the whole model requires an image."""
    model, processor = build(family.name)
    question = processor.tokenizer(TEXT, return_tensors="pt")
    answer = torch.tensor([[0, 15, 26, 37, 48]])
    swap = [0, 2, 1, 3, 4]
    base = logprobs(model.language_model, BatchFeature({**question, "decoder_input_ids": answer}))
    other_answer = {**question, "decoder_input_ids": answer[:, swap]}
    assert distance(base, logprobs(model.language_model, BatchFeature(other_answer))) > 0.01
    question["input_ids"][:, :5] = question["input_ids"][:, swap]
    other_question = {**question, "decoder_input_ids": answer}
    assert distance(base, logprobs(model.language_model, BatchFeature(other_question))) > 0.01


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES.values() if f.takes_video], ids=lambda f: f.name
)
def test_video(family: Family) -> None:
    model, processor = build(family.name)
    frames = [picture(seed) for seed in range(5)]
    base = logprobs(model, encode(family, processor, [], frames))
    assert (
        distance(
            base,
            logprobs(model, encode(family, processor, [], [*frames[:3], picture(9), frames[4]])),
        )
        > 0.01
    )
    assert logprobs(model, encode(family, processor, [picture(7)], frames)).isfinite().all()


RENDERED = {
    "llava": "Be brief. USER: <image>\nWhy? ASSISTANT: So. USER: And? ASSISTANT:",
    "llava_next": (
        "<<SYS>>\nBe brief.\n<</SYS>>\n\n[INST] <image>\nWhy? [/INST] So.</s>[INST] And? [/INST]"
    ),
    "llava_onevision": "<|im_start|>system \nBe brief.<|im_end|><|im_start|>user "
    "<image>\nWhy?<|im_end|>"
    "<|im_start|>assistant \nSo.<|im_end|><|im_start|>user \nAnd?<|im_end|><|im_start|>assistant\n",
    "qwen2_vl": "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Why?<|im_end|>\n"
    "<|im_start|>assistant\nSo.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
    "<|im_start|>assistant\n",
    "qwen3_5": "<|im_start|>system\nBe brief.<|im_end|>\n"
    "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Why?<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\nSo.<|im_end|>\n<|im_start|>user\n"
    "And?<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "internvl": "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"
    "<IMG_CONTEXT>\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\nSo.<|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"
    "<|im_start|>assistant\n",
    "idefics3": "<|begin_of_text|>System: Be brief.<end_of_utterance>\n"
    "User:<image>Why?<end_of_utterance>\n"
    "Assistant: So.<end_of_utterance>\nUser: And?<end_of_utterance>\nAssistant:",
    "gemma3": "<bos><start_of_turn>user\nBe brief.\n\n<start_of_image>Why?<end_of_turn>\n"
    "<start_of_turn>model\nSo.<end_of_turn>\n<start_of_turn>user\nAnd?<end_of_turn>\n"
    "<start_of_turn>model\n",
    "mllama": "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n<|image|>Why?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\nSo.<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\nAnd?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
}


@pytest.mark.parametrize("name", RENDERED)
def test_a_conversation_is_rendered_in_the_familys_format(name: str) -> None:
    conversation = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Why?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "So."}]},
        {"role": "user", "content": "And?"},
    ]
    _, processor = build(name)
    assert processor.apply_chat_template(conversation, add_generation_prompt=True) == RENDERED[name]
