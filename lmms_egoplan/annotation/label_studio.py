"""Set up a Label Studio project: the steps for a person, or requests to Label Studio's API."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.judging.redaction import Redactor

TOKEN = "LABEL_STUDIO_API_KEY"
"""Environment variable with an access token of Label Studio. Its SDK reads the same one."""
CONFIG = "config.xml"
TASKS = "tasks.json"
MEDIA = "media"
"""Names of the files and the folder with pictures and clips."""

# Label Studio serves local files at this address, if they are below the document root and in a
# project's storage: https://labelstud.io/guide/storage#Local-storage
_LOCAL_FILES = "/data/local-files/?d="
_SERVING = "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED"
_ROOT = "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT"
# Label Studio imports 25,000 tasks in about half a minute.
_TIMEOUT_S = 600
# Maximum length of Label Studio's explanation in a message, in characters.
_LONGEST_REPLY = 500


def media_address(out: Path, name: str) -> str:
    """Return the address of a picture or clip in Label Studio.

    The document root is the folder around `out`, so that one Label Studio can serve several
    folders with tasks.
    """
    return f"{_LOCAL_FILES}{quote(out.resolve().name)}/{MEDIA}/{quote(name)}"


def setup_steps(out: Path) -> list[str]:
    """Return what a person does to label a folder's tasks in Label Studio, in this order."""
    steps = [
        f"Start Label Studio: {_start(out)}",
        f"Create a project. Under Labeling Setup > Custom template, paste {CONFIG}.",
    ]
    if _media_files(out):
        steps.append(
            "Settings > Cloud Storage > Add Source Storage > Local Files: enter the absolute local "
            f"path {out.resolve() / MEDIA}. On the last page, choose Save, not Save & Sync."
        )
    steps.append(f"Import {TASKS}.")
    return [
        "To label them in Label Studio:",
        *(f"{number}. {step}" for number, step in enumerate(steps, 1)),
        f"Instead of steps 2 to {len(steps)}, you can set {TOKEN} to an access token, "
        "and repeat this command with --url http://127.0.0.1:8080.",
    ]


def _start(out: Path) -> str:
    """Return the command that starts Label Studio."""
    root = shlex.quote(str(out.resolve().parent))
    return f"{_SERVING}=true {_ROOT}={root} label-studio start"


def _media_files(out: Path) -> list[Path]:
    """Return the pictures and clips of a folder with tasks."""
    return sorted((out / MEDIA).glob("*"))


class LabelStudio:
    """A running Label Studio. The variable `TOKEN` contains an access token.

    Args:
        url: Address, such as ``http://127.0.0.1:8080``.

    Raises:
        LmmsEgoplanError: The address or the token is malformed, or there is no token.
    """

    def __init__(self, url: str) -> None:
        self._url = _checked_url(url)
        self._token = _token()
        self._redactor = Redactor([self._token])
        self._client = httpx.Client(timeout=_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def create_project(self, title: str, out: Path) -> str:
        """Create a project with storage and tasks from a folder. Return its address.

        Raises:
            LmmsEgoplanError: Label Studio cannot be reached, refuses a request, or does not serve
                the pictures and clips. The message names what was created.
        """
        self._authenticate()
        configuration = read_text(out / CONFIG)
        created = self._post("/api/projects/", {"title": title, "label_config": configuration})
        number = created.get("id")
        address = f"{self._url}/projects/{number}"
        try:
            self._fill(number, out)
        except LmmsEgoplanError as error:
            raise LmmsEgoplanError(
                f"{error}. The new project {address} is incomplete: delete it, and repeat the "
                "command"
            ) from error
        return address

    def _authenticate(self) -> None:
        """Send the token with all later requests.

        Personal access tokens are JSON Web Tokens, with which one gets another one that is valid
        for minutes: https://labelstud.io/guide/access_tokens
        """
        if self._token.count(".") != 2:
            self._client.headers["Authorization"] = f"Token {self._token}"
            return
        access = self._post("/api/token/refresh/", {"refresh": self._token}).get("access")
        self._redactor = Redactor([self._token, str(access)])
        self._client.headers["Authorization"] = f"Bearer {access}"

    def _fill(self, number: Any, out: Path) -> None:
        """Add storage and tasks to a project."""
        media = _media_files(out)
        if media:
            storage = {
                "project": number,
                "title": MEDIA,
                "path": str(out.resolve() / MEDIA),
                "use_blob_urls": True,
            }
            self._post("/api/storages/localfiles/", storage, hint=f"Start it with {_start(out)}")
            self._check_media(media[0], out)
        tasks = json.loads(read_text(out / TASKS))
        count = self._post(f"/api/projects/{number}/import", tasks).get("task_count")
        if count != len(tasks):
            raise self._failed(f"imported {count} of {len(tasks)} tasks")

    def _check_media(self, file: Path, out: Path) -> None:
        """Check that Label Studio serves a file."""
        response = self._send("GET", media_address(out, file.name))
        if response.status_code != httpx.codes.OK or response.content != file.read_bytes():
            raise self._failed(
                f"does not serve {file} (status {response.status_code}). Start it with "
                f"{_start(out)}"
            )

    def _post(
        self, path: str, body: Mapping[str, Any] | Sequence[Any], *, hint: str = ""
    ) -> dict[str, Any]:
        """Send a request, and return the reply.

        Args:
            hint: What to do if Label Studio refuses the request.
        """
        response = self._send("POST", path, json=body)
        try:
            reply = response.json()
        except ValueError:
            reply = None
        if response.is_success and isinstance(reply, dict):
            return reply
        problem = f"{path}: status {response.status_code}: {_explanation(reply)}"
        raise self._failed(f"{problem}. {hint}" if hint else problem)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, self._url + path, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            problem = f"{path}: {type(error).__name__}: {error}. Check that it runs there"
            raise self._failed(problem) from None

    def _failed(self, problem: str) -> LmmsEgoplanError:
        return LmmsEgoplanError(self._redactor.in_error(f"Label Studio at {self._url}: {problem}"))


def _explanation(reply: Any) -> str:
    """Return the first line of a refusal."""
    if not isinstance(reply, dict):
        return "not a reply of Label Studio's API"
    details = reply.get("validation_errors") or reply.get("detail") or ""
    field = ""
    # Validation errors are lists of texts, by field or without.
    if isinstance(details, dict):
        field, details = next(iter(details.items()))
    if isinstance(details, list):
        details = " ".join(map(str, details))
    first_line = str(details).partition("\n")[0].rstrip(".")[:_LONGEST_REPLY]
    return f"{field}: {first_line}" if field else first_line


def _checked_url(url: str) -> str:
    """Check an address, and return it without a final slash."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or "@" in parts.netloc or parts.query or parts.fragment:
        raise LmmsEgoplanError(
            "--url must be an address like http://127.0.0.1:8080, without user and query"
        )
    return url.rstrip("/")


def _token() -> str:
    """Return the token in the environment."""
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise LmmsEgoplanError(
            f"--url needs an access token: set {TOKEN} to one from Label Studio, Account & Settings"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise LmmsEgoplanError(f"{TOKEN} must be printable ASCII without spaces")
    return token
