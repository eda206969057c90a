"""Compare losses of the chat model `huggingface` with `full_pass.Reference`; print a line of JSON
per checkpoint.

The first argument is a JSON object with arguments of the model; checkpoints follow.
"""

import json
import sys

import torch
from full_pass import Reference
from lmms_eval.api.instance import Instance
from lmms_eval.models.chat.huggingface import Huggingface
from PIL import Image

QUESTION = "I have filled the kettle. What should I do next?"
CANDIDATES = [
    "pour",
    "take the mug from the shelf",
    "switch the kettle on and wait",
    "wash both hands",
]
COLOURS = ("tomato", "olive", "navy", "gold", "teal", "plum")
IMAGES = [
    [
        Image.new("RGB", (70 + 30 * number, 56 + 7 * index), COLOURS[number + index])
        for index in range(count)
    ]
    for number, count in enumerate([1, 2, 4])
]


def messages(number: int) -> list[dict]:
    images = [{"type": "image", "url": image} for image in IMAGES[number]]
    return [{"role": "user", "content": [*images, {"type": "text", "text": QUESTION}]}]


def requests(number: int) -> list[Instance]:
    metadata = {"task": "task", "doc_id": number, "repeats": 1}
    return [
        Instance(
            "loglikelihood",
            (QUESTION, messages, f" {candidate}", number, "task", "test"),
            index,
            metadata,
        )
        for index, candidate in enumerate(CANDIDATES)
    ]


for folder in sys.argv[2:]:
    backend = Huggingface(folder, device="cpu", device_map="cpu", **json.loads(sys.argv[1]))
    backend.model.float()
    backend.task_dict = {"task": {"test": list(range(len(IMAGES)))}}
    reference = Reference(folder, torch.bfloat16)
    lengths: list[int] = []
    backend.model.model.register_forward_pre_hook(
        lambda model, arguments, keywords, lengths=lengths: lengths.append(
            keywords["input_ids"].shape[1]
        ),
        with_kwargs=True,
    )
    scores = backend.loglikelihood(
        [request for number in range(len(IMAGES)) for request in requests(number)]
    )
    expected = [
        reference.score(images, QUESTION, candidate)[:2]
        for images in IMAGES
        for candidate in CANDIDATES
    ]
    largest = 0.0
    for (loss, is_greedy), (expected_loss, expected_greedy) in zip(scores, expected, strict=True):
        largest = max(largest, abs(loss - expected_loss))
        assert is_greedy == expected_greedy
    print(
        json.dumps(
            {"model": backend.config.model_type, "difference": largest, "tokens": sum(lengths)}
        )
    )
