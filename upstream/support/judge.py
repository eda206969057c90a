"""A local judge server that applies a rule instead of a model; scores can be computed by hand."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.serving import QuietHandler, serve


@contextmanager
def judge(rule: Callable[[str], str]) -> Iterator[str]:
    """Serve chat completions that apply the rule to the last message; yield the URL."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = {"role": "assistant", "content": rule(request["messages"][-1]["content"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            body = json.dumps(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "rule",
                    "choices": [choice],
                }
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

    with serve(Handler) as url:
        yield f"{url}/v1/chat/completions"
