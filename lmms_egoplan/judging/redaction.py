"""Replace keys and other secrets in texts of endpoints."""

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote
from urllib.request import getproxies

from lmms_egoplan.judging.settings import NO_KEY

_REPLACEMENT = "[API key]"
# Shorter keys are placeholders for local servers ("EMPTY"), which may occur as words in a reply.
_SHORTEST_IN_REPLIES = 8
_SHORTEST_IN_BASE64 = 4
# Headers without secrets.
_OPEN_HEADERS = ("accept", "content-type", "user-agent")
_RATING = re.compile(r"(\[\[\s*[0-9]{1,3}(?:\.[0-9]*)?\s*\]\])")


class Redactor:
    """Replace secrets, also as spelled in JSON, URLs, HTML and base64.

    User names are replaced only in errors.
    """

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        nonblank = {secret for secret in secrets if secret.strip()}
        self._all = _pattern(nonblank | {name for name in names if name.strip()})
        long = [secret for secret in nonblank if len(secret) >= _SHORTEST_IN_REPLIES]
        self._long = _pattern(long)
        self._escaped = re.compile("|".join(map(_with_escapes, long)) or r"(?!)", re.IGNORECASE)

    def in_error(self, text: str) -> str:
        """Replace secrets of any length; those under 8 characters only as whole words."""
        return self._all.sub(_REPLACEMENT, self._unescaped(text))

    def in_reply(self, text: str) -> str:
        """Replace secrets of 8 characters or more, but never a rating such as ``[[0.5]]``."""
        parts = _RATING.split(self._unescaped(text))
        return "".join(
            part if index % 2 else self._long.sub(_REPLACEMENT, part)
            for index, part in enumerate(parts)
        )

    def _unescaped(self, text: str) -> str:
        r"""Replace long secrets hidden by JSON escapes, such as ``\u0073k-...`` and ``a\/b``."""
        if "\\" not in text:
            return text
        return self._escaped.sub(_REPLACEMENT, text)


def _with_escapes(secret: str) -> str:
    return "".join(rf"(?:\\?{re.escape(letter)}|\\u{ord(letter):04x})" for letter in secret)


def _pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    spelled = {form for secret in secrets for form in _spellings(secret)}
    longest_first = sorted(spelled, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_whole, longest_first)) or r"(?!)")


def _spellings(secret: str) -> Iterable[str]:
    yield from (
        secret,
        json.dumps(secret)[1:-1],
        quote(secret),
        quote(secret, safe=""),
        html.escape(secret),
    )
    if len(secret) >= _SHORTEST_IN_BASE64:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(secret.encode()).decode().rstrip("=")


def _whole(form: str) -> str:
    escaped = re.escape(form)
    return escaped if len(form) >= _SHORTEST_IN_REPLIES else rf"(?<!\w){escaped}(?!\w)"


def secrets_in(key: str, headers: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the secrets of a client, and the user names of the environment's proxies.

    Secrets are:

    - the key;
    - header values from the environment, with and without their scheme (``Bearer``);
    - passwords of proxies, with and without the user name, URL-encoded and decoded.
    """
    secrets = [] if key == NO_KEY else [key, f"Bearer {key}"]
    for name, value in headers.items():
        plain_name = name.lower()
        is_open = plain_name in _OPEN_HEADERS or plain_name.startswith("x-stainless")
        if is_open or value == f"Bearer {NO_KEY}":
            continue
        secrets.append(value)
        if plain_name.endswith("authorization"):
            _, _, without_scheme = value.partition(" ")
            secrets.append(without_scheme)
    users = []
    for url in getproxies().values():
        user_info = url.rpartition("@")[0].rpartition("//")[2]
        for text in (user_info, unquote(user_info)):
            user, _, password = text.partition(":")
            users.append(user)
            secrets += [text, password]
    return secrets, users
