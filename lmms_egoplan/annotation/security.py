"""Control access: links, cookies, signed forms, known hosts and response headers."""

import hmac
from collections.abc import Collection
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmms_egoplan.annotation.pages import message_page
from lmms_egoplan.annotation.store import Person, Store

# Maximum size of a form in bytes, and its maximum number of fields.
_LARGEST = 200_000
_MOST_FIELDS = 5000
# Headers of every response that does not set them itself.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self'; "
        "script-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Sent = dict[str, list[str]]
"""The fields of a form that a browser sent, each with its values."""


class Access:
    """Links and signatures of one database.

    Attributes:
        cookie: Name of the database's cookie. Cookies ignore ports, so servers of two databases
            need different names.
    """

    def __init__(self, store: Store) -> None:
        self._secret = store.database.setting("secret").encode()
        self.cookie = f"annotate-{store.database.mark}"
        # Keyed by digest, so the look-up time reveals nothing about a token.
        self._people = {_digest(person.token): person for person in store.people()}

    def person(self, token: str) -> Person | None:
        """Return the person whose link has this token, or None."""
        return self._people.get(_digest(token))

    def signature(self, text: str) -> bytes:
        """Sign a text with the database's secret."""
        return hmac.new(self._secret, text.encode(), sha256).digest()

    def csrf(self, person: Person) -> str:
        """Return the token that a person's forms must send back."""
        return self.signature(f"csrf {person.token}").hex()

    def check(self, person: Person, sent: Sent) -> None:
        """Check that a form comes from one of the person's pages.

        Raises:
            HTTPException: It does not.
        """
        if not hmac.compare_digest(self.csrf(person).encode(), first(sent, "csrf").encode()):
            raise HTTPException(
                403,
                "This form belongs to another page. Go back, reload the page and send it again.",
            )


async def read_form(request: Request) -> Sent:
    """Read a form that a browser sent.

    Raises:
        HTTPException: It is too large or malformed.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST:
            raise HTTPException(413, "The form is too large.")
    try:
        text = body.decode("utf-8")
        return parse_qs(
            text, keep_blank_values=True, strict_parsing=bool(body), max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error


def first(sent: Sent, name: str) -> str:
    """Return the first value of a field, or ""."""
    return sent.get(name, [""])[0]


class Guard:
    """Refuse requests for unknown hosts (DNS rebinding), and add missing `_HEADERS` to responses.

    Starlette's `TrustedHostMiddleware` compares with a list of names, so it cannot accept every IP
    address, and it answers without a page. Its `SessionMiddleware` has one cookie for all paths,
    but each link has its own path.

    Args:
        hosts: Accepted host names. IP addresses and ``localhost`` are always accepted.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = {"localhost", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._is_known(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send_with_headers)
        else:
            text = "This server has another name. Open your link exactly as you received it."
            refusal = HTMLResponse(message_page("Not shown", text, None), 421)
            await refusal(scope, receive, send_with_headers)

    def _is_known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "replace")).digest()
