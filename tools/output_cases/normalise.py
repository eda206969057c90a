"""Replace what differs between two runs of one tree: paths, times, durations, random tokens."""

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

# Times in the harnesses' and our own forms. Only times of the run itself are replaced.
_TIME = re.compile(
    r"""
    (?P<date> \d{4} -? \d{2} -? \d{2})
    (?: [T_:\x20] \d{2} [:-]? \d{2} (?: [:-]? \d{2} (?: \.\d+ )? )? )?
    (?: [+-]00:?00 | Z | \s UTC )?
    """,
    re.VERBOSE,
)
_SECONDS = re.compile(r"\b\d{10}(?:\.\d+)?\b")
# Characters of frames and bullets in help, whose lines may break elsewhere.
_FRAME = re.compile("[─-╿•]")
# A progress bar with its title, which is drawn again after any time.
_BAR = re.compile(r"\r*([^\r\n|]*?):?\s*(?:\d+%)?\|[ █▏▎▍▌▋▊▉#0-9]*\|\s*\d+/\d+ \[[^\]\r\n]*\]\s*")
_FINGERPRINT = re.compile(r'"fingerprint": "([0-9a-f]{64})"')
# Of a question with a fingerprint.
_DOC_HASH = re.compile(r'("doc_hash": ")[0-9a-f]{64}')
_BAR_END = re.compile(r"\|\s*\d+/\d+ \[")
_BARS = re.compile(r"(?m)(^.*: BAR\n)\1+")
# Each pattern with its replacement.
_REPLACED = (
    (re.compile(r"(127\.0\.0\.1|localhost):\d{4,5}"), r"\1:PORT"),
    (re.compile(r'(memory_ahead[\w,]*"?: )[\d.]+'), r"\1BYTES"),
    (re.compile(r"(ranking_memory_ahead[\s|]*)[\d.]+"), r"\1BYTES"),
    (
        re.compile(r'("(?:\w+_seconds|start_time|end_time)": "?)[\d.e-]+'),
        r"\1SECONDS",
    ),
    (re.compile(r"parameters trained; [\d.]+ s\."), "parameters trained; N s."),
    (re.compile(r"frame sets decoded, [\d.]+ s"), "frame sets decoded, N s"),
    (re.compile(r'("process": \[\s*)[\d.]+(,\s*[\d.]+)?'), r"\1PROCESS"),
    (re.compile(r"take ~[\d.]+ hours"), "take ~N hours"),
    (re.compile(r"Model: [\d.]+ s\. Action: [\d.]+ s\."), "Model: N s. Action: N s."),
    # lm-eval's hashes of all questions, which contain a fingerprint (`fingerprints`).
    (re.compile(r'("egoplan_val\w*": ")[0-9a-f]{64}'), r"\1HASH"),
    (re.compile(r'(<dt>seconds</dt><dd>|"seconds": "?)[\d.,]+'), r"\1SECONDS"),
    # Functions and lines of code before the messages of a log.
    (re.compile(r"(lmms_egoplan[\w.]*):\w+:\d+ - "), r"\1 - "),
    # A name that depends on a fingerprint (`fingerprints`).
    (re.compile(r"similarity/[0-9a-f]{16}\.json"), "similarity/KEY.json"),
    (re.compile(r"\bin \d+(\.\d+)? ?s\b"), "in N s"),
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
    name = _without_times(name, info)
    return re.sub(r"similarity/[0-9a-f]{16}\.json", "similarity/KEY.json", name)


def fingerprints(folder: Path) -> dict[str, str]:
    """Return replacements of the fingerprints of a case's prepared data.

    A fingerprint depends on the times of the media. The times of the demo's files are fixed. Those
    of frames that the demo or a test writes are not.
    """
    replacements = {}
    for path in sorted(folder.rglob("summary.json")):
        split = "/".join(path.parts[-3:-1])
        match = _FINGERPRINT.search(path.read_text(encoding="utf-8"))
        if match and (split == "egoplan/val" or "tests" in path.parts):
            replacements[match[1]] = f"FINGERPRINT of {split}"
    return replacements


def normalise(text: str, info: dict[str, Any], name: str) -> str:
    """Return the text without what must differ."""
    text = text.replace(info["root"], "ROOT")
    for fingerprint, replacement in info.get("fingerprints", {}).items():
        text = text.replace(fingerprint, replacement)
    text = _without_times(text, info)
    if _BAR_END.search(text):  # `_BAR` is slow on long lines
        text = _BARS.sub(r"\1", _BAR.sub(r"\1: BAR\n", text))
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    if "samples_egoplan_val" in name:
        text = _DOC_HASH.sub(r"\1HASH", text)
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
