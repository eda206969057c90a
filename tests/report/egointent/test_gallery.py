"""EgoIntent's steps in the report, and runs that lack something."""

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.egointent.source import raw_record
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, PROMPT_VERSION
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egointent.gallery import read_frames
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from media.files import read_number
from report.egointent.synthetic_runs import COUNT, NAMES, records
from report.joined import joined, rows, run_rows
from report.synthetic import write_run


def test_items_show_references_answers_and_frames(runs, written):
    items = gallery_items(EgoIntentReport(runs))
    steps = {name: records(written, run) for run, name in NAMES.items()}
    assert [item.key for item in items] == [
        f"egointent/{step['step_id']}" for step in steps["First-7B"]
    ]
    for number, item in enumerate(items):
        step = steps["First-7B"][number]
        reference = raw_record(number % 6 + 1)
        assert [*item.references.values()] == [reference[field] for field in FIELDS]
        assert (item.facts["scenario"], item.facts["environment"]) == (
            step["scenario"],
            step["environment"],
        )
        assert step["step_id"] in item.question
        for (name, _), answer in item.answers.items():
            record = steps[name][number]
            ratings = record["ratings"]
            mean = None if None in ratings.values() else fmean(ratings.values())
            expected = (
                "unscored"
                if mean is None
                else "right"
                if mean >= 75
                else "wrong"
                if mean < 25
                else "partly"
            )
            assert answer.verdict == expected
            lines = dict(zip(FIELDS, answer.text.split("\n"), strict=True))
            for field in FIELDS:
                assert record["fields"].get(field, "missing") in lines[field]
                rating = ratings[field]
                assert lines[field].endswith(
                    "[not judged: no reply]" if rating is None else f"[{rating:g}]"
                )
            assert [(part.text, part.judgement) for part in answer.parts] == [
                (record["fields"].get(field), record["judgements"].get(field)) for field in FIELDS
            ]
            assert [part.name for part in answer.parts] == [*item.references]
            for field, part in zip(FIELDS, answer.parts, strict=True):
                rating = ratings[field]
                assert part.rating == (
                    "not judged: no reply" if rating is None else f"{rating:g} of 100"
                )
            assert ("cut off" in answer.rating) == bool(record["truncated"])
    # Half a second at 30 frames per second, where every fifth frame is answer.
    frames = items[0].images()
    assert [read_number(frame) for frame in frames] == [15, 20, 25]
    assert {item.answers["First-7B", "egointent"].verdict for item in items} == {
        "right",
        "partly",
        "wrong",
    }


def test_no_more_frames_are_read_than_are_shown(written):
    video = written / "data" / "media" / "egointent" / "video-0.mp4"
    frames = read_frames(str(video), 0.0, 4.0, 24)
    assert len(frames) == 12
    assert (read_number(frames[0]), read_number(frames[-1])) == (0, 115)


def test_run_without_samples_has_scores_by_scenario(tmp_path, section):
    tasks = {"egointent": egointent_answers(COUNT, 70, 1)}
    write_run(tmp_path, "lmms-eval", "org/First-7B", tasks, log_samples=False)
    report = build_section(EgoIntentReport(read_runs([tmp_path]).runs))
    assert {(row["low"], row["steps"]) for row in rows(report, "egointent_scores")} == {
        (None, None)
    }
    values = [
        {row["First-7B"] for row in rows(part, "egointent_scenarios")} for part in (report, section)
    ]
    assert values[0] == values[1]
    assert report.figures == ()


def test_unjudged_run_has_no_score(tmp_path):
    write_run(
        tmp_path,
        "lmms-eval",
        "org/Model-7B",
        {"egointent": egointent_answers(COUNT, 50, 1, unjudged=1.0)},
    )
    runs = read_runs([tmp_path]).runs
    report = build_section(EgoIntentReport(runs))
    (row,) = run_rows(report, "egointent_table3")
    assert (row["overall"], row["indoor"], row["low"], row["judged"], row["judge"]) == (
        None,
        None,
        None,
        0,
        None,
    )
    assert report.headlines[0].value is None
    assert report.headlines[0].coverage == pytest.approx(COUNT / 3014 * (1 - row["parsed"] / 100))
    assert any("no overall score" in remark for remark in report.remarks)
    assert {
        item.answers["Model-7B", "egointent"].verdict
        for item in gallery_items(EgoIntentReport(runs))
    } <= {
        "unscored",
        "wrong",
    }
    report.figures[0].draw()


def test_task_variant_has_a_separate_row(tmp_path):
    tasks = {
        "egointent": egointent_answers(COUNT, 50, 1),
        "egointent_16": egointent_answers(COUNT, 60, 2),
    }
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks)
    runs = read_runs([tmp_path]).runs
    report = build_section(EgoIntentReport(runs))
    models = [row["model"] for row in run_rows(report, "egointent_table3")]
    assert sorted(models) == ["Model-7B", "Model-7B (egointent_16)"]
    assert [(line.run, line.task) for line in report.headlines] == [
        ("Model-7B", "egointent"),
        ("Model-7B", "egointent_16"),
    ]
    assert {*gallery_items(EgoIntentReport(runs))[0].answers} == {
        ("Model-7B", "egointent"),
        ("Model-7B", "egointent_16"),
    }


def test_remarks_name_different_prompts_and_judges(runs, tmp_path):
    run = runs[0]
    task = run.tasks["egointent"]
    versions = {
        "metadata": {"prompt": "2", "judge_prompt": "1"},
        "filter_list": [{"filter": [{"together": True}]}],
    }
    other = replace(
        run, name="Other", tasks={"egointent": replace(task, config=task.config | versions)}
    )
    unversioned = replace(
        run,
        name="Unversioned",
        tasks={"egointent": replace(task, config=task.config | {"metadata": None})},
    )
    report = build_section(EgoIntentReport([run, other, unversioned, runs[2]]))
    prompts = {row["model"]: row["prompts"] for row in run_rows(report, "egointent_table3")}
    assert prompts["First-7B"] == prompts["Third-7B"] == f"{PROMPT_VERSION}, {JUDGE_VERSION}"
    assert prompts["Unversioned"] == "unknown, unknown"
    assert prompts["Other"] == "2, 1 with all fields in one request"
    for text in ("judges", "prompts", "judge's prompts"):
        assert any(f" {text}" in remark for remark in report.remarks)


@pytest.mark.parametrize(
    ("changed", "compares", "facts"),
    [
        ({}, True, ()),
        ({"num_steps": 1507}, False, ("50.0",)),
        ({"num_steps": 3013, "split_size": 3013}, False, ("3,013",)),
        ({"num_steps": 6028, "split_size": 6028}, False, ("6,028",)),
        ({"judge_coverage": 0.9}, False, ()),
        ({"judge_model": "demo, org/judge"}, False, ("demo judge",)),
    ],
)
def test_only_runs_on_the_papers_steps_with_a_judge_are_comparable(runs, changed, compares, facts):
    task = runs[0].tasks["egointent"]
    metrics = (
        task.metrics
        | {"num_steps": 3014, "split_size": 3014, "parsed": 1.0, "judge_coverage": 1.0}
        | changed
    )
    run = replace(runs[0], tasks={"egointent": replace(task, samples=None, metrics=metrics)})
    report = build_section(EgoIntentReport([run]))
    assert [not row.why for row in joined(report, "egointent_table3").rows if row.is_ours] == [
        compares
    ]
    asked = min(1, metrics["num_steps"] / 3014)
    assert report.headlines[0].coverage == pytest.approx(asked * metrics["judge_coverage"])
    reasons = "; ".join(report.headlines[0].apart)
    assert all(text in reasons for text in facts)
    assert not any("demo judge" in remark for remark in report.remarks)


def test_unverified_references_are_reported(tmp_path):
    answers = egointent_answers(COUNT, 50, 1)
    for doc in answers.docs[: COUNT // 4]:
        doc["unverified"] = True
    write_run(tmp_path, "lmms-eval", "org/Model-7B", {"egointent": answers})
    runs = read_runs([tmp_path]).runs
    report = build_section(EgoIntentReport(runs))
    (row,) = run_rows(report, "egointent_table3")
    assert row["unverified"] == 25
    assert any("25.0 %" in remark for remark in report.remarks)
    facts = [item.facts["references"] for item in gallery_items(EgoIntentReport(runs))]
    assert facts == ["unverified"] * (COUNT // 4) + ["verified"] * (COUNT - COUNT // 4)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"global_intent": None}, "global_intent: .*found nothing"),
        ({"video_path": 7}, "video_path: .*found 7"),
        ({"start_sec": "1.5"}, "start_sec: .*found '1.5'"),
        ({"end_sec": float("nan")}, "end_sec: .*found nan"),
        (None, r".*found \['a'\]"),
    ],
)
def test_malformed_logged_step_names_field_and_value(runs, change, problem):
    run = runs[2]
    task = run.tasks["egointent"]
    first, *later = task.samples
    doc = ["a"] if change is None else first["doc"] | change
    broken = replace(task, samples=(first | {"doc": doc}, *later))
    step = first["details"]["step"]["step_id"]
    with pytest.raises(
        LmmsEgoplanError,
        match=f"Third-7B, samples of egointent: step {step}: the logged step: {problem}",
    ):
        gallery_items(EgoIntentReport([replace(run, tasks={"egointent": broken})]))
