"""Requests as lm-eval makes them, and what they must be answered with: a pass of its own for each candidate."""

from functools import partial

import torch
from lm_eval.api.instance import Instance
from PIL import Image

from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages

FAMILIES = ["llava", "qwen2_5_vl"]
TEXTS = ["What should I do next to make coffee?", "The mug is full. And now?", "Next?"]
ARGUMENTS = {"device": "cpu", "dtype": "float32", "batch_size": 2}
LONG = "word " * 1500
CANDIDATES = ["put mug", "put mug on the counter", "open the fridge, take the milk", "éteindre le four 火", "wash"]


def pictures(start, count):
    """Pictures in colours of their own, and none of them square."""
    return [
        Image.effect_mandelbrot((70, 50), (-2, -1.5, 1, 1.5 - number / 10), 60).convert("RGB")
        for number in range(start, start + count)
    ]


def lazy(start, count):
    return LazyImages(f"pictures {start} to {start + count}", partial(pictures, start, count))


def prompt(text, count, model=None):
    """A prompt with `count` images; rendered by the chat template of `model`, if given."""
    content = "<image>" * count + text
    return content if model is None else model.apply_chat_template([{"role": "user", "content": content}])


def ranking(doc_id, context, candidates, images=None):
    """The requests of one question."""
    media = () if images is None else ({"visual": images},)
    return [
        instance("loglikelihood", doc_id, index, context, candidate, *media)
        for index, candidate in enumerate(candidates)
    ]


def generation(doc_id, context, images=None, **settings):
    media = () if images is None else ({"visual": images},)
    return instance("generate_until", doc_id, 0, context, {"until": [], "do_sample": False, **settings}, *media)


def instance(kind, doc_id, index, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=index, metadata=("task", doc_id, 1))


def plain_answer(model, text, continuation, images):
    """Sum of log-probabilities, number of tokens and greedy flag from one pass over image tokens and text."""
    processor = model.processor
    context = processor.image_token * len(images) + text
    before, inputs = (
        processor(text=each, images=images or None, return_tensors="pt") for each in (context, context + continuation)
    )
    ids = inputs["input_ids"][0]
    number = len(ids) - before["input_ids"].shape[1]
    with torch.no_grad():
        log_probabilities = model.model(**inputs).logits[0, -number - 1 : -1].double().log_softmax(-1)
    targets = ids[-number:]
    total = log_probabilities.gather(1, targets[:, None]).sum().item()
    return total, number, bool((log_probabilities.argmax(-1) == targets).all())
