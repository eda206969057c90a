"""An OpenAI-compatible chat endpoint on loopback with replies that a test defines.

To run it in a separate process: ``python tests/judge_server.py --port 0 --latency 0.2 --text
"Rating: [[1]]"``. The first line of its output is the URL.
"""

import argparse
import base64
import email
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
from urllib.parse import parse_qs, urlsplit

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

    reply: returns the reply to a prompt (content of the last message), given the number of earlier
    requests with it.
    prompts: prompts of all requests, in order of arrival. `headers` and `bodies` have the same
    order.
    answered: prompts whose reply was sent, in order.
    peak: maximum number of concurrent requests.
    models: the list of models.
    batches: state of each batch by its id, as the endpoint returns it, in order of creation.
    files: content of each file by its id.
    polls: number of polls until a batch is done; None to leave all batches in progress.
    unfinished: prompts that are not done when their batch expires; an expired batch has none by
    default.
    on_batch: called with each request about files and batches, as method and path, before it is
    answered.
    """

    def __init__(self, reply: Callable[[str, int], Reply], port: int = 0) -> None:
        self.reply = reply
        self.models: list[dict[str, Any]] = [
            {"id": "judge", "object": "model", "created": 0, "owned_by": "tests"}
        ]
        self.prompts: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.answered: list[str] = []
        self.peak = 0
        self.batches: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.polls: int | None = 3
        self.unfinished: Callable[[str], bool] = lambda prompt: False
        self.on_batch: Callable[[str, str], None] = lambda method, path: None
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
        """Record a request; return its prompt and the number of earlier requests with it."""
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

    def add_file(self, content: bytes) -> str:
        with self._lock:
            name = f"file-{len(self.files) + 1}"
            self.files[name] = content
        return name

    def create_batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Create a batch as OpenAI does: it is validated after it is returned."""
        with self._lock:
            batch = {
                "id": f"batch_{len(self.batches) + 1}",
                "object": "batch",
                "status": "validating",
                "created_at": int(time.time()),
                "request_counts": {"total": 0, "completed": 0, "failed": 0},
                **dict.fromkeys(("errors", "output_file_id", "error_file_id", "metadata")),
                **request,
                "polled": 0,
            }
            self.batches[batch["id"]] = batch
        return batch

    def poll_batch(self, batch: dict[str, Any]) -> None:
        """Advance a batch by one poll. The last poll answers its requests, in reverse order."""
        with self._lock:
            batch["polled"] += 1
            is_last = self.polls is not None and batch["polled"] > self.polls
            if batch["status"] not in ("validating", "in_progress"):
                return
            lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
            batch["request_counts"]["total"] = len(lines)
            batch["status"] = "in_progress"
        if not is_last:
            return
        results: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for line in reversed(lines):
            assert line["method"] == "POST", line
            assert line["url"] == batch["endpoint"], line
            result = {
                "id": f"batch_req_{line['custom_id'][:8]}",
                "custom_id": line["custom_id"],
                "error": None,
            }
            prompt = self.prompt_of(line["body"])
            if self.unfinished(prompt):
                batch["status"] = "expired"
                error = {
                    "code": "batch_expired",
                    "message": "This request could not be executed before the batch expired.",
                }
                results[False].append(result | {"response": None, "error": error})
                continue
            prompt, before = self.arrived(line["body"], {})
            reply = self.reply(prompt, before)
            self.done(prompt, sent=True)
            if reply.status == 200:
                body = (
                    json.loads(reply.body)
                    if reply.body
                    else _completion(reply, line["body"]["model"], prompt)
                )
            else:
                body = {
                    "error": {
                        "message": reply.text,
                        "type": "test_error",
                        "param": None,
                        "code": None,
                    }
                }
            response = {"status_code": reply.status, "request_id": "x", "body": body}
            results[reply.status == 200].append(result | {"response": response})
        for is_good, name in ((True, "output_file_id"), (False, "error_file_id")):
            if results[is_good]:
                batch[name] = self.add_file(
                    b"".join(_json(result) + b"\n" for result in results[is_good])
                )
        with self._lock:
            counts = {
                "total": len(lines),
                "completed": len(results[True]),
                "failed": len(results[False]),
            }
            status = "expired" if batch["status"] == "expired" else "completed"
            batch |= {"request_counts": counts, "status": status}

    @staticmethod
    def prompt_of(body: dict[str, Any]) -> str:
        content = body["messages"][-1]["content"]
        return (
            content
            if isinstance(content, str)
            else "".join(part.get("text", "") for part in content)
        )

    def done(self, prompt: str, sent: bool) -> None:
        """Record the end of a request, and whether its reply was sent."""
        with self._lock:
            self._in_flight -= 1
            if sent:
                self.answered.append(prompt)


def images_in(body: dict[str, Any]) -> list[Image.Image]:
    """Decode the images of a request's last message."""
    urls = [
        part["image_url"]["url"]
        for part in body["messages"][-1]["content"]
        if part["type"] == "image_url"
    ]
    assert all(
        url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")) for url in urls
    )
    return [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) for url in urls]


class _HTTPServer(ThreadingHTTPServer):
    request_queue_size = (
        256  # connections that may wait to be accepted; with the default of 5, bursts are slow
    )
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
        judge, url = self.server.judge, urlsplit(self.path)
        name, last = ["", *url.path.split("/")][-2:]
        if self.path != "/v1/models":
            judge.on_batch("GET", url.path)
        if last == "content" and name in judge.files:
            return self._send(200, {"Content-Type": "application/octet-stream"}, judge.files[name])
        if name == "batches" and last in judge.batches:
            judge.poll_batch(judge.batches[last])
            return self._send(200, {}, _json(judge.batches[last]))
        if last == "batches":
            query = parse_qs(url.query)
            names = sorted(judge.batches, key=lambda name: int(name.split("_")[1]), reverse=True)
            start = names.index(query["after"][0]) + 1 if "after" in query else 0
            page = names[start : start + int(query["limit"][0])]
            data = [judge.batches[name] for name in page]
            more = start + len(page) < len(names)
            return self._send(200, {}, _json({"object": "list", "data": data, "has_more": more}))
        if self.path != "/v1/models":
            return self._send_error(404, f"no such path: {self.path}")
        return self._send(200, {}, _json({"object": "list", "data": self.server.judge.models}))

    def do_POST(self) -> None:
        content = self.rfile.read(length := int(self.headers["Content-Length"]))
        if len(content) < length:  # the client was killed
            self.close_connection = True
            return None
        path, judge = self.path.partition("?")[0], self.server.judge
        if path.endswith(("/files", "/batches")):
            judge.on_batch("POST", path)
        if path.endswith("/files"):
            message = email.message_from_bytes(
                b"Content-Type: " + self.headers["Content-Type"].encode() + b"\n\n" + content
            )
            parts = {
                part.get_param("name", header="content-disposition"): part
                for part in message.get_payload()
            }
            assert parts["purpose"].get_payload() == "batch"
            name = judge.add_file(parts["file"].get_payload(decode=True))
            return self._send(200, {}, _json({"id": name, "object": "file", "purpose": "batch"}))
        if path.endswith("/batches"):
            batch = judge.create_batch(json.loads(content))
            judge.on_batch("created", path)
            return self._send(200, {}, _json(batch))
        if not path.endswith("/chat/completions"):  # Azure adds the deployment's name before it
            return self._send_error(404, f"no such path: {self.path}")
        body = json.loads(content)
        prompt, before = judge.arrived(
            body, {name.lower(): value for name, value in self.headers.items()}
        )
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
            self._send(
                200, reply.headers, _json(_completion(reply, body.get("model", "judge"), prompt))
            )
        else:
            self._send_error(reply.status, reply.text, reply.headers)
        return True

    def _send_error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        error = {"message": message, "type": "test_error", "param": None, "code": str(status)}
        self._send(status, headers or {}, _json({"error": error}))

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            {"Content-Type": "application/json", "Content-Length": str(len(body))} | headers
        ).items():
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
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
        },
    }


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0, help="Seconds per request.")
    parser.add_argument("--text", default=Reply.text, help="Text of all completions.")
    arguments = parser.parse_args()
    with JudgeServer(
        lambda *_: Reply(arguments.text, delay=arguments.latency), arguments.port
    ) as server:
        print(server.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
