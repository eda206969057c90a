"""ActPlan-1K's tables of scores in the report, beside what is counted here from the files that the harnesses wrote."""

from dataclasses import replace

import pytest

from benchmarks.actplan.report.synthetic_runs import COUNT, GOOD, MUTE, PART, TEXT, WEAK, defined, interval, mean
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.writing import csv_of, markdown_of
from report.joined import near, rows, run_rows


def test_every_score_is_the_mean_over_the_plans_it_is_defined_for(section, logged):
    found = {(row["measure"], row["model"]): row for row in run_rows(section, "actplan_scores") if row["model"] != MUTE}
    expected = set()
    for name, plans in logged.items():
        for measure in [key for key in plans[0] if key[0].isupper()]:
            chosen = defined(plans, measure)
            if not chosen:
                continue
            expected.add((measure, name))
            row = found[measure, name]
            assert row["value"] == near(mean(plans, measure))
            assert (row["low"], row["high"]) == near(interval(plans, measure))
            assert row["plans"] == len(chosen)
            assert row["activities"] == len({plan["activity"] for plan in chosen})
            assert row["coverage"] == near(100 * len(chosen) / (825 if name == PART else 1187))
            assert row["truncated"] == (None if name == WEAK else near(100 * mean(plans, "Truncated")))
    assert set(found) == expected
    assert ("Correct by classifier", GOOD) in expected
    assert ("Correct by classifier", WEAK) not in expected
    assert {name for measure, name in expected if measure.startswith("Goal conditions")} == {GOOD}


def test_plans_for_which_a_measure_is_not_defined_are_in_no_mean(section):
    plans = {row["measure"]: row["plans"] for row in run_rows(section, "actplan_scores") if row["model"] == GOOD}
    assert plans["Plan length, steps"] == COUNT
    assert plans["Norm. LCS"] == COUNT - 1
    assert plans["Norm. LCS, gold plan 2"] == COUNT - COUNT // 10
    assert plans["Form validity"] == COUNT - 1


def test_table_4_has_both_gold_plans_among_the_published_rows(section, logged):
    found = {row["model"]: row for row in run_rows(section, "actplan_table4")}
    assert set(found) == {
        GOOD,
        f"{GOOD}, gold plan 2",
        WEAK,
        f"{WEAK}, gold plan 2",
        MUTE,
        f"{MUTE}, gold plan 2",
        PART,
    }
    for name in (GOOD, WEAK):
        for model, suffix in ((name, ""), (f"{name}, gold plan 2", ", gold plan 2")):
            row, norm = found[model], f"Norm. LCS{suffix}"
            assert row["lcs"] == near(mean(logged[name], f"LCS{suffix}, steps" if suffix else "LCS, steps"))
            assert row["norm_lcs"] == near(mean(logged[name], norm))
            assert (row["low"], row["high"]) == near(interval(logged[name], norm))
            assert row["plans"] == len(defined(logged[name], norm))
            assert row["encoder"] == "all-MiniLM-L6-v2"
        for setting in ("normal", "counterfactual"):
            of_setting = [plan for plan in logged[name] if plan["setting"] == setting]
            assert found[name][f"norm_lcs_{setting}"] == near(mean(of_setting, "Norm. LCS"))
    (table,) = (table for table in section.tables if table.key == "actplan_table4")
    assert not any(row.is_own for row in table.rows)
    scores = [row["norm_lcs"] for row in rows(section, "actplan_table4") if row["model"] not in found]
    assert scores == sorted(scores, reverse=True)
    assert len(scores) == 4


def test_a_run_of_one_part_has_no_value_for_the_whole(section, logged):
    row = rows(section, "actplan_table4")[-1]
    assert (row["model"], row["lcs"], row["norm_lcs"], row["low"]) == (PART, None, None, None)
    assert row["norm_lcs_normal"] == near(mean(logged[PART], "Norm. LCS"))
    assert row["norm_lcs_counterfactual"] is None
    (verdicts,) = (row for row in run_rows(section, "actplan_table3") if row["model"] == PART)
    assert (verdicts["total_classified"], verdicts["counterfactual_classified"]) == (None, None)
    assert verdicts["normal_classified"] == near(100 * mean(logged[PART], "Correct by classifier"))


def test_published_columns_never_hold_what_they_do_not_mean(section):
    for number, allowed in ((3, set()), (6, {"avg_len"}), (7, {"normal_avg_len", "counterfactual_avg_len"})):
        published = load_table("actplan", f"table{number}")
        own = run_rows(section, f"actplan_table{number}")
        assert own
        for row in own:
            filled = {name for name in published.columns if row[name] is not None}
            assert filled <= {published.label} | allowed
    assert run_rows(section, "actplan_table5") == []
    assert len(rows(section, "actplan_table5")) == 4


def test_contradictions_of_the_paper_stand_below_the_tables(section):
    found = {table.key: table.notes for table in section.tables}
    for table in (f"table{number}" for number in range(3, 8)):
        assert load_table("actplan", table).notes
        assert set(load_table("actplan", table).notes) <= set(found[f"actplan_{table}"])
    for key, told in (
        ("actplan_table3", "391 object categories"),
        ("actplan_table4", "more than two gold sequences"),
        ("actplan_table5", "x is a sentence for gold plan"),
        ("actplan_table6", "ChatGPT was not asked with images"),
    ):
        assert any(told in note for note in found[key])


def test_the_classifiers_verdicts_stand_beside_table_3(section, logged):
    found = {row["model"]: row for row in run_rows(section, "actplan_table3")}
    assert set(found) == {GOOD, MUTE, PART}
    row, plans = found[GOOD], logged[GOOD]
    assert row["total_classified"] == near(100 * mean(plans, "Correct by classifier"))
    assert (row["low"], row["high"]) == near(tuple(100 * end for end in interval(plans, "Correct by classifier")))
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
        row6, row7, plans = table6[f"{GOOD} ({images})"], table7[f"{GOOD}, {images} image"], logged[name]
        assert row6["avg_len"] == near(mean(plans, "Plan length, steps"))
        assert row6["norm_lcs"] == near(mean(plans, "Norm. LCS"))
        assert row6["classified"] == near(100 * mean(plans, "Correct by classifier"))
        for setting in ("normal", "counterfactual"):
            of_setting = [plan for plan in plans if plan["setting"] == setting]
            assert row7[f"{setting}_avg_len"] == near(mean(of_setting, "Plan length, steps"))
            assert row7[f"norm_lcs_{setting}"] == near(mean(of_setting, "Norm. LCS"))
            assert row7[f"{setting}_classified"] == near(100 * mean(of_setting, "Correct by classifier"))


def test_a_run_without_samples_has_the_harness_own_scores(section, runs):
    (run,) = (run for run in runs if run.name == MUTE)
    metrics = run.tasks["actplan"].metrics
    found = {row["measure"]: row for row in run_rows(section, "actplan_scores") if row["model"] == MUTE}
    assert found["Norm. LCS"]["value"] == metrics["lcs_norm"]
    assert found["Norm. LCS"]["plans"] == COUNT - 1
    assert found["Form validity"]["plans"] is None
    assert {(row["low"], row["high"], row["activities"]) for row in found.values()} == {(None, None, None)}
    for key, by in (("actplan_by_length", "length"), ("actplan_by_activity_type", "activity_type")):
        groups = {row["group"]: row for row in run_rows(section, key) if row["model"] == MUTE}
        assert set(groups) == set(metrics[f"by_{by}"])
        for group, row in groups.items():
            norm = None if group == "unknown" else metrics[f"by_{by}"][group]
            assert (row["lcs_norm"], row["plans"]) == (norm, metrics[f"plans_by_{by}"][group])
            assert row["bleurt_correct"] == near(100 * metrics[f"bleurt_by_{by}"][group])
            assert (row["low"], row["verdicts"]) == (None, None)
    assert any(text.startswith(f"{MUTE}: no samples") for text in section.remarks)


@pytest.mark.parametrize("asked", [1186, 1187])
def test_only_all_official_instances_compare_with_the_published_rows(runs, asked):
    run = next(run for run in runs if run.name == GOOD)
    tasks = {
        name: replace(task, samples=None, metrics=task.metrics | {"num_plans": asked})
        for name, task in run.tasks.items()
    }
    found = ActPlanReport([replace(run, tasks=tasks)]).section()
    beside = {table.key: [row for row in table.rows if row.is_own] for table in found.tables if "Table" in table.source}
    apart = [table for table in found.tables if table.key.endswith("_apart")]
    assert any(beside.values()) == (asked == 1187)
    assert bool(apart) == (asked == 1186)
    assert all(row.values[-1] == "1,186 of 1,187 instances" for table in apart for row in table.rows)


def test_tables_can_be_written(section):
    assert len({table.key for table in section.tables}) == len(section.tables) == 14
    for table in section.tables:
        assert len({column.key for column in table.columns}) == len(table.columns)
        assert csv_of(table).count("\n") == len(table.rows) + 1
        assert GOOD in markdown_of(table) or table.key in (f"actplan_table{number}" for number in range(3, 8))
