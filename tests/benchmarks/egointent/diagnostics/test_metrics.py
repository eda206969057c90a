import math

import pytest

from benchmarks.egointent.diagnostics.diagnoses import diagnosis_of
from lmms_egoplan.benchmarks import aggregations
from lmms_egoplan.benchmarks.egointent import metrics
from lmms_egoplan.benchmarks.egointent.diagnostics.metrics import mean_diagnostics, score_diagnostics
from lmms_egoplan.coverage import coverage as share_covered

DOC = {"video_id": "v1", "scenario": "make tea", "environment": "indoor", "split_size": 4}


def values_of(*found):
    return [score_diagnostics(DOC | {"step_id": each.step_id}, [each.to_text()]) for each in found]


def aggregate(function, name, values):
    return function([value[name] for value in values])


def test_metrics():
    values = values_of(
        diagnosis_of([80.0, 60.0, 40.0, 20.0]),
        diagnosis_of([None, 30.0, None, 10.0], number=2),
        diagnosis_of([0.0, 0.0, 0.0, 90.0], ("next_step_plan",), number=3),
    )
    means = {"gf": 80 * 2 / 3, "hic": 30.0, "tpc": 40 * 2 / 3, "npf": 40.0}
    for name, mean in means.items():
        assert aggregate(metrics.field_score, name, values) == pytest.approx(mean)
    assert aggregate(mean_diagnostics, "diagnostics", values) == pytest.approx(sum(means.values()) / 4)
    assert aggregate(aggregations.share_of_found, "judge_coverage", values) == pytest.approx(7 / 9)
    assert aggregate(metrics.parsed_share, "parsed", values) == pytest.approx(7 / 9)
    assert aggregate(aggregations.share_of_found, "suspect", values) == 0
    assert aggregate(aggregations.names, "judge_model", values) == "sees"
    assert aggregate(aggregations.num_asked, "num_steps", values) == 3
    assert aggregate(share_covered, "coverage", values) == pytest.approx((3 - 2 / 4) / 3014)
    assert [value["diagnostics"].get("score") for value in values] == [50.0, None, 22.5]
    assert values[2]["diagnostics"]["missing"] == ["gf", "hic", "tpc"]
    assert values[0]["diagnostics"]["scenario"] == "make tea"


def test_nothing_judged_is_not_a_number():
    values = values_of(diagnosis_of([None] * 4), diagnosis_of([0.0] * 4, (), number=2))
    assert math.isnan(aggregate(metrics.field_score, "gf", values))
    assert math.isnan(aggregate(mean_diagnostics, "diagnostics", values))
    assert aggregate(aggregations.share_of_found, "judge_coverage", values) == 0


def test_the_answer_to_another_step_is_refused():
    with pytest.raises(ValueError, match="step s2 got the judged answer to s1"):
        score_diagnostics(DOC | {"step_id": "s2"}, [diagnosis_of([1.0] * 4).to_text()])
