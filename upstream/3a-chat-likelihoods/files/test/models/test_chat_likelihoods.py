"""Test that the chat model ``huggingface`` scores continuations like a plain pass over the whole chat."""

from functools import cache
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import LlavaForConditionalGeneration, LlavaProcessor

from lmms_eval.api.instance import Instance
from lmms_eval.api.task import ConfigurableMessagesTask
from lmms_eval.caching.response_cache import _extract_content_hash
from lmms_eval.models.chat.huggingface import Huggingface

QUESTION = "what comes next ?"
CHOICES = ["wash", "take the mug", "open the drawer and take the knife"]
COLORS = ["tomato", "olive", "navy"]
UTILS = f"""
from PIL import Image


def images(doc):
    return [Image.new("RGB", (40, 30), color) for color in {COLORS}[: doc["num_images"]]]
"""
TASK = """
task: next_action
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
doc_to_visual: !function utils.images
doc_to_text: question
doc_to_choice: choices
doc_to_target: 0
metric_list:
  - metric: acc
"""


@pytest.fixture(scope="module")
def backend(tiny_llava: Path) -> Huggingface:
    backend = Huggingface(str(tiny_llava), device="cpu", device_map="cpu")
    backend.model.float()
    return backend


def messages(doc: dict) -> list[dict]:
    images = [{"type": "image", "url": Image.new("RGB", (40, 30), color)} for color in COLORS[: doc["num_images"]]]
    return [{"role": "user", "content": [*images, {"type": "text", "text": QUESTION}]}]


def score(backend: Huggingface, num_images: int, choices: list[str]) -> list[tuple[float, bool]]:
    backend.task_dict = {"next_action": {"test": [{"num_images": num_images}]}}
    metadata = {"task": "next_action", "doc_id": 0, "repeats": 1}
    return backend.loglikelihood([Instance("loglikelihood", ("", messages, f" {choice}", 0, "next_action", "test"), idx, metadata) for idx, choice in enumerate(choices)])


@cache
def load(tiny_llava: Path) -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    return LlavaForConditionalGeneration.from_pretrained(tiny_llava, dtype=torch.float32).eval(), LlavaProcessor.from_pretrained(tiny_llava)


def plain_score(tiny_llava: Path, num_images: int, choice: str) -> tuple[float, bool]:
    """Score a choice without the backend: the prompt is written by hand, and losses are summed token by token."""
    model, processor = load(tiny_llava)
    text = "USER: " + "<image>\n" * num_images + QUESTION + " ASSISTANT: " + choice
    images = [Image.new("RGB", (40, 30), color) for color in COLORS[:num_images]]
    inputs = processor(text=text, images=images or None, return_tensors="pt")
    with torch.no_grad():
        probabilities = model(**inputs).logits[0].softmax(-1)
    ids = inputs["input_ids"][0].tolist()
    positions = range(len(ids) - len(choice.split()), len(ids))
    losses = [-torch.log(probabilities[position - 1, ids[position]]).item() for position in positions]
    is_greedy = all(probabilities[position - 1].argmax().item() == ids[position] for position in positions)
    return sum(losses) / len(losses), is_greedy


@pytest.mark.parametrize("num_images", [0, 1, 3])
def test_losses_match_a_plain_pass(tiny_llava: Path, backend: Huggingface, num_images: int) -> None:
    words = [word for word in backend.tokenizer.get_vocab() if word.isalpha() and word.islower()]
    expected = [plain_score(tiny_llava, num_images, choice) for choice in [*CHOICES, *words]]
    scores = score(backend, num_images, [*CHOICES, *words])
    assert [loss for loss, _ in scores] == pytest.approx([loss for loss, _ in expected], abs=1e-5)
    assert [is_greedy for _, is_greedy in scores] == [is_greedy for _, is_greedy in expected]
    assert max(scores)[0] - min(scores)[0] > 0.1


def test_images_change_the_losses(backend: Huggingface) -> None:
    assert abs(score(backend, 1, CHOICES)[0][0] - score(backend, 3, CHOICES)[0][0]) > 1e-3


def test_system_prompt_is_part_of_the_context(backend: Huggingface, monkeypatch: pytest.MonkeyPatch) -> None:
    without = score(backend, 1, CHOICES)
    monkeypatch.setattr(backend, "system_prompt", "open the drawer")
    assert score(backend, 1, CHOICES) != without


def test_empty_continuation_is_an_error(backend: Huggingface) -> None:
    with pytest.raises(ValueError, match="empty"):
        score(backend, 1, [" "])


def test_language_model_head_is_loaded(backend: Huggingface) -> None:
    assert isinstance(backend.model, LlavaForConditionalGeneration)


def test_requests_have_the_shape_of_generation_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_llava: Path, backend: Huggingface) -> None:
    from lmms_eval.tasks import TaskManager, get_task_dict

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    (tmp_path / "utils.py").write_text(UTILS)
    (tmp_path / "docs.json").write_text('[{"question": "what comes next ?", "choices": ["wash", "take the mug"], "num_images": 2}]')
    (tmp_path / "next_action.yaml").write_text(TASK.format(data=tmp_path / "docs.json"))
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    task = get_task_dict(["next_action"], manager, "chat")["next_action"]
    assert isinstance(task, ConfigurableMessagesTask)
    task.build_all_requests()
    assert [request.request_type for request in task.instances] == ["loglikelihood"] * 2
    assert [request.idx for request in task.instances] == [0, 1]
    for request, choice in zip(task.instances, CHOICES):
        ctx, doc_to_messages, continuation, doc_id, name, split = request.args
        assert (ctx, continuation, doc_id, name, split) == (QUESTION, f" {choice}", 0, "next_action", "test")
        (turn,) = doc_to_messages(task.dataset["test"][0])
        assert [item["type"] for item in turn["content"]] == ["image", "image", "text"]
    backend.task_dict = {"next_action": task.dataset}
    expected = [plain_score(tiny_llava, 2, choice) for choice in CHOICES[:2]]
    assert [loss for loss, _ in backend.loglikelihood(task.instances)] == pytest.approx([loss for loss, _ in expected], abs=1e-5)


def test_cache_distinguishes_continuations() -> None:
    metadata = {"task": "next_action", "doc_id": 0, "repeats": 1}
    hashes = {_extract_content_hash(Instance("loglikelihood", (QUESTION, messages, choice, 0, "next_action", "test"), 0, metadata)) for choice in CHOICES}
    assert len(hashes) == len(CHOICES)
