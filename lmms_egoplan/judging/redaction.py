"""Remove keys, headers and proxies' passwords that the user set from what an endpoint says."""

import base64
import html
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote
from urllib.request import getproxies

from lmms_egoplan.judging.settings import NO_KEY

_SHOWN = "[API key]"
# Shorter ones are placeholders of local servers ("EMPTY"), which may well be words of a reply.
_SHORTEST_IN_REPLIES = 8
_SHORTEST_IN_BASE64 = 4
# Headers that hold no secret.
_OPEN_HEADERS = ("accept", "content-type", "user-agent")
_RATING = re.compile(r"(\[\[\s*[0-9]{1,3}(?:\.[0-9]*)?\s*\]\])")


class Redactor:
    """Replaces secrets, as they are and as JSON, URLs, HTML and base64 spell them; and names, in errors alone."""

    def __init__(self, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        kept = {secret for secret in secrets if secret.strip()}
        self._all = _pattern(kept | {name for name in names if name.strip()})
        long = [secret for secret in kept if len(secret) >= _SHORTEST_IN_REPLIES]
        self._long = _pattern(long)
        self._escaped = re.compile("|".join(map(_with_escapes, long)) or r"(?!)", re.IGNORECASE)

    def in_error(self, text: str) -> str:
        """Remove secrets of any length; those under 8 characters only as whole words."""
        return self._all.sub(_SHOWN, self._unescaped(text))

    def in_reply(self, text: str) -> str:
        """Remove secrets of 8 characters or more; a rating, ``[[0.5]]``, stays."""
        parts = _RATING.split(self._unescaped(text))
        return "".join(part if place % 2 else self._long.sub(_SHOWN, part) for place, part in enumerate(parts))

    def _unescaped(self, text: str) -> str:
        r"""Remove secrets of 8 characters or more that JSON's escapes hide, such as ``\u0073k-...`` and ``a\/b``."""
        return self._escaped.sub(_SHOWN, text) if "\\" in text else text


def _with_escapes(secret: str) -> str:
    return "".join(rf"(?:\\?{re.escape(letter)}|\\u{ord(letter):04x})" for letter in secret)


def _pattern(secrets: Iterable[str]) -> re.Pattern[str]:
    spelled = {form for secret in secrets for form in _spellings(secret)}
    longest_first = sorted(spelled, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_whole, longest_first)) or r"(?!)")


def _spellings(secret: str) -> Iterable[str]:
    yield from (secret, json.dumps(secret)[1:-1], quote(secret), quote(secret, safe=""), html.escape(secret))
    if len(secret) >= _SHORTEST_IN_BASE64:
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(secret.encode()).decode().rstrip("=")


def _whole(form: str) -> str:
    escaped = re.escape(form)
    return escaped if len(form) >= _SHORTEST_IN_REPLIES else rf"(?<!\w){escaped}(?!\w)"


def secrets_in(key: str, headers: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the secrets of a client, and the users of the environment's proxies.

    Secrets are the key, what the environment puts into headers, alone and with what precedes it there, and the proxies'
    passwords, alone and with the user, as they are written and as they are sent.
    """
    secrets = [] if key == NO_KEY else [key, f"Bearer {key}"]
    for name, value in headers.items():
        plain = name.lower()
        if not (plain in _OPEN_HEADERS or plain.startswith("x-stainless") or value == f"Bearer {NO_KEY}"):
            secrets += [value, value.partition(" ")[2] if plain.endswith("authorization") else ""]
    users = []
    for url in getproxies().values():
        user_info = url.rpartition("@")[0].rpartition("//")[2]
        for text in (user_info, unquote(user_info)):
            user, _, password = text.partition(":")
            users.append(user)
            secrets += [text, password]
    return secrets, users
