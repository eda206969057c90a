"""Each benchmark's scores, differences and slices in ``report.json``, compared with what its samples give."""

from dataclasses import replace

import pytest

from lmms_egoplan.report.statistics import compare
from report.joined import near, rows
from report.printed_tables import DESCRIBED, load
from report.report_json import attributes, benchmark_of, groups


@pytest.fixture(scope="module")
def benchmark(small):
    return benchmark_of(small.section, small.runs)


@pytest.fixture(scope="module")
def counting(small):
    return small.counting


@pytest.fixture(scope="module")
def answers(small):
    return small.counting.answers(small.folder)


def of_run(answers, run):
    """A run's answers to its main task."""
    return answers.get(run) or next(found for name, found in answers.items() if name.startswith(f"{run} ("))


def test_scores_are_those_of_the_samples(benchmark, counting, answers):
    shown = {one["gallery"] or one["run"]: one for one in benchmark["scores"]}
    assert shown.keys() == {*answers, *counting.WITHOUT_SAMPLES}
    for name, own in answers.items():
        assert (shown[name]["value"], shown[name]["questions"]) == (near(counting.mean(own)), counting.count(own))
        assert shown[name]["task"] == (name[:-1].rpartition("(")[2] if name.endswith(")") else counting.TASK)
        assert (shown[name]["metric"], shown[name]["decimals"]) == counting.HEADLINE
        assert shown[name]["coverage"] == near(counting.coverage(own, shown[name]["task"]))
        assert shown[name]["truncated"] == near(counting.truncated(own))
        counting.check_score(shown[name], own)
    for name in counting.WITHOUT_SAMPLES:
        assert (shown[name]["low"], shown[name]["high"], shown[name]["no_interval"]) == (None, None, "no samples")


def test_differences_are_over_the_answers_that_both_runs_have_scores_for(benchmark, counting, answers):
    assert len(benchmark["differences"]) == counting.PAIRS
    for pair in benchmark["differences"]:
        both = zip(of_run(answers, pair["first"]), of_run(answers, pair["second"]), strict=True)
        scored = [(one, other) for one, other in both if None not in (one["score"], other["score"])]
        values = [one["score"] - other["score"] for one, other in scored]
        assert pair["value"] == near(counting.difference(values, [one for one, _ in scored]))
        counted = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
        assert (pair["questions"], pair["won"], pair["lost"]) == counted
        counting.check_pair(pair)


def test_tests_of_runs_are_over_the_questions_that_both_have_scores_for(small, counting, answers):
    pairs = rows(small.section, f"{small.report.SPEC.name}_comparisons")
    assert len(pairs) == counting.COMPARED
    for pair in pairs:
        first, second = (
            {str(answer[counting.ID]): answer["score"] for answer in counting.known(of_run(answers, pair[side]))}
            for side in ("first", "second")
        )
        both = of_run(answers, pair["first"])
        clusters = {str(answer[counting.ID]): str(answer[counting.CLUSTER]) for answer in both}
        expected = compare(first, second, clusters)
        assert (pair["questions"], pair["difference"]) == (expected.questions, near(expected.difference))
        assert (pair["test"], pair["p_value"]) == (expected.test, pytest.approx(expected.p_value, abs=0.01))


def test_slices_are_those_of_the_samples(benchmark, small, counting, answers):
    assert attributes(benchmark) == list(counting.ATTRIBUTES)
    for attribute, group_of, names in counting.GROUPS:
        shown = groups(benchmark, attribute)
        assert shown.keys() == {(group_of(answer), run) for run, own in answers.items() for answer in own}
        for (group, run), one in shown.items():
            own = [answer for answer in answers[run] if group_of(answer) == group]
            assert (one["value"], one["questions"]) == (near(counting.mean(own)), counting.count(own))
            counting.check_ends_of_slice(one, own, small.section, attribute)
        order = list(dict.fromkeys(group for group, _ in shown))
        assert not names or order == [name for name in names if name in order]


def test_slices_by_what_people_said_are_over_what_they_labelled(small, counting, answers, tmp_path):
    said = counting.write_labels(tmp_path, answers.get(counting.LABELLED))
    inputs = replace(small.inputs, labelled={tmp_path: small.report.SPEC.name})
    benchmark = benchmark_of(small.report(small.runs, inputs).section(), small.runs)
    assert {*attributes(benchmark)} - {*counting.ATTRIBUTES} == {*said}
    for attribute, by_group in said.items():
        shown = groups(benchmark, attribute)
        assert list(dict.fromkeys(group for group, _ in shown)) == [*by_group]
        assert {run for _, run in shown} == {counting.LABELLED, *(() if counting.IS_LABELLED_ALONE else answers)}
        for group, own in by_group.items():
            one = shown[group, counting.LABELLED]
            assert (one["value"], one["questions"]) == (near(counting.mean(own)), counting.count(own))
            counting.check_ends_of_slice(one, own, small.section, attribute)


def test_published_rows_stay_as_they_are(small):
    """In the order of the main score, and without values in the columns of own runs."""
    stems = [stem for stem in DESCRIBED if stem.startswith(f"{small.report.SPEC.name}_")]
    keys = {table.key for table in small.section.tables}
    assert small.counting.TABLE in keys & {*stems}
    for stem in keys & {*stems}:
        table = load(stem)
        shown = [row for row in rows(small.section, stem) if not row["is_own"]]
        published = [[row[column] for column in table.columns] for row in table.rows]
        assert sorted([row[column] for column in table.columns] for row in shown) == sorted(published), stem
        assert {value for row in shown for key, value in row.items() if key not in (*table.columns, "is_own")} <= {None}
