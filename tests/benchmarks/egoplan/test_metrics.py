"""Check the metrics of parts, and aggregations over a run."""

import math

import pytest

from benchmarks.egoplan.scored import encode, make_doc
from lmms_egoplan.benchmarks import aggregations
from lmms_egoplan.benchmarks.egoplan.letter import read_clear, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_BENCH2_TEST, EGOPLAN_VAL, details
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.coverage import coverage as share_covered


@pytest.mark.parametrize(
    ("split", "doc", "metric"),
    [
        (EGOPLAN_VAL, {"video_source": "EpicKitchens"}, "acc_epic_kitchens"),
        (EGOPLAN_VAL, {"video_source": "Ego4D"}, "acc_ego4d"),
        (EGOPLAN_BENCH2_TEST, {"domain": "Daily life"}, "acc_daily_life"),
        (EGOPLAN_BENCH2_TEST, {"domain": "Work"}, "acc_work"),
        (EGOPLAN_BENCH2_TEST, {"domain": "Hobbies"}, "acc_hobbies"),
        (EGOPLAN_BENCH2_TEST, {"domain": "Recreation"}, "acc_recreation"),
    ],
)
def test_each_part_of_the_questions_has_a_separate_accuracy(split, doc, metric):
    values = score_ranking(make_doc(**doc), encode([2.0, 0.5, 0.6, 0.6]), split)
    assert values["acc"] == values[metric] == {"cluster": "P01_13", "score": 1.0}
    assert {name for name in values if name.startswith("acc_")} == {"acc_sum", "acc_bytes", metric}
    values = score_letter(make_doc(**doc), "C", split, read_clear)
    assert values["acc"] == values[metric] == {"cluster": "P01_13", "score": 0.0}
    values = score_letter(make_doc(**doc), "I do not know", split, read_clear)
    assert (values[metric]["score"], values["unparsed"]["score"]) == (0.0, 1.0)


def test_aggregations_over_a_run():
    questions = [
        score_ranking(make_doc(gold="B"), encode([2.0, 0.5, 0.6, 0.6]), EGOPLAN_VAL),
        score_ranking(make_doc(gold="A"), encode([2.0, 0.5, 0.5, 0.6]), EGOPLAN_VAL),
        score_ranking(make_doc(gold="A"), encode([2.0, math.nan, 0.5, 0.6]), EGOPLAN_VAL),
    ]

    def values(name):
        return [question[name] for question in questions if name in question]

    assert aggregations.mean_score(values("acc")) == 0.5
    assert details(values("details")) == {
        "ties": 1,
        "predictions": 2,
        "num_questions": 3,
        "split_size": 10,
    }
    assert share_covered(values("coverage")) == 2 / 3355
