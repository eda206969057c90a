"""EgoThink's questions in the gallery."""

import pytest

from benchmarks.egothink.report.synthetic_runs import (
    CAPABILITIES,
    COUNT,
    NAMES,
    RUNS,
    records,
)
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs
from report.synthetic import write_run


def test_items_show_question_answers_and_image(runs, written):
    found = EgoThinkReport(runs).items()
    assert [item.key for item in found] == [f"egothink/{name}/{n}" for name in NAMES for n in range(1, COUNT + 1)]
    answers = {name: records(written, run) for run, name in RUNS.items()}
    verdicts = {0.0: "wrong", 0.5: "partly", 1.0: "right", None: "unscored"}
    for item in found:
        _, name, number = item.key.split("/")
        assert item.question.strip() == f"What is thing {number} of {name}?"
        assert item.references == {"Reference answer": f"The {name} {number}."}
        assert name in CAPABILITIES[item.facts["capability"]]
        assert item.facts["dimension"] == name
        for run, shown in item.answers.items():
            record = answers[run][name][int(number) - 1]
            assert shown.verdict == verdicts[record["rating"]]
            assert (shown.text, shown.judgement) == (record["answer"], record["judgement"])
            assert ("cut off" in shown.rating) == bool(record["truncated"])
    image = found[0].images()[0]
    assert (image.mode, image.size) == ("RGB", (24, 16))
    shades = [item.images()[0].getpixel((12, 8))[0] for item in (found[COUNT - 1], found[COUNT])]
    assert shades == [pytest.approx(5 * (COUNT - 1), abs=4), pytest.approx(20, abs=4)]


def test_without_prepared_data_questions_come_from_lm_eval_alone(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    assert any(
        "cannot be read from the prepared data" in remark for remark in EgoThinkReport(runs[:1]).section().remarks
    )
    bare, told = EgoThinkReport(runs[:1]).items()[0], EgoThinkReport(runs).items()[0]
    assert bare.images is None
    assert "not at hand" in bare.question
    assert told.images is None
    assert told.question.strip() == "What is thing 1 of existence?"


def test_other_questions_with_the_same_ids_are_kept_apart(runs, written, tmp_path):
    path = write_run(tmp_path, "lmms-eval", "org/Other-7B", egothink_bench(COUNT, 0.5, 4, judge="gpt"))
    for log in path.parent.glob("*.jsonl"):
        log.write_text(log.read_text().replace('"target": "The ', '"target": "Another '))
    both = (*runs[:1], *read_runs([tmp_path]).runs)
    found = EgoThinkReport(both).section()
    assert "egothink_comparisons" not in {each.key for each in found.tables}
    assert any("are not those of the prepared data" in remark for remark in found.remarks)
    shown = {item.key: item for item in EgoThinkReport(both).items()}
    assert len(shown) == 2 * 12 * COUNT
    assert {*shown["egothink/existence/1"].answers} == {"First-7B"}
    other = shown["egothink/existence/1 (2)"]
    assert ({*other.answers}, other.references, other.images) == (
        {"Other-7B"}, {"Reference answer": "Another existence 1."}, None,
    )  # fmt: skip
