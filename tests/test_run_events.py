"""Warnings and judgements reach ``lmms-egoplan run`` through a file."""

import os
import subprocess
import sys

from lmms_egoplan.run_events import EVENTS, JUDGEMENT, WARNING, EventReader, record_event

HARNESS = """
from loguru import logger
from lmms_egoplan.judging.judge import warn_of_missing_ratings
from lmms_egoplan.run_events import forward_warnings
logger.remove()
forward_warnings()
forward_warnings()
logger.warning("of the harness")
warn_of_missing_ratings("EgoThink", ["existence/1"], 2, "answers")
"""


def test_events_are_read_once_and_whole(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    reader = EventReader(path)
    assert list(reader.read()) == []
    record_event(JUDGEMENT, key="lost")  # no run wants it
    monkeypatch.setenv(EVENTS, str(path))
    record_event(JUDGEMENT, key="a")
    with path.open("a") as file:
        file.write('[3]\n{"kind": "judg')
    assert [event["key"] for event in reader.read()] == ["a"]
    assert list(reader.read()) == []
    with path.open("a") as file:
        file.write('ement", "time": 1, "key": "b"}\n')
    assert [event["key"] for event in reader.read()] == ["b"]


def test_only_warnings_of_this_package_are_forwarded_each_once(tmp_path):
    path = tmp_path / "events.jsonl"
    subprocess.run(
        [sys.executable, "-c", HARNESS], env=os.environ | {EVENTS: str(path)}, check=True
    )
    (event,) = EventReader(path).read()
    assert event["kind"] == WARNING
    assert event["text"].startswith("EgoThink: 1 of 2 answers are not judged")
