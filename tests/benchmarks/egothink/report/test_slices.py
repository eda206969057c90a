"""Scores, differences and slices in ``report.json``, beside what is counted from the samples, and the tables."""

import json
from statistics import fmean

import pytest

from benchmarks.egothink.report.synthetic_runs import CAPABILITIES, NAMES, RUNS, records, score
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.report.benchmark import Inputs
from report.joined import rows
from report.report_json import attributes, benchmark_of, ends, groups


@pytest.fixture(scope="module")
def benchmark(section, runs):
    return benchmark_of(section, runs)


@pytest.fixture(scope="module")
def answered(written):
    return {name: records(written, run) for run, name in RUNS.items()}


def test_scores_are_means_over_the_dimensions(benchmark, answered):
    assert {one["run"] for one in benchmark["scores"]} == set(RUNS.values())
    for one in benchmark["scores"]:
        own = answered[one["run"]]
        assert one["value"] == pytest.approx(fmean(score(answers) for answers in own.values()))
        rated = sum(answer["rating"] is not None for answers in own.values() for answer in answers)
        assert (one["questions"], one["coverage"]) == (rated, pytest.approx(rated / 700))
        assert one["low"] <= one["value"] <= one["high"]
        assert one["apart"]


def test_differences_are_over_the_answers_that_both_judges_rated(benchmark, answered):
    assert len(benchmark["differences"]) == 3
    for pair in benchmark["differences"]:
        first, second = answered[pair["first"]], answered[pair["second"]]
        rated = {
            name: [
                100 * (one["rating"] - other["rating"])
                for one, other in zip(first[name], second[name], strict=True)
                if None not in (one["rating"], other["rating"])
            ]
            for name in NAMES
        }
        values = [value for of_dimension in rated.values() for value in of_dimension]
        assert pair["value"] == pytest.approx(fmean(map(fmean, rated.values())))
        counted = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
        assert (pair["questions"], pair["won"], pair["lost"]) == counted
        assert ("judges" in pair["why"]) == ("Third-7B" in (pair["first"], pair["second"]))


@pytest.mark.parametrize("attribute", ["dimension", "capability"])
def test_slices_are_those_of_the_samples_and_of_the_tables(benchmark, section, answered, attribute):
    key = {"dimension": "egothink_dimensions", "capability": "egothink_capabilities"}[attribute]
    parts = {name: [name] for name in NAMES} if attribute == "dimension" else CAPABILITIES
    shown = {(row["group"], row["model"]): row for row in rows(section, key)}
    found = groups(benchmark, attribute)
    assert list(dict.fromkeys(name for name, _ in found)) == list(parts)
    assert found.keys() == shown.keys() == {(name, run) for name in parts for run in RUNS.values()}
    for (name, run), group in found.items():
        own = [answered[run][dimension] for dimension in parts[name]]
        assert group["value"] == pytest.approx(fmean(map(score, own)))
        assert group["questions"] == sum(answer["rating"] is not None for answers in own for answer in answers)
        assert ends(group) == pytest.approx((shown[name, run]["low"], shown[name, run]["high"]))
        assert (group["low"] is None) == bool(group["no_interval"])


def test_slices_by_what_people_said_of_the_same_answers(runs, prepared, answered, tmp_path):
    own = [answer for answers in answered["First-7B"].values() for answer in answers]
    said = {answer["id"]: (0.0, 0.5, 1.0)[place % 3] for place, answer in enumerate(own)}
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "annotation.json").write_text(json.dumps({"benchmark": "egothink"}))
    lines = [
        {"id": answer["id"], "model": "First-7B", "answer": answer["answer"], "rating": said[answer["id"]]}
        for answer in own
    ]
    (folder / "people.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = benchmark_of(EgoThinkReport(runs, Inputs(labelled={folder: "egothink"})).section(), runs)
    assert attributes(found) == ["capability", "dimension", "people's rating"]
    by_people = groups(found, "people's rating")
    assert list(dict.fromkeys(name for name, _ in by_people)) == ["wrong", "partly right", "right"]
    for name, rating in (("wrong", 0.0), ("partly right", 0.5), ("right", 1.0)):
        dimensions = [
            [answer for answer in answers if said[answer["id"]] == rating and answer["rating"] is not None]
            for answers in answered["First-7B"].values()
        ]
        group = by_people[name, "First-7B"]
        assert group["value"] == pytest.approx(fmean(score(answers) for answers in dimensions if answers))
        assert group["questions"] == sum(map(len, dimensions))
