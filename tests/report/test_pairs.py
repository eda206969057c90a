"""Tables of every pair of runs."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from lmms_egoplan.report.pairs import compared
from lmms_egoplan.report.run import Run, TaskRun
from lmms_egoplan.report.scores import Answer, ScoredTask
from lmms_egoplan.stats.intervals import compare, holm
from lmms_egoplan.stats.means import Mean

QUESTIONS = [f"q{number:03}" for number in range(120)]
CLUSTERS = {question: f"video {number % 30}" for number, question in enumerate(QUESTIONS)}


def run(share, seed, questions=QUESTIONS):
    source = random.Random(seed)
    return {question: float(source.random() < share) for question in questions}


SCORES = {"low": run(0.2, 0), "high": run(0.9, 1), "middle": run(0.5, 2), "alike": run(0.5, 3)}


@dataclass(frozen=True)
class Task(ScoredTask):
    """A task of a run, without a score of its own."""

    largest: ClassVar[float] = 1
    main = Mean()
    coverage = None


def tasks_of(scores, clusters=CLUSTERS, tasks=None):
    """Return one task per run; by default, all runs have the same task."""
    runs = []
    for name, of_run in scores.items():
        task = (tasks or {}).get(name, "task")
        answers = {
            (q,): Answer((q,), q, q, None, {"acc": value}, clusters[q])
            for q, value in of_run.items()
        }
        runs.append(
            Task(
                name,
                Run(name, Path(), "lm-eval", name, "", {}),
                answers,
                TaskRun(task, {}, {}, None),
            )
        )
    return runs


def table(scores, clusters=CLUSTERS, unit="clusters", tasks=None, **options):
    return compared(tasks_of(scores, clusters, tasks), "acc", "pairs", "Pairs", 1, unit, **options)


def values(pairs):
    keys = [column.key for column in pairs.columns]
    return [dict(zip(keys, row.values, strict=True)) for row in pairs.rows]


def test_every_pair_is_compared_once():
    pairs = table(SCORES)
    assert (pairs.key, pairs.title) == ("pairs", "Pairs")
    assert [column.key for column in pairs.columns] == [
        "first", "second", "questions", "difference", "low", "high", "test", "p_value",
        "p_holm", "verdict",
    ]  # fmt: skip
    assert {frozenset((row["first"], row["second"])) for row in values(pairs)} == {
        frozenset(pair)
        for pair in (
            ("low", "high"), ("low", "middle"), ("low", "alike"), ("high", "middle"),
            ("high", "alike"), ("middle", "alike"),
        )
    }  # fmt: skip
    for row in values(pairs):
        expected = compare(SCORES[row["first"]], SCORES[row["second"]], CLUSTERS)
        assert (row["difference"], row["low"], row["high"]) == (
            expected.difference,
            expected.low,
            expected.high,
        )
        assert (row["questions"], row["test"], row["p_value"]) == (
            120,
            "permutation",
            expected.p_value,
        )


def test_p_values_are_corrected_over_all_pairs_of_the_table():
    rows = values(table(SCORES))
    assert [row["p_holm"] for row in rows] == holm([row["p_value"] for row in rows])
    assert sum(row["p_holm"] > row["p_value"] for row in rows) >= 5


def test_pairs_that_are_not_comparable_have_no_verdict_and_take_no_part_in_the_correction():
    all_rows = {
        (row["first"], row["second"]): row
        for row in values(table(SCORES, tasks={"high": "another task"}))
    }
    comparable = {pair: row for pair, row in all_rows.items() if "high" not in pair}
    for pair in all_rows.keys() - comparable.keys():
        assert all_rows[pair]["verdict"] == "not comparable: different tasks"
        assert [all_rows[pair][name] for name in ("test", "p_value", "p_holm")] == [None] * 3
        assert all_rows[pair]["questions"] == 120
    alone = {
        (row["first"], row["second"]): row
        for row in values(table({name: SCORES[name] for name in SCORES if name != "high"}))
    }
    assert comparable == alone
    rows = values(table(SCORES, tasks={"high": "another task"}, of_tasks=True))
    assert not any(row["verdict"].startswith("not comparable") for row in rows)


def test_the_largest_difference_comes_first_whatever_its_sign():
    rows = values(table(SCORES))
    sizes = [abs(row["difference"]) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert (rows[0]["first"], rows[0]["second"]) == ("low", "high")
    assert rows[0]["difference"] < 0 < max(row["difference"] for row in rows)


def test_differences_are_scaled_and_p_values_are_not():
    for plain, scaled in zip(values(table(SCORES)), values(table(SCORES, scale=100)), strict=True):
        for key in ("difference", "low", "high"):
            assert scaled[key] == pytest.approx(100 * plain[key])
        for key in ("questions", "p_value", "p_holm"):
            assert scaled[key] == plain[key]


def test_no_difference_is_better_than_another():
    pairs = table(SCORES)
    assert pairs.marks() == {}
    assert [column.decimals for column in pairs.columns] == [
        None,
        None,
        None,
        1,
        1,
        1,
        None,
        4,
        4,
        None,
    ]


def test_pairs_without_a_common_question_are_omitted():
    half = {"early": run(0.5, 4, QUESTIONS[:50]), "late": run(0.5, 5, QUESTIONS[50:])}
    pairs = table({"all": SCORES["low"], **half})
    assert {(row["first"], row["second"], row["questions"]) for row in values(pairs)} == {
        ("all", "early", 50),
        ("all", "late", 70),
    }
    assert "p (Holm): corrected for 2 comparisons in this table." in pairs.notes
    assert table(half) is None


@pytest.mark.parametrize("scores", [{}, {"one": SCORES["low"]}, {"one": SCORES["low"], "none": {}}])
def test_fewer_than_two_runs_have_no_table(scores):
    assert table(scores) is None


def test_notes_name_the_clusters_and_the_tests():
    notes = " ".join(table(SCORES, unit="videos").notes)
    assert "2,000 bootstrap resamples of the videos" in notes
    assert "permutation: two-sided" in notes
    assert "McNemar" not in notes
    notes = " ".join(table(SCORES, {question: question for question in QUESTIONS}).notes)
    assert "McNemar: exact" in notes
    assert "permutation" not in notes


def test_notes_warn_only_if_there_is_a_reason():
    single_clusters = {question: question for question in QUESTIONS}
    similar_scores = {name: SCORES[name] for name in ("middle", "alike")}
    assert len(table(similar_scores, single_clusters).notes) == 5
    assert (
        "p (Holm): corrected for 1 comparison in this table."
        in table(similar_scores, single_clusters).notes
    )
    few = table(similar_scores, {question: CLUSTERS[question][-1] for question in QUESTIONS})
    (warning,) = (note for note in few.notes if "few clusters" in note)
    assert "few as 10)" in warning


def test_questions_of_one_cluster_have_no_interval():
    pairs = table(SCORES, dict.fromkeys(QUESTIONS, "the only video"), unit="videos")
    assert all(row["low"] is None and row["high"] is None for row in values(pairs))
    assert any(note.startswith("No interval") and "10 videos" in note for note in pairs.notes)
