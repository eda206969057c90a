"""An OpenAI-compatible chat endpoint on loopback with replies that a test defines.

To run it in a separate process: ``python tests/judge_server.py --port 0 --latency 0.2 --text "Rating: [[1]]"``. The
first line of its output is the URL.
"""

import argparse
import base64
import io
import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image


@dataclass
class Reply:
    """The server's response to one request.

    text: the completion, or the error message if `status` is not 200.
    headers: additional headers, or other values for the usual headers.
    body: sent instead of a completion or an error.
    drop: if true, close the connection without an answer.
    choices: number of completions in the answer.
    delay: seconds before anything is sent.
    model: name of the model that answers; None for the requested model.
    finish: finish reason; None for none.
    """

    text: str = "Rating: [[1]]"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    drop: bool = False
    choices: int = 1
    delay: float = 0
    model: str | None = None
    finish: str | None = "stop"


class JudgeServer:
    """A server that runs while its context is open. At the end, all connections are closed.

    reply: returns the reply to a prompt (content of the last message), given the number of earlier requests with it.
    prompts: prompts of all requests, in order of arrival. `headers` and `bodies` have the same order.
    answered: prompts whose reply was sent, in order.
    peak: maximum number of concurrent requests.
    models: the list of models.
    """

    def __init__(self, reply: Callable[[str, int], Reply], port: int = 0) -> None:
        self.reply = reply
        self.models: list[dict[str, Any]] = [{"id": "judge", "object": "model", "created": 0, "owned_by": "tests"}]
        self.prompts: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.peak = 0
        self._in_flight = 0
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._http = _HTTPServer(("127.0.0.1", port), _Handler)
        self._http.judge = self
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> "JudgeServer":
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._http.hang_up()

    def arrived(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[str, int]:
        """Record a request; return its prompt and the number of earlier requests with this prompt."""
        prompt = self.prompt_of(body)
        with self._lock:
            self.prompts.append(prompt)
            self.headers.append(headers)
            self.bodies.append(body)
            before = self._asked[prompt]
            self._asked[prompt] += 1
            self._in_flight += 1
            self.peak = max(self.peak, self._in_flight)
        return prompt, before

    @staticmethod
    def prompt_of(body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)

    def done(self, prompt: str, sent: bool) -> None:
        """Record the end of a request, and whether its reply was sent."""
        with self._lock:
            self._in_flight -= 1
            if sent:
                self.answered.append(prompt)


def images_in(body: dict[str, Any]) -> list[Image.Image]:
    """Decode the images of a request's last message."""
    urls = [part["image_url"]["url"] for part in body["messages"][-1]["content"] if part["type"] == "image_url"]
    assert all(url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")) for url in urls)
    return [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]


class _HTTPServer(ThreadingHTTPServer):
    request_queue_size = 256  # connections that may wait to be accepted; with the default of 5, bursts are slow
    daemon_threads = True
    block_on_close = False
    judge: JudgeServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: socket.socket, client_address: tuple[str, int]) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the client has closed it
                continue


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # send headers and body together
    server: _HTTPServer

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:  # the client has disconnected
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except ConnectionError:  # the client has disconnected
            self.close_connection = True

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self._send_error(404, f"no such path: {self.path}")
        return self._send(200, {}, _json({"object": "list", "data": self.server.judge.models}))

    def do_POST(self) -> None:
        content = self.rfile.read(length := int(self.headers["Content-Length"]))
        if len(content) < length:  # the client was killed
            self.close_connection = True
            return None
        if not self.path.partition("?")[0].endswith("/chat/completions"):  # Azure adds the deployment's name before it
            return self._send_error(404, f"no such path: {self.path}")
        body = json.loads(content)
        judge = self.server.judge
        prompt, before = judge.arrived(body, {name.lower(): value for name, value in self.headers.items()})
        sent = False
        try:
            sent = self._answer(body, prompt, judge.reply(prompt, before))
        finally:
            judge.done(prompt, sent)
        return None

    def _answer(self, body: dict[str, Any], prompt: str, reply: Reply) -> bool:
        time.sleep(reply.delay)
        if reply.drop:
            self.close_connection = True
            return False
        if reply.body is not None:
            self._send(reply.status, reply.headers, reply.body)
        elif reply.status == 200:
            self._send(200, reply.headers, _json(_completion(reply, body.get("model", "judge"), prompt)))
        else:
            self._send_error(reply.status, reply.text, reply.headers)
        return True

    def _send_error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        error = {"message": message, "type": "test_error", "param": None, "code": str(status)}
        self._send(status, headers or {}, _json({"error": error}))

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in ({"Content-Type": "application/json", "Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Log nothing: tests read the attributes of `JudgeServer`."""


def _completion(reply: Reply, model: str, prompt: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    asked, answered = len(prompt.split()), len(reply.text.split())
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": reply.model or model,
        "choices": [
            {"index": index, "message": message, "logprobs": None, "finish_reason": reply.finish}
            for index in range(reply.choices)
        ],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0, help="Seconds per request.")
    parser.add_argument("--text", default=Reply.text, help="Text of all completions.")
    arguments = parser.parse_args()
    with JudgeServer(lambda *_: Reply(arguments.text, delay=arguments.latency), arguments.port) as server:
        print(server.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
