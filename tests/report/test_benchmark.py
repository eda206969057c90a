"""A small benchmark's part of a report, as the benchmark's author would write it."""

import math
from dataclasses import dataclass

import pytest

from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_replies
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.report.answers import read_answers
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.compact import compact_table
from lmms_egoplan.report.document import ShownAnswer
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.pairs import compared
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.scores import Answer, ScoredTask, mean_of
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Column, number, table_of_runs
from lmms_egoplan.stats.means import Mean
from report.synthetic import write_run

COUNT = 90


@dataclass(frozen=True)
class Letters(ScoredTask):
    """A run's task with written letters."""

    @property
    def main(self):
        return (
            mean_of([*self.answers.values()], "acc", top=1)
            if self.answers
            else Mean(self.number("acc"))
        )

    @property
    def coverage(self):
        return self.number("coverage")


def answer_of(sample):
    """Read a logged sample."""
    scored, number = sample["acc"], sample["details"]["predictions"]["sample_id"]
    scores = {"acc": scored["score"]}
    return Answer(
        (number,), str(number), f"question {number}", sample["target"], scores, scored["cluster"]
    )


class LettersReport(BenchmarkReport[Letters]):
    """The complete report of a small benchmark."""

    SPEC = Spec(
        name="letters",
        title="Letters",
        lead="Which letter is right?",
        metric="acc",
        decimals=2,
        measure="acc",
        compact_title="Letters",
        compact_main="acc",
        top=1,
    )

    def read(self, runs):
        return [
            Letters(run.name, run, read_answers(run, task_run, answer_of), task_run)
            for run in runs
            for task_run in run.tasks.values()
            if task_run.scoring.name == "egoplan_replies"
        ]

    def tables(self):
        columns = (
            Column("model", "Run"),
            Column("acc", "Accuracy", 2),
            Column("low", "Low", 2),
            Column("high", "High", 2),
        )
        rows = [{"model": task.name} | task.main.cells("acc") for task in self.tasks]
        yield table_of_runs("letters", "Accuracy", columns, rows)
        yield compared(self.tasks, "acc", "letters_pairs", "Every pair of runs", 2, "videos")

    def cells(self, task, block):
        return {"acc": number(task.number("acc"), 2)}

    def question(self, key, answers):
        return {"question": f"Question {key[0]}", "facts": {}}

    def gallery_answer(self, answer):
        return ShownAnswer("right" if answer.scores["acc"] else "wrong", answer.record)


def test_a_benchmark_report_has_section_gallery_and_compact_table(tmp_path):
    for seed, name in enumerate(("One-7B", "Two-7B")):
        write_run(
            tmp_path,
            "lmms-eval",
            f"org/{name}",
            {"egoplan_val_generate": egoplan_replies(COUNT, 0.6, seed)},
        )
    runs = read_runs([tmp_path]).runs
    report = LettersReport(runs)
    section = build_section(report)
    assert [table.key for table in section.tables] == ["letters", "letters_pairs"]
    accuracies = {run.name: run.tasks["egoplan_val_generate"].metrics["acc"] for run in runs}
    assert {headline.run: headline.value for headline in section.headlines} == accuracies
    assert all(
        headline.interval[0] <= headline.value <= headline.interval[1]
        for headline in section.headlines
    )
    assert [item.key for item in gallery_items(report)] == [
        f"letters/{number}" for number in range(1, COUNT + 1)
    ]
    assert {*gallery_items(report)[0].answers} == {
        (name, "egoplan_val_generate") for name in accuracies
    }
    assert compact_table(report).rows[1].values == (
        "  acc",
        *(f"{value:.2f}" for value in accuracies.values()),
    )


def test_scores_that_are_no_numbers_are_left_out():
    answers = [
        Answer((number,), str(number), "", None, {"acc": score}, f"video {number}")
        for number, score in enumerate([1.0, 0.0] * 10 + [None, math.nan, math.inf, -math.inf])
    ]
    for top in (1, None):
        assert mean_of(answers, "acc", top=top) == mean_of(answers[:20], "acc", top=top)
    assert mean_of(answers[20:], "acc", top=1) == Mean(questions=0, clusters=0)


def test_runs_without_the_benchmarks_tasks_have_no_part():
    report = LettersReport([])
    assert (report.tasks, build_section(report), gallery_items(report)) == ([], None, [])


@pytest.mark.parametrize("judge", [DEMO, "org/judge"])
@pytest.mark.parametrize("has_unaltered", [False, True])
def test_flaws_of_shortcut_conditions_are_named(tmp_path, judge, has_unaltered):
    answers = {"egointent_reversed": egointent_answers(12, 40, seed=2, judge=judge, unjudged=0.5)}
    unaltered = {"egointent": egointent_answers(12, 50, seed=1)} if has_unaltered else {}
    write_run(tmp_path, "lmms-eval", "org/Model", unaltered | answers)
    section = build_section(EgoIntentReport(read_runs([tmp_path]).runs))
    assert [
        remark
        for remark in section.remarks
        if "Model (egointent_reversed)" in remark and "judged" in remark
    ]
    (table,) = (table for table in section.tables if table.key == "egointent_conditions")
    (figure,) = (figure for figure in section.figures if figure.key == "egointent_conditions")
    assert (DEMO in table.title, DEMO in figure.title) == (judge == DEMO, judge == DEMO)
