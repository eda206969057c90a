"""ActPlan's tables and figures in the report, against independent counts of the same answers."""

import random
from dataclasses import replace

import pytest

from lmms_egoplan.benchmarks.actplan.instances import ACTIVITY_TYPES
from lmms_egoplan.report.actplan.report import ActPlanReport
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.tables import csv_of, markdown_of
from report.actplan.synthetic_runs import (
    COUNT,
    GOOD,
    LENGTHS,
    MUTE,
    PART,
    TEXT,
    WEAK,
    defined,
    interval,
    mean,
    percent,
)
from report.joined import group_names, near, points_of, rows, run_rows


def test_every_score_is_the_mean_over_the_plans_it_is_defined_for(section, logged):
    cells = {
        (row["measure"], row["model"]): row
        for row in run_rows(section, "actplan_scores")
        if row["model"] != MUTE
    }
    expected = set()
    for name, plans in logged.items():
        for measure in [key for key in plans[0] if key[0].isupper()]:
            defined_plans = defined(plans, measure)
            if not defined_plans:
                continue
            expected.add((measure, name))
            row = cells[measure, name]
            assert row["value"] == near(mean(plans, measure))
            assert (row["low"], row["high"]) == near(interval(plans, measure))
            assert row["plans"] == len(defined_plans)
            assert row["activities"] == len({plan["activity"] for plan in defined_plans})
            assert row["coverage"] == near(
                100 * len(defined_plans) / (825 if name == PART else 1187)
            )
            assert row["truncated"] == (
                None if name == WEAK else near(100 * mean(plans, "Truncated"))
            )
    assert set(cells) == expected
    assert ("Correct by classifier", GOOD) in expected
    assert ("Correct by classifier", WEAK) not in expected


def test_means_exclude_plans_with_an_undefined_measure(section):
    plans = {
        row["measure"]: row["plans"]
        for row in run_rows(section, "actplan_scores")
        if row["model"] == GOOD
    }
    assert plans["Plan length, steps"] == COUNT
    assert plans["Norm. LCS"] == COUNT - 1
    assert plans["Norm. LCS, gold plan 2"] == COUNT - COUNT // 10
    assert plans["Form validity"] == COUNT - 1


def test_table_4_has_both_gold_plans_and_the_better_one_among_the_published_rows(section, logged):
    own_rows = {row["model"]: row for row in run_rows(section, "actplan_table4")}
    gold_plans = {"": "1", " (gold plan 2)": "2", " (better of the two)": "the better of the two"}
    assert set(own_rows) == {
        PART,
        *(name + suffix for name in (GOOD, WEAK, MUTE) for suffix in gold_plans),
    }
    for name in (GOOD, WEAK):
        for suffix, gold_plan in gold_plans.items():
            plan = f", {suffix[2:-1]}" if suffix else ""
            row, norm = own_rows[name + suffix], f"Norm. LCS{plan}"
            assert row["gold_plan"] == gold_plan
            assert row["lcs"] == near(mean(logged[name], f"LCS{plan}, steps"))
            assert row["norm_lcs"] == near(mean(logged[name], norm))
            assert (row["low"], row["high"]) == near(interval(logged[name], norm))
            assert row["plans"] == len(defined(logged[name], norm))
            assert row["encoder"] == "all-MiniLM-L6-v2"
        for setting in ("normal", "counterfactual"):
            of_setting = [plan for plan in logged[name] if plan["setting"] == setting]
            assert own_rows[name][f"norm_lcs_{setting}"] == near(mean(of_setting, "Norm. LCS"))
    (table,) = (table for table in section.tables if table.key == "actplan_table4")
    assert not any(row.is_ours for row in table.rows)
    published = [row for row in rows(section, "actplan_table4") if row["model"] not in own_rows]
    scores = [row["norm_lcs"] for row in published]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4
    marks = {row["model"]: row["gold_plan"] for row in published}
    assert {name for name, mark in marks.items() if "written from this model" in mark} == {
        "Gemini-Pro-1.5",
        "GPT-4V",
    }
    assert {name: mark[0] for name, mark in marks.items()} == {
        "Claude-3-haiku": "1", "Claude-3-sonnet": "1", "Gemini-Pro-1.5": "2", "GPT-4V": "1",
    }  # fmt: skip


def test_a_run_of_one_part_has_no_value_for_the_whole(section, logged):
    row = rows(section, "actplan_table4")[-1]
    assert (row["model"], row["lcs"], row["norm_lcs"], row["low"]) == (PART, None, None, None)
    assert row["norm_lcs_normal"] == near(mean(logged[PART], "Norm. LCS"))
    assert row["norm_lcs_counterfactual"] is None
    (verdicts,) = (row for row in run_rows(section, "actplan_table3") if row["model"] == PART)
    assert (verdicts["total_classified"], verdicts["counterfactual_classified"]) == (None, None)
    assert verdicts["normal_classified"] == near(100 * mean(logged[PART], "Correct by classifier"))


def test_published_columns_contain_only_their_measure(section):
    for number, allowed in (
        (3, set()),
        (6, {"avg_len"}),
        (7, {"normal_avg_len", "counterfactual_avg_len"}),
    ):
        published = load_table("actplan", f"table{number}")
        rows_of_run = run_rows(section, f"actplan_table{number}")
        assert rows_of_run
        for row in rows_of_run:
            filled = {name for name in published.columns if row[name] is not None}
            assert filled <= {published.label} | allowed
    assert run_rows(section, "actplan_table5") == []
    assert len(rows(section, "actplan_table5")) == 4


def test_contradictions_of_the_paper_are_below_the_tables(section):
    notes = {table.key: table.notes for table in section.tables}
    for table in (f"table{number}" for number in range(3, 8)):
        assert load_table("actplan", table).notes
        assert set(load_table("actplan", table).notes) <= set(notes[f"actplan_{table}"])
    for key, fact in (
        ("actplan_table3", "391 object categories"),
        ("actplan_table4", "more than two gold sequences"),
        ("actplan_table4", "58 of the 209 plans"),
        ("actplan_scores", "58 of the 209 plans"),
        ("actplan_table5", "85.2 on val and test for GPT-4V"),
        ("actplan_table5", "x is a sentence for gold plan"),
        ("actplan_table6", "ChatGPT was not asked with images"),
    ):
        assert any(fact in note for note in notes[key])


def test_the_classifiers_verdicts_are_next_to_table_3(section, logged):
    own_rows = {row["model"]: row for row in run_rows(section, "actplan_table3")}
    assert set(own_rows) == {GOOD, MUTE, PART}
    row, plans = own_rows[GOOD], logged[GOOD]
    assert row["total_classified"] == near(100 * mean(plans, "Correct by classifier"))
    assert (row["low"], row["high"]) == near(
        tuple(100 * end for end in interval(plans, "Correct by classifier"))
    )
    for setting in ("normal", "counterfactual"):
        of_setting = [plan for plan in plans if plan["setting"] == setting]
        assert row[f"{setting}_classified"] == near(100 * mean(of_setting, "Correct by classifier"))
    assert (row["plans"], row["classifier"]) == (COUNT, "classifier")


def test_the_ablation_has_the_runs_that_were_asked_without_images(section, logged):
    table6 = {row["model"]: row for row in run_rows(section, "actplan_table6")}
    table7 = {row["model"]: row for row in run_rows(section, "actplan_table7")}
    assert set(table6) == {f"{GOOD} (w)", f"{GOOD} (w/o)"}
    assert set(table7) == {f"{GOOD}, w image", f"{GOOD}, w/o image"}
    for name, images in ((GOOD, "w"), (TEXT, "w/o")):
        row6, row7, plans = (
            table6[f"{GOOD} ({images})"],
            table7[f"{GOOD}, {images} image"],
            logged[name],
        )
        assert row6["avg_len"] == near(mean(plans, "Plan length, steps"))
        assert row6["norm_lcs"] == near(mean(plans, "Norm. LCS"))
        assert row6["classified"] == near(100 * mean(plans, "Correct by classifier"))
        for setting in ("normal", "counterfactual"):
            of_setting = [plan for plan in plans if plan["setting"] == setting]
            assert row7[f"{setting}_avg_len"] == near(mean(of_setting, "Plan length, steps"))
            assert row7[f"norm_lcs_{setting}"] == near(mean(of_setting, "Norm. LCS"))
            assert row7[f"{setting}_classified"] == near(
                100 * mean(of_setting, "Correct by classifier")
            )


def test_a_run_without_samples_has_the_scores_of_the_harness(section, runs):
    (run,) = (run for run in runs if run.name == MUTE)
    metrics = run.tasks["actplan"].metrics
    scores = {
        row["measure"]: row for row in run_rows(section, "actplan_scores") if row["model"] == MUTE
    }
    assert scores["Norm. LCS"]["value"] == metrics["lcs_norm"]
    assert scores["Norm. LCS"]["plans"] == COUNT - 1
    assert scores["Form validity"]["plans"] is None
    assert {(row["low"], row["high"], row["activities"]) for row in scores.values()} == {
        (None, None, None)
    }
    for key, by in (("actplan_by_length", "length"), ("actplan_by_activity_type", "activity_type")):
        groups = {row["group"]: row for row in run_rows(section, key) if row["model"] == MUTE}
        breakdown = metrics["breakdown"][by]
        assert set(groups) == set(breakdown)
        for group, row in groups.items():
            means = breakdown[group]
            norm = None if group == "unknown" else means["lcs_norm"]
            assert (row["lcs_norm"], row["plans"]) == (norm, means["plans"])
            assert row["bleurt_correct"] == near(100 * means["bleurt_correct"])
            assert (row["low"], row["verdicts"]) == (None, None)
    assert any(text.startswith(f"{MUTE}: no samples") for text in section.remarks)


@pytest.mark.parametrize("asked", [1186, 1187])
def test_only_all_official_instances_compare_with_the_published_rows(runs, asked):
    run = next(run for run in runs if run.name == GOOD)
    tasks = {
        name: replace(task, samples=None, metrics=task.metrics | {"num_plans": asked})
        for name, task in run.tasks.items()
    }
    result = build_section(ActPlanReport([replace(run, tasks=tasks)]))
    rows_by_table = {
        table.key: [row for row in table.rows if row.is_ours]
        for table in result.tables
        if "Table" in table.source
    }
    separate_tables = [table for table in result.tables if table.key.endswith("_apart")]
    assert any(rows_by_table.values()) == (asked == 1187)
    assert bool(separate_tables) == (asked == 1186)
    assert all(
        row.values[-1] == "1,186 of 1,187 instances"
        for table in separate_tables
        for row in table.rows
    )


def test_tables_can_be_written(section):
    assert len({table.key for table in section.tables}) == len(section.tables) == 14
    for table in section.tables:
        assert len({column.key for column in table.columns}) == len(table.columns)
        assert csv_of(table).count("\n") == len(table.rows) + 1
        assert GOOD in markdown_of(table) or table.key in (
            f"actplan_table{number}" for number in range(3, 8)
        )


@pytest.mark.parametrize(
    ("key", "by", "order"),
    [
        ("actplan_by_length", "length", LENGTHS),
        ("actplan_by_activity_type", "activity_type", ACTIVITY_TYPES),
    ],
)
def test_breakdowns_are_means_of_the_groups(section, logged, key, by, order):
    breakdown = run_rows(section, key)
    assert [row["group"] for row in breakdown] == sorted(
        (row["group"] for row in breakdown), key=order.index
    )
    for name, plans in logged.items():
        rows_of_run = {row["group"]: row for row in breakdown if row["model"] == name}
        assert set(rows_of_run) == {plan[by] for plan in plans}
        for group, row in rows_of_run.items():
            members = [plan for plan in plans if plan[by] == group]
            assert row["plans"] == len(defined(members, "Norm. LCS"))
            assert row["lcs_norm"] == near(mean(members, "Norm. LCS"))
            assert (row["low"], row["high"]) == near(interval(members, "Norm. LCS"))
            assert row["lcs"] == near(mean(members, "LCS, steps"))
            assert row["lcs_norm_parsed"] == near(mean(members, "Norm. LCS, parsed"))
            assert row["verdicts"] == (len(members) if name != WEAK else None)
            assert row["bleurt_correct"] == near(percent(mean(members, "Correct by classifier")))
            ends = tuple(map(percent, interval(members, "Correct by classifier")))
            assert (row["correct_low"], row["correct_high"]) == near(ends)


def test_the_table_compares_the_settings(section, logged):
    scores = {
        (row["measure"], row["model"]): row for row in run_rows(section, "actplan_by_setting")
    }
    for name in (GOOD, TEXT, WEAK):
        for measure in (
            "Norm. LCS",
            "Norm. LCS, parsed",
            "Form validity",
            "Plan length, steps",
            "Correct by classifier",
        ):
            if not defined(logged[name], measure):
                assert (measure, name) not in scores
                continue
            row, means = scores[measure, name], []
            for setting in ("normal", "counterfactual"):
                plans = [plan for plan in logged[name] if plan["setting"] == setting]
                means.append(mean(plans, measure))
                assert row[setting] == near(means[-1])
                assert (row[f"{setting}_low"], row[f"{setting}_high"]) == near(
                    interval(plans, measure)
                )
                assert row[f"{setting}_plans"] == len(defined(plans, measure))
            assert row["difference"] == near(means[0] - means[1])
    part = scores["Norm. LCS", PART]
    assert (part["counterfactual"], part["counterfactual_plans"], part["difference"]) == (
        None,
        None,
        None,
    )


def test_the_interval_of_the_difference_between_settings_draws_whole_activities(section, logged):
    """Compare with a slow bootstrap of another seed, whose ends differ only by chance."""
    chance = random.Random(0)
    by_activity = {}
    for plan in logged[GOOD]:
        by_activity.setdefault(plan["activity"], []).append(plan)
    differences = []
    for _ in range(1500):
        drawn = [
            plan for _ in by_activity for plan in by_activity[chance.choice(list(by_activity))]
        ]
        parts = [
            [p for p in drawn if p["setting"] == setting]
            for setting in ("normal", "counterfactual")
        ]
        differences.append(
            mean(parts[0], "Plan length, steps") - mean(parts[1], "Plan length, steps")
        )
    differences.sort()
    (row,) = (
        row
        for row in run_rows(section, "actplan_by_setting")
        if (row["measure"], row["model"]) == ("Plan length, steps", GOOD)
    )
    width = row["difference_high"] - row["difference_low"]
    assert row["difference_low"] == pytest.approx(differences[37], abs=0.1 * width)
    assert row["difference_high"] == pytest.approx(differences[1462], abs=0.1 * width)


def test_figures_show_the_numbers_of_the_tables(section):
    figures = {figure.key: figure for figure in section.figures}
    lengths, types = (
        run_rows(section, "actplan_by_length"),
        run_rows(section, "actplan_by_activity_type"),
    )
    for key, column, scale in (
        ("actplan_by_length", "lcs_norm", 1),
        ("actplan_correct_by_length", "bleurt_correct", 100),
    ):
        (axes,) = figures[key].draw().axes
        for drawn in (line for line in axes.lines if line.get_label()[0] != "_"):
            rows_of_run = [row[column] for row in lengths if row["model"] == drawn.get_label()]
            values = [value / scale for value in rows_of_run if value is not None]
            assert list(drawn.get_ydata()) == near(values)
        names = {line.get_label() for line in axes.lines}
        assert (WEAK in names) == (scale == 1)
    (axes,) = figures["actplan_by_activity_type"].draw().axes
    points = points_of(axes)
    for name in (GOOD, TEXT, WEAK, MUTE, PART):
        scores = [row["lcs_norm"] for row in types if row["model"] == name]
        assert points[name] == near([score for score in scores if score is not None])
    (axes,) = figures["actplan_by_setting"].draw().axes
    assert group_names(axes) == ["normal", "counterfactual"]
    values = {f"{value:.2f}" for values in points_of(axes).values() for value in values}
    assert values <= {text.get_text() for text in axes.texts}
    assert axes.get_xlabel() == "normalised LCS, 0 to 1\nbars: 95 % intervals, where known"


@pytest.mark.parametrize(
    ("key", "low", "high", "scale", "least"),
    [
        ("actplan_by_length", "low", "high", 1, 6),
        ("actplan_correct_by_length", "correct_low", "correct_high", 100, 6),
        ("actplan_by_activity_type", "low", "high", 1, 0),  # of fewer than 10 activities each
    ],
)
def test_figures_show_the_intervals_of_the_tables(section, key, low, high, scale, least):
    (figure,) = (figure for figure in section.figures if figure.key == key)
    table = key.replace("_correct", "")
    expected = sorted(
        (row[low] / scale, row[high] / scale)
        for row in run_rows(section, table)
        if row[low] is not None
    )
    (axes,) = figure.draw().axes
    is_horizontal = key == "actplan_by_activity_type"
    drawn = sorted(
        tuple(segment[:, 0 if is_horizontal else 1])
        for lines in axes.collections
        for segment in lines.get_segments()
    )
    assert len(drawn) == len(expected) >= least
    assert all(ends == near(row_ends) for ends, row_ends in zip(drawn, expected, strict=True))


def test_figures_distinguish_runs_without_colour(section):
    for figure in section.figures:
        (axes,) = figure.draw().axes
        signs = [
            (line.get_marker(), line.get_linestyle(), line.get_markerfacecolor() == "white")
            for line in axes.lines
            if line.get_label()[0] != "_"
        ]
        assert len(set(signs)) == len(signs) >= 3
        assert GOOD in figure.description


def test_without_a_classifier_there_is_no_figure_of_correctness(written):
    report_section = build_section(
        ActPlanReport(read_runs([written / "runs" / f"org__{WEAK}"]).runs)
    )
    assert [figure.key for figure in report_section.figures] == [
        "actplan_by_setting", "actplan_by_length", "actplan_by_activity_type",
    ]  # fmt: skip
    (line,) = [
        line for line in report_section.finding if "LMMS_EGOPLAN_BLEURT is empty or not set" in line
    ]
    assert WEAK in line
    assert "`lmms-egoplan train actplan-bleurt`" in line
    titles = {table.key: table.title for table in report_section.tables}
    assert [titles[f"actplan_table{n}"].partition(":")[0] for n in (3, 5, 6, 7)] == [
        "Published"
    ] * 4
    assert not any(run_rows(report_section, f"actplan_table{number}") for number in (3, 5, 6, 7))
