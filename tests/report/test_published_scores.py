"""Published main scores under the tasks whose protocol their source does not contradict."""

from dataclasses import replace

import pytest

from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.ledger import read_ledger
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.published_scores import published_scores


def test_the_scores_of_the_papers_main_column_belong_to_the_first_task():
    spec = replace(report_class("egothink").SPEC, ledger_fields={})
    scores = published_scores(spec, ["egothink_bench", "another"])
    table = load_table("egothink", "table3")
    printed = sorted(table.scores(table.main), key=lambda score: -score[1])
    assert [(score.model, score.value) for score in scores] == printed
    assert {score.tasks for score in scores} == {("egothink_bench",)}
    assert {score.source for score in scores} == {table.source}


@pytest.mark.parametrize("name", ["egoplan", "egoplan_bench2", "egothink"])
def test_no_score_of_the_ledger_contradicts_its_task(name):
    spec = report_class(name).SPEC
    tasks = list(spec.ledger_fields)
    main = {subset for subset, metric in spec.subsets.items() if not metric}
    expected = set()
    for score in read_ledger():
        benchmark, subset, _ = score.group
        if benchmark != name or subset not in main:
            continue
        for task in tasks:
            stated = [(score.fields.get(key), own) for key, own in spec.ledger_fields[task].items()]
            if all(not text or text == own for text, own in stated):
                expected.add((task, score.cells["model"], score.cells["score"]))
    without_paper = replace(spec, reference=None)
    scores = published_scores(without_paper, tasks)
    assert {(task, x.model, x.text) for x in scores for task in x.tasks} == expected
    assert [x.value for x in scores] == sorted((x.value for x in scores), reverse=True)
    assert published_scores(spec, []) == ()
