"""EgoPlan's comparisons of runs and of tasks in the report."""

import pytest

from benchmarks.egoplan.report.synthetic_runs import ANSWERS, COUNT, MAIN, percent, scores
from benchmarks.egoplan.synthetic import egoplan_answers
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.report.benchmark import Inputs
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.statistics import holm
from report.joined import near, rows
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")


def test_pairs_of_tasks_of_a_model_in_both_harnesses(section):
    found = rows(section, "egoplan_tasks_1")
    names = {row["first"] for row in found} | {row["second"] for row in found}
    assert names == ANSWERS.keys() - {"Small"}
    assert len(found) == 10
    assert [row["p_holm"] for row in found] == holm([row["p_value"] for row in found])
    assert not [table.key for table in section.tables if table.key == "egoplan_tasks_2"]
    (seen,) = (row for row in found if {row["first"], row["second"]} == {MAIN[0], "Big (lm-eval) (egoplan_val_blind)"})
    expected = percent(scores(MAIN[0])) - percent(scores("Big (lm-eval) (egoplan_val_blind)"))
    assert abs(seen["difference"]) == near(abs(expected))


def test_runs_over_other_questions_are_not_compared(tmp_path, written, bert):
    write_run(tmp_path, "lmms-eval", "org/Other", {"egoplan_val": egoplan_answers(40, 0.5)})
    runs = read_runs([tmp_path, written / "runs"]).runs
    names = {
        row[side]
        for row in rows(EgoPlanReport(runs, Inputs(bert)).section(), "egoplan_comparisons")
        for side in ("first", "second")
    }
    assert names == {"Big (lmms-eval)", "Small"}
    keys = [item.key for item in EgoPlanReport(runs).items()]
    assert len(keys) == len(set(keys)) == COUNT + 40


def test_a_model_that_one_harness_tells_by_its_path(tmp_path, bert):
    write_run(tmp_path, "lmms-eval", "Big", {"egoplan_val": ANSWERS[MAIN[0]]})
    write_run(tmp_path, "lm-eval", "/models/Big", {"egoplan_val_blind": ANSWERS["Small"]})
    found = EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)).section()
    assert len(rows(found, "egoplan_tasks_1")) == 1


def test_the_end_of_two_paths_is_neither(tmp_path, bert):
    write_run(tmp_path, "lmms-eval", "Big", {"egoplan_val": ANSWERS[MAIN[0]]})
    for path in ("/one/Big", "/two/Big"):
        write_run(tmp_path, "lm-eval", path, {"egoplan_val_blind": ANSWERS["Small"]})
    keys = [table.key for table in EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)).section().tables]
    assert not [key for key in keys if key.startswith("egoplan_tasks")]
