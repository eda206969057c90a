"""Replace what differs between two runs of one tree: paths, times, durations, random tokens."""

import re
from datetime import datetime, timedelta, timezone
from typing import Any

# Times in the harnesses' and our own forms. Only times of the run itself are replaced.
_TIME = re.compile(
    r"""
    (?P<date> \d{4} -? \d{2} -? \d{2})
    (?: [T_ ] \d{2} [:-]? \d{2} (?: [:-]? \d{2} (?: \.\d+ )? )? )?
    (?: [+-]00:?00 | Z | \s UTC )?
    """,
    re.VERBOSE,
)
_SECONDS = re.compile(r"\b\d{10}(?:\.\d+)?\b")
# Characters of frames and bullets in help, whose lines may break elsewhere.
_FRAME = re.compile("[─-╿•]")
# Each pattern with its replacement.
_REPLACED = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d{4,5}"), r"\1:PORT"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
)


def normalise_name(name: str, info: dict[str, Any]) -> str:
    """Return a file's name without times."""
    return _without_times(name, info)


def normalise(text: str, info: dict[str, Any], name: str) -> str:
    """Return the text without what must differ."""
    text = text.replace(info["root"], "ROOT")
    text = _without_times(text, info)
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    if name.startswith("help/"):
        text = "\n".join(_FRAME.sub(" ", text).split())
    return text


def _without_times(text: str, info: dict[str, Any]) -> str:
    first = datetime.fromtimestamp(info["started"], timezone.utc) - timedelta(days=1)
    last = datetime.fromtimestamp(info["ended"], timezone.utc) + timedelta(days=1)
    days = {f"{first + timedelta(days=day):%Y%m%d}" for day in range((last - first).days + 1)}

    def replace_time(match: re.Match[str]) -> str:
        return "TIME" if match["date"].replace("-", "") in days else match[0]

    def replace_seconds(match: re.Match[str]) -> str:
        return "SECONDS" if first.timestamp() <= float(match[0]) <= last.timestamp() else match[0]

    return _SECONDS.sub(replace_seconds, _TIME.sub(replace_time, text))
