"""Replace random tokens by fixed ones, so that pages and databases can be compared."""

import random
import secrets
from base64 import urlsafe_b64encode

_BYTES = 32
_generator = random.Random(0)


def fix_tokens() -> None:
    """Let the module ``secrets`` return the same tokens in each run, from the first one on."""
    _generator.seed(0)
    secrets.token_bytes = _token_bytes
    secrets.token_hex = _token_hex
    secrets.token_urlsafe = _token_urlsafe


def _token_bytes(nbytes: int | None = None) -> bytes:
    return _generator.randbytes(nbytes or _BYTES)


def _token_hex(nbytes: int | None = None) -> str:
    return _token_bytes(nbytes).hex()


def _token_urlsafe(nbytes: int | None = None) -> str:
    return urlsafe_b64encode(_token_bytes(nbytes)).rstrip(b"=").decode()
