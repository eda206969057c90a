"""Runs of EgoThink two by two: their scores, and their judges on the same answers."""

from statistics import fmean

import pytest

from benchmarks.egothink.report.synthetic_runs import CAPABILITIES, COUNT, NAMES, records
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.report.runs import read_runs
from report.joined import rows
from report.synthetic import write_run


def test_judges_of_the_same_answers_are_compared(section, written):
    found = rows(section, "egothink_judges")
    assert {(row["first"], row["second"]) for row in found} == {("First-7B", "Third-7B"), ("Second-7B", "Third-7B")}
    assert {(row["first_judge"], row["second_judge"]) for row in found} == {("gpt", "qwen")}
    first, second = (records(written, run) for run in "bc")
    for row in found:
        if row["first"] != "Second-7B":
            continue
        groups = CAPABILITIES | {"all": NAMES, "object and planning": CAPABILITIES["object"] + CAPABILITIES["planning"]}
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
        assert row["kappa_unweighted"] == pytest.approx(slow_kappa(pairs, lambda a, b: float(a != b)))
        assert row["pearson_low"] <= row["pearson"] <= row["pearson_high"]


def slow_pearson(pairs):
    a, b = (fmean(side) for side in zip(*pairs, strict=True))
    covariance = sum((x - a) * (y - b) for x, y in pairs)
    return covariance / (sum((x - a) ** 2 for x, _ in pairs) * sum((y - b) ** 2 for _, y in pairs)) ** 0.5


def slow_kappa(pairs, disagreement=lambda a, b: abs(a - b)):
    observed = fmean(disagreement(x, y) for x, y in pairs)
    return 1 - observed / fmean(disagreement(x, y) for x, _ in pairs for _, y in pairs)


def test_a_few_answers_that_two_models_share_say_nothing_about_judges(written, tmp_path):
    path = write_run(tmp_path, "lmms-eval", "org/Other-7B", egothink_bench(COUNT, 0.5, 4, judge="qwen"))
    for log in path.parent.glob("*.jsonl"):
        if "existence" not in log.name:
            log.write_text(log.read_text().replace("an answer to", "another answer to"))
    found = EgoThinkReport(read_runs([written / "a", tmp_path]).runs).section()
    assert "egothink_judges" not in {each.key for each in found.tables}
