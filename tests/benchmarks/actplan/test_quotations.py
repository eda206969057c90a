"""Quotations in the README and in the notes on the tables occur in the paper."""

import json
import re
from pathlib import Path

import pytest

from lmms_egoplan import report
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from shared_data import PAPERS

PAPER = PAPERS / "004_b6a630ce49eacae2.txt"
TABLES = Path(report.__file__).parent / "actplan" / "published" / "tables.json"


def prose():
    """Yield the README without its code, and the notes on the tables."""
    readme = (LMMS_EVAL_TASKS / "actplan" / "README.md").read_text(encoding="utf-8")
    yield re.sub(r"```.*?```|`[^`]*`", "", readme, flags=re.DOTALL)
    for table in json.loads(TABLES.read_text(encoding="utf-8")).values():
        yield from table["notes"]


@pytest.mark.skipif(not PAPER.is_file(), reason="needs ../shared/papers")
def test_quotations_are_the_papers_words():
    paper = " ".join(PAPER.read_text(encoding="utf-8").split())
    quotations = [
        words for text in prose() for words in re.findall(r'"([^"]+)"', " ".join(text.split()))
    ]
    assert len(quotations) > 30
    assert [words for words in quotations if words not in paper] == []
