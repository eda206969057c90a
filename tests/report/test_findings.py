"""Compare sentences, ranks, slices and changes with values computed here from the same answers."""

import json
from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.egoplan.synthetic import egoplan_replies
from lmms_egoplan.report.changes import changes_of
from lmms_egoplan.report.document import Difference, Headline, Reference, Section, json_of
from lmms_egoplan.report.findings import finding, ranked
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.summary import section_table
from lmms_egoplan.secret_values import without_secrets
from lmms_egoplan.stats.intervals import bootstrap_interval, score_interval
from report.synthetic import write_run
from report.test_benchmark import LettersReport

COUNT = 90
NAMES = ("One-7B", "Two-7B", "Three-7B")


def line(run, value, interval=(0.0, 100.0), **fields):
    return Headline(run, "Bench", "task", "acc", value, 1, interval, 700, 1.0, **fields)


def pair(first, second, value, low, high, **fields):
    return Difference(first, second, "task", value, low, high, 700, 9, 5, **fields)


def findings(*lines, pairs=(), reference=None):
    return finding("Bench", lines, pairs, reference, "points")


def test_a_difference_has_its_interval():
    lines = line("A", 45.0, (43.0, 47.0)), line("B", 41.0, (39.0, 43.0))
    (sentence,) = findings(*lines, pairs=[pair("B", "A", -4.0, -6.25, -1.75)])
    assert (
        sentence.replace("\u202f", " ")
        == "A is 4.0 points above B on Bench (95 % interval 1.8 to 6.2)."
    )


def test_a_test_that_disagrees_with_the_interval_makes_no_run_better():
    lines = line("A", 45.0), line("B", 41.0)
    (sentence,) = findings(*lines, pairs=[pair("A", "B", 4.0, 0.5, 7.5, p_value=0.0547)])
    assert "above" not in sentence
    assert "p = 0.055" in sentence
    (sentence,) = findings(*lines, pairs=[pair("A", "B", 4.0, 0.5, 7.5, p_value=0.04)])
    assert "A is 4.0 points above B" in sentence


def test_if_the_interval_includes_0_no_run_is_better():
    lines = line("A", 45.0), line("B", 44.0)
    (sentence,) = findings(*lines, pairs=[pair("A", "B", 1.0, -1.0, 3.0)])
    assert "A and B" in sentence
    assert "1.0 points (95" in sentence
    assert "above" not in sentence


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        ([], "samples of the same questions"),
        (
            [pair("A", "B", 4.0, None, None, no_interval="6 videos, fewer than 10")],
            "6 videos, fewer than 10",
        ),
        ([pair("A", "B", 4.0, 2.0, 6.0, why="different judges")], "different judges"),
    ],
)
def test_no_difference_without_an_interval_or_between_incomparable_runs(pairs, reason):
    (sentence,) = findings(
        line("A", 45.0), line("B", 41.0, None, no_interval="no samples"), pairs=pairs
    )
    assert sentence.replace("\u202f", " ").startswith(
        "On Bench, A scores 45.0 (95 % interval 0.0 to 100.0) and B 41.0 (no interval: "
        "no samples); "
    )
    assert reason in sentence
    assert "4.0" not in sentence


def test_the_best_published_score_is_compared_by_the_runs_interval():
    reference = Reference("GPT-4V", 48.2, "Table 1", (48.2, 40.0), "another judge")
    first, second = findings(line("A", 45.0, (43.0, 47.0)), reference=reference)
    assert first.replace("\u202f", " ") == "A scores 45.0 on Bench (95 % interval 43.0 to 47.0)."
    assert second.replace("\u202f", " ") == (
        "It is 3.2 points below GPT-4V, the best in Table 1 of the paper (95 % interval "
        "1.2 to 5.2; another judge)."
    )
    (_, second) = findings(line("A", 45.0, (43.0, 49.0)), reference=reference)
    assert "GPT-4V" in second
    assert len(findings(line("A", 45.0, None, no_interval="no samples"), reference=reference)) == 1


def test_only_published_scores_need_published_conditions():
    reference = Reference("GPT-4V", 48.2, "Table 1", (48.2,))
    demo = line("Demo", 99.0, apart=("rated by the demo judge",), is_demo=True)
    (sentence,) = findings(demo, reference=reference)
    assert sentence.startswith("Demo scores 99.0 on Bench")
    first, published = findings(
        demo, line("A", 45.0), pairs=[pair("Demo", "A", 54.0, 50.0, 58.0)], reference=reference
    )
    assert first.startswith("Demo is 54.0 points above A on Bench")
    assert published.startswith("A does not differ measurably from GPT-4V")


def test_each_protocol_has_its_sentence():
    lines = (
        line("A", 45.0, protocol="task, judge X"),
        line("B", 44.0, protocol="task, judge Y"),
        replace(line("C", 43.0), task="other"),
    )
    sentences = findings(*lines)
    assert [sentence[0] for sentence in sentences] == ["A", "B", "C"]
    names = ("task, judge X", "task, judge Y", "other")
    for name, sentence in zip(names, sentences, strict=True):
        assert f"on Bench ({name})" in sentence
    of_two_tasks = findings(lines[0], lines[2])
    for name, sentence in zip(("task", "other"), of_two_tasks, strict=True):
        assert f"on Bench ({name})" in sentence


def test_a_terminal_states_each_reason_once_with_the_runs_that_it_is_about():
    """Here A is rated by the demo judge in both tasks, and B in the second one."""
    judge = ("rated by the demo judge",)
    other = {"task": "other", "no_interval": "few questions"}
    lines = (
        line("A", 1.0, apart=judge),
        line("B", 2.0),
        replace(line("A", 3.0, None, apart=judge), **other),
        replace(line("B", 4.0, None, apart=(*judge, "other data")), **other),
    )
    table = section_table(Section("bench", "Bench", "", lines))
    assert table.notes == (
        "Not comparable with published scores (rated by the demo judge): all runs.",
        "Not comparable with published scores (other data): B.",
        "No interval (few questions): all runs.",
    )
    assert [row.values[:4] for row in table.rows] == [
        ("B", "task", "2.0", "0.0\u2013100.0"),
        ("A", "task", "1.0", "0.0\u2013100.0"),
        ("B", "other", "4.0", ""),
        ("A", "other", "3.0", ""),
    ]


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(0, 30)), min_size=3, max_size=3))
def test_ranks_follow_from_real_differences(drawn):
    lines = [line(name, 50.0 + number) for number, name in enumerate(NAMES)]
    names = [(NAMES[0], NAMES[1]), (NAMES[0], NAMES[2]), (NAMES[1], NAMES[2])]
    pairs = [
        pair(*both, value, value - half, value + half)
        for both, (value, half) in zip(names, drawn, strict=True)
    ]
    for headline in ranked(lines, pairs):
        signed = [
            (rival.value if rival.first == headline.run else -rival.value, rival)
            for rival in pairs
            if headline.run in (rival.first, rival.second)
        ]
        above = sum(value < 0 and abs(value) > rival.high - rival.value for value, rival in signed)
        below = sum(value > 0 and abs(value) > rival.high - rival.value for value, rival in signed)
        assert (headline.rank, headline.ranked) == ((1 + above, 3 - below), 3)
    assert all(
        headline.rank is None
        for headline in ranked(lines[:2], [replace(pairs[0], low=None, high=None)])
    )


class Sliced(LettersReport):
    """A report whose questions have an attribute."""

    def question(self, key, answers):
        return super().question(key, answers) | {
            "facts": {"half": "first" if key[0] <= COUNT // 2 else "second"}
        }


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(NAMES):
        answers = egoplan_replies(COUNT, (0.3, 0.6, 0.9)[seed], seed)
        write_run(folder / name, "lmms-eval", f"org/{name}", {"egoplan_val_generate": answers})
    runs = read_runs([folder]).runs
    return Sliced(runs), runs


def scores(run):
    samples = run.tasks["egoplan_val_generate"].samples
    return {
        sample["details"]["predictions"]["sample_id"]: (
            sample["acc"]["score"],
            sample["acc"]["cluster"],
        )
        for sample in samples
    }


def test_slices_are_means_and_intervals_of_their_questions(report):
    sliced, runs = report
    (part,) = build_section(sliced).slices
    assert (part.attribute, part.names) == ("half", ["first", "second"])
    assert len(part.groups) == 6
    run_scores = {run.name: scores(run) for run in runs}
    for group in part.groups:
        is_first = group.name == "first"
        chosen = [
            scored
            for number, scored in run_scores[group.run].items()
            if (number <= COUNT // 2) == is_first
        ]
        assert (group.value, group.questions) == (
            pytest.approx(fmean(score for score, _ in chosen)),
            len(chosen),
        )
        assert group.interval == score_interval(*zip(*chosen, strict=True), 1)
        assert bool(group.no_interval) == (group.interval is None)


def test_differences_count_what_was_won_and_lost(report):
    sliced, runs = report
    run_scores = {run.name: scores(run) for run in runs}
    assert len(sliced.differences) == 3
    for gap in sliced.differences:
        first, second = run_scores[gap.first], run_scores[gap.second]
        values = [first[number][0] - second[number][0] for number in first]
        assert gap.value == pytest.approx(fmean(values))
        assert (gap.low, gap.high) == pytest.approx(
            bootstrap_interval(values, [first[n][1] for n in first])
        )
        assert (gap.won, gap.lost, gap.questions) == (values.count(1), values.count(-1), COUNT)


def test_the_json_file_has_the_numbers_and_no_secret(report):
    sliced, runs = report
    run = replace(runs[0], provenance={"arguments": without_secrets("pretrained=m,api_key=sk-abc")})
    content = json.loads(json_of([build_section(sliced)], [run], ["</script>"], 5))
    (benchmark,) = content["benchmarks"]
    assert (content["schema"], content["skipped"], content["questions"]) == (1, ["</script>"], 5)
    for score, own_run in zip(benchmark["scores"], runs, strict=True):
        assert score["value"] == pytest.approx(
            fmean(value for value, _ in scores(own_run).values())
        )
        assert score["low"] <= score["value"] <= score["high"]
    assert [len(benchmark[name]) for name in ("differences", "slices", "tables")] == [3, 1, 2]
    assert "sk-abc" not in json.dumps(content)


def test_two_checkpoints_of_one_model_are_compared(report):
    _, runs = report
    times = ("2026-01-02 00:00:00 UTC", "2026-01-01 00:00:00 UTC", "2026-01-03 00:00:00 UTC")
    models = ("out/Model/checkpoint-200", "out/Model/checkpoint-100", "org/Other")
    changed = [
        replace(
            run,
            time=time,
            model=model,
            provenance={"model": model, "started": time, "arguments": "a=1"},
        )
        for run, time, model in zip(runs, times, models, strict=True)
    ]
    sliced = Sliced(changed)
    (change,) = changes_of(sliced)
    assert (change.difference.first, change.difference.second) == (runs[0].name, runs[1].name)
    assert change.changed == ("model: out/Model/checkpoint-100 → out/Model/checkpoint-200",)
    later, earlier = scores(runs[0]), scores(runs[1])
    assert change.difference.won == sum(later[number][0] > earlier[number][0] for number in later)
    assert change.difference.lost == sum(later[number][0] < earlier[number][0] for number in later)
