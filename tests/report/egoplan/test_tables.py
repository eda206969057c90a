"""Compare EgoPlan's tables and figures in the report with values counted here from the same
answers.
"""

import json
from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from lmms_egoplan.encoder import ENCODER_VARIABLE
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.compact import compact_table
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.egoplan.similarity import similarities
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section, remarks_of
from lmms_egoplan.report.spec import Inputs
from lmms_egoplan.stats.intervals import holm
from report.answers import Answers
from report.egoplan.synthetic_runs import (
    ANSWERS,
    BASELINES,
    COUNT,
    DOCS,
    LETTERS,
    MAIN,
    group_of,
    interval,
    of_source,
    percent,
    run_of,
    scores,
    task_of,
)
from report.joined import figure, group_names, joined, near, rows, run_rows
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")


@pytest.mark.parametrize("name", MAIN)
def test_table_1_has_the_runs_that_rank_after_the_video(section, name):
    (row,) = (row for row in run_rows(section, "egoplan_table1") if row["model"] == name)
    assert row["acc"] == near(percent(scores(name)))
    assert (row["low"], row["high"]) == near(interval(name))
    assert row["questions"] == COUNT - scores(name).count(None)
    assert row["coverage"] == near(100 * row["questions"] / 3355)
    assert row["llm"] is None
    assert row["acc_sum"] == near(percent(scores(name, "sum")))


def test_table_1_merges_runs_with_published_rows(section):
    table_rows = rows(section, "egoplan_table1")
    assert sorted(row["model"] for row in table_rows if row["is_ours"]) == MAIN
    published = [round(row["acc"], 2) for row in table_rows if not row["is_ours"]]
    assert published == sorted(published, reverse=True)


def test_runs_on_rendered_scenes_are_not_in_table_3(tmp_path, bert):
    real, drawn = ANSWERS["Small"], ANSWERS["Big (lmms-eval)"]
    docs = [
        doc | {"video_id": f"rendered_{doc['video_id'].replace('-', '_')}"} for doc in drawn.docs
    ]
    write_run(tmp_path, "lmms-eval", "org/Real", {"egoplan_val": real})
    write_run(tmp_path, "lmms-eval", "org/Drawn", {"egoplan_val": replace(drawn, docs=docs)})
    section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    assert [row["model"] for row in run_rows(section, "egoplan_table3")] == ["Real"]
    (row,) = (row for row in rows(section, "egoplan_scores") if row["run"] == "Drawn")
    assert row["acc_epic_kitchens"] == near(of_source("Big (lmms-eval)", "EpicKitchens"))
    assert row["acc_ego4d"] == near(of_source("Big (lmms-eval)", "Ego4D"))
    assert row["acc"] == near(percent(scores("Big (lmms-eval)")))


def test_table_3_separates_the_domains(section):
    by_model = {row["model"]: row for row in run_rows(section, "egoplan_table3")}
    assert sorted(by_model) == MAIN
    for name, row in by_model.items():
        assert row["id"] == near(of_source(name, "EpicKitchens"))
        assert row["od"] == near(of_source(name, "Ego4D"))
        assert row["all"] == near(percent(scores(name)))
        assert row["acc_sum"] == near(percent(scores(name, "sum")))
        assert (row["low"], row["high"]) == near(interval(name))


@pytest.mark.parametrize(
    ("new_metrics", "compares"),
    [
        ({}, True),
        ({"predictions": 3354}, False),
        ({"split_size": 3356}, False),
        ({"predictions": 91, "num_questions": 91, "split_size": 91}, False),
    ],
)
def test_only_the_complete_official_file_is_compared_with_published_rows(
    runs, bert, new_metrics, compares
):
    run = next(run for run in runs if run.name == "Small")
    metrics = {"predictions": 3355, "num_questions": 3355, "split_size": 3355} | new_metrics
    task = replace(
        run.tasks["egoplan_val"], samples=None, metrics=run.tasks["egoplan_val"].metrics | metrics
    )
    report_section = build_section(
        EgoPlanReport([replace(run, tasks={"egoplan_val": task})], Inputs(bert))
    )
    for key in ("egoplan_table1", "egoplan_table3"):
        assert [not row.why for row in joined(report_section, key).rows if row.is_ours] == [
            compares
        ]
    assert report_section.headlines[0].coverage == near(metrics["predictions"] / 3355)


def test_table_4_has_only_published_rows(section):
    assert not run_rows(section, "egoplan_table4")


def test_all_scores_of_each_run(section):
    table_rows = run_rows(section, "egoplan_scores")
    assert len(table_rows) == len(ANSWERS | BASELINES)
    for row in table_rows:
        (name,) = (
            key
            for key in ANSWERS | BASELINES
            if (run_of(key), task_of(key)) == (row["run"], row["task"])
        )
        is_written = row["task"] == "egoplan_val_generate" or name in BASELINES
        assert row["acc"] == near(percent(scores(name)))
        assert (row["low"], row["high"]) == near(interval(name))
        assert row["acc_sum"] == (None if is_written else near(percent(scores(name, "sum"))))
        assert row["acc_bytes"] == (None if is_written else near(percent(scores(name, "bytes"))))
        assert row["acc_epic_kitchens"] == near(of_source(name, "EpicKitchens"))
        assert row["acc_ego4d"] == near(of_source(name, "Ego4D"))
        assert row["ties"] == (None if is_written else 0)
        unparsed = (
            [reply == ["I do not know."] for reply in ANSWERS[name].responses]
            if name in ANSWERS
            else []
        )
        assert row["unparsed"] == (
            near(100 * mean(unparsed)) if is_written and name in ANSWERS else None
        )
        assert row["truncated"] == row["unparsed"]
        assert row["asked"] == COUNT
        assert row["questions"] == COUNT - scores(name).count(None)


def test_a_backend_with_only_means_has_no_accuracy_by_sum(runs, bert):
    run = next(run for run in runs if run.name == "Small")
    task = run.tasks["egoplan_val"]
    metrics = {
        name: value for name, value in task.metrics.items() if name not in ("acc_sum", "acc_bytes")
    }
    samples = [
        {name: value for name, value in sample.items() if name not in ("acc_sum", "acc_bytes")}
        for sample in task.samples
    ]
    means = replace(run, tasks={"egoplan_val": replace(task, metrics=metrics, samples=samples)})
    report_section = build_section(EgoPlanReport([means], Inputs(bert)))
    assert report_section.headlines[0].beside == (("by sum", None),)
    assert report_section.headlines[0].value == near(percent(scores("Small")))
    for key in ("egoplan_table1", "egoplan_table3", "egoplan_past_actions"):
        assert {row["acc_sum"] for row in run_rows(report_section, key)} == {None}


def test_only_a_written_answer_can_be_truncated(section, tmp_path, bert):
    task = "egoplan_val_generate"
    assert {headline.task for headline in section.headlines if headline.is_generated} == {task}
    write_run(tmp_path, "lmms-eval", "org/Small", {task: ANSWERS[f"Big (lmms-eval) ({task})"]})
    (headline,) = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert))).headlines
    assert (headline.run, headline.task) == ("Small", task)
    assert headline.is_generated


def test_reasoned_replies_without_a_letter_are_counted_and_not_wrong(tmp_path, bert):
    """The row covers the replies with a letter, and the remarks say that the prompt is not the
    paper's protocol.
    """
    task, done = (
        "egoplan_val_reasoned",
        "Task progress: A lid is off.\nCurrent observation: A sink.",
    )
    letters = [(*LETTERS, None)[number % 5] for number in range(COUNT)]
    replies = [[done if letter is None else f"{done}\nNext action: {letter}"] for letter in letters]
    write_run(tmp_path, "lmms-eval", "org/Small", {task: Answers(DOCS, replies)})
    report = EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert))
    section = build_section(report)
    (row,) = (row for row in run_rows(section, "egoplan_scores") if row["task"] == task)
    read = [(doc, letter) for doc, letter in zip(DOCS, letters, strict=True) if letter]
    assert row["acc"] == near(
        100 * mean(doc["golden_choice_idx"] == letter for doc, letter in read)
    )
    assert row["unparsed"] == row["incomplete"] == near(100 * letters.count(None) / COUNT)
    assert (row["asked"], row["questions"]) == (COUNT, len(read))
    assert row["coverage"] == near(100 * len(read) / 3355)
    (headline,) = section.headlines
    assert (headline.is_generated, headline.questions) == (True, len(read))
    remarks = "\n".join(section.remarks)
    assert "the prompt is not the paper's" in remarks
    assert (
        f"{letters.count(None)} of {COUNT} questions have no score, as no letter was read"
        in remarks
    )
    for item, letter in zip(gallery_items(report), letters, strict=True):
        (answer,) = item.answers.values()
        assert "A lid is off." in answer.text
        assert "A sink." in answer.text
        assert (answer.verdict == "unscored") == (letter is None)


AUDITED = {"difference": 2e-3, "tolerance": 1e-4}


def with_metrics(runs, name, metrics):
    """Replace the metrics of one run."""
    changed_runs = []
    for run in runs:
        task = run.tasks.get("egoplan_val")
        if run.name == name:
            run = replace(run, tasks={"egoplan_val": replace(task, metrics=task.metrics | metrics)})
        changed_runs.append(run)
    return EgoPlanReport(changed_runs)


def test_a_run_beyond_its_tolerance_is_neither_ranked_nor_compared(runs, section, bert):
    report = with_metrics(runs, "Small", {"ranking": AUDITED})
    (headline,) = (line for line in report.headlines if line.run == "Small")
    assert any("0.002 nats, more than 0.0001" in reason for reason in headline.apart)
    assert any(table.key == "egoplan_comparisons" for table in section.tables)
    assert not any(
        table is not None and table.key == "egoplan_comparisons" for table in report.tables()
    )
    assert all(
        "0.002" in pair.why for pair in report.differences if "Small" in (pair.first, pair.second)
    )
    (row,) = (row for row in compact_table(report).rows if row.values[0].strip() == "not compared")
    assert [("0.002" in cell) for cell in row.values[1:]].count(True) == 1


@pytest.mark.parametrize("audits", [{"difference": 9e-5}, {"difference": float("nan")}])
def test_a_run_within_its_tolerance_or_without_audits_is_compared(runs, audits):
    report = with_metrics(runs, "Small", {"ranking": AUDITED | audits})
    assert any(
        table is not None and table.key == "egoplan_comparisons" for table in report.tables()
    )
    assert not any("nats" in reason for line in report.headlines for reason in line.apart)


def test_near_ties_and_the_backends_note_are_shown(runs):
    text = "vLLM not compared with transformers for this model"
    report = with_metrics(runs, "Small", {"ranking": {"near_ties": 3, "note": text}})
    assert any(text in remark for remark in remarks_of(report))
    cells = {row.values[0].strip(): row.values[1:] for row in compact_table(report).rows}
    assert text in cells["ranking"]
    assert "3" in cells["near ties"]
    assert not any(text in reason for line in report.headlines for reason in line.apart)


@pytest.mark.parametrize("harness", ["lmms-eval", "lm-eval"])
def test_pixel_limits_of_a_preset_that_are_not_in_effect_are_reported(tmp_path, bert, harness):
    """The mark is in the results alone; scores and samples still agree."""
    task = "egoplan__seed-bench-r1"
    path = write_run(tmp_path, harness, "org/Small", {task: egoplan_replies(COUNT, 0.5, 3)})
    own_fields = EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert))
    assert not any("other limits" in remark for remark in remarks_of(own_fields))
    content = json.loads(path.read_text())
    content["configs"][task]["metadata"]["pixels"] = "other limits"
    path.write_text(json.dumps(content))
    runs = read_runs([tmp_path])
    assert runs.skipped == ()
    remarks = remarks_of(EgoPlanReport(runs.runs, Inputs(bert)))
    (remark,) = (remark for remark in remarks if "not followed in this preset" in remark)
    assert "pixels (other limits)." in remark


def check_groups(section, key, groups):
    table_rows = run_rows(section, key)
    assert len(table_rows) == len(set(groups.values())) * len(ANSWERS | BASELINES)
    for row in table_rows:
        (name,) = (
            name
            for name in ANSWERS | BASELINES
            if (run_of(name), task_of(name)) == (row["run"], row["task"])
        )
        numbers = [number for number in range(COUNT) if groups[number] == row["group"]]
        valid_scores = [
            scores(name)[number] for number in numbers if scores(name)[number] is not None
        ]
        assert row["acc"] == near(percent(valid_scores))
        assert row["questions"] == len(valid_scores)
        by_sum = [scores(name, "sum")[number] for number in numbers]
        assert row["acc_sum"] == (
            None if row["task"] == "egoplan_val_generate" else near(percent(by_sum))
        )
        ends = interval(name, numbers)
        assert (row["low"], row["high"]) == ((None, None) if ends is None else near(ends))


def test_accuracy_by_number_of_past_actions(section):
    groups = {number: group_of(doc) for number, doc in enumerate(DOCS)}
    assert len(set(groups.values())) == 5
    check_groups(section, "egoplan_past_actions", groups)
    order = list(dict.fromkeys(row["group"] for row in run_rows(section, "egoplan_past_actions")))
    assert order == ["0", "1", "2 to 3", "4 to 7", "8 to 15"]


def test_accuracy_by_goal_answer_similarity_in_three_equal_levels(section, bert):
    similarity = similarities([(doc["task_goal"], doc["answer"]) for doc in DOCS], bert)[0]
    order = sorted(
        range(COUNT),
        key=lambda number: (similarity[DOCS[number]["task_goal"], DOCS[number]["answer"]], number),
    )
    names = ["low"] * 31 + ["middle"] * 30 + ["high"] * 30
    check_groups(section, "egoplan_similarity", dict(zip(order, names, strict=True)))
    assert "layer 2 of 2" in figure(section, "egoplan_similarity").caption


def test_without_an_encoder_only_the_levels_are_missing(runs, monkeypatch):
    monkeypatch.setenv(ENCODER_VARIABLE, "/no/such/folder")
    report_section = build_section(EgoPlanReport(runs))
    keys = [table.key for table in report_section.tables]
    assert "egoplan_past_actions" in keys
    assert "egoplan_similarity" not in keys
    (remark,) = (
        remark
        for remark in report_section.remarks
        if remark.startswith("No accuracy by goal-answer similarity: ")
    )
    assert "/no/such/folder" in remark
    assert "hf download" in remark


def test_a_missing_requested_encoder_is_an_error(runs):
    with pytest.raises(LmmsEgoplanError, match="BERTScore with /no/such/folder"):
        build_section(EgoPlanReport(runs, Inputs("/no/such/folder")))


def test_pairs_of_tasks_of_a_model_in_both_harnesses(section):
    table_rows = rows(section, "egoplan_tasks_1")
    names = {row["first"] for row in table_rows} | {row["second"] for row in table_rows}
    assert names == ANSWERS.keys() - {"Small"}
    assert len(table_rows) == 10
    assert [row["p_holm"] for row in table_rows] == holm([row["p_value"] for row in table_rows])
    assert not [table.key for table in section.tables if table.key == "egoplan_tasks_2"]
    (seen,) = (
        row
        for row in table_rows
        if {row["first"], row["second"]} == {MAIN[0], "Big (lm-eval) (egoplan_val_blind)"}
    )
    expected = percent(scores(MAIN[0])) - percent(scores("Big (lm-eval) (egoplan_val_blind)"))
    assert abs(seen["difference"]) == near(abs(expected))


def test_runs_over_other_questions_are_not_compared(tmp_path, written, bert):
    write_run(tmp_path, "lmms-eval", "org/Other", {"egoplan_val": egoplan_answers(40, 0.5)})
    runs = read_runs([tmp_path, written / "runs"]).runs
    names = {
        row[side]
        for row in rows(build_section(EgoPlanReport(runs, Inputs(bert))), "egoplan_comparisons")
        for side in ("first", "second")
    }
    assert names == {"Big (lmms-eval)", "Small"}
    keys = [item.key for item in gallery_items(EgoPlanReport(runs))]
    assert len(keys) == len(set(keys)) == COUNT + 40


def test_a_model_that_one_harness_logs_by_its_path(tmp_path, bert):
    write_run(tmp_path, "lmms-eval", "Big", {"egoplan_val": ANSWERS[MAIN[0]]})
    write_run(tmp_path, "lm-eval", "/models/Big", {"egoplan_val_blind": ANSWERS["Small"]})
    report_section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    assert len(rows(report_section, "egoplan_tasks_1")) == 1


def test_a_name_that_ends_two_paths_matches_neither(tmp_path, bert):
    write_run(tmp_path, "lmms-eval", "Big", {"egoplan_val": ANSWERS[MAIN[0]]})
    for path in ("/one/Big", "/two/Big"):
        write_run(tmp_path, "lm-eval", path, {"egoplan_val_blind": ANSWERS["Small"]})
    keys = [
        table.key
        for table in build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert))).tables
    ]
    assert not [key for key in keys if key.startswith("egoplan_tasks")]


def lines(axes, label):
    (line,) = (line for line in axes.get_lines() if line.get_label() == label)
    return line


@pytest.mark.parametrize("key", ["egoplan_past_actions", "egoplan_similarity"])
def test_lines_of_runs_baselines_and_chance(section, key):
    (axes,) = figure(section, key).draw().axes
    labels = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert sorted(labels) == [
        "Big (lm-eval), blind",
        "Big (lm-eval), narrated",
        "Big (lmms-eval)",
        "Small",
        "chance",
    ]
    labels.remove("chance")
    styles = {label: lines(axes, label) for label in labels}
    assert {label: line.get_linestyle() for label, line in styles.items()} == {
        "Big (lm-eval), blind": ":",
        "Big (lm-eval), narrated": "--",
        "Big (lmms-eval)": "-",
        "Small": "-",
    }
    colours = {label: line.get_color() for label, line in styles.items()}
    assert colours["Big (lm-eval), blind"] == colours["Big (lm-eval), narrated"]
    assert len({*colours.values()}) == 3
    for name, label in (
        ("Small", "Small"),
        ("Big (lm-eval) (egoplan_val_narrated)", "Big (lm-eval), narrated"),
    ):
        expected = [
            row["acc"]
            for row in run_rows(section, key)
            if (row["run"], row["task"]) == (run_of(name), task_of(name))
        ]
        assert list(styles[label].get_ydata()) == near(expected)
    assert any(list(line.get_ydata()) == [25, 25] for line in axes.get_lines())


def test_the_figure_of_accuracies_by_task(section):
    (axes,) = figure(section, "egoplan_accuracy").draw().axes
    ticks = dict(zip(axes.get_yticks(), group_names(axes), strict=True))
    accuracies = {}
    for line in axes.get_lines():
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            task = ticks[min(ticks, key=lambda tick, y=y: abs(tick - y))]
            accuracies[line.get_label(), task] = x
    for (run, task), name in {
        ("Big (lmms-eval)", "egoplan_val"): "Big (lmms-eval)",
        ("Big (lm-eval)", "narrated"): "Big (lm-eval) (egoplan_val_narrated)",
        ("no model", "not done yet"): "no model (not done yet)",
    }.items():
        assert accuracies[run, task] == near(percent(scores(name)))
    tasks = {task for name in ANSWERS for task in [task_of(name)] if task != "egoplan_val_blind"}
    assert len({task for run, task in accuracies if run in map(run_of, ANSWERS)}) == len(tasks)
    assert {task for run, task in accuracies if run == "no model"} == {*BASELINES.values()}


def test_names_are_not_parsed_as_formulas(written, bert):
    from matplotlib.text import Text

    (run,) = (run for run in read_runs([written / "runs"]).runs if run.name == "Small")
    report_section = build_section(EgoPlanReport([replace(run, name="a$b_c$d")], Inputs(bert)))
    for report_figure in report_section.figures:
        drawing = report_figure.draw()
        drawing.draw_without_rendering()
        texts = [text for text in drawing.findobj(Text) if "a$b_c$d" in text.get_text()]
        assert texts
        assert not any(text.get_parse_math() for text in texts)


def test_questions_on_which_the_authors_code_fails_are_named_and_not_scored(tmp_path, bert):
    task, short = (
        "egoplan_val_clips_published",
        {"narration_text": "act", "start_frame": 1, "stop_frame": 1},
    )
    docs = [
        doc | {"past_actions": [short] if number % 20 == 3 else []}
        for number, doc in enumerate(DOCS)
    ]
    use = {"use": {"path": "full", "kind": "image"}}
    responses = [
        [json.dumps(json.loads(text) | use) for text in texts]
        for texts in egoplan_answers(COUNT, 0.5).responses
    ]
    write_run(tmp_path, "lmms-eval", "org/Small", {task: Answers(docs, responses)})
    section = build_section(EgoPlanReport(read_runs([tmp_path]).runs, Inputs(bert)))
    failed = [doc["sample_id"] for doc in docs if doc["past_actions"]]
    (row,) = (row for row in run_rows(section, "egoplan_scores") if row["task"] == task)
    assert (row["authors_fail"], row["questions"], row["asked"]) == (
        len(failed),
        COUNT - len(failed),
        COUNT,
    )
    assert row["coverage"] == near(100 * (COUNT - len(failed)) / 3355)
    remarks = "\n".join(section.remarks)
    assert f"{len(failed)} of {COUNT} questions have no score" in remarks
    assert ", ".join(map(str, sorted(failed))) in remarks
    assert "not finite" not in remarks
