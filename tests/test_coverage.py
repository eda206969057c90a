"""Coverage has one meaning in results, tables and report, for all benchmarks."""

from dataclasses import replace

import pytest

from lmms_egoplan.benchmarks.actplan.instances import official_instances
from lmms_egoplan.benchmarks.aggregations import question_sets
from lmms_egoplan.benchmarks.egointent.judge import Prediction, grade
from lmms_egoplan.benchmarks.egointent.judge_protocol import PAPER
from lmms_egoplan.benchmarks.egointent.metrics import score_step
from lmms_egoplan.benchmarks.egoplan.letter import read_clear, score_letter
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_BENCH2_TEST, EGOPLAN_TEST, EGOPLAN_VAL
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.metrics import score_answer
from lmms_egoplan.coverage import coverage, coverage_values
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.report.egoplan.answers import EGOPLAN, Series
from lmms_egoplan.report.run import Run, TaskRun, scoring_of

LOSSES = [(2.5, False), (1.5, True), (3.0, False), (2.0, False)]
QUESTION = {
    "sample_id": 7,
    "video_id": "P01_01",
    "video_source": "EpicKitchens",
    "golden_choice_idx": "B",
    "domain": "Work",
    "choices": ["open", "take", "close", "cut"],
}
FIELDS = {"local_intent": "cut bread", "global_intent": "make toast", "next_step_plan": "spread"}
STEP = {
    "step_id": "P01/3",
    "video_id": "P01",
    "environment": "indoor",
    "scenario": "tea",
    "unverified": False,
}

DEMO = JudgeSettings("demo")


def judged(doc, rating=0.5):
    return score_answer(
        {"id": "existence/1"} | doc,
        [JudgedAnswer("existence/1", "a cup", False, False, rating, "", "gpt-4o", None).to_text()],
    )


def stepped(doc, settings=DEMO):
    answer = Prediction(
        step_id="P01/3",
        fields=FIELDS,
        truncated=False,
        frames_shown=8,
        frames_sampled=30,
        references=FIELDS,
    )
    (step,) = grade([answer], settings, PAPER)
    return score_step(STEP | doc, [step.to_text()])


def ranked(doc, split, losses=LOSSES):
    return score_ranking(QUESTION | doc, losses, split)


def written(doc, split):
    return score_letter(QUESTION | doc, "A", split, read_clear)


SCORED = {
    "egoplan val": (3355, lambda doc: ranked(doc, EGOPLAN_VAL)),
    "egoplan val, written": (3355, lambda doc: written(doc, EGOPLAN_VAL)),
    "egoplan test": (1584, lambda doc: ranked(doc, EGOPLAN_TEST)),
    "egoplan_bench2": (1321, lambda doc: written(doc, EGOPLAN_BENCH2_TEST)),
    "egothink": (50, judged),
    "egointent": (3014, stepped),
}


@pytest.mark.parametrize("name", SCORED)
@pytest.mark.parametrize(
    ("doc", "asked", "expected", "question_set"),
    [
        ({"split_size": 6, "question_set": "official"}, 6, None, "official"),
        ({"split_size": 6, "question_set": "official by counts"}, 6, None, "official by counts"),
        ({"split_size": 6}, 6, 1, "own"),
        ({"split_size": 6, "question_set": "own"}, 3, 0.5, "own"),
        ({"split_size": 6, "origin": "built"}, 6, 1, "built"),
        ({"split_size": 6, "question_set": "own", "origin": "built"}, 3, 0.5, "built"),
    ],
)
def test_coverage_is_of_official_questions_or_of_prepared_ones_for_other_data(
    name, doc, asked, expected, question_set
):
    official, score = SCORED[name]
    values = score(doc)
    assert coverage([values["coverage"]] * asked) == pytest.approx(
        asked / official if expected is None else expected
    )
    assert question_sets([values["question_set"]]) == question_set
    assert values["details"]["split_size"] == doc["split_size"]


def test_unrated_answers_are_not_covered():
    assert coverage([judged({}, None)["coverage"], judged({})["coverage"]]) == 1 / 50
    assert coverage([stepped({"split_size": 9}, None)["coverage"]]) == 0
    values = ranked({"split_size": 9}, EGOPLAN_VAL, [(float("nan"), False)] * 4)
    assert coverage([values["coverage"]]) == 0


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ({"video_id": "rendered_01"}, "rendered scenes"),
        ({"video_id": "rendered-01", "origin": "own"}, "rendered scenes"),
        ({"origin": "own"}, "own"),
    ],
)
def test_question_sets_of_egoplan(doc, expected):
    values = written({"split_size": 6} | doc, EGOPLAN_VAL)
    assert values["question_set"] == {"name": expected}


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ({"category": "COOKING"}, "Goal-Step steps"),
        ({"unverified": True}, "unverified steps"),
        ({"origin": "rendered scenes"}, "rendered scenes"),
    ],
)
def test_question_sets_of_egointent(doc, expected):
    values = stepped({"split_size": 6} | doc)
    assert (values["question_set"], coverage([values["coverage"]] * 6)) == ({"name": expected}, 1)


def test_a_part_among_official_questions_is_not_called_official():
    official = {"split_size": 4, "question_set": "official"}
    values = [
        coverage_values(official, 10, 1),
        coverage_values(official | {"origin": "own"}, 10, 1),
    ]
    assert question_sets([value["question_set"] for value in values]) == "official (1), own (1)"
    assert coverage([value["coverage"] for value in values]) == 0.5


def test_actplan_settings_have_their_own_official_numbers():
    assert official_instances({"setting": "normal", "release_size": 1187}) == 825
    assert official_instances({"setting": "counterfactual", "release_size": 9}) == 362
    assert official_instances({"setting": "normal"}) == 1187


def series(metrics):
    config = {"output_type": "multiple_choice"}
    scoring = scoring_of("egoplan_val", config, ["acc_sum"])
    task = TaskRun("egoplan_val", metrics, config, None, "1.1", scoring)
    run = Run("run", None, "lmms-eval", "model", "2025", {"egoplan_val": task}, {}, {})
    return Series("run", run, None, task, EGOPLAN, "model")


def test_results_of_earlier_versions_get_the_official_coverage():
    earlier = {"acc": 0.5, "coverage": 1.0, "split_size": 6, "predictions": 6, "num_questions": 6}
    assert series(earlier).coverage == pytest.approx(6 / 3355)
    assert series(earlier).is_official
    assert series({"coverage": 1.0}).coverage is None


def test_scripted_replies_to_official_questions_are_meaningless():
    real = series(
        {
            "acc": 0.5,
            "coverage": 1.0,
            "split_size": 3355,
            "predictions": 3355,
            "question_set": "official",
        }
    )
    scripted = replace(real, run=replace(real.run, provenance={"backend": "scripted"}))
    assert (real.is_demo, real.objections) == (False, ())
    assert scripted.is_demo
    assert scripted.objections


@pytest.mark.parametrize(("name", "is_demo"), [("built", False), ("rendered scenes", True)])
def test_questions_that_are_not_the_benchmarks_are_named_without_samples(name, is_demo):
    built = series(
        {"acc": 0.5, "coverage": 0.5, "split_size": 6, "question_set": name, "predictions": 3}
    )
    assert (built.coverage, built.whole, built.is_demo) == (0.5, 6, is_demo)
    assert name in built.objections
    assert built.asked_of
    assert "50" in built.objections[-1]
    assert not series({"question_set": "official", "coverage": 1.0}).asked_of


def test_questions_that_are_official_by_counts_are_compared_and_say_so():
    metrics = {"acc": 0.5, "split_size": 3355, "num_questions": 3355, "predictions": 3355}
    counted = series(metrics | {"question_set": "official by counts", "coverage": 1.0})
    assert (counted.is_official, counted.objections, counted.coverage) == (True, (), 1)
    assert "official by counts" in counted.asked_of
