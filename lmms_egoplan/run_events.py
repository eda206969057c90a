"""Pass warnings and judgements from a harness's processes to ``lmms-egoplan run``.

``lmms-egoplan run`` names a file in the variable `EVENTS`. Each process of the harness appends its
events, one JSON object per line.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from loguru import logger

from lmms_egoplan.jsonl import decode

EVENTS = "LMMS_EGOPLAN_RUN_EVENTS"
WARNING = "warning"
JUDGEMENT = "judgement"


def record_event(kind: str, **values: Any) -> None:
    """Append an event. Do nothing outside ``lmms-egoplan run``."""
    path = os.environ.get(EVENTS)
    if path:
        line = json.dumps({"kind": kind, "time": time.time(), **values})
        # What a run prints is worth less than the run.
        with suppress(OSError), Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


@cache
def forward_warnings() -> None:
    """Record this package's warnings and errors of this process as events.

    Call this function after the harness has set up its log, since it removes all others.
    """
    if os.environ.get(EVENTS):
        logger.add(_record_warning, level="WARNING", filter="lmms_egoplan", format="{message}")


def _record_warning(message: Any) -> None:
    record = message.record
    record_event(WARNING, text=record["message"], place=f"{record['name']}:{record['line']}")


class EventReader:
    """Reads the events that are appended to a file."""

    def __init__(self, path: Path) -> None:
        """Begin with the first event. The file may be missing."""
        self._path = path
        self._position = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the events since the last call, except incomplete lines."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._position += len(line)
                with suppress(ValueError):
                    event = decode(line)
                    if isinstance(event, dict) and {"kind", "time"} <= event.keys():
                        yield event
