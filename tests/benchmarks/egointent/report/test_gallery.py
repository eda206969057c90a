"""EgoIntent's steps in the report, and runs that lack something."""

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.egointent.report.synthetic_runs import COUNT, NAMES, records
from benchmarks.egointent.source import raw_record
from benchmarks.egointent.synthetic import egointent_answers
from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, PROMPT_VERSION
from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport, read_frames
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.runs import read_runs
from media.files import read_number
from report.joined import joined, rows, run_rows
from report.synthetic import write_run


def test_items_show_references_answers_and_frames(runs, written):
    found = EgoIntentReport(runs).items()
    steps = {name: records(written, run) for run, name in NAMES.items()}
    assert [item.key for item in found] == [f"egointent/{step['step_id']}" for step in steps["First-7B"]]
    for number, item in enumerate(found):
        step = steps["First-7B"][number]
        reference = raw_record(number % 6 + 1)
        assert [*item.references.values()] == [reference[field] for field in FIELDS]
        assert (item.facts["scenario"], item.facts["environment"]) == (step["scenario"], step["environment"])
        assert step["step_id"] in item.question
        for name, shown in item.answers.items():
            record = steps[name][number]
            ratings = record["ratings"]
            mean = None if None in ratings.values() else fmean(ratings.values())
            expected = "unscored" if mean is None else "right" if mean >= 75 else "wrong" if mean < 25 else "partly"
            assert shown.verdict == expected
            lines = dict(zip(FIELDS, shown.text.split("\n"), strict=True))
            for field in FIELDS:
                assert record["fields"].get(field, "missing") in lines[field]
                rating = ratings[field]
                assert lines[field].endswith("[not judged: no reply]" if rating is None else f"[{rating:g}]")
            assert ("cut off" in shown.rating) == bool(record["truncated"])
    # Half a second of 30 frames each, of which every fifth is shown.
    frames = found[0].images()
    assert [read_number(frame) for frame in frames] == [15, 20, 25]
    assert {item.answers["First-7B"].verdict for item in found} == {"right", "partly", "wrong"}


def test_no_more_frames_are_read_than_are_shown(written):
    video = written / "data" / "media" / "egointent" / "video-0.mp4"
    frames = read_frames(str(video), 0.0, 4.0, 24)
    assert len(frames) == 12
    assert (read_number(frames[0]), read_number(frames[-1])) == (0, 115)


def test_a_run_without_samples_has_its_scenarios(tmp_path, section):
    tasks = {"egointent": egointent_answers(COUNT, 70, 1)}
    write_run(tmp_path, "lmms-eval", "org/First-7B", tasks, log_samples=False)
    found = EgoIntentReport(read_runs([tmp_path]).runs).section()
    assert {(row["low"], row["steps"]) for row in rows(found, "egointent_scores")} == {(None, None)}
    values = [{row["First-7B"] for row in rows(each, "egointent_scenarios")} for each in (found, section)]
    assert values[0] == values[1]
    assert found.figures == ()


def test_what_no_judge_rated_has_no_score(tmp_path):
    write_run(tmp_path, "lmms-eval", "org/Model-7B", {"egointent": egointent_answers(COUNT, 50, 1, unjudged=1.0)})
    runs = read_runs([tmp_path]).runs
    found = EgoIntentReport(runs).section()
    (row,) = run_rows(found, "egointent_table3")
    assert (row["overall"], row["indoor"], row["low"], row["judged"], row["judge"]) == (None, None, None, 0, None)
    assert found.headlines[0].value is None
    assert found.headlines[0].coverage == pytest.approx(COUNT / 3014 * (1 - row["parsed"] / 100))
    assert any("no overall score" in remark for remark in found.remarks)
    assert {item.answers["Model-7B"].verdict for item in EgoIntentReport(runs).items()} <= {"unscored", "wrong"}
    found.figures[0].draw()


def test_a_users_variant_is_a_row_of_its_own(tmp_path):
    tasks = {"egointent": egointent_answers(COUNT, 50, 1), "egointent_16": egointent_answers(COUNT, 60, 2)}
    write_run(tmp_path, "lmms-eval", "org/Model-7B", tasks)
    runs = read_runs([tmp_path]).runs
    found = EgoIntentReport(runs).section()
    own = [row["model"] for row in run_rows(found, "egointent_table3")]
    assert sorted(own) == ["Model-7B", "Model-7B (egointent_16)"]
    assert [(line.run, line.task) for line in found.headlines] == [
        ("Model-7B", "egointent"),
        ("Model-7B", "egointent_16"),
    ]
    assert {*EgoIntentReport(runs).items()[0].answers} == {"Model-7B", "Model-7B (egointent_16)"}


def test_versions_of_prompts_and_judges_that_differ_are_told(runs, tmp_path):
    run = runs[0]
    task = run.tasks["egointent"]
    versions = {"metadata": {"prompt": "2", "judge_prompt": "1"}, "filter_list": [{"filter": [{"together": True}]}]}
    other = replace(run, name="Other", tasks={"egointent": replace(task, config=task.config | versions)})
    untold = replace(run, name="Untold", tasks={"egointent": replace(task, config=task.config | {"metadata": None})})
    found = EgoIntentReport([run, other, untold, runs[2]]).section()
    prompts = {row["model"]: row["prompts"] for row in run_rows(found, "egointent_table3")}
    assert prompts["First-7B"] == prompts["Third-7B"] == f"{PROMPT_VERSION}, {JUDGE_VERSION}"
    assert prompts["Untold"] == "unknown, unknown"
    assert prompts["Other"] == "2, 1 with all fields in one request"
    for told in ("Different judges", "Different prompts", "Different judge's prompts"):
        assert any(remark.startswith(told) for remark in found.remarks)


@pytest.mark.parametrize(
    ("changed", "compares", "told"),
    [
        ({}, True, ()),
        ({"num_steps": 1507}, False, ("1,507 of the annotation file's 3,014 steps were asked",)),
        ({"num_steps": 3013, "split_size": 3013}, False, ("the annotation file has 3,013 steps, the paper 3,014",)),
        ({"num_steps": 6028, "split_size": 6028}, False, ("the annotation file has 6,028 steps",)),
        ({"judge_coverage": 0.9}, False, ()),
        ({"judge_model": "demo, org/judge"}, False, ("the demo judge compares words",)),
    ],
)
def test_only_the_papers_steps_rated_by_a_judge_compare(runs, changed, compares, told):
    task = runs[0].tasks["egointent"]
    metrics = task.metrics | {"num_steps": 3014, "split_size": 3014, "parsed": 1.0, "judge_coverage": 1.0} | changed
    run = replace(runs[0], tasks={"egointent": replace(task, samples=None, metrics=metrics)})
    found = EgoIntentReport([run]).section()
    assert [not row.why for row in joined(found, "egointent_table3").rows if row.is_own] == [compares]
    asked = min(1, metrics["num_steps"] / 3014)
    assert found.headlines[0].coverage == pytest.approx(asked * metrics["judge_coverage"])
    steps = [remark for remark in found.remarks if "annotation file" in remark or "demo judge" in remark]
    assert len(steps) == len(told)
    assert all(text in remark for text, remark in zip(told, steps, strict=True))


def test_references_that_nobody_has_verified_are_told(tmp_path):
    answers = egointent_answers(COUNT, 50, 1)
    for doc in answers.docs[: COUNT // 4]:
        doc["unverified"] = True
    write_run(tmp_path, "lmms-eval", "org/Model-7B", {"egointent": answers})
    runs = read_runs([tmp_path]).runs
    found = EgoIntentReport(runs).section()
    (row,) = run_rows(found, "egointent_table3")
    assert row["unverified"] == 25
    assert any("25.0 %" in remark for remark in found.remarks)
    facts = [item.facts["references"] for item in EgoIntentReport(runs).items()]
    assert facts == ["unverified"] * (COUNT // 4) + ["verified"] * (COUNT - COUNT // 4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"global_intent": None}, "global_intent: .*found nothing"),
        ({"video_path": 7}, "video_path: .*found 7"),
        ({"start_sec": "1.5"}, "start_sec: .*found '1.5'"),
        ({"end_sec": float("nan")}, "end_sec: .*found nan"),
        (None, r".*found \['a'\]"),
    ],
)
def test_a_logged_step_of_another_form_is_an_error(runs, change, told):
    run = runs[2]
    task = run.tasks["egointent"]
    first, *others = task.samples
    doc = ["a"] if change is None else first["doc"] | change
    broken = replace(task, samples=(first | {"doc": doc}, *others))
    step = first["overall"]["step_id"]
    with pytest.raises(LmmsEgoplanError, match=f"Third-7B, samples of egointent: step {step}: the logged step: {told}"):
        EgoIntentReport([replace(run, tasks={"egointent": broken})]).items()
