"""A judge on this machine that reads its verdicts from the demo's data, with the interface of a chat model."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lmms_egoplan.demo import DATA

MODEL = "scripted-judge"
# Its rating is the lowest on each benchmark's scale.
_OTHERWISE = "The demo has no verdict on this answer: no scripted model gives it.\nRating: [[0]]\n[[0]]"


@contextmanager
def serve_judge() -> Iterator[str]:
    """Serve the judge while the context lasts.

    Returns:
        The address, for ``LMMS_EGOPLAN_JUDGE_BASE_URL``.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def verdict_on(prompt: str) -> str:
    """Return the verdict on the answer that a judge's prompt compares with its reference."""
    lines = Counter(prompt.splitlines())
    for known in _verdicts():
        if Counter([known["reference"], known["answer"]]) <= lines:
            return known["verdict"]
    return _OTHERWISE


@cache
def _verdicts() -> list[dict[str, str]]:
    return json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))


class _Handler(BaseHTTPRequestHandler):
    """Answers requests for chat completions."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": verdict_on(request["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {"id": "demo", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
        body = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
