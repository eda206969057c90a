"""EgoThink's questions in the gallery."""

import pytest

from benchmarks.egothink.report.synthetic_runs import CAPABILITIES, COUNT, NAMES, RUNS, records
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport


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
