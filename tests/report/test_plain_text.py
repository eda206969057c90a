"""Runs without a chat template are marked, and those whose model has one are not compared."""

import json

import pytest

from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.result_table import result_table
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import remarks_of, scores_section
from lmms_egoplan.report.two_runs import compare_tasks
from report.synthetic import write_run

MARKS = {"Chat-1B": None, "Base-1B": "none", "Lost-1B": "not applied", "Lost-2B": "not applied"}
MARK = "no chat template"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    for seed, (name, mark) in enumerate(MARKS.items()):
        tasks = {"egoplan_val": egoplan_answers(21, 0.4, seed), **egothink_bench(2, 0.6, seed)}
        path = write_run(folder / name, "lmms-eval", f"org/{name}", tasks)
        content = json.loads(path.read_text())
        for config in content["configs"].values():
            config["metadata"] |= {"chat_template": mark} if mark else {}
        path.write_text(json.dumps(content))
    return {run.name: run for run in read_runs([folder]).runs}


@pytest.mark.parametrize("benchmark", ["egoplan", "egothink"])
def test_every_kind_of_table_has_the_mark(runs, benchmark):
    report = report_class(benchmark)([*runs.values()])
    texts = {line.run: f"{line.protocol} {line.apart} {line.remarks}" for line in report.headlines}
    assert {name: MARK in text for name, text in texts.items()} == {
        name: bool(mark) for name, mark in MARKS.items()
    }
    assert {line.run for line in report.headlines if MARK in line.apart} == {"Lost-1B", "Lost-2B"}
    result = result_table([scores_section(report)])
    assert sum(MARK in note for note in result.footnotes) == 2
    assert sum(MARK in column.protocol for column in result.columns) == 1
    (has_none,) = [text for text in remarks_of(report) if "Base-1B" in text and MARK in text]
    (has_one,) = [text for text in remarks_of(report) if "Lost-2B" in text and MARK in text]
    assert has_none.partition(":")[2] != has_one.partition(":")[2]


def test_a_template_that_was_not_applied_is_another_condition(runs):
    (egoplan,) = (benchmark for benchmark in BENCHMARKS if benchmark.name == "egoplan")
    for first, second, is_comparable in (
        ("Chat-1B", "Base-1B", True),
        ("Chat-1B", "Lost-1B", False),
        ("Base-1B", "Lost-1B", False),
        ("Lost-1B", "Lost-2B", True),
    ):
        notes = " ".join(compare_tasks(runs[first], runs[second], [egoplan], 5)[0].notes)
        assert ("egoplan_val is not comparable: chat templates" not in notes) == is_comparable, (
            first,
            second,
        )
