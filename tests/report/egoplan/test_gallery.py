"""Test EgoPlan's questions in the report, and runs that are incomplete or whose questions are not
available.
"""

import json
import math
from dataclasses import replace

import pytest

from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.report.spec import Inputs
from media.files import read_numbers
from report.egoplan.synthetic_runs import (
    ANSWERS,
    COUNT,
    DOCS,
    LETTERS,
    group_of,
    run_of,
    scores,
    task_of,
)
from report.joined import near, run_rows
from report.synthetic import write_run

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(scope="module")
def items(runs):
    return gallery_items(EgoPlanReport(runs))


def test_a_question_of_the_gallery(items):
    assert [item.key for item in items] == [f"egoplan/{number + 1}" for number in range(COUNT)]
    for number in (0, 25, 90):
        item, doc = items[number], DOCS[number]
        assert (item.question, item.choices) == (doc["question"], tuple(doc["choices"]))
        assert LETTERS[item.gold] == doc["golden_choice_idx"]
        assert item.facts["past actions"] == group_of(doc)
        assert item.facts["source"].startswith(
            "Ego4D" if doc["video_source"] == "Ego4D" else "EPIC-KITCHENS"
        )
        assert item.references["Goal"] == doc["task_goal"]
        assert set(item.answers) == {(run_of(name), task_of(name)) for name in ANSWERS}
        assert item.tasks[0] == "egoplan_val"
        assert {*item.tasks} == {task_of(name) for name in ANSWERS}


def test_answers_of_the_gallery(items):
    for name in ANSWERS:
        for item, score, response in zip(items, scores(name), ANSWERS[name].responses, strict=True):
            answer = item.answers[run_of(name), task_of(name)]
            assert answer.verdict == {1: "right", 0: "wrong", None: "unscored"}[score]
            if len(response) == 1:
                assert (answer.text, answer.logprobs) == (response[0], None)
                assert (answer.rating is None) == (response[0] != "I do not know.")
                continue
            losses = [json.loads(text)["loss"] for text in response]
            expected = [None if math.isnan(loss) else near(-loss) for loss in losses]
            assert list(answer.logprobs) == expected
            assert answer.chosen == (None if score is None else losses.index(min(losses)))
            assert (answer.chosen == item.gold) == (score == 1)


@pytest.mark.parametrize(
    ("prediction", "is_read"), [("L", True), ("BC", False), ("b", False), ("", False)]
)
def test_a_reader_may_read_another_capital(tmp_path, bert, prediction, is_read):
    write_run(
        tmp_path, "lmms-eval", "org/Small", {"egoplan_val_generate": egoplan_replies(COUNT, 0.5, 3)}
    )
    (samples,) = tmp_path.glob("*/*_samples_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    number = next(number for number, line in enumerate(lines) if line["acc"]["score"] == 0)
    lines[number]["details"]["predictions"]["prediction"] = prediction
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    runs = read_runs([tmp_path]).runs
    if not is_read:
        with pytest.raises(LmmsEgoplanError, match=rf"capital.*{prediction}"):
            EgoPlanReport(runs, Inputs(bert))
        return
    (answer,) = gallery_items(EgoPlanReport(runs, Inputs(bert)))[number].answers.values()
    assert (answer.verdict, answer.chosen, answer.text) == (
        "wrong",
        None,
        "".join(lines[number]["filtered_resps"]),
    )
    assert answer.rating is not None


@pytest.mark.parametrize("source", ["EpicKitchens", "Ego4D"])
def test_images_of_the_gallery_are_the_frames_shown(items, source):
    number = next(
        n
        for n, doc in enumerate(DOCS)
        if doc["video_source"] == source and len(doc["past_actions"]) > 6
    )
    numbers = read_numbers(items[number].images())
    assert len(numbers) == 8
    assert numbers == sorted(numbers)
    assert numbers[-1] == DOCS[number]["current_observation_frame"]


def test_missing_questions_and_scores_are_remarked(section):
    remarks = "\n".join(section.remarks)
    assert any(f"{COUNT} questions" in reason for reason in section.headlines[0].apart)
    assert "annotation file" not in remarks
    unscored = scores("Small").count(None)
    assert f"Small: {unscored} of {COUNT} questions have no score" in remarks
    assert "are missing here" not in remarks


def test_without_prepared_data_lmms_eval_has_no_questions(tmp_path, monkeypatch, bert):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "none"))
    write_run(tmp_path, "lmms-eval", "org/Small", {"egoplan_val": ANSWERS["Small"]})
    runs = read_runs([tmp_path]).runs
    section = build_section(EgoPlanReport(runs, Inputs(bert)))
    assert run_rows(section, "egoplan_table1")
    assert "egoplan_past_actions" not in [table.key for table in section.tables]
    (remark,) = (
        remark for remark in section.remarks if f"{COUNT} questions are missing here" in remark
    )
    assert "lmms-egoplan data prepare egoplan" in remark
    first = gallery_items(EgoPlanReport(runs))[0]
    assert first.choices == ("A", "B", "C", "D")
    assert first.images is None
    assert first.facts == {"source": "EPIC-KITCHENS (in-domain)"}


def test_without_prepared_data_lm_eval_has_its_questions(tmp_path, monkeypatch, bert, section):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "none"))
    write_run(tmp_path, "lm-eval", "org/Small", {"egoplan_val": ANSWERS["Small"]})
    runs = read_runs([tmp_path]).runs
    unprepared = build_section(EgoPlanReport(runs, Inputs(bert)))
    for key in ("egoplan_past_actions", "egoplan_similarity"):
        assert run_rows(unprepared, key) == [
            row for row in run_rows(section, key) if row["run"] in ("Small", "no model")
        ]
    first = gallery_items(EgoPlanReport(runs))[0]
    assert first.question == DOCS[0]["question"]
    assert first.images is None


def test_questions_of_other_data_do_not_match(tmp_path, bert):
    """The other data have the same ids."""
    write_run(tmp_path, "lmms-eval", "org/Small", {"egoplan_val": egoplan_answers(40, 0.5)})
    runs = read_runs([tmp_path]).runs
    remarks = build_section(EgoPlanReport(runs, Inputs(bert))).remarks
    assert any(
        "40 questions are missing here" in remark and "prepared data" in remark
        for remark in remarks
    )


def test_questions_about_other_videos_do_not_match(runs, bert):
    """The ids, the right letters and the length of the annotation file are equal."""
    run = next(run for run in runs if run.name == "Small")
    task_run = run.tasks["egoplan_val"]
    moved = {"acc": {"score": 1.0, "cluster": "P99_9"}}
    damaged = replace(task_run, samples=tuple(sample | moved for sample in task_run.samples))
    remarks = build_section(
        EgoPlanReport([replace(run, tasks={"egoplan_val": damaged})], Inputs(bert))
    ).remarks
    assert any(f"{COUNT} questions are missing here" in remark for remark in remarks)


@pytest.mark.parametrize(
    "damage",
    [
        {"target": "E"},
        {"details": {"split_size": None}},
        {"details": {"predictions": {"prediction": "A"}}},
        {"details": {"predictions": {"sample_id": 1, "prediction": "AB"}}},
        {
            "details": {
                "predictions": {"sample_id": 1, "prediction": "A", "choices": [{"loss": 1.0}]}
            }
        },
        {"details": {"predictions": {"sample_id": 1, "prediction": "A", "choices": [{}] * 4}}},
        {"acc": {"score": 0.5, "cluster": "P01_1"}},
        {"doc": {"question": "What next?"}},
    ],
)
def test_malformed_samples_are_named(runs, damage):
    run = next(run for run in runs if run.name == "Small")
    task_run = run.tasks["egoplan_val"]
    first, *further = task_run.samples
    details = first["details"] | damage.get("details", {})
    damaged = replace(task_run, samples=(first | damage | {"details": details}, *further))
    with pytest.raises(
        LmmsEgoplanError, match=r"run Small, samples of egoplan_val: .*run again: .*--log_samples"
    ):
        build_section(EgoPlanReport([replace(run, tasks={"egoplan_val": damaged})]))
