"""Scores, differences and slices in ``report.json``, beside what is counted from the samples."""

import json
from statistics import fmean

import pytest

from benchmarks.actplan.report.synthetic_runs import GOOD, LENGTHS, MUTE, PART, TEXT, WEAK, interval, mean
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.report.benchmark import Inputs
from report.joined import near
from report.report_json import attributes, benchmark_of, ends, groups

MEASURE = "Norm. LCS"
FIELDS = {"setting": "setting", "activity type": "activity_type", "length of gold plan 1": "length"}


@pytest.fixture(scope="module")
def benchmark(section, runs):
    return benchmark_of(section, runs)


def name_of(one):
    return one["run"] if one["task"] == "actplan" else f"{one['run']} ({one['task']})"


def test_scores_are_those_of_the_samples(benchmark, logged):
    found = {name_of(one): one for one in benchmark["scores"]}
    assert found.keys() == {GOOD, TEXT, WEAK, PART, MUTE}
    for name, plans in logged.items():
        assert (found[name]["value"], *ends(found[name])) == near((mean(plans, MEASURE), *interval(plans, MEASURE)))
    assert ends(found[MUTE]) == (None, None)
    assert found[MUTE]["no_interval"] == "no samples"


def test_differences_are_over_the_same_instances(benchmark, logged):
    (pair,) = benchmark["differences"]
    assert (pair["first"], pair["second"], pair["task"]) == (GOOD, WEAK, "actplan")
    both = zip(logged[GOOD], logged[WEAK], strict=True)
    values = [one[MEASURE] - other[MEASURE] for one, other in both if None not in (one[MEASURE], other[MEASURE])]
    assert pair["value"] == near(fmean(values))
    counted = len(values), sum(value > 0 for value in values), sum(value < 0 for value in values)
    assert (pair["questions"], pair["won"], pair["lost"]) == counted


@pytest.mark.parametrize("attribute", FIELDS)
def test_slices_are_those_of_the_samples(benchmark, logged, attribute):
    found = groups(benchmark, attribute)
    field = FIELDS[attribute]
    assert found.keys() == {(plan[field], name) for name, plans in logged.items() for plan in plans}
    for (group, name), shown in found.items():
        plans = [plan for plan in logged[name] if plan[field] == group]
        assert (shown["value"], *ends(shown)) == near((mean(plans, MEASURE), *interval(plans, MEASURE)))
        assert shown["questions"] == sum(plan[MEASURE] is not None for plan in plans)
    if attribute == "length of gold plan 1":
        assert list(dict.fromkeys(group for group, _ in found)) == [name for name in LENGTHS if (name, GOOD) in found]


def test_slices_by_peoples_verdicts_on_the_same_plans(runs, logged, tmp_path):
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "annotation.json").write_text(json.dumps({"benchmark": "actplan"}))
    said = {plan["id"]: place % 3 > 0 for place, plan in enumerate(logged[GOOD]) if plan["official"]}
    plans = [
        {"id": plan["id"], "model": "mine", "references": ["a(b)"], "candidate": "\n".join(plan["official"])}
        | {"correct": said[plan["id"]], "commonsense": True, "images": True}
        | {"errors": {} if said[plan["id"]] else {"form": [1]}}
        for plan in logged[GOOD]
        if plan["id"] in said
    ]
    (folder / "plans.jsonl").write_text("".join(json.dumps(plan) + "\n" for plan in plans))
    found = benchmark_of(ActPlanReport(runs, Inputs(labelled={folder: "actplan"})).section(), runs)
    # All plans have commonsense, which makes one group.
    wrong = "people: incorrect form"
    assert [name for name in attributes(found) if name.startswith("people")] == ["people: correct", wrong]
    of_wrong = groups(found, wrong)
    assert of_wrong["yes", GOOD] == groups(found, "people: correct")["no", GOOD] | {"name": "yes"}
    by_people = groups(found, "people: correct")
    for group, verdict in (("yes", True), ("no", False)):
        chosen = [plan for plan in logged[GOOD] if said.get(plan["id"]) is verdict]
        shown = by_people[group, GOOD]
        assert (shown["value"], *ends(shown)) == near((mean(chosen, MEASURE), *interval(chosen, MEASURE)))
    assert (("yes", TEXT) in by_people, ("no", TEXT) in by_people) == (False, False)
