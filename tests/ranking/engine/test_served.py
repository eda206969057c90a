"""A real vLLM server: hostile requests, a token limit, logits.

Runs if vLLM (or its CPU build) is installed.
"""

import subprocess
import sys
from itertools import pairwise

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from lmms_egoplan.harnesses.vllm_server import ServedEngine
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import ARGUMENT, PROCESSOR, EngineError
from lmms_egoplan.ranking.methods import FORCED, PROMPT_LOGPROBS
from patience import FOREVER_S, wait_until
from ports import free_port
from ranking.engine.chat_server import probe
from ranking.engine.checkpoints import save
from ranking.reference import user_turn

pytest.importorskip("vllm", reason="needs vLLM; .ci/vllm runs this")
pytestmark = pytest.mark.nightly

CANDIDATES = ["put mug", "put mug on the counter", "open the fridge, take the milk", "wash"]
MOST = 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return save("qwen2_5_vl", tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def serve(checkpoint, tmp_path_factory):
    """Return a function that starts a server with options and returns its address."""
    processes = []

    def start(*options):
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model",
            str(checkpoint),
        ]
        command += [
            "--dtype",
            "float32",
            "--enforce-eager",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
        ]
        command += [
            "--chat-template-content-format",
            "openai",
            "--max-model-len",
            "1024",
            "--kv-cache-memory-bytes",
            str(2**26),
            *options,
        ]
        log = tmp_path_factory.mktemp("log") / "log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        processes.append(process)

        def is_ready():
            assert process.poll() is None, log.read_text()[-3000:]
            try:
                return httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        wait_until(is_ready)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        process.terminate()
        process.wait(FOREVER_S)


@pytest.fixture(scope="module")
def forcing(serve):
    return serve("--logits-processors", PROCESSOR)


def questions(count, images=3):
    for number in range(count):
        pixels = np.random.default_rng(number).integers(0, 255, (images, 56, 84, 3), dtype=np.uint8)
        yield user_turn(f"{number}: next?", map(Image.fromarray, pixels)), f"q{number}"


def check_scores(url, checkpoint, path, method="auto"):
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32).eval()
    reference = CandidateRanker(model, processor, path="full")
    ranker = EngineRanker(ServedEngine(url, str(checkpoint), probe), processor, method=method)
    encoded = [ranker.encode(messages, CANDIDATES, name) for messages, name in questions(3)]
    for row, (messages, name) in zip(ranker.scores(encoded), questions(3), strict=True):
        right = reference.score(messages, CANDIDATES, name)
        assert [score.nll for score in row] == pytest.approx(
            [score.nll for score in right], abs=1e-4
        )
        assert row[0].use.path == path


HOSTILE = [
    [-100_000],
    [-1],
    [2**31],
    [2**63],
    [2**70],
    [10**6],
    [True],  # which the server reads as 1
    ["5"],
    [5.0],
    [None],
    [[5]],
    {"a": 5},
    "5",
    5,
    [5] * 100_000,
    [5, -1],
    [],
    None,
]


def test_invalid_requests_do_not_stop_the_server(forcing, checkpoint):
    body = {
        "model": str(checkpoint),
        "messages": [{"role": "user", "content": "What next?"}],
        "temperature": 0,
    }
    body |= {"max_tokens": 2, "logprobs": True, "return_token_ids": True}
    statuses = {}
    for tokens in HOSTILE:
        answer = httpx.post(
            f"{forcing}/v1/chat/completions",
            json=body | {"vllm_xargs": {ARGUMENT: tokens}},
            timeout=FOREVER_S,
        )
        statuses[repr(tokens)[:20]] = answer.status_code
        assert answer.status_code in (200, 400, 422), answer.text
        assert httpx.get(f"{forcing}/health", timeout=FOREVER_S).status_code == 200
    refused = [name for name, status in statuses.items() if status != 200]
    assert {"[-100000]", "[-1]", "[2147483648]", "['5']", "[5, -1]"} <= {*refused}
    # The checking process does not know the vocabulary; the token is not forced.
    assert "[1000000]" not in refused
    check_scores(forcing, checkpoint, FORCED)


def test_a_server_that_caps_answers(serve, checkpoint):
    url = serve(
        "--logits-processors",
        PROCESSOR,
        "--override-generation-config",
        f'{{"max_new_tokens": {MOST}}}',
    )
    check_scores(url, checkpoint, PROMPT_LOGPROBS)


def test_a_server_that_returns_logits(serve, checkpoint):
    url = serve("--logits-processors", PROCESSOR, "--logprobs-mode", "raw_logits")
    with pytest.raises(EngineError, match="--logprobs-mode"):
        ServedEngine(url, str(checkpoint), probe)


def test_images_of_another_run_are_never_used(forcing, checkpoint):
    """The server uses the image stored under a known ID, so no other client may know our IDs."""
    processor = AutoProcessor.from_pretrained(checkpoint)
    ranker = EngineRanker(ServedEngine(forcing, str(checkpoint), probe), processor, method=FORCED)
    encoded = [ranker.encode(messages, CANDIDATES, "the same id") for messages, _ in questions(4)]
    rows = [[score.nll for score in row] for row in ranker.scores(encoded)]
    assert all(first != second for first, second in pairwise(rows))
