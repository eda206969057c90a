"""Check values of single questions, and aggregations over a run."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmms_egoplan.benchmarks import aggregations
from lmms_egoplan.benchmarks.egoplan import metrics
from lmms_egoplan.benchmarks.egoplan.metrics import rank
from lmms_egoplan.coverage import coverage as share_covered
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText

CHOICES = ["put", "take cereal bag", "éplucher l'oignon", "open cupboard"]


def slow_ranking(losses, tokens):
    """Return the best choice by mean, sum and bytes; on a tie, the first one."""
    best = [0, 0, 0]
    for index, (loss, number, text) in enumerate(zip(losses, tokens, CHOICES, strict=True)):
        for position, better in enumerate(
            [
                loss < losses[best[0]],
                -loss * number > -losses[best[1]] * tokens[best[1]],
                -loss * number / len(text.encode("utf-8"))
                > -losses[best[2]] * tokens[best[2]] / len(CHOICES[best[2]].encode("utf-8")),
            ]
        ):
            if better:
                best[position] = index
    return tuple(best)


FOUR_LOSSES = st.lists(st.floats(0, 50) | st.sampled_from([0.5, 1.0]), min_size=4, max_size=4)
FOUR_COUNTS = st.lists(st.integers(1, 30), min_size=4, max_size=4)


@given(FOUR_LOSSES, FOUR_COUNTS)
def test_rank_equals_slow_ranking(losses, tokens):
    ranking = rank([Loglikelihood(*pair) for pair in zip(losses, tokens, strict=True)], CHOICES)
    assert (ranking.by_mean, ranking.by_sum, ranking.by_bytes) == slow_ranking(losses, tokens)
    assert ranking.tied == (sorted(losses)[0] == sorted(losses)[1])


def test_wrong_number_of_responses():
    with pytest.raises(ValueError, match="each of 4 choices, got 3"):
        rank([Loglikelihood(1.0)] * 3, CHOICES)


def make_doc(gold="B", **changes):
    return {
        "sample_id": 115,
        "video_source": "EpicKitchens",
        "video_id": "P01_13",
        "choices": CHOICES,
        "golden_choice_idx": gold,
        "split_size": 10,
        "question_set": "official",
    } | changes


def encode(losses, tokens=(1, 3, 9, 2)):
    return [
        str(LoglikelihoodText.from_score(Loglikelihood(loss, number, False)))
        for loss, number in zip(losses, tokens, strict=True)
    ]


def test_each_score_may_prefer_another_choice():
    values = metrics.score_ranking(make_doc(), encode([2.0, 0.5, 0.6, 0.6]))
    scores = {name: value["score"] for name, value in values.items() if "score" in value}
    assert scores == {"acc": 1.0, "acc_sum": 0.0, "acc_bytes": 0.0, "acc_epic_kitchens": 1.0}
    assert values["predictions"]["prediction"] == "B"
    assert values["predictions"]["choices"][1] == {
        "loss": 0.5,
        "logprob": -1.5,
        "num_tokens": 3,
        "is_greedy": False,
    }


EGOPLAN = metrics.score_ranking, metrics.score_reply
BENCH2 = metrics.score_planning_choices, metrics.score_planning_letter


@pytest.mark.parametrize(
    ("functions", "doc", "metric"),
    [
        (EGOPLAN, {"video_source": "EpicKitchens"}, "acc_epic_kitchens"),
        (EGOPLAN, {"video_source": "Ego4D"}, "acc_ego4d"),
        (BENCH2, {"domain": "Daily life"}, "acc_daily_life"),
        (BENCH2, {"domain": "Work"}, "acc_work"),
        (BENCH2, {"domain": "Hobbies"}, "acc_hobbies"),
        (BENCH2, {"domain": "Recreation"}, "acc_recreation"),
    ],
)
def test_each_part_of_the_questions_has_a_separate_accuracy(functions, doc, metric):
    ranked, written = functions
    values = ranked(make_doc(**doc), encode([2.0, 0.5, 0.6, 0.6]))
    assert values["acc"] == values[metric] == {"score": 1.0, "video_id": "P01_13"}
    assert {name for name in values if name.startswith("acc_")} == {"acc_sum", "acc_bytes", metric}
    values = written(make_doc(**doc), ["C"])
    assert values["acc"] == values[metric] == {"score": 0.0, "video_id": "P01_13"}
    values = written(make_doc(**doc), ["I do not know"])
    assert (values[metric]["score"], values["unparsed"]["score"]) == (0.0, 1.0)


def test_tie_goes_to_the_first_choice():
    values = metrics.score_ranking(make_doc(), encode([2.0, 0.5, 0.5, 0.6]))
    assert values["ties"] == {"tied": True}
    assert values["acc"]["score"] == 1.0


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_question_with_a_loss_that_is_not_finite_is_not_scored(loss):
    values = metrics.score_ranking(make_doc(), encode([2.0, 0.5, loss, 0.6]))
    assert not [name for name in values if name.startswith("acc")]
    assert values["coverage"] == {"scored": False, "of": 3355}
    assert values["predictions"]["prediction"] is None
    assert values["predictions"]["choices"][2]["loss"] is None
    json.dumps(values, allow_nan=False)


def test_stock_backends_have_no_sums():
    values = metrics.score_ranking(
        make_doc(), [f"({loss}, False)" for loss in (2.0, 0.5, 0.6, 0.6)]
    )
    assert values["acc"]["score"] == 1.0
    assert not {"acc_sum", "acc_bytes"} & values.keys()
    assert values["predictions"]["choices"][0]["logprob"] is None


@pytest.mark.parametrize("counts", [[None] * 4, [1, None, 9, 2]])
def test_sums_without_counts_give_no_accuracy_by_the_papers_score(counts):
    """lm-eval's model classes return sums.

    Here, the sum prefers A, the sum per byte C, and the sum per letter B.
    """
    responses = [
        str(LoglikelihoodText.from_score(Loglikelihood(None, count, False, logprob)))
        for logprob, count in zip((-2.0, -3.0, -3.5, -2.9), counts, strict=True)
    ]
    for gold in "ABCD":
        values = metrics.score_ranking(make_doc(gold=gold), responses)
        scores = {name: value["score"] for name, value in values.items() if "score" in value}
        assert scores == {"acc_sum": float(gold == "A"), "acc_bytes": float(gold == "C")}
    assert values["predictions"]["prediction"] is None
    unknown = {"loss": None, "logprob": -3.0, "num_tokens": None, "is_greedy": False}
    assert values["predictions"]["choices"][1] == unknown
    assert values["ties"] == {"tied": False}
    assert (
        share_covered([values["coverage"]]) == metrics.num_predictions([values["predictions"]]) == 0
    )
    json.dumps(values, allow_nan=False)


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_question_with_a_sum_that_is_not_finite_is_not_scored(logprob):
    sums = (-2.0, -3.0, logprob, -2.9)
    values = metrics.score_ranking(
        make_doc(),
        [LoglikelihoodText.from_score(Loglikelihood(None, None, False, total)) for total in sums],
    )
    assert not [name for name in values if name.startswith("acc")]
    assert values["predictions"]["choices"][2]["logprob"] is None
    json.dumps(values, allow_nan=False)


def test_test_questions_have_no_accuracy():
    values = metrics.score_test_ranking(make_doc(gold=None), encode([2.0, 0.5, 0.6, 0.6]))
    assert values.keys() == {
        "ties",
        "predictions",
        "coverage",
        "split_size",
        "question_set",
        "num_questions",
    }


@pytest.mark.parametrize(
    ("reply", "score", "unparsed"),
    [
        ("B.", 1.0, 0.0),
        ("The answer is C", 0.0, 0.0),
        ("B or C", 0.0, 1.0),
        # The choices decide.
        ("B take cereal bag", 1.0, 0.0),
        ("B. open cupboard", 0.0, 1.0),
    ],
)
def test_reply(reply, score, unparsed):
    values = metrics.score_reply(make_doc(video_source="Ego4D"), [reply])
    assert values["acc"]["score"] == values["acc_ego4d"]["score"] == score
    assert values["unparsed"]["score"] == unparsed
    assert (values["predictions"]["prediction"] is None) == bool(unparsed)


def test_aggregations_over_a_run():
    questions = [
        metrics.score_ranking(make_doc(gold="B"), encode([2.0, 0.5, 0.6, 0.6])),
        metrics.score_ranking(make_doc(gold="A"), encode([2.0, 0.5, 0.5, 0.6])),
        metrics.score_ranking(make_doc(gold="A"), encode([2.0, math.nan, 0.5, 0.6])),
    ]

    def values(name):
        return [question[name] for question in questions if name in question]

    assert metrics.mean_score(values("acc")) == 0.5
    assert aggregations.count(values("ties")) == 1
    assert metrics.num_predictions(values("predictions")) == 2
    assert aggregations.num_asked(values("num_questions")) == 3
    assert aggregations.split_size(values("split_size")) == 10
    assert share_covered(values("coverage")) == 2 / 3355


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        (
            "Task progress: x\nCurrent observation: y\nNext action: B",
            {"acc": 1, "unparsed": 0, "incomplete": 0},
        ),
        (
            "Task progress: x\nCurrent observation: y\nNext action: C",
            {"acc": 0, "unparsed": 0, "incomplete": 0},
        ),
        (
            "Task progress: x\nCurrent observation: y\nNext action: none",
            {"unparsed": 1, "incomplete": 0},
        ),
        ("Task progress: x\nCurrent observ", {"unparsed": 1, "incomplete": 1}),
        (
            "Next action: B\nTask progress: x\nCurrent observation: y",
            {"acc": 1, "unparsed": 0, "incomplete": 1},
        ),
        ("B", {"acc": 1, "unparsed": 0, "incomplete": 1}),
        ("", {"unparsed": 1, "incomplete": 1}),
    ],
)
def test_reasoned_replies_without_a_letter_are_counted_and_not_wrong(reply, scores):
    values = metrics.score_reasoned(make_doc(), [reply])
    named = ("acc", "acc_epic_kitchens", "unparsed", "incomplete")
    part = {"acc_epic_kitchens": scores["acc"]} if "acc" in scores else {}
    assert {name: values[name]["score"] for name in named if name in values} == scores | part
    assert share_covered([values["coverage"]]) == pytest.approx(("acc" in scores) / 3355)
    assert values["predictions"]["observation"] == ("y" if "y" in reply else None)
    json.dumps(values, allow_nan=False)
