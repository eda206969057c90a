"""Judge with a real inference server on loopback: `transformers serve` with tiny chat models."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from judging.asked import SCALE
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import JudgeRequest
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import judge_settings
from patience import wait_until
from ports import free_port

NEEDED = ("fastapi", "uvicorn")
pytestmark = [
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in NEEDED),
        reason=f"`transformers serve` needs {' and '.join(NEEDED)}",
    ),
    pytest.mark.nightly,
]

VERDICT = "Rating: [[0.5]]"
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}{% endif %}"
)
ANSWERS = (  # texts that the model has seen
    (
        "The user asks what to do next in the kitchen. Which action should come next to make "
        "a cup of coffee?"
    ),
    (
        "Take the mug from the shelf, rinse the mug, put the mug on the counter and pour "
        "water into the kettle."
    ),
    (
        "Open the fridge, take the milk, close the fridge. Cut the onion, peel the potato, "
        "wash the knife."
    ),
)
REQUESTS = [
    JudgeRequest(f"question/{n}", f"Rate answer {n}: {ANSWERS[n]}", "a mug", "a cup")
    for n in range(3)
]


def save_chat_model(folder, steps):
    """Train a model of 40,000 parameters for `steps` steps to reply `VERDICT` to every prompt."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from zoo.vocabulary import CORPUS, qwen2

    tokenizer = qwen2([])
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        vocab_size=len(tokenizer),
        max_position_embeddings=2048,
        initializer_range=0.1,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.eos_token_id,
    )
    model = LlamaForCausalLM(config)
    target = tokenizer(f"{VERDICT}<|im_end|>", return_tensors="pt").input_ids
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(steps):
        asked = [{"role": "user", "content": f"{step} {CORPUS[step % len(CORPUS)]}"}]
        prompt = tokenizer.apply_chat_template(
            asked, add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).input_ids
        labels = torch.cat([torch.full_like(prompt, -100), target], dim=1)
        model(torch.cat([prompt, target], dim=1), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # After 24 tokens, the end becomes increasingly likely. Otherwise an untrained model generates a
    # thousand tokens.
    model.generation_config.exponential_decay_length_penalty = (24, 2.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def random_model(tmp_path_factory):
    return save_chat_model(tmp_path_factory.mktemp("random"), steps=0)


@pytest.fixture(scope="module")
def trained_model(tmp_path_factory):
    return save_chat_model(tmp_path_factory.mktemp("trained"), steps=80)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Start a server that loads every requested model."""
    folder = tmp_path_factory.mktemp("server")
    address = f"http://127.0.0.1:{(port := free_port())}"
    environment = os.environ | {
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    program = shutil.which("transformers", path=Path(sys.executable).parent)
    command = [program, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def still_runs():
        assert server.poll() is None, (folder / "log.txt").read_text(encoding="utf-8")[-4000:]

    try:
        wait_until(lambda: healthy(address), still_runs)
        yield f"{address}/v1"
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def healthy(address):
    with contextlib.suppress(OSError):
        return urllib.request.urlopen(f"{address}/health", timeout=60).status == 200
    return False


@pytest.fixture
def settings(url, tmp_path, monkeypatch):
    """Return settings for a model of the server, read from the environment."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", url)
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", "none")

    def settings_of(model):
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", model)
        return judge_settings("none")

    return settings_of


def test_a_random_model_gives_no_rating(settings, random_model):
    judgements = judge_all(REQUESTS, SCALE, settings(random_model))
    assert len(judgements) == len(REQUESTS)
    for judgement in judgements:
        assert judgement.rating is None
        assert judgement.error
        assert judgement.reply
        assert random_model in judgement.judge  # the server adds the revision
        assert judgement.prompt_tokens > 10
        assert judgement.completion_tokens > 1


def test_a_trained_model_rates_and_is_asked_once(settings, trained_model):
    judge = settings(trained_model)
    judgements = judge_all(REQUESTS, SCALE, judge)
    assert [judgement.rating for judgement in judgements] == [0.5] * len(REQUESTS)
    assert [judgement.reply for judgement in judgements] == [VERDICT] * len(REQUESTS)
    assert [judgement.error for judgement in judgements] == [None] * len(REQUESTS)
    assert all(trained_model in judgement.judge for judgement in judgements)
    assert all(judgement.cached for judgement in judge_all(REQUESTS, SCALE, judge))


def test_the_server_names_its_model(settings, random_model):
    assert random_model in probe(settings(random_model))
