"""Scores, differences and slices in ``report.json``, beside what is counted from the samples."""

import json
from statistics import fmean

import pytest

from benchmarks.egoplan.report.synthetic_runs import ANSWERS, COUNT, DOCS, group_of, interval, percent, scores, task_of
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import Inputs
from report.joined import near
from report.report_json import attributes, benchmark_of, ends, groups

# The main task of each run by its name in the gallery, and by that in `ANSWERS`.
SERIES = {
    "Big (lmms-eval) (egoplan_val)": "Big (lmms-eval)",
    "Small": "Small",
    "Big (lm-eval) (egoplan_val_blind)": "Big (lm-eval) (egoplan_val_blind)",
}
SOURCES = {"EpicKitchens": "EPIC-KITCHENS (in-domain)", "Ego4D": "Ego4D (out-of-domain)"}


@pytest.fixture(scope="module")
def benchmark(section, runs):
    return benchmark_of(section, runs)


def test_scores_and_differences(benchmark):
    assert {one["gallery"] for one in benchmark["scores"]} == set(SERIES)
    for one in benchmark["scores"]:
        name = SERIES[one["gallery"]]
        assert name in ANSWERS
        assert (one["value"], *ends(one)) == near((percent(scores(name)), *interval(name)))
        assert one["task"] == task_of(name)
    (pair,) = benchmark["differences"]
    first, second = (scores(pair[name]) for name in ("first", "second"))
    both = [100 * (a - b) for a, b in zip(first, second, strict=True) if None not in (a, b)]
    assert (pair["value"], pair["questions"]) == (near(fmean(both)), len(both))
    assert (pair["won"], pair["lost"]) == (both.count(100), both.count(-100))


@pytest.mark.parametrize(
    ("attribute", "of"), [("past actions", group_of), ("source", lambda doc: SOURCES[doc["video_source"]])]
)
def test_slices_are_those_of_the_samples(benchmark, attribute, of):
    assert attributes(benchmark) == ["source", "past actions", "goal-answer similarity"]
    found = groups(benchmark, attribute)
    assert found.keys() == {(of(doc), run) for doc in DOCS for run in SERIES}
    for (group, run), shown in found.items():
        numbers = [number for number in range(COUNT) if of(DOCS[number]) == group]
        values = [scores(SERIES[run])[number] for number in numbers]
        own = interval(SERIES[run], numbers) or (None, None)
        assert shown["value"] == near(percent(values))
        assert ends(shown) == (own if own[0] is None else near(own))
        assert shown["questions"] == sum(value is not None for value in values)


def test_slices_by_what_people_said_of_the_questions(runs, bert, tmp_path):
    kept = [doc for doc in DOCS if doc["sample_id"] % 3 == 0]
    left = [(doc, "annotators disagree" if doc["sample_id"] % 3 == 1 else "skipped: unclear") for doc in DOCS]
    left = [(doc, reason) for doc, reason in left if doc not in kept]
    left[0] = (left[0][0], "not all labels yet")
    (tmp_path / "EgoPlan_validation.json").write_text(json.dumps({"EgoPlan_validation": kept}))
    lines = [f"{doc['sample_id']},{reason},A B,{doc['golden_choice_idx']}\n" for doc, reason in left]
    (tmp_path / "rejected.csv").write_text("sample_id,reason,choices,record\n" + "".join(lines))
    report = EgoPlanReport(runs, Inputs(bert, labelled={tmp_path: "egoplan"}))
    (found,) = (one for one in report.slices() if one.attribute == "people's check")
    assert found.is_fact
    names = ["agree with the record", "annotators disagree", "skipped"]
    assert list(dict.fromkeys(group.name for group in found.groups)) == names
    of_name = {name: [doc for doc, reason in left if reason.startswith(name)] for name in names} | {names[0]: kept}
    for name, docs in of_name.items():
        (group,) = (one for one in found.groups if (one.name, one.run) == (name, "Small"))
        values = [scores("Small")[doc["sample_id"] - 1] for doc in docs]
        assert group.value == near(percent(values))
        assert group.questions == sum(value is not None for value in values)
    (tmp_path / "rejected.csv").write_text("sample_id,reason\nfirst,skipped\n")
    with pytest.raises(LmmsEgoplanError, match="Export the labels again"):
        list(EgoPlanReport(runs, Inputs(bert, labelled={tmp_path: "egoplan"})).slices())
