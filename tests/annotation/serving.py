"""The page, served on the loopback, and people who use it."""

import re
import socket
import threading
from contextlib import contextmanager
from html import unescape

import httpx
import uvicorn
from typer.testing import CliRunner

from lmms_egoplan.annotation.app import make_app
from lmms_egoplan.annotation.serve import media_folder
from lmms_egoplan.cli import app
from patience import FOREVER_S


@contextmanager
def served(store, port=0, hosts=()):
    """Its address."""
    listening = socket.create_server(("127.0.0.1", port))
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
    """Finds paths below the base of a person's pages."""

    base = ""

    def build_request(self, method, url, **options):
        is_page = isinstance(url, str) and url.startswith("/") and not url.startswith(("/p/", "/enter/"))
        return super().build_request(method, self.base + url if is_page else url, **options)


def enter(address, store, name):
    """A client with the cookie that a person's link gives."""
    (token,) = (person.token for person in store.people() if person.name == name)
    client = Client(base_url=address, follow_redirects=True, timeout=FOREVER_S)
    client.page = client.get(f"/enter/{token}")
    client.base = client.page.url.path.rstrip("/")
    return client


def form_in(page, action="/label/"):
    """Where the page's form goes, and its hidden fields."""
    found = re.search(rf'<form method="post" action="([^"]*{action}[^"]*)".*?</form>', page, re.DOTALL)
    hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', found[0])
    return found[1], {name: unescape(value) for name, value in hidden}


def post(client, action="/label/", **values):
    """Send the form of the page that the client has, as a browser does."""
    where, hidden = form_in(client.page.text, action)
    client.page = client.post(where, data=hidden | values)
    return client.page


def label_all(store, values_of):
    """All annotators label all that they are served; `values_of` gets the person and the page."""
    with served(store) as address:
        clients = {known.person: enter(address, store, known.person) for known in store.progress()}
        busy = True
        while busy:
            busy = False
            for name, client in clients.items():
                client.page = client.get("/")
                if 'id="label"' in client.page.text:
                    busy = True
                    assert post(client, **values_of(name, client.page.text)).status_code == 200


def run(*arguments):
    """Exit code and output of a command."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def export(store, out=None):
    """What ``annotate export`` says, and the folder that it writes; another process may serve the database."""
    path = store.database.path
    out = out or path.parent / "out"
    code, output = run("annotate", "export", path, "--out", out)
    assert code == 0, output
    return output, out
