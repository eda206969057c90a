"""Why a checkpoint cannot be read from the hub, as a server with the hub's headers reports it."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from huggingface_hub import HfApi, constants

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch import checkpoint
from ports import free_port

ANSWERS = {
    "gated": ((403, "GatedRepo"), ("gated", "licence", "/org/gated", "hf auth login")),
    "missing": ((404, "RepoNotFound"), ("not on the hub", "hf auth login")),
    "no-revision": ((404, "RevisionNotFound"), ("revision",)),
    "broken": ((500, ""), ("HTTP status 500", "later")),
    "private": ((401, ""), ("HTTP status 401", "hf auth login")),
}


class Hub(BaseHTTPRequestHandler):
    def do_GET(self):
        model = self.path.removeprefix("/api/models/org/").partition("/")[0]
        (status, code), _ = ANSWERS[model]
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def use_hub(monkeypatch):
    """Return a function that makes a port of this machine the hub."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def use(port):
        address = f"http://127.0.0.1:{port}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(checkpoint, "HfApi", lambda: HfApi(endpoint=address))

    return use


def test_each_answer_of_the_hub_has_its_remedy(use_hub):
    failures = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        use_hub(server.server_port)
        for name, (_, facts) in ANSWERS.items():
            with pytest.raises(LmmsEgoplanError) as caught:
                [*checkpoint.check_checkpoint(f"org/{name}", {}, is_ours=True)]
            message = str(caught.value)
            if not all(fact in message for fact in (f"org/{name}: ", *facts)):
                failures.append(message)
        server.shutdown()
    assert failures == []


def test_a_hub_that_does_not_answer_is_named(use_hub):
    port = free_port()
    use_hub(port)
    with pytest.raises(LmmsEgoplanError, match=f"127.0.0.1:{port} cannot be reached"):
        [*checkpoint.check_checkpoint("org/model", {}, is_ours=True)]
