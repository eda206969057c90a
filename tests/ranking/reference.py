"""A slow, obvious reference: one pass per candidate, from raw pixels and text.

Decoding locates its tokens.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image

from zoo import FAMILIES, build


def picture(seed: int, size: tuple[int, int] = (48, 36)) -> Image.Image:
    """Return an image of random pixels."""
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    )


def user_turn(text: str, images: Iterable[Any] = ()) -> list[dict]:
    """Return a user's message: images, then text."""
    content = [{"type": "image", "image": image} for image in images]
    return [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]


def reference_loss(
    name: str, messages: list[dict], candidate: str, score_eos: bool = False
) -> tuple[float, int]:
    """Return the mean loss (nats per token) and the number of tokens of a candidate, from an
    independent full pass.
    """
    model, processor = build(name)
    if processor.chat_template is None:
        loss = _encoder_decoder_loss if FAMILIES[name].is_encoder_decoder else _plain_loss
        return loss(model, processor, messages, candidate, score_eos)
    return full_pass(model, processor, messages, candidate, score_eos)


def full_pass(
    model: Any, processor: Any, messages: list[dict], candidate: str, score_eos: bool = False
) -> tuple[float, int]:
    """Score a decoder-only model with a chat template like `reference_loss`."""
    inputs = processor.apply_chat_template(
        [*messages, {"role": "assistant", "content": [{"type": "text", "text": candidate}]}],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        continue_final_message=True,
        processor_kwargs=_video_arguments(messages),
    )
    ids = inputs["input_ids"][0].tolist()
    length = next(
        k for k in range(1, len(ids)) if candidate in processor.tokenizer.decode(ids[-k:])
    )
    for module in model.modules():
        if hasattr(module, "rope_deltas"):
            module.rope_deltas = None
    if score_eos:
        closing = (
            "<|im_end|>"
            if "<|im_end|>" in processor.tokenizer.get_vocab()
            else processor.tokenizer.eos_token
        )
        inputs = _append(inputs, processor.tokenizer.convert_tokens_to_ids(closing))
        ids, length = inputs["input_ids"][0].tolist(), length + 1
    with torch.no_grad():
        logits = model(**inputs, use_cache=False).logits[0]
    targets = torch.tensor(ids[-length:])
    return torch.nn.functional.cross_entropy(
        logits[-length - 1 : -1].float(), targets
    ).item(), length


def _append(inputs: dict[str, Any], token: int) -> dict[str, Any]:
    shape = inputs["input_ids"].shape
    added = {"input_ids": token, "attention_mask": 1}
    return {
        name: torch.cat([value, value.new_tensor([[added.get(name, 0)]])], dim=1)
        if isinstance(value, torch.Tensor) and value.shape == shape
        else value
        for name, value in inputs.items()
    }


def _video_arguments(messages: list[dict]) -> dict[str, Any]:
    videos = any(item["type"] == "video" for message in messages for item in message["content"])
    return {"do_sample_frames": False} if videos else {}


@torch.no_grad()
def _encoder_decoder_loss(
    model: Any, processor: Any, messages: list[dict], candidate: str, score_eos: bool
) -> tuple[float, int]:
    content = messages[0]["content"]
    images = [item["image"] for item in content if item["type"] == "image"]
    (text,) = [item["text"] for item in content if item["type"] == "text"]
    labels = processor.tokenizer(candidate, return_tensors="pt").input_ids
    if not score_eos:
        labels = labels[:, :-1]
    if not images:
        encoded = processor.tokenizer(text, return_tensors="pt")
        loss = model.language_model(**encoded, labels=labels).loss
        return loss.item(), labels.shape[1]
    inputs = _with_images(processor, text=text, instruction=text, images=images)
    loss = model(**inputs, labels=labels).loss
    return loss.item(), labels.shape[1]


@torch.no_grad()
def _plain_loss(
    model: Any, processor: Any, messages: list[dict], candidate: str, score_eos: bool
) -> tuple[float, int]:
    """Score a decoder-only model without a chat template: the text is the question, a space, the
    candidate.
    """
    content = messages[0]["content"]
    images = [item["image"] for item in content if item["type"] == "image"]
    (question,) = [item["text"] for item in content if item["type"] == "text"]
    ids = processor.tokenizer(f"{question} {candidate}", return_tensors="pt").input_ids
    length = next(
        k for k in range(1, ids.shape[1]) if candidate in processor.tokenizer.decode(ids[0, -k:])
    )
    targets = ids[0, -length:]
    if images:
        inputs = _with_images(processor, f"{question} {candidate}", question, images)
        logits = model(**inputs).logits[0]
    else:
        logits = model.language_model(input_ids=ids).logits[0]
    return torch.nn.functional.cross_entropy(
        logits[-length - 1 : -1].float(), targets
    ).item(), length


def _with_images(processor: Any, text: str, instruction: str, images: list[Any]) -> dict[str, Any]:
    """Return inputs of a BLIP: all images' queries, then the text.

    The Q-Former gets the instruction per image.
    """
    inputs = dict(processor(text=text, images=images[0], return_tensors="pt"))
    inputs["pixel_values"] = torch.cat(
        [processor.image_processor(image, return_tensors="pt")["pixel_values"] for image in images]
    )
    queries = inputs["input_ids"][:, : processor.num_query_tokens]
    inputs["input_ids"] = torch.cat([queries] * (len(images) - 1) + [inputs["input_ids"]], dim=1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    if "qformer_input_ids" in inputs:
        encoded = processor.qformer_tokenizer(instruction, return_tensors="pt")
        inputs["qformer_input_ids"] = torch.cat([encoded.input_ids] * len(images))
        inputs["qformer_attention_mask"] = torch.cat([encoded.attention_mask] * len(images))
    return inputs
