"""Compare scores recomputed from samples with the harness's scores and with those computed here."""

import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_bench
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.recompute import check, recompute
from lmms_egoplan.report.run import scoring_of
from lmms_egoplan.report.runs import read_runs
from report.synthetic import write_run

LETTERS = "ABCD"
ANSWERS = {
    "egoplan_val": egoplan_answers(80, 0.4, 1, unscored=0.1),
    "egoplan_val_blind": egoplan_answers(80, 0.3, 2),
    "egoplan_val_generate": egoplan_replies(80, 0.5, 3, unparsed=0.2),
    **egothink_bench(9, 0.6, 4, unjudged=0.2),
    "egointent": egointent_answers(40, 60, 5, missing=0.2, unjudged=0.2),
    "actplan": actplan_answers(40, 0.6, 6),
    "actplan_text_only": actplan_answers(40, 0.4, 7, bleurt=0.3),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Write and read the same answers in both harnesses."""
    folder = tmp_path_factory.mktemp("runs")
    for harness in ("lmms-eval", "lm-eval"):
        write_run(folder, harness, harness, ANSWERS)
    return {run.harness: run for run in read_runs([folder]).runs}


@pytest.fixture(scope="module", params=["lmms-eval", "lm-eval"])
def run(runs, request):
    return runs[request.param]


def answers_to(task):
    """Yield each question of a task with its answer. Records are decoded."""
    for doc, response in zip(ANSWERS[task].docs, ANSWERS[task].responses, strict=True):
        texts = [json.loads(text) if text.startswith("{") else text for text in response]
        yield doc, texts if len(texts) > 1 else texts[0]


def share(flags):
    flags = list(flags)
    return sum(flags) / len(flags)


def test_the_scores_of_both_harnesses_equal_those_of_their_samples(run):
    assert run.tasks.keys() == ANSWERS.keys()
    for task in run.tasks.values():
        check(run, task)
        assert recompute(task).keys() == task.metrics.keys()


def ranked(task, score):
    """Return true for each question whose best choice is right.

    Questions without scores are omitted.
    """
    for doc, choices in answers_to(task):
        scores = [score(choice, text) for choice, text in zip(choices, doc["choices"], strict=True)]
        if not any(map(math.isnan, scores)):
            yield doc, LETTERS[scores.index(max(scores))] == doc["golden_choice_idx"]


@pytest.mark.parametrize("task", ["egoplan_val", "egoplan_val_blind"])
def test_rankings_are_scored_by_the_likelihoods(run, task):
    metrics = recompute(run.tasks[task])
    by_mean = list(ranked(task, lambda choice, _: -choice["loss"]))
    assert metrics["acc"] == pytest.approx(share(right for _, right in by_mean))
    for source, metric in (("EpicKitchens", "acc_epic_kitchens"), ("Ego4D", "acc_ego4d")):
        assert metrics[metric] == pytest.approx(
            share(right for doc, right in by_mean if doc["video_source"] == source)
        )
    by_sum = ranked(task, lambda choice, _: -choice["loss"] * choice["num_tokens"])
    assert metrics["acc_sum"] == pytest.approx(share(right for _, right in by_sum))
    by_bytes = ranked(
        task, lambda choice, text: -choice["loss"] * choice["num_tokens"] / len(text.encode())
    )
    assert metrics["acc_bytes"] == pytest.approx(share(right for _, right in by_bytes))
    assert (metrics["ties"], metrics["split_size"], metrics["num_questions"]) == (0, 80, 80)
    assert metrics["predictions"] == len(by_mean) == round(3355 * metrics["coverage"])
    assert (len(by_mean) < 80) is (task == "egoplan_val")


def test_replies_are_scored_by_their_letters(run):
    metrics = recompute(run.tasks["egoplan_val_generate"])
    letters = [
        (doc, reply[0] if reply[1:] == "." else None)
        for doc, reply in answers_to("egoplan_val_generate")
    ]
    assert metrics["acc"] == pytest.approx(
        share(letter == doc["golden_choice_idx"] for doc, letter in letters)
    )
    assert metrics["unparsed"] == pytest.approx(share(letter is None for _, letter in letters))
    assert metrics["predictions"] == sum(letter is not None for _, letter in letters) < 80
    assert metrics["coverage"] == metrics["num_questions"] / 3355


@pytest.mark.parametrize("task", EGOTHINK_TASKS)
def test_averages_include_only_judged_answers(run, task):
    metrics = recompute(run.tasks[task])
    ratings = [answer["rating"] for _, answer in answers_to(task)]
    judged = [rating for rating in ratings if rating is not None]
    assert metrics["score"] == pytest.approx(100 * mean(judged))
    assert metrics["judge_coverage"] == pytest.approx(len(judged) / 9)
    assert (metrics["judge_model"], metrics["num_questions"], metrics["suspect"]) == (
        "org/judge",
        9,
        0,
    )
    if run.harness == "lmms-eval":
        assert metrics["truncated"] == pytest.approx(
            share(answer["truncated"] for _, answer in answers_to(task))
        )
        assert metrics["truncated_of"] == 9
    else:
        assert math.isnan(metrics["truncated"])
        assert metrics["truncated_of"] == 0


def test_steps_are_averaged_by_field_environment_and_scenario(run):
    metrics = recompute(run.tasks["egointent"])

    def field_score(field, chosen):
        rated = [step["ratings"][field] for _, step in chosen if field in step["fields"]]
        judged = [rating for rating in rated if rating is not None]
        return len(rated) / len(chosen) * mean(judged)

    def overall(chosen):
        return mean(field_score(field, chosen) for field in FIELDS)

    steps = list(answers_to("egointent"))
    for field in FIELDS:
        assert metrics[RELEASE_NAMES[field]] == pytest.approx(field_score(field, steps))
    assert metrics["overall"] == pytest.approx(overall(steps))
    for environment in ("indoor", "outdoor"):
        assert metrics[environment] == pytest.approx(
            overall([step for step in steps if step[0]["environment"] == environment])
        )
    scenarios = {doc["scenario"] for doc, _ in steps}
    assert metrics["scenario"] == pytest.approx(
        {
            name: overall([step for step in steps if step[0]["scenario"] == name])
            for name in scenarios
        }
    )
    assert metrics["parsed"] == pytest.approx(sum(len(step["fields"]) for _, step in steps) / 120)
    assert metrics["num_steps"] == 40
    rated = 1 - metrics["parsed"] * (1 - metrics["judge_coverage"])
    assert metrics["coverage"] == pytest.approx(40 / 3014 * rated)


@pytest.mark.parametrize("task", ["actplan", "actplan_text_only"])
def test_plans_are_averaged_over_those_with_a_gold_plan_and_by_group(run, task):
    metrics = recompute(run.tasks[task])
    norms = [
        [
            None if length is None else length / max(len(plan["official"]), reference)
            for length, reference in zip(plan["lcs_each"], plan["reference_lengths"], strict=True)
        ]
        for _, plan in answers_to(task)
    ]
    assert metrics["lcs_norm"] == pytest.approx(mean(first for first, _ in norms))
    assert metrics["lcs_norm_gold_2"] == pytest.approx(
        mean(second for _, second in norms if second is not None)
    )
    assert metrics["lcs"] == pytest.approx(
        mean(plan["lcs_each"][0] for _, plan in answers_to(task))
    )
    assert (metrics["num_gold_1"], metrics["num_gold_2"], metrics["num_plans"]) == (40, 36, 40)
    groups = defaultdict(list)
    for (doc, _), (first, _) in zip(answers_to(task), norms, strict=True):
        groups[doc["setting"]].append(first)
    breakdown = metrics["breakdown"]
    assert {name: means["lcs_norm"] for name, means in breakdown["setting"].items()} == (
        pytest.approx({name: mean(values) for name, values in groups.items()}, abs=6e-5)
    )
    assert {name: means["plans"] for name, means in breakdown["setting"].items()} == {
        name: len(values) for name, values in groups.items()
    }
    tens = Counter((plan["reference_lengths"][0] - 1) // 10 for _, plan in answers_to(task))
    assert {name: means["plans"] for name, means in breakdown["length"].items()} == {
        f"{10 * ten + 1}-{10 * ten + 10}": tens[ten] for ten in range(5)
    } | {"51+": tens[5]}
    if task == "actplan":
        assert "bleurt_correct" not in metrics
    else:
        assert metrics["bleurt_correct"] == pytest.approx(
            share(plan["bleurt"] for _, plan in answers_to(task))
        )


RANKED, WRITTEN = ("acc", "acc_sum", "ties"), ("acc", "unparsed")


@pytest.mark.parametrize(
    ("task", "metadata", "metrics", "name"),
    [
        ("egoplan_val", {"benchmark": "egoplan"}, RANKED, "egoplan_ranking"),
        ("mine", {"benchmark": "egoplan"}, WRITTEN, "egoplan_replies"),
        ("egoplan_val_16", {"version": 2.0}, RANKED, "egoplan_ranking"),
        ("egoplan_bench2_16", None, RANKED, "egoplan_bench2_ranking"),
        ("egointent", None, ("overall", "next_step"), "egointent"),
        ("egointent", None, ("overall", "next_step_plan"), "egointent_v1"),
        ("egoplan_test", {}, RANKED, None),
        ("mine", {}, RANKED, None),
        ("mine", {"benchmark": "theirs"}, RANKED, None),
        ("mine", {"benchmark": 7}, RANKED, None),
    ],
)
def test_metadata_or_name_of_a_task_selects_its_scoring(task, metadata, metrics, name):
    scoring = scoring_of(task, {"metadata": metadata}, metrics)
    assert (scoring and scoring.name) == name
    assert scoring_of(task, [], metrics) is None


def test_without_samples_there_is_nothing_to_compute_or_to_compare(run):
    task = replace(run.tasks["egointent"], samples=None)
    assert recompute(task) == {}
    check(run, task)


def changed(task, number=3, **records):
    """Return the task with other records in one of its samples."""
    samples = list(task.samples)
    samples[number] = samples[number] | records
    return replace(task, samples=tuple(samples))


def test_a_changed_score_is_an_error_that_names_run_task_metric_and_both_values(run):
    task = run.tasks["egoplan_val_blind"]
    record = task.samples[3]["acc"]
    other = changed(task, acc=record | {"score": 1 - record["score"]})
    with pytest.raises(LmmsEgoplanError) as error:
        check(run, other)
    message = str(error.value)
    assert message.startswith(f"{run.folder}, run {run.name}, task egoplan_val_blind: ")
    assert " 80 samples:\n" in message
    assert (
        f"acc: {task.metrics['acc']} in the results, {recompute(other)['acc']} from the samples"
        in message
    )
    assert message.count(" in the results, ") == 1


@pytest.mark.parametrize(
    "task", ["egoplan_val", "egothink_object_existence", "egointent", "actplan"]
)
def test_incomplete_or_duplicate_samples_are_an_error(run, task):
    complete = run.tasks[task]
    for samples in (complete.samples[:-1], (*complete.samples, complete.samples[0]), ()):
        with pytest.raises(
            LmmsEgoplanError, match=r"samples:\n  num_(questions|steps|plans): \d+ in the results"
        ):
            check(run, replace(complete, samples=samples))


def test_a_metric_that_only_one_side_has_is_an_error(run):
    task = run.tasks["actplan_text_only"]
    less = {name: value for name, value in task.metrics.items() if name != "bleurt_correct"}
    with pytest.raises(
        LmmsEgoplanError, match=r"bleurt_correct: nothing in the results, 0\.\d+ from the samples"
    ):
        check(run, replace(task, metrics=less))
    samples = tuple(
        {name: value for name, value in sample.items() if name != "lcs"} for sample in task.samples
    )
    with pytest.raises(
        LmmsEgoplanError, match=r" lcs: [\d.]+ in the results, nothing from the samples"
    ):
        check(run, replace(task, samples=samples))
    without_encoder = []
    for sample in task.samples:
        entries = {name: value for name, value in sample["details"].items() if name != "encoder"}
        without_encoder.append({**sample, "details": entries})
    with pytest.raises(LmmsEgoplanError, match=r"encoder: .* in the results, nothing from the"):
        check(run, replace(task, samples=tuple(without_encoder)))


def test_a_damaged_sample_is_named(tmp_path):
    write_run(tmp_path, "lmms-eval", "run", {"actplan_text_only": ANSWERS["actplan_text_only"]})
    (path,) = tmp_path.rglob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines[4]["bleurt_correct"] = 1.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (message,) = (line for line in read_runs([tmp_path / "run"]).skipped if ", line 5: " in line)
    assert message.startswith(f"{path}, line 5: bleurt_correct: expected an object, found 1.0")


def test_metrics_of_other_tasks_are_not_compared(run):
    task = run.tasks["actplan"]
    check(run, replace(task, metrics=task.metrics | {"of_another_version": 0.5}))


@pytest.mark.parametrize(
    ("factor", "is_equal"), [(1 + 1e-10, True), (1 - 1e-10, True), (1 + 1e-8, False)]
)
def test_numbers_may_differ_in_the_last_digits(run, factor, is_equal):
    task = run.tasks["egointent"]
    other = replace(task, metrics=task.metrics | {"overall": task.metrics["overall"] * factor})
    if is_equal:
        check(run, other)
    else:
        with pytest.raises(LmmsEgoplanError, match="overall"):
            check(run, other)


def test_groups_are_compared_one_by_one(run):
    task = run.tasks["actplan"]
    breakdown = task.metrics["breakdown"]
    groups = breakdown["length"]
    first = groups["1-10"]
    plans = first["plans"]
    length = "breakdown of length of"
    changes = {
        f"{length} 1-10 of plans: {plans + 1} in the results, {plans} from the samples": groups
        | {"1-10": first | {"plans": plans + 1}},
        f"{length} 61+: {{'plans': 1}} in the results, nothing from the samples": groups
        | {"61+": {"plans": 1}},
        f"{length} 1-10: nothing in the results, {first} from the samples": dict(
            list(groups.items())[1:]
        ),
    }

    def with_groups(other):
        other_breakdown = {"breakdown": breakdown | {"length": other}}
        return replace(task, metrics=task.metrics | other_breakdown)

    for message, other in changes.items():
        with pytest.raises(
            LmmsEgoplanError, match=r"samples:\n  " + re.escape(message) + r"\nThe "
        ):
            check(run, with_groups(other))
    check(run, with_groups(dict(reversed(groups.items()))))


def test_nan_equals_nan_and_no_number(tmp_path):
    write_run(tmp_path, "lm-eval", "m", egothink_bench(2, 0.5, unjudged=1))
    (run,) = read_runs([tmp_path]).runs
    task = run.tasks["egothink_object_existence"]
    assert math.isnan(task.metrics["score"])
    check(run, task)
    with pytest.raises(LmmsEgoplanError, match=r"score: 0\.0 in the results, nan from the samples"):
        check(run, replace(task, metrics=task.metrics | {"score": 0.0}))


@pytest.mark.parametrize(
    ("metric", "record"),
    [
        ("acc", {}),
        ("acc", {"score": "high"}),
        ("acc", {"score": None}),
        ("coverage", {"scored": True}),
        ("details", {"predictions": "B"}),
    ],
)
def test_records_of_another_form_are_an_error_that_names_the_metric(run, metric, record):
    with pytest.raises(
        LmmsEgoplanError, match=rf"samples of egoplan_val: {metric} cannot be computed: \w+Error"
    ):
        check(run, changed(run.tasks["egoplan_val"], **{metric: record}))


def test_a_conflict_of_ranking_paths_says_what_to_do(run):
    task = run.tasks["egoplan_val"]
    use = {"path": "packed", "kind": "image", "audit": None, "rejected": []}
    uses = [use | {"rejected": ["packed"]}, *[use] * (len(task.samples) - 1)]
    samples = [
        sample | {"details": sample["details"] | {"ranking": use_of_sample}}
        for sample, use_of_sample in zip(task.samples, uses, strict=True)
    ]
    pattern = (
        r"egoplan_val: details: \d+ questions \(image\) .* packed.* --model_args "
        r"\.\.\.,ranking_path=full"
    )
    with pytest.raises(LmmsEgoplanError, match=pattern):
        check(run, replace(task, samples=tuple(samples)))
