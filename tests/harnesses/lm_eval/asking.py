"""Requests like lm-eval's, and the expected answers: a separate pass for each candidate."""

from functools import partial

import torch
from lm_eval.api.instance import Instance
from PIL import Image

from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages

FAMILIES = ["llava", "qwen2_5_vl"]
TEXTS = ["What should I do next to make coffee?", "The mug is full. And now?", "Next?"]
ARGUMENTS = {"device": "cpu", "dtype": "float32", "batch_size": 2}
LONG = "word " * 1500
CANDIDATES = [
    "put mug",
    "put mug on the counter",
    "open the fridge, take the milk",
    "éteindre le four 火",
    "wash",
]


def pictures(start, count):
    """Return pictures, none of them square, each in different colours."""
    return [
        Image.effect_mandelbrot((70, 50), (-2, -1.5, 1, 1.5 - number / 10), 60).convert("RGB")
        for number in range(start, start + count)
    ]


def lazy(start, count):
    return LazyImages(f"pictures {start} to {start + count}", partial(pictures, start, count))


def prompt(text, count, model=None):
    """Return a prompt with `count` images, rendered by the chat template of `model` if there is
    one.
    """
    content = "<image>" * count + text
    return (
        content
        if model is None
        else model.apply_chat_template([{"role": "user", "content": content}])
    )


def ranking(doc_id, context, candidates, images=None):
    """Return the requests of one question."""
    media = () if images is None else ({"visual": images},)
    return [
        instance("loglikelihood", doc_id, index, context, candidate, *media)
        for index, candidate in enumerate(candidates)
    ]


def generation(doc_id, context, images=None, **settings):
    media = () if images is None else ({"visual": images},)
    return instance(
        "generate_until", doc_id, 0, context, {"until": [], "do_sample": False, **settings}, *media
    )


def instance(kind, doc_id, index, *arguments):
    return Instance(
        request_type=kind, doc={}, arguments=arguments, idx=index, metadata=("task", doc_id, 1)
    )


def plain_answer(model, text, continuation, images):
    """Return the sum of log-probabilities, number of tokens and greedy flag, from one pass."""
    processor = model.processor
    context = processor.image_token * len(images) + text
    before, inputs = (
        processor(text=words, images=images or None, return_tensors="pt")
        for words in (context, context + continuation)
    )
    ids = inputs["input_ids"][0]
    number = len(ids) - before["input_ids"].shape[1]
    with torch.no_grad():
        log_probabilities = (
            model.model(**inputs).logits[0, -number - 1 : -1].double().log_softmax(-1)
        )
    targets = ids[-number:]
    total = log_probabilities.gather(1, targets[:, None]).sum().item()
    return total, number, bool((log_probabilities.argmax(-1) == targets).all())
