"""Create projects in Label Studio: a server that answers as it does, and Label Studio itself.

The nightly test installs Label Studio into an environment of its own, in the user's cache.
"""

import json
import os
import re
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import httpx
import pytest
from filelock import FileLock

from annotation.rating import new_store
from annotation.serving import run
from annotation.studio import exported_labels, label_on_page, results
from lmms_egoplan.annotation.flow import LABELLED
from lmms_egoplan.annotation.label_studio import TOKEN
from patience import FOREVER_S, wait_until
from ports import free_port

VERSION = "1.23.2"
# Not a secret: the token of servers that these tests start.
LEGACY_TOKEN = "0123456789abcdef0123456789abcdef01234567"
PERSONAL_TOKEN = "eyJhbGciOi.eyJ0b2tlbl90.Rr6ZoAFKcgJ"


class Replies(BaseHTTPRequestHandler):
    """Answer like Label Studio's API, with the server's `replies` by path."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers.get("Authorization"), body))
        status, reply = self.server.replies.get(self.path, (404, "<!doctype html>"))
        self._reply(status, reply if isinstance(reply, str) else json.dumps(reply))

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Authorization"), None))
        file = self.server.root / self.path.partition("?d=")[2]
        self._reply(200, file.read_bytes()) if file.is_file() else self._reply(404, "")

    def _reply(self, status, content):
        content = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def studio(tmp_path, monkeypatch):
    """Serve replies of Label Studio, and return the server with its `address`."""
    monkeypatch.setenv(TOKEN, LEGACY_TOKEN)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Replies)
    server.address = f"http://127.0.0.1:{server.server_port}"
    server.root = tmp_path
    server.requests = []
    server.replies = {
        "/api/token/refresh/": (200, {"access": "secret-access-token"}),
        "/api/projects/": (201, {"id": 3}),
        "/api/storages/localfiles/": (201, {"id": 1}),
        "/api/projects/3/import": (201, {"task_count": 2}),
    }
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def export(studio, tmp_path):
    """Return a function that creates a project of two questions of the rendered set."""
    database = label_on_page("egothink", tmp_path).unlabelled

    def export(*options, url=None):
        url = url or studio.address
        arguments = ["--out", tmp_path / "out", "--label-studio", "--url", url, *options]
        return run("annotate", "export", database, *arguments)

    return export


def test_project_gets_storage_and_tasks(studio, export, tmp_path):
    code, output = export(url=f"{studio.address}/")
    assert code == 0, output
    assert f"{studio.address}/projects/3: the new project" in output
    paths = [path for path, _, _ in studio.requests]
    assert paths[:2] == ["/api/projects/", "/api/storages/localfiles/"]
    assert paths[2].startswith("/data/local-files/?d=out/media/")
    assert paths[3:] == ["/api/projects/3/import"]
    assert {token for _, token, _ in studio.requests} == {f"Token {LEGACY_TOKEN}"}
    bodies = [body for _, _, body in studio.requests]
    assert bodies[0]["label_config"] == (tmp_path / "out" / "config.xml").read_text()
    assert bodies[1] == {
        "project": 3,
        "title": "media",
        "path": str(tmp_path / "out" / "media"),
        "use_blob_urls": True,
    }
    assert bodies[3] == json.loads((tmp_path / "out" / "tasks.json").read_text())


def test_personal_access_token_is_exchanged(studio, export, monkeypatch):
    monkeypatch.setenv(TOKEN, PERSONAL_TOKEN)
    code, output = export()
    assert code == 0, output
    (path, authorization, body), *later_requests = studio.requests
    assert (path, authorization, body) == (
        "/api/token/refresh/",
        None,
        {"refresh": PERSONAL_TOKEN},
    )
    assert {token for _, token, _ in later_requests} == {"Bearer secret-access-token"}


REFUSED = {"validation_errors": {"path": ["must be below the document root"]}, "detail": "no"}


@pytest.mark.parametrize(
    ("path", "reply", "message"),
    [
        ("/api/projects/", (401, {"detail": f"{LEGACY_TOKEN} is invalid"}), "401.*is invalid"),
        ("/api/projects/", (400, {"validation_errors": ["short\nlong"]}), "400: short$"),
        ("/api/projects/", (200, "<html>"), "not a reply"),
        ("/api/storages/localfiles/", (400, REFUSED), "below the document root.*DOCUMENT_ROOT="),
        ("/api/projects/3/import", (201, {"task_count": 1}), "imported 1 of 2 tasks"),
        ("/api/projects/3/import", (500, {"detail": "broken"}), "500.*broken"),
    ],
)
def test_refusals_are_explained_without_the_token(path, reply, message, studio, export, tmp_path):
    studio.replies[path] = reply
    code, output = export()
    assert code == 1
    output = " ".join(output.split())
    assert studio.address in output
    assert re.search(message, output)
    assert LEGACY_TOKEN not in output
    assert ("/projects/3 is incomplete: delete it" in output) == (path != "/api/projects/")
    assert not contains(tmp_path, LEGACY_TOKEN)


def test_media_that_are_not_served_are_named(studio, export, tmp_path):
    studio.root = tmp_path / "elsewhere"
    code, output = export()
    assert code == 1
    assert "does not serve" in output
    assert "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT" in output
    assert "/api/projects/3/import" not in [path for path, _, _ in studio.requests]


@pytest.mark.parametrize(
    ("token", "url", "message"),
    [
        ("", None, TOKEN),
        ("two words", None, TOKEN),
        (LEGACY_TOKEN, "127.0.0.1:8080", "--url"),
        (LEGACY_TOKEN, "http://me:secret-word@127.0.0.1:8080", "--url"),
    ],
)
def test_wrong_settings_are_refused_first(token, url, message, studio, export, monkeypatch):
    monkeypatch.setenv(TOKEN, token)
    code, output = export(url=url)
    assert code == 1
    assert message in output
    assert "secret-word" not in output
    assert studio.requests == []


def test_url_needs_label_studio(tmp_path):
    new_store(tmp_path / "labels.sqlite", 1, 1, 1).close()
    arguments = (tmp_path / "labels.sqlite", "--out", tmp_path / "out")
    code, output = run("annotate", "export", *arguments, "--url", "http://127.0.0.1:8080")
    assert code == 1
    assert "--label-studio" in output


def test_steps_are_printed_in_order(export, studio, tmp_path):
    database = tmp_path / "unlabelled.sqlite"
    code, output = run("annotate", "export", database, "--out", tmp_path / "out", "--label-studio")
    assert code == 0, output
    steps = [
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={tmp_path} label-studio start",
        "2. Create a project",
        f"absolute local path {tmp_path / 'out' / 'media'}",
        "4. Import tasks.json",
        "--url",
    ]
    positions = [output.index(step) for step in steps]
    assert positions == sorted(positions)
    assert studio.requests == []


def contains(folder, text):
    """Return whether a file below a folder contains a text."""
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def program():
    """Install Label Studio unless it is, and return its program."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "lmms-egoplan" / f"label-studio-{VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "bin" / "pip").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = subprocess.run(
            [folder / "bin" / "pip", "install", "-q", f"label-studio=={VERSION}"],
            env=environment(),
            capture_output=True,
            text=True,
        )
    if "Retrying" in pip.stderr and pip.returncode != 0:
        pytest.skip(f"cannot reach PyPI to install label-studio: {pip.stderr.strip()[-200:]}")
    assert pip.returncode == 0, pip.stderr
    return folder / "bin" / "label-studio"


def environment(**variables):
    """Return the variables of this process, without those for its own Python."""
    variables_of_process = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    return variables_of_process | variables


@pytest.fixture(scope="module")
def real_studio(tmp_path_factory):
    """Start Label Studio with an empty data folder. Yield its address and document root."""
    folder = tmp_path_factory.mktemp("label-studio")
    root = folder / "exports"
    root.mkdir()
    port = str(free_port())
    command = [program(), "start", "--no-browser", "--internal-host", "127.0.0.1", "-p", port]
    command += ["--data-dir", folder / "data", "--enable-legacy-api-token"]
    command += ["--username", "me@example.org", "--password", "only-for-this-test"]
    command += ["--user-token", LEGACY_TOKEN]
    variables = environment(
        COLLECT_ANALYTICS="false",
        XDG_DATA_HOME=str(folder / "home"),
        LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED="true",
        LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT=str(root),
    )
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, env=variables, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    address = f"http://127.0.0.1:{port}"

    def is_ready():
        try:
            return httpx.get(f"{address}/health", timeout=FOREVER_S).is_success
        except httpx.TransportError:
            return False

    def check():
        assert process.poll() is None, (folder / "log.txt").read_text()[-3000:]

    try:
        wait_until(is_ready, check)
        yield address, root
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@pytest.fixture(scope="module")
def api(real_studio):
    """Return a client of Label Studio's API."""
    address, _ = real_studio
    headers = {"Authorization": f"Token {LEGACY_TOKEN}"}
    with httpx.Client(base_url=address, headers=headers, timeout=FOREVER_S) as client:
        yield client


@pytest.fixture(scope="module")
def personal_token(api):
    """Return a personal access token."""
    return api.post("/api/token").raise_for_status().json()["token"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", LABELLED)
def test_labels_of_label_studio_equal_those_of_the_page(
    name, real_studio, api, personal_token, tmp_path, monkeypatch
):
    address, root = real_studio
    study = label_on_page(name, tmp_path)
    token = personal_token if name == "egoplan" else LEGACY_TOKEN
    monkeypatch.setenv(TOKEN, token)
    out = root / name
    arguments = ["--out", out, "--label-studio", "--url", address]
    code, output = run("annotate", "export", study.unlabelled, *arguments)
    assert code == 0, output
    number = output.partition(f"{address}/projects/")[2].partition(":")[0]
    assert token not in output
    assert not contains(root, token)
    tasks = api.get("/api/tasks", params={"project": number}).raise_for_status().json()["tasks"]
    tasks.sort(key=lambda task: task["data"]["number"])
    addresses = [
        value
        for task in tasks
        for value in task["data"].values()
        if str(value).startswith("/data/local-files/?d=")
    ]
    assert addresses
    for media in addresses:
        response = api.get(media)
        assert response.status_code == 200, media
        assert response.content == (root / media.partition("?d=")[2]).read_bytes()
    view = ElementTree.parse(out / "config.xml").getroot()
    for task, values in zip(tasks, study.in_studio, strict=True):
        label = {"result": results(view, task["data"], values), "lead_time": 4.25}
        api.post(f"/api/tasks/{task['id']}/annotations/", json=label).raise_for_status()
    exported = api.get(f"/api/projects/{number}/export", params={"exportType": "JSON"})
    file = tmp_path / "project.json"
    file.write_bytes(exported.raise_for_status().content)
    code, output = run("annotate", "import", study.unlabelled, file)
    assert code == 0, output
    assert f"{file}: 2 new and 0 not imported\n" in output
    assert exported_labels(study.unlabelled) == exported_labels(study.labelled)
