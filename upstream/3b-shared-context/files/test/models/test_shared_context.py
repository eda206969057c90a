"""Test that the chat model ``huggingface`` shares the pass over a context among its continuations."""

from pathlib import Path

import pytest
from PIL import Image

from lmms_eval.api.instance import Instance
from lmms_eval.models.chat.huggingface import Huggingface

CHOICES = ["wash", "take the mug", "open the drawer and take the knife"]
NUM_DOCS = 3


@pytest.fixture
def backend(tiny_llava: Path) -> Huggingface:
    backend = Huggingface(str(tiny_llava), device="cpu", device_map="cpu")
    backend.model.float()
    docs = [{"num_images": number} for number in range(NUM_DOCS)]
    backend.task_dict = {"first": {"test": docs}, "second": {"test": docs}}
    return backend


def messages(doc: dict) -> list[dict]:
    images = [{"type": "image", "url": Image.new("RGB", (40, 30), (80 * number, 90, 200))} for number in range(doc["num_images"])]
    return [{"role": "user", "content": [*images, {"type": "text", "text": "what comes next ?"}]}]


def requests(*tasks: str) -> list[Instance]:
    return [Instance("loglikelihood", ("", messages, choice, doc_id, task, "test"), idx, {"task": task, "doc_id": doc_id, "repeats": 1}) for task in tasks for doc_id in range(NUM_DOCS) for idx, choice in enumerate(CHOICES)]


def full_losses(backend: Huggingface, *tasks: str) -> list[float]:
    chats = [backend._hf_messages(messages, doc) for task in tasks for doc in backend.task_dict[task]["test"]]
    return [backend._full_score(backend._chat(chat, choice))[0] for chat in chats for choice in CHOICES]


def passes(backend: Huggingface) -> list[int]:
    """Return a list that gets the number of tokens of each later pass."""
    lengths: list[int] = []
    backend.model.model.register_forward_pre_hook(lambda module, arguments, keywords: lengths.append(keywords["input_ids"].shape[1]), with_kwargs=True)
    return lengths


def test_shared_context_gives_the_losses_of_full_passes(backend: Huggingface) -> None:
    expected = full_losses(backend, "first")
    lengths = passes(backend)
    losses = [loss for loss, _ in backend.loglikelihood(requests("first"))]
    assert losses == pytest.approx(expected, abs=1e-5)
    # A pass over the context, and one for each continuation of two or more tokens; the first document has full passes too.
    assert len(lengths) == 3 * NUM_DOCS + 3
    assert lengths[-2:] == [2, 6]


def test_context_is_not_shared_on_request(backend: Huggingface) -> None:
    backend.share_context = False
    lengths = passes(backend)
    backend.loglikelihood(requests("first"))
    assert len(lengths) == NUM_DOCS * len(CHOICES)


def test_wrong_losses_are_never_used(backend: Huggingface, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def wrong_scores(chats: list[list[dict]]) -> list[tuple[float, bool]]:
        tried.append(chats)
        return [(0.0, True) for _ in chats]

    monkeypatch.setattr(backend, "_shared_scores", wrong_scores)
    losses = [loss for loss, _ in backend.loglikelihood(requests("first", "second"))]
    assert losses == pytest.approx(full_losses(backend, "first", "second"), abs=1e-5)
    assert len(tried) == 2  # once per task


def test_different_contexts_get_full_passes(backend: Huggingface, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenize = backend._tokenize

    def with_merged_token(chat: list[dict]) -> tuple[list[int], list[int]]:
        context, tokens = tokenize(chat)
        return (context[:-1], [context[-1], *tokens]) if len(tokens) == 3 else (context, tokens)

    monkeypatch.setattr(backend, "_tokenize", with_merged_token)
    losses = [loss for loss, _ in backend.loglikelihood(requests("first"))]
    assert losses == pytest.approx(full_losses(backend, "first"), abs=1e-5)
