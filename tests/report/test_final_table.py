"""A run ends in one table with a row per benchmark."""

import math
import re

from rich.console import Console

from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.final_table import print_final_table
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.terminal import sections_of
from report.reading import all_tasks
from report.synthetic import write_run

ASKED = {
    "egoplan_val": 30,
    "egoplan_val_generate": 30,
    "egothink_bench": 36,
    "egointent": 10,
    "actplan": 12,
    "actplan_text_only": 12,
}


def rows_of(folder, asked, capsys):
    """Print the table of the only run in a folder, and return its rows by their first cell."""
    reports = list(read_reports(read_runs([folder]).runs, BENCHMARKS))
    print_final_table(sections_of(reports), asked, Console(width=300))
    lines = capsys.readouterr().out.splitlines()
    rows = [re.split(r"  +", line.strip()) for line in lines]
    assert rows[0] == ["Benchmark", "Score", "95 % interval", "Questions", "Remark"]
    return {row[0]: row[1:] for row in rows[2:]}


def test_each_benchmark_has_a_row(tmp_path, capsys):
    write_run(tmp_path, "lmms-eval", "org/Model-7B", all_tasks())
    rows = rows_of(tmp_path, ASKED, capsys)
    assert [*rows] == ["EgoPlan", "EgoThink", "EgoIntent", "ActPlan-1K"]
    assert re.search(r"egoplan_val_generate: \d", rows["EgoPlan"][3])
    assert re.search(r"actplan_text_only: \d", rows["ActPlan-1K"][3])
    for score, interval, questions, *remark in rows.values():
        assert questions.isdecimal()
        if interval == "none":
            assert "no interval: " in remark[0]
        else:
            low, high = map(float, interval.split(" to "))
            assert low <= float(score) <= high
    assert rows["EgoThink"][2] == "36"


def test_remarks_name_what_a_score_does_not_cover(tmp_path, capsys):
    answers = egothink_bench(5, 0.6, unjudged=0.3, truncated=0.2)
    write_run(tmp_path, "lmms-eval", "org/Model-7B", answers)
    (row,) = rows_of(tmp_path, {"egothink_bench": 60}, capsys).values()
    remark = row[-1].split("; ")
    unrated = 60 - int(row[2])
    assert unrated > 0
    assert f"{unrated} without a score" in remark
    truncated = sum(
        '"truncated": true' in response
        for part in answers.values()
        for (response,) in part.responses
    )
    assert f"{truncated} truncated" in remark
    assert math.isfinite(float(row[0]))
