"""`egoplan_val_generate` on lmms-eval's backends for OpenAI-compatible servers, against one on this machine."""

import base64
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager
from PIL import Image

from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import read_numbers
from runs.harness import metric
from runs.small_set import prepare_small_set

# By question: what the server replies, and the letter in it.
REPLIES = [
    ("A", "A"),
    ("The answer is (B) wash the cup.", "B"),
    ("I cannot tell.", None),
    ("D. take", "D"),
    ("A or B", None),
    ("**D**", "D"),
    ("C", "C"),
    ("", None),
]


class Server(ThreadingHTTPServer):
    """Replies to the question about step N with the Nth reply, and keeps the requests by N."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests = {}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = request["messages"][-1]["content"]
        (text,) = [item["text"] for item in content if item["type"] == "text"]
        step = int(text.split("after step ")[1].split("?")[0])
        self.server.requests[step] = (self.path, request)
        message = {"role": "assistant", "content": REPLIES[step][0]}
        body = {
            "id": f"reply-{step}",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
        }
        payload = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def images(request):
    """The images of a request's last message, out of their data URLs."""
    found = []
    for item in request["messages"][-1]["content"]:
        if item["type"] == "image_url":
            kind, data = item["image_url"]["url"].split(",")
            assert kind in ("data:image/png;base64", "data:image/jpeg;base64")
            found.append(Image.open(io.BytesIO(base64.b64decode(data))))
    return found


@pytest.mark.parametrize("backend", ["openai", "async_openai"])
def test_letters_from_a_server(server, tmp_path, monkeypatch, backend):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    records = prepare_small_set(tmp_path, len(REPLIES))
    url = f"http://127.0.0.1:{server.server_port}/v1"
    evaluated = simple_evaluate(
        backend,
        f"model=tiny,base_url={url},api_key=none,max_retries=1",
        tasks=["egoplan_val_generate"],
        task_manager=TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False),
        log_samples=True,
    )
    letters = [letter for _, letter in REPLIES]
    samples = evaluated["samples"]["egoplan_val_generate"]
    assert [sample["predictions"]["prediction"] for sample in samples] == letters
    right = [letter == record["golden_choice_idx"] for letter, record in zip(letters, records, strict=True)]
    assert 0 < sum(right) < len(right)
    results = evaluated["results"]["egoplan_val_generate"]
    assert metric(results, "acc") == pytest.approx(sum(right) / len(right))
    assert metric(results, "acc_epic_kitchens") == pytest.approx(sum(right[::2]) / len(right[::2]))
    assert metric(results, "acc_ego4d") == pytest.approx(sum(right[1::2]) / len(right[1::2]))
    assert metric(results, "unparsed") == pytest.approx(letters.count(None) / len(letters))

    assert set(server.requests) == set(range(len(records)))
    for step, record in enumerate(records):
        path, request = server.requests[step]
        assert path == "/v1/chat/completions"
        assert request["model"] == "tiny"
        assert request["max_tokens"] == 16
        assert request["temperature"] == 0
        numbers = read_numbers(images(request))
        assert len(numbers) == 8
        assert numbers == sorted(numbers)
        assert numbers[0] == record["task_progress_metadata"][0]["start_frame"]
        assert numbers[-1] == record["current_observation_frame"]
        (text,) = [item["text"] for item in request["messages"][-1]["content"] if item["type"] == "text"]
        choices = [f"{letter}. {record[f'choice_{letter.lower()}']}" for letter in "ABCD"]
        assert text.splitlines()[:5] == [record["question"], *choices]
