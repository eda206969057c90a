"""The table of deviations from published pipelines is the computed one."""

import runpy
from pathlib import Path

import pytest

from benchmarks.egoplan.bench2_questions import EXAMPLES
from benchmarks.egoplan.derived_questions import DATA, available

SCRIPT = Path(__file__).parents[1] / "docs" / "deviations.py"


@pytest.mark.nightly
@pytest.mark.skipif(
    not (available() and EXAMPLES.exists()), reason=f"needs the public annotations in {DATA}"
)
def test_the_table_is_up_to_date():
    script = runpy.run_path(str(SCRIPT))
    assert script["page"]() == script["PAGE"].read_text(encoding="utf-8"), (
        "run python docs/deviations.py"
    )
