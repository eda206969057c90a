"""Serve the page on the loopback, and act as its users."""

import re
import threading
from contextlib import contextmanager
from html import unescape

import httpx
import uvicorn
from typer.testing import CliRunner

from lmms_egoplan.annotation.app import make_app
from lmms_egoplan.annotation.serve import listen, media_folder
from lmms_egoplan.cli import app
from patience import FOREVER_S


@contextmanager
def served(store, port=0, hosts=()):
    """Serve a store and yield the address."""
    listening = listen("127.0.0.1", port)
    page = make_app(store, media_folder(store.database.path), hosts)
    server = uvicorn.Server(uvicorn.Config(page, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class Client(httpx.Client):
    """Resolve paths below the base of a person's pages."""

    base = ""

    def __init__(self, address):
        # Certificates are slow to load, and nothing here is encrypted.
        super().__init__(base_url=address, follow_redirects=True, timeout=FOREVER_S, verify=False)

    def build_request(self, method, url, **options):
        is_page = (
            isinstance(url, str) and url.startswith("/") and not url.startswith(("/p/", "/enter/"))
        )
        return super().build_request(method, self.base + url if is_page else url, **options)


def enter(address, store, name):
    """Return a client with the cookie of a person's link."""
    (token,) = (person.token for person in store.people() if person.name == name)
    client = Client(address)
    client.page = client.get(f"/enter/{token}")
    client.base = client.page.url.path.rstrip("/")
    return client


@contextmanager
def visited(store, name="annotator-1"):
    """Serve a store, yield one person's client, and close the store."""
    with served(store) as address:
        yield enter(address, store, name)
    store.close()


def form_in(page, action="/label/"):
    """Return the target of the page's form and its hidden fields."""
    form = re.search(
        rf'<form method="post" action="([^"]*{action}[^"]*)".*?</form>', page, re.DOTALL
    )
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form[0])
    return form[1], {name: unescape(value) for name, value in hidden}


def post(client, action="/label/", **values):
    """Submit the form on the client's current page, like a browser."""
    where, hidden = form_in(client.page.text, action)
    client.page = client.post(where, data=hidden | values)
    return client.page


def label_all(store, values_of):
    """Label all items as all annotators. `values_of` maps person and page to the values."""
    with served(store) as address:
        clients = {
            progress.person: enter(address, store, progress.person) for progress in store.progress()
        }
        busy = True
        while busy:
            busy = False
            for name, client in clients.items():
                client.page = client.get("/")
                if 'id="label"' in client.page.text:
                    busy = True
                    assert post(client, **values_of(name, client.page.text)).status_code == 200


def run(*arguments):
    """Run a command and return its exit code and output."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def export(store, out=None):
    """Run ``annotate export``.

    Return its output and folder. The database may be in use by a server.
    """
    path = store.database.path
    out = out or path.parent / "out"
    code, output = run("annotate", "export", path, "--out", out)
    assert code == 0, output
    return output, out
