"""Check values of single questions, aggregations over a run, and the average against Table 3."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks.aggregations import mean_score
from lmms_egoplan.benchmarks.egothink import metrics
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.report.published import load_table

_TABLE_3 = load_table("egothink", "table3")
# The scores of the twelve dimensions, then the Average.
TABLE_3 = {row["model"]: [row[name] for name in _TABLE_3.columns[2:]] for row in _TABLE_3.rows}
# Printed Averages that differ from the mean of their row, and the difference.
NOT_THE_MEAN = {wrong["row"]: wrong["printed"] - wrong["computed"] for wrong in _TABLE_3.exceptions}
SIZES = [dimension.instances for dimension in DIMENSIONS]
JUDGED = JudgedAnswer("existence/1", "a shoe", False, False, 0.5, "Rating: [[0.5]]", "gpt-4o", None)
UNJUDGED = replace(JUDGED, rating=None, judgement=None, judge=None, error="no judge is set")


def score(judged):
    return metrics.score_answer({"id": judged.id}, [judged.to_text()])


def average(scores):
    return metrics.mean_over_dimensions(scores, SIZES, False)


def test_a_failed_judgement_that_counts_is_not_covered():
    failed = replace(JUDGED, rating=None, error="no rating", protocol="lmms-eval-0.7.3")
    values = score(failed)
    assert values["score"]["score"] == -100
    assert values["details"]["judge_failed"] is True
    assert values["judge_coverage"]["score"] == 0
    assert values["coverage"]["scored"] == 0
    assert score(JUDGED)["coverage"]["scored"] == 1


def test_judged_answer():
    values = score(JUDGED)
    assert values["score"] == {"cluster": "existence/1", "score": 50.0}
    assert values["details"]["answer"] == {
        "id": "existence/1",
        "answer": "a shoe",
        "truncated": False,
        "suspect": False,
        "rating": 0.5,
        "judgement": "Rating: [[0.5]]",
        "judge": "gpt-4o",
        "error": None,
        "prompts": None,
        "protocol": None,
        "judge_prompt_tokens": None,
        "judge_reply_tokens": None,
    }
    assert values["judge_coverage"] == {"cluster": "existence/1", "score": 1.0}
    json.dumps(values, allow_nan=False)


def test_unjudged_answer_has_no_score():
    values = score(UNJUDGED)
    assert "score" not in values["score"]
    assert values["details"]["answer"]["error"] == "no judge is set"
    assert values["judge_coverage"]["score"] == 0


def test_answer_to_another_question():
    with pytest.raises(ValueError, match="existence/2 got the judged answer to existence/1"):
        metrics.score_answer({"id": "existence/2"}, [JUDGED.to_text()])


def test_response_that_was_not_judged():
    with pytest.raises(ValueError, match=r"expected a judged answer.*got 'a shoe'"):
        metrics.score_answer({"id": "existence/1"}, ["a shoe"])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, 0.0, 0.5, 1.0]),
            st.sampled_from([None, False, True]),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_aggregations_equal_slow_ones(answers):
    values = [
        score(
            replace(
                JUDGED if rating is not None else UNJUDGED,
                rating=rating,
                truncated=truncated,
                suspect=suspect,
            )
        )
        for rating, truncated, suspect in answers
    ]

    def aggregate(function, name):
        return function([value[name] for value in values])

    rated = [rating for rating, _, _ in answers if rating is not None]
    known_flags = [truncated for _, truncated, _ in answers if truncated is not None]
    nan = math.nan
    expected = {
        "score": 100 * sum(rated) / len(rated) if rated else nan,
        "judge_coverage": len(rated) / len(answers),
        "truncated": known_flags.count(True) / len(known_flags) if known_flags else nan,
        "suspect": sum(suspect for _, _, suspect in answers) / len(answers),
    }
    for name, number in expected.items():
        assert aggregate(mean_score, name) == pytest.approx(number, nan_ok=True)
    details = aggregate(metrics.details, "details")
    assert details["judge_model"] == ("gpt-4o" if rated else "none")
    assert details["truncated_of"] == len(known_flags)
    assert details["num_questions"] == len(answers)


def test_several_judges_are_all_named():
    values = [
        score(replace(JUDGED, judge=judge))["details"] for judge in ("gpt-4o", "demo", "gpt-4o")
    ]
    assert metrics.details(values)["judge_model"] == "demo, gpt-4o"


def test_several_prompts_are_all_named():
    values = [
        score(replace(JUDGED, prompts=name))["details"]
        for name in ("GPT-4V", "own, system turn", None, "GPT-4V")
    ]
    assert metrics.details(values)["prompts"] == "GPT-4V; own, system turn; unknown"
    assert metrics.details(values[:1])["prompts"] == "GPT-4V"


def test_averages_match_the_paper():
    assert {len(row) for row in TABLE_3.values()} == {len(DIMENSIONS) + 1}
    differences = {
        model: printed - average(scores) for model, (*scores, printed) in TABLE_3.items()
    }
    expected = dict.fromkeys(TABLE_3, 0.0) | NOT_THE_MEAN
    assert differences == pytest.approx(expected, abs=0.05 + 1e-9)


def test_one_average_of_the_paper_is_not_the_mean():
    assert {"ShareGPT4V-7B": pytest.approx(-4.3)} == NOT_THE_MEAN


@pytest.mark.parametrize(("model", "printed"), [("GPT-4V", "65.5"), ("LLaVA-1.5-7B", "39.0")])
def test_average_as_printed(model, printed):
    assert f"{average(TABLE_3[model][:-1]):.1f}" == printed


def test_average_weights_dimensions_not_questions():
    assert average([100.0 if size == 100 else 0.0 for size in SIZES]) == pytest.approx(200 / 12)


def test_means_over_the_dimensions_need_all_twelve():
    scores, sizes = list(range(12)), [50] * 11 + [100]
    assert metrics.mean_over_dimensions(scores, sizes, False) == 5.5
    assert metrics.mean_over_dimensions(scores, sizes, True) == pytest.approx(
        (50 * sum(range(11)) + 100 * 11) / 650
    )
    assert math.isnan(metrics.mean_over_dimensions([*scores, 1], [*sizes, 50], False))
    assert math.isnan(average([math.nan, *[50.0] * 11]))
