"""Compare each benchmark's scores, differences and slices in ``report.json`` with values from its
samples.
"""

from dataclasses import replace

import pytest

from lmms_egoplan.report.sections import build_section
from lmms_egoplan.stats.intervals import compare
from report.joined import near, rows
from report.printed_tables import DESCRIBED, load
from report.report_json import attributes, benchmark_of, groups, named


@pytest.fixture(scope="module")
def benchmark(any_small):
    return benchmark_of(any_small.section, any_small.runs)


@pytest.fixture(scope="module")
def counting(any_small):
    return any_small.counting


@pytest.fixture(scope="module")
def answers(any_small):
    return any_small.counting.answers(any_small.folder)


def of_run(answers, run):
    """Return a run's answers to its main task."""
    return answers.get(run) or next(
        of_task for name, of_task in answers.items() if name.startswith(f"{run} (")
    )


def test_scores_are_those_of_the_samples(benchmark, counting, answers):
    # main tasks last
    scores = {named(score, answers): score for score in reversed(benchmark["scores"])}
    assert scores.keys() >= {*answers, *counting.WITHOUT_SAMPLES}
    for name, run_answers in answers.items():
        assert (scores[name]["value"], scores[name]["questions"]) == counting.mean_and_count(
            run_answers
        )
        assert scores[name]["task"] == (
            name[:-1].rpartition("(")[2] if name.endswith(")") else counting.TASK
        )
        assert (scores[name]["metric"], scores[name]["decimals"]) == counting.HEADLINE
        assert scores[name]["coverage"] == near(
            counting.coverage(run_answers, scores[name]["task"])
        )
        assert scores[name]["truncated"] == near(counting.truncated(run_answers))
        counting.check_score(scores[name], run_answers)
    for name in counting.WITHOUT_SAMPLES:
        assert (scores[name]["low"], scores[name]["high"], scores[name]["no_interval"]) == (
            None,
            None,
            "no samples",
        )


def test_differences_include_only_answers_with_scores_in_both_runs(benchmark, counting, answers):
    tasks = {score["run"]: score["task"] for score in reversed(benchmark["scores"])}
    pairs = [pair for pair in benchmark["differences"] if pair["task"] in tasks.values()]
    assert len(pairs) == counting.PAIRS
    for pair in pairs:
        both = zip(of_run(answers, pair["first"]), of_run(answers, pair["second"]), strict=True)
        scored = [
            (first, second)
            for first, second in both
            if None not in (first["score"], second["score"])
        ]
        values = [first["score"] - second["score"] for first, second in scored]
        assert pair["value"] == near(counting.difference(values, [first for first, _ in scored]))
        counted = (
            len(values),
            sum(value > 0 for value in values),
            sum(value < 0 for value in values),
        )
        assert (pair["questions"], pair["won"], pair["lost"]) == counted
        counting.check_pair(pair)


def test_tests_include_only_questions_with_scores_in_both_runs(any_small, counting, answers):
    pairs = rows(any_small.section, f"{any_small.report.SPEC.name}_comparisons")
    assert len(pairs) == counting.COMPARED
    for pair in pairs:
        first, second = (
            {
                str(answer[counting.ID]): answer["score"]
                for answer in counting.known(of_run(answers, pair[side]))
            }
            for side in ("first", "second")
        )
        both = of_run(answers, pair["first"])
        clusters = {str(answer[counting.ID]): str(answer[counting.CLUSTER]) for answer in both}
        expected = compare(first, second, clusters)
        assert (pair["questions"], pair["difference"]) == (
            expected.questions,
            near(expected.difference),
        )
        if pair["verdict"].startswith("not comparable"):
            assert (pair["test"], pair["p_value"], pair["p_holm"]) == (None, None, None)
        else:
            assert (pair["test"], pair["p_value"]) == (
                expected.test,
                pytest.approx(expected.p_value, abs=0.01),
            )


def test_slices_are_those_of_the_samples(benchmark, any_small, counting, answers):
    assert attributes(benchmark) == list(counting.ATTRIBUTES)
    for attribute, group_of, names in counting.GROUPS:
        members = groups(benchmark, attribute, answers)
        assert members.keys() == {
            (group_of(answer), run) for run, scored in answers.items() for answer in scored
        }
        for (group, run), score in members.items():
            group_answers = [answer for answer in answers[run] if group_of(answer) == group]
            assert (score["value"], score["questions"]) == counting.mean_and_count(group_answers)
            counting.check_ends_of_slice(score, group_answers, any_small.section, attribute)
        order = list(dict.fromkeys(group for group, _ in members))
        assert not names or order == [name for name in names if name in order]


def test_slices_by_labels_include_only_labelled_answers(any_small, counting, answers, tmp_path):
    labelled = counting.write_labels(tmp_path, answers.get(counting.LABELLED))
    inputs = replace(any_small.inputs, labelled={tmp_path: any_small.report.SPEC.name})
    benchmark = benchmark_of(
        build_section(any_small.report(any_small.runs, inputs)), any_small.runs
    )
    assert {*attributes(benchmark)} - {*counting.ATTRIBUTES} == {*labelled}
    for attribute, by_group in labelled.items():
        members = groups(benchmark, attribute, answers)
        assert list(dict.fromkeys(group for group, _ in members)) == [*by_group]
        assert {run for _, run in members} == {
            counting.LABELLED,
            *(() if counting.IS_LABELLED_ALONE else answers),
        }
        for group, group_answers in by_group.items():
            score = members[group, counting.LABELLED]
            assert (score["value"], score["questions"]) == counting.mean_and_count(group_answers)
            counting.check_ends_of_slice(score, group_answers, any_small.section, attribute)


def test_published_rows_do_not_change(any_small):
    """They have no values in the columns of own runs."""
    stems = [stem for stem in DESCRIBED if stem.startswith(f"{any_small.report.SPEC.name}_")]
    keys = {table.key for table in any_small.section.tables}
    assert any_small.counting.TABLE in keys & {*stems}
    for stem in keys & {*stems}:
        table = load(stem)
        published_rows = [row for row in rows(any_small.section, stem) if not row["is_ours"]]
        published = [[row[column] for column in table.columns] for row in table.rows]
        assert sorted(
            [row[column] for column in table.columns] for row in published_rows
        ) == sorted(published), stem
        keys_of_runs = {key for row in published_rows for key in row} - {
            *table.columns,
            *table.unprinted,
            "is_ours",
        }
        assert all(row[key] is None for row in published_rows for key in keys_of_runs)
