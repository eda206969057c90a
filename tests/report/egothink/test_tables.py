"""Compare EgoThink's tables in the report with independent counts of the same answers, judges and
people.
"""

import json
import random
from collections import Counter
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from scipy.stats import t as student_t
from typer.testing import CliRunner

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egothink.synthetic import egothink_answers, egothink_bench
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egothink.answer_files import write_judged
from lmms_egoplan.report.egothink.figures import reference_scores
from lmms_egoplan.report.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from lmms_egoplan.stats.correction import FEWEST_RATED, corrected
from report.egothink.synthetic_runs import CAPABILITIES, COUNT, NAMES, RUNS, records, score
from report.joined import group_names, joined, points_of, rows, rows_of, run_rows
from report.prepared import prepare_data
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize(("run", "name"), RUNS.items())
def test_table_3_contains_the_scores_of_each_run_and_their_plain_mean(section, written, run, name):
    (row,) = (row for row in run_rows(section, "egothink_table3") if row["model"] == name)
    scores = {dimension: score(answers) for dimension, answers in records(written, run).items()}
    assert {dimension: row[dimension] for dimension in NAMES} == pytest.approx(scores)
    assert row["average"] == pytest.approx(sum(scores.values()) / 12)
    answers = [answer for group in records(written, run).values() for answer in group]
    judged = [answer for answer in answers if answer["rating"] is not None]
    assert row["questions"] == len(answers) == 12 * COUNT
    assert row["coverage"] == pytest.approx(100 * len(judged) / 700)
    assert row["judged"] == pytest.approx(100 * len(judged) / len(answers))
    cut = [answer["truncated"] for answer in answers if answer["truncated"] is not None]
    assert row["truncated"] == (pytest.approx(100 * sum(cut) / len(cut)) if cut else None)
    assert row["suspect"] == 0
    assert row["judge"] == ("qwen" if run == "c" else "gpt")
    assert row["low"] < row["average"] < row["high"]


@pytest.mark.parametrize("key", ["egothink_dimensions", "egothink_capabilities"])
def test_scores_by_group_are_means_of_the_dimensions(section, written, key):
    groups = CAPABILITIES if key == "egothink_capabilities" else {name: [name] for name in NAMES}
    rows_by_key = {(row["group"], row["model"]): row for row in rows(section, key)}
    assert len(rows_by_key) == 3 * len(groups)
    for run, model in RUNS.items():
        answers = records(written, run)
        for group, names in groups.items():
            row = rows_by_key[group, model]
            assert row["score"] == pytest.approx(fmean(score(answers[name]) for name in names))
            judged = sum(answer["rating"] is not None for name in names for answer in answers[name])
            official = sum(100 if name in ("activity", "forecasting") else 50 for name in names)
            assert row["questions"] == COUNT * len(names)
            assert row["coverage"] == pytest.approx(100 * judged / official)
            assert row["judged"] == pytest.approx(100 * judged / (COUNT * len(names)))


def test_intervals_match_a_slow_version_within_dimensions(section, written):
    """Wilson's interval, with the variances of the dimensions' means and Welch's degrees of
    freedom.
    """
    for run, name in (("a", "First-7B"), ("b", "Second-7B")):
        groups = [
            [100 * a["rating"] for a in answers if a["rating"] is not None]
            for answers in records(written, run).values()
        ]
        shares = [[score / 100 for score in group] for group in groups]
        parts = [variance(group) / len(group) / len(groups) ** 2 for group in shares]
        freedom = sum(parts) ** 2 / sum(
            part**2 / (len(g) - 1) for part, g in zip(parts, shares, strict=True)
        )
        mean = fmean(map(fmean, shares))
        loss = student_t.ppf(0.975, freedom) ** 2 * sum(parts) / (mean * (1 - mean))
        slow = sorted(np.roots([1 + loss, -(2 * mean + loss), mean**2]))
        (row,) = (row for row in rows(section, "egothink_table3") if row["model"] == name)
        assert (row["low"], row["high"]) == pytest.approx([100 * end for end in slow])


def test_all_dimensions_have_equal_weight_in_the_average_and_its_interval(tmp_path):
    activity = egothink_answers("activity", 60, 0.95, truncated=1.0)
    activity.responses[:30] = [
        [text.replace('"truncated": true', '"truncated": null')]
        for (text,) in activity.responses[:30]
    ]
    tasks = egothink_bench(COUNT, 0.2, 1, truncated=0.0) | {"egothink_activity_activity": activity}
    write_run(tmp_path / "run", "lmms-eval", "org/Model-7B", tasks)
    report_section = build_section(EgoThinkReport(read_runs([tmp_path]).runs))
    (row,) = run_rows(report_section, "egothink_table3")
    answers = records(tmp_path, "run")
    assert row["average"] == pytest.approx(fmean(map(score, answers.values())))
    assert (
        row["low"]
        < row["average"]
        < row["high"]
        < score([answer for group in answers.values() for answer in group])
    )
    assert row["truncated"] == pytest.approx(100 * 30 / (30 + 11 * COUNT))


def test_one_question_in_a_dimension_gives_no_interval(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/Model-7B", egothink_bench(1, 0.5, 1))
    report_section = build_section(EgoThinkReport(read_runs([tmp_path]).runs))
    assert report_section.headlines[0].value is not None
    assert report_section.headlines[0].interval is None


def test_figures_show_each_score_with_its_interval(section):
    capabilities, dimensions = section.figures
    for figure, key in (
        (capabilities, "egothink_capabilities"),
        (dimensions, "egothink_dimensions"),
    ):
        (axes,) = figure.draw().axes
        table_rows = rows(section, key)
        assert group_names(axes) == list(dict.fromkeys(row["group"] for row in table_rows))
        names = [*RUNS.values()]
        assert points_of(axes) == {
            name: pytest.approx([row["score"] for row in table_rows if row["model"] == name])
            for name in names
        }
        assert len({line.get_marker() for line in axes.lines if line.get_label() in names}) == 3
        legend = [text.get_text() for text in axes.figure.legends[0].get_texts()]
        # no run covers all questions, so none is comparable with the published model
        assert {*names} == {*legend}
        ends = {
            tuple(round(x, 6) for x, _ in path)
            for lines in axes.collections
            for path in lines.get_segments()
        }
        intervals = [(row["low"], row["high"]) for row in table_rows if row["low"] is not None]
        assert {(round(low, 6), round(high, 6)) for low, high in intervals} <= ends


def test_the_published_model_has_the_scores_of_table_3():
    groups = {"object": DIMENSIONS[:3], "existence": DIMENSIONS[:1]}
    assert reference_scores(groups) == pytest.approx([(62 + 82 + 58) / 3, 62])


def test_judges_of_the_same_answers_are_compared(section, written):
    table_rows = rows(section, "egothink_judges")
    assert {(row["first"], row["second"]) for row in table_rows} == {
        ("First-7B", "Third-7B"),
        ("Second-7B", "Third-7B"),
    }
    assert {(row["first_judge"], row["second_judge"]) for row in table_rows} == {("gpt", "qwen")}
    first, second = (records(written, run) for run in "bc")
    for row in table_rows:
        if row["first"] != "Second-7B":
            continue
        groups = CAPABILITIES | {
            "all": NAMES,
            "object and planning": CAPABILITIES["object"] + CAPABILITIES["planning"],
        }
        pairs = [
            (a["rating"], b["rating"])
            for name in groups[row["answers"]]
            for a, b in zip(first[name], second[name], strict=True)
            if a["rating"] is not None
        ]
        assert row["questions"] == len(pairs)
        if len(pairs) < 10:
            assert row["pearson"] is row["kappa_linear"] is row["kappa_unweighted"] is None
            continue
        assert row["pearson"] == pytest.approx(slow_pearson(pairs))
        assert row["kappa_linear"] == pytest.approx(slow_kappa(pairs))
        assert row["kappa_unweighted"] == pytest.approx(
            slow_kappa(pairs, lambda a, b: float(a != b))
        )
        assert row["pearson_low"] <= row["pearson"] <= row["pearson_high"]


def slow_pearson(pairs):
    a, b = (fmean(side) for side in zip(*pairs, strict=True))
    covariance = sum((x - a) * (y - b) for x, y in pairs)
    return (
        covariance
        / (sum((x - a) ** 2 for x, _ in pairs) * sum((y - b) ** 2 for _, y in pairs)) ** 0.5
    )


def slow_kappa(pairs, disagreement=lambda a, b: abs(a - b)):
    observed = fmean(disagreement(x, y) for x, y in pairs)
    return 1 - observed / fmean(disagreement(x, y) for x, _ in pairs for _, y in pairs)


def test_judges_are_not_compared_on_few_identical_answers(written, tmp_path):
    path = write_run(
        tmp_path, "lmms-eval", "org/Other-7B", egothink_bench(COUNT, 0.5, 4, judge="qwen")
    )
    for log in path.parent.glob("*.jsonl"):
        if "existence" not in log.name:
            log.write_text(log.read_text().replace("an answer to", "another answer to"))
    report_section = build_section(EgoThinkReport(read_runs([written / "a", tmp_path]).runs))
    assert "egothink_judges" not in {table.key for table in report_section.tables}


def write_labels(folder, answers):
    folder.mkdir()
    (folder / "annotation.json").write_text(json.dumps({"benchmark": "egothink"}))
    (folder / "people.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    return folder


def report_rows(section, key):
    return run_rows(section, key)


def report(runs, folder):
    return EgoThinkReport(runs, Inputs(labelled={folder: "egothink"}))


@pytest.fixture(scope="module")
def one_run(runs):
    """Return the first run alone: without pairs of runs, a report takes a tenth of the time."""
    return runs[:1]


def test_table_10_with_rows_from_labels(one_run, tmp_path):
    answers = [
        {"id": f"{name}/{number}", "model": "mine", "answer": "x", "rating": rating}
        for name, rating in (("existence", 0.5), ("assistance", 1.0), ("counting", 0.0))
        for number in (1, 2)
    ]
    (row,) = report_rows(
        build_section(report(one_run, write_labels(tmp_path / "labels", answers))),
        "egothink_table10",
    )
    assert row["grading_methods"] == "People, mine"
    assert (row["object_existence"], row["planning_assistance"], row["answers"]) == (50, 100, 6)
    assert row["object_attribute"] is None


def test_table_9_uses_identical_answers(one_run, tmp_path):
    graded = EgoThinkReport(one_run).tasks[0]
    records = [
        answer.record for answer in graded.answers.values() if answer.record.rating is not None
    ]
    answers = [
        {"id": r.id, "model": "mine", "answer": r.answer, "rating": r.rating} for r in records
    ]
    answers.append(
        {"id": records[0].id, "model": "other", "answer": "no run has this", "rating": 0.0}
    )
    rows = report_rows(
        build_section(report(one_run, write_labels(tmp_path / "labels", answers))),
        "egothink_table9",
    )
    row = next(row for row in rows if row["evaluator"] == f"Human ({graded.name})")
    names = ("existence", "attribute", "affordance", "assistance", "navigation")
    assert row["answers"] == sum(dimension_of(record.id) in names for record in records)
    assert (row["own"], row["own_low"], row["own_high"]) == pytest.approx((100, 100, 100))


def test_few_answers_have_no_coefficient_and_a_reason(one_run, tmp_path):
    graded = EgoThinkReport(one_run).tasks[0]
    records = [
        answer.record for answer in graded.answers.values() if answer.record.rating is not None
    ]
    records = [record for record in records if dimension_of(record.id) == "existence"][:5]
    answers = [
        {"id": r.id, "model": "mine", "answer": r.answer, "rating": r.rating} for r in records
    ]
    section = build_section(report(one_run, write_labels(tmp_path / "labels", answers)))
    row = next(
        row
        for row in report_rows(section, "egothink_table9")
        if row["evaluator"] == f"Human ({graded.name})"
    )
    assert (row["answers"], row["own"], row["own_low"]) == (5, None, None)
    assert any(
        "fewer than 10 answers" in str(row.why) for row in joined(section, "egothink_table9").rows
    )


def test_an_answer_in_two_folders_is_rejected(one_run, tmp_path):
    answer = {"id": "existence/1", "model": "mine", "answer": "x", "rating": 1.0}
    folders = [write_labels(tmp_path / name, [answer]) for name in ("one", "two")]
    with pytest.raises(
        LmmsEgoplanError, match=r"two/people\.jsonl, line 1: .*1 of mine is labelled in .*one, too"
    ):
        build_section(EgoThinkReport(one_run, Inputs(labelled=dict.fromkeys(folders, "egothink"))))


def test_without_labels_only_published_rows_are_shown(one_run):
    section = build_section(EgoThinkReport(one_run))
    assert report_rows(section, "egothink_table9") == report_rows(section, "egothink_table10") == []


def test_an_invalid_rating_names_file_and_field(one_run, tmp_path):
    folder = write_labels(
        tmp_path / "labels", [{"id": "existence/1", "model": "a", "answer": "b", "rating": 2}]
    )
    with pytest.raises(LmmsEgoplanError, match=r"people\.jsonl, line 1: rating: "):
        build_section(report(one_run, folder))


RATINGS = {
    "existence/1": [1.0, 1.0],
    "existence/2": [0.0, 0.5],
    "existence/3": [1.0, None],
    "counting/1": [0.5, 0.5],
}


def noise_table(*paths):
    return EgoThinkReport.inputs_table(Inputs(judged=paths))


@pytest.fixture
def judged(tmp_path):
    repeats = [
        [
            JudgedAnswer(key, "a", None, False, ratings[n], "r", "judge-b", None)
            for key, ratings in RATINGS.items()
        ]
        for n in (0, 1)
    ]
    write_judged(tmp_path / "judged.jsonl", repeats)
    return tmp_path / "judged.jsonl"


@pytest.fixture
def run(tmp_path):
    answers = {"egothink_object_existence": egothink_answers("existence", 3, 0.5)}
    write_run(tmp_path / "run", "lmms-eval", "org/A", answers)
    return tmp_path / "run"


def test_spread_of_ratings_and_scores(judged):
    rows_by_key = {row["questions"]: row for row in rows_of(noise_table(judged))}
    assert list(rows_by_key) == ["existence", "counting", "average"]
    existence = rows_by_key["existence"]
    assert (existence["answers_of"], existence["judge"], existence["repeats"]) == (
        "judged",
        "judge-b",
        2,
    )
    assert (existence["answers"], existence["left_out"]) == (2, 1)
    assert (existence["score"], existence["lowest"], existence["highest"]) == (62.5, 50, 75)
    assert existence["score_sd"] == pytest.approx(25 / 2**0.5)
    assert existence["changed"] == 50
    assert existence["rating_sd"] == pytest.approx((0 + 0.5 / 2**0.5) / 2)
    assert rows_by_key["counting"]["score_sd"] == rows_by_key["counting"]["changed"] == 0
    assert (
        rows_by_key["average"]["score"],
        rows_by_key["average"]["lowest"],
        rows_by_key["average"]["answers"],
    ) == (
        None,
        None,
        3,
    )


@pytest.mark.parametrize("unrated", [False, True])
def test_the_average_needs_all_questions(tmp_path, unrated):
    ids = [
        f"{name}/{number}"
        for name, count in EGOTHINK.official.items()
        for number in range(1, count + 1)
    ]
    rated = [
        [JudgedAnswer(id_, "a", None, False, rating, "r", "judge-b", None) for id_ in ids]
        for rating in (1.0, 0.5)
    ]
    rated[1][300] = replace(rated[1][300], rating=None if unrated else 0.5)
    write_judged(tmp_path / "judged.jsonl", rated)
    average = rows_of(noise_table(tmp_path / "judged.jsonl"))[-1]
    spread = (average["score"], average["lowest"], average["highest"])
    assert (average["answers"], *spread) == (
        (699, None, None, None) if unrated else (700, 75, 50, 100)
    )


def test_without_files_there_is_no_table():
    assert noise_table() is None


def test_the_report_command_accepts_judged_files_with_runs(judged, run, tmp_path):
    result = CliRunner().invoke(
        app, ["report", str(run), str(judged), "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert "Judge noise" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "out" / "tables" / "egothink_judge_noise.csv").read_text().count(
        "judged,judge-b"
    ) == 3
    assert "Skipped:" not in result.stderr


@pytest.mark.nightly
def test_files_without_a_run_of_the_benchmark_are_named(judged, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    write_run(
        tmp_path / "other",
        "lmms-eval",
        "org/B",
        {"actplan": actplan_answers(4, 0.5)},
        log_samples=False,
    )
    prepare_data(tmp_path / "data", actplan=4)
    result = CliRunner().invoke(
        app, ["report", str(tmp_path / "other"), str(judged), "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert all(fact in result.stderr for fact in ("EgoThink", "judge noise"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repeats": None}, "line 2: repeats: .*found nothing"),
        ({"repeats": [{"rating": 1.0}]}, "line 2: repeats: "),
        ({"repeats": [{"rating": 1.0}] * 3}, "line 2: 3 repeats, but earlier lines have 2"),
        ({"repeats": [{"rating": 7}] * 2}, r"line 2: repeats\[0\].rating: .*found 7"),
        ({"repeats": [1.0, 1.0]}, r"line 2: repeats\[0\]: .*found 1.0"),
        ({"id": "nothing/1"}, "line 2: id must be"),
    ],
)
def test_malformed_files_are_named(judged, change, message):
    lines = [json.loads(line) for line in judged.read_text().splitlines()]
    lines[1] |= change
    judged.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(LmmsEgoplanError, match="judged.jsonl, " + message):
        noise_table(judged)


def test_files_of_the_same_name_are_shown_with_their_path(judged, tmp_path):
    other = tmp_path / "b" / "judged.jsonl"
    other.parent.mkdir()
    other.write_bytes(judged.read_bytes())
    table_rows = rows_of(noise_table(judged, other))
    assert {row["answers_of"] for row in table_rows} == {str(judged), str(other)}


def sampled_labels(graded, count, model="mine", **changes):
    """Return people's ratings of `count` answers of a run, half a level above the judge's."""
    answers = [answer.record for answer in graded.answers.values()]
    stated = {"probability": count / len(answers), "planned": count}
    return [
        {"id": r.id, "model": model, "answer": r.answer, "rating": min(1, (r.rating or 0) + 0.25)}
        | stated
        | changes
        for r in random.Random(1).sample(answers, count)
    ]


def corrected_rows(runs, folder):
    (table,) = (
        x for x in report(runs, folder).tables() if x is not None and x.key == "egothink_corrected"
    )
    return rows_of(table)


def test_corrected_scores_are_those_of_the_estimator_with_equal_weights_of_dimensions(
    runs, tmp_path
):
    (second,) = EgoThinkReport(runs[1:2]).tasks
    labels = sampled_labels(second, 60)
    (row,) = corrected_rows(runs[1:2], write_labels(tmp_path / "labels", labels))
    assert row["model"] == second.name
    assert row["raw"] == pytest.approx(second.main.value)
    records = [answer.record for answer in second.answers.values()]
    ratings = {(label["id"], label["answer"]): label["rating"] for label in labels}
    people = [ratings.get((r.id, r.answer)) for r in records]
    sizes = Counter(dimension_of(r.id) for r in records if r.rating is not None)
    weights = [1 / sizes[dimension_of(r.id)] for r in records]
    expected = corrected(
        [r.rating for r in records], people, [60 / len(records)] * len(records), weights
    )
    for name in ("people", "corrected", "error"):
        estimate = getattr(expected, name)
        ends = [row[name], row[f"{name}_low"], row[f"{name}_high"]]
        assert ends == pytest.approx(
            [100 * value for value in (estimate.value, estimate.low, estimate.high)]
        )
    assert (row["labels"], row["mean"], row["of"]) == ("mine", "dimensions", sum(sizes.values()))
    assert row["sampled"] == f"{expected.rated} of 60"
    # The judge left answers of this run unrated.
    assert str(len(records) - sum(sizes.values())) in row["remarks"]
    assert expected.rated < 60


@pytest.mark.parametrize(
    ("change", "named", "is_corrected"),
    [
        ({}, "", True),
        ({"probability": None}, "--sample", False),
        ({"planned": None}, "--sample", False),
        ({"probability": 0.25}, "240", False),
        # Two samples in one file.
        ({"planned": 40, "probability": 40 / 144}, "--sample", False),
        ({"planned": 70, "probability": 70 / 144}, "70", True),
        ({"planned": 66, "probability": 66 / 144}, "", True),
    ],
)
def test_samples_that_cannot_be_used_are_named(one_run, tmp_path, change, named, is_corrected):
    graded = EgoThinkReport(one_run).tasks[0]
    labels = sampled_labels(graded, 60, **change)
    row = corrected_rows(one_run, write_labels(tmp_path / "labels", labels))[0]
    assert row["model"] == graded.name
    assert named in row["remarks"] if named else not row["remarks"]
    assert (row["corrected"] is not None) == is_corrected == (row["corrected_low"] is not None)
    assert row["sampled"] == f"60 of {change.get('planned', 60) or 60}"


@pytest.mark.parametrize(("count", "is_corrected"), [(9, False), (12, True), (29, True)])
def test_few_rated_answers_are_marked_next_to_the_figures(one_run, tmp_path, count, is_corrected):
    graded = EgoThinkReport(one_run).tasks[0]
    row = corrected_rows(one_run, write_labels(tmp_path / "labels", sampled_labels(graded, count)))[
        0
    ]
    assert (row["corrected"] is not None) == is_corrected
    assert str(count) in row["remarks"]
    assert str(FEWEST_RATED) in row["remarks"]


def test_only_runs_with_the_rated_answers_are_corrected(runs, tmp_path):
    graded = EgoThinkReport(runs).tasks[0]
    labels = sampled_labels(graded, 60)
    labels[:20] = [label | {"answer": "an answer of no run"} for label in labels[:20]]
    labels += sampled_labels(graded, 40, "foreign", answer="an answer of no run")
    rows_by_labels = {
        row["labels"]: row
        for row in corrected_rows(runs, write_labels(tmp_path / "labels", labels))
    }
    assert [*rows_by_labels] == ["mine"]
    assert rows_by_labels["mine"]["corrected"] is None
    assert "40" in rows_by_labels["mine"]["remarks"]
    assert "60" in rows_by_labels["mine"]["remarks"]


def test_an_incomplete_benchmark_is_corrected_over_its_answers(tmp_path):
    tasks = {
        name: answers
        for name, answers in egothink_bench(COUNT, 0.5, 1).items()
        if "planning" not in name
    }
    write_run(tmp_path / "run", "lmms-eval", "org/Model-7B", tasks)
    read = read_runs([tmp_path / "run"]).runs
    graded = EgoThinkReport(read).tasks[0]
    (row,) = corrected_rows(read, write_labels(tmp_path / "labels", sampled_labels(graded, 40)))
    assert row["mean"] == "answers"
    assert row["raw"] == pytest.approx(
        100 * fmean(record.rating for record in graded.judged.values())
    )


@pytest.mark.parametrize(
    ("field", "value"), [("probability", 0), ("probability", 1.5), ("planned", 0), ("planned", "6")]
)
def test_a_damaged_sample_names_file_line_and_field(one_run, tmp_path, field, value):
    labels = sampled_labels(EgoThinkReport(one_run).tasks[0], 12)
    labels[1][field] = value
    with pytest.raises(LmmsEgoplanError, match=rf"people\.jsonl, line 2.*{field}"):
        corrected_rows(one_run, write_labels(tmp_path / "labels", labels))


def asked_in(formats, seed, judge, count=6):
    """Return all tasks with questions in the given formats, and answers whose ratings depend on
    seed and judge.
    """
    tasks = egothink_bench(count, 0.5, seed, judge=judge)
    for answers in tasks.values():
        for number, doc in enumerate(answers.docs):
            words = formats[number % len(formats)]
            doc |= dict(zip(("question", "answer"), words, strict=True))
            doc["answer"] = (
                f"{doc['answer']} {number}"  # an answer is a part of a question's identity
            )
    return tasks


FORMATS = [
    ("Am I here?", "Yes, I am"),
    ("What is this?", "A cup"),
    ("What is that?", "A pan"),
    ("Am I in or out?", "In"),
]


def test_formats_are_compared_within_dimensions(tmp_path):
    write_run(tmp_path, "lm-eval", "org/Model-7B", asked_in(FORMATS, 3, "gpt", 24))
    graded = EgoThinkReport(read_runs([tmp_path]).runs)
    section = build_section(graded)
    (part,) = (part for part in section.slices if part.attribute == "question format")
    assert part.names == ["yes or no", "what", "other"]
    table_rows = {row["dimensions"]: row for row in rows(section, "egothink_formats")}
    assert set(table_rows) == {"all", *NAMES}
    total, weights = 0.0, 0.0
    for name, answers in records(tmp_path, "").items():
        ratings = {kind: [] for kind in ("Am I here?", "What", "Am I in or out?")}
        for number, answer in enumerate(answers):
            words = FORMATS[number % 4][0]
            ratings["What" if words.startswith("What") else words].append(100 * answer["rating"])
        what, yes_no = ratings["What"], ratings["Am I here?"]
        difference, weight = (
            fmean(what) - fmean(yes_no),
            len(what) * len(yes_no) / (len(what) + len(yes_no)),
        )
        row = table_rows[name]
        assert row["difference"] == pytest.approx(difference)
        assert (row["questions"], row["left_out"]) == (18, 6)
        assert row["low"] < row["difference"] < row["high"]
        total, weights = total + weight * difference, weights + weight
    assert table_rows["all"]["difference"] == pytest.approx(total / weights)
    assert (table_rows["all"]["questions"], table_rows["all"]["left_out"]) == (12 * 18, 12 * 6)


def test_without_samples_or_texts_no_formats_are_compared(tmp_path):
    write_run(
        tmp_path / "a", "lmms-eval", "org/A-7B", egothink_bench(COUNT, 0.5, 1), log_samples=False
    )
    write_run(tmp_path / "b", "lmms-eval", "org/B-7B", asked_in(FORMATS, 3, "gpt"))
    section = build_section(EgoThinkReport(read_runs([tmp_path]).runs))
    assert "egothink_formats" not in {table.key for table in section.tables}
    assert "question format" not in {part.attribute for part in section.slices}


def test_means_by_judge_are_over_the_answers_that_all_rated(tmp_path):
    for name, judge, seed in (("a", "gpt", 1), ("b", "qwen", 2)):
        tasks = egothink_bench(COUNT, 0.5, seed, judge=judge, unjudged=0.2)
        write_run(tmp_path / name, "lmms-eval", "org/Model-7B", tasks)
    judged = {name: records(tmp_path, name) for name in "ab"}
    sample = [answer for name in ("existence", "navigation") for answer in judged["a"][name]]
    labels = [{"id": x["id"], "model": "m", "answer": x["answer"], "rating": 0.5} for x in sample]
    folder = write_labels(tmp_path / "labels", labels)
    section = build_section(report(read_runs([tmp_path / "a", tmp_path / "b"]).runs, folder))
    table_rows = rows(section, "egothink_judge_means")
    assert [(row["evaluator"], row["group"]) for row in table_rows] == [
        (judge, group) for judge in ("gpt", "qwen", "people") for group in ("object", "planning")
    ]
    for row in table_rows:
        name = "existence" if row["group"] == "object" else "navigation"
        pairs = zip(judged["a"][name], judged["b"][name], strict=True)
        ratings = [
            (a["rating"], b["rating"], 0.5)
            for a, b in pairs
            if None not in (a["rating"], b["rating"])
        ]
        column = ("gpt", "qwen", "people").index(row["evaluator"])
        assert row["score"] == pytest.approx(100 * fmean(of_all[column] for of_all in ratings))
        assert row["answers"] == len(ratings)
    (figure,) = (figure for figure in section.figures if figure.key == "egothink_judges_1")
    (axes,) = figure.draw().axes
    assert points_of(axes) == {
        judge: pytest.approx([row["score"] for row in table_rows if row["evaluator"] == judge])
        for judge in ("gpt", "qwen", "people")
    }
    assert len({line.get_marker() for line in axes.lines if line.get_label()[0] != "_"}) == 3


def test_sizes_are_drawn_for_families_of_models(tmp_path):
    names = ("A-VL-3B-Instruct", "A-VL-7B-Instruct", "A-VL-7B-Base", "B-13B", "C")
    for seed, name in enumerate(names):
        write_run(
            tmp_path / name,
            "lmms-eval",
            f"org/{name}",
            egothink_bench(6, 0.2 + seed / 10, seed, judge="gpt"),
        )
    graded = EgoThinkReport(read_runs([tmp_path]).runs)
    table = next(table for table in graded.tables() if table.key == "egothink_table2")
    table_rows = {row["model"]: row for row in rows_of(table) if row["is_ours"]}
    assert {name: (row["named_billions"], row["tuned"]) for name, row in table_rows.items()} == {
        "A-VL-3B-Instruct": (3, "instruction"),
        "A-VL-7B-Instruct": (7, "instruction"),
        "A-VL-7B-Base": (7, "base"),
        "B-13B": (13, None),
        "C": (None, None),
    }
    (figure,) = (figure for figure in graded.figures() if figure and figure.key == "egothink_sizes")
    (axes,) = figure.draw().axes
    sizes = [label.get_text().partition("\n")[0] for label in axes.get_xticklabels()]
    assert sizes == ["3", "7", "13"]
    drawn = {str(line.get_label()): [*line.get_ydata()] for line in axes.lines}
    score = {name: row["average"] for name, row in table_rows.items()}
    assert drawn == {
        "a-vl, judge gpt, tuning: instruction": pytest.approx(
            [score["A-VL-3B-Instruct"], score["A-VL-7B-Instruct"]]
        ),
        "a-vl, judge gpt, tuning: base": pytest.approx([score["A-VL-7B-Base"]]),
        "b, judge gpt, tuning: unknown": pytest.approx([score["B-13B"]]),
    }
    assert len({(line.get_marker(), line.get_linestyle()) for line in axes.lines}) == 3
    of_others = EgoThinkReport(
        [task.run for task in graded.tasks if task.run.name in ("A-VL-7B-Base", "B-13B", "C")]
    )
    assert "egothink_sizes" not in {figure.key for figure in of_others.figures() if figure}
