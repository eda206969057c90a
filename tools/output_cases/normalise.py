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
# A progress bar with its title, which is drawn again after any time.
_BAR = re.compile(r"\r*([^\r\n|]*?):?\s*(?:\d+%)?\|[ █▏▎▍▌▋▊▉#0-9]*\|\s*\d+/\d+ \[[^\]\r\n]*\]\s*")
_BARS = re.compile(r"(?m)(^.*: BAR\n)\1+")
# Each pattern with its replacement.
_REPLACED = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d{4,5}"), r"\1:PORT"),
    (re.compile(r"\bin \d+(\.\d+)? s\b"), "in N s"),
    # A judgement's seconds and time in the cache.
    (re.compile(r"\d+(\.\d+)?(e-\d+)?, 'TIME'"), "SECONDS, 'TIME'"),
    (re.compile(r'("_fingerprint": ")[0-9a-f]{16}'), r"\1FINGERPRINT"),
    (re.compile(r"0x[0-9a-f]{6,}"), "0xADDRESS"),
    (
        re.compile(
            r"(train_(?:runtime|samples_per_second|steps_per_second)['\"]?: ['\"]?)[-+0-9.e]+"
        ),
        r"\1NUMBER",
    ),
)


def normalise_name(name: str, info: dict[str, Any]) -> str:
    """Return a file's name without times."""
    return _without_times(name, info)


def normalise(text: str, info: dict[str, Any], name: str) -> str:
    """Return the text without what must differ."""
    text = text.replace(info["root"], "ROOT")
    text = _without_times(text, info)
    text = _BARS.sub(r"\1", _BAR.sub(r"\1: BAR\n", text))
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
