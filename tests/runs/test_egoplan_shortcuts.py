"""Run the shortcut tasks in both harnesses: prompts, frames, likelihoods, and models planted with a
shortcut.
"""

import json
import re
from dataclasses import replace

import pytest
from lm_eval.api.model import LM
from lmms_eval import evaluator
from lmms_eval.api.model import lmms

from benchmarks.egoplan import shortcut_set
from benchmarks.egoplan.shortcut_set import (
    BASES,
    CONDITIONS,
    TASKS,
    shown_by_the_task,
    shown_under,
    text_under,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch.counts import count_tasks
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import read_numbers
from runs.both_harnesses import (
    assert_same_results,
    evaluate,
    in_lm_eval,
    in_lmms_eval,
    lmms_tasks,
    save_language_model,
)
from runs.harness import Run, metric
from runs.slow_egoplan import SlowEgoPlan, assert_same_ranking
from zoo import save

GROUPS = ["egoplan_val_shortcuts", "egoplan_bench2_shortcuts"]
EVERY_TASK = [name for tasks in TASKS.values() for name in tasks]
CONDITION = {
    name: condition
    for tasks in TASKS.values()
    for name, condition in zip(tasks, [None, *CONDITIONS], strict=True)
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortcut_runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
        yield folder, shortcut_set.prepare(folder)


@pytest.fixture(scope="module")
def records(made):
    return {record["sample_id"]: record for questions in made[1].values() for record in questions}


@pytest.fixture(scope="module")
def qwen(made):
    return save("qwen2_5_vl", made[0] / "qwen")


@pytest.fixture(scope="module")
def lmms_run(qwen):
    return in_lmms_eval(qwen, *GROUPS)


@pytest.fixture(scope="module")
def lm_run(qwen):
    return in_lm_eval(qwen, *GROUPS)


@pytest.mark.nightly
def test_counts_before_a_run_are_those_of_every_condition(made, lmms_run):
    """In a compact run, too: its questions have the partners of a full run."""
    plan = Plan(
        model="m",
        model_args={},
        backend_name="hf_vlm",
        harness="lmms-eval",
        tasks=GROUPS,
        out=made[0],
    )
    for counts in count_tasks(plan):
        shown = [sample["record"]["images"] for sample in lmms_run.samples[counts.task]]
        assert (counts.questions, counts.images) == (len(shown), sum(shown)), counts.task
    for counts in count_tasks(replace(plan, subset="3")):
        assert 0 < counts.questions <= 3, counts.task


class LastFrameOnly:
    """A model that knows the right choice from the last image, and prefers the first choice if it
    sees no known one.
    """

    def __init__(self, records):
        super().__init__()
        self.known = {
            shown_by_the_task(record)[-1]: record["answer"] for record in records.values()
        }
        self.asked = {}

    def losses(self, task, doc, context, choice, images):
        numbers = read_numbers(images)
        partner = (doc.get("partner") or {}).get("sample_id")
        self.asked.setdefault(task, {})[doc["sample_id"]] = (context, numbers, partner)
        return 0.0 if self.known.get(numbers[-1] if numbers else None) == choice.strip() else 1.0


class InLmmsEval(LastFrameOnly, lmms):
    def loglikelihood(self, requests):
        answers = []
        for context, choice, doc_to_visual, doc_id, task, split in (
            request.args for request in requests
        ):
            doc = self.task_dict[task][split][doc_id]
            answers.append((self.losses(task, doc, context, choice, doc_to_visual(doc)), False))
        return answers

    def generate_until(self, requests):
        raise NotImplementedError

    generate_until_multi_round = generate_until


class InLmEval(LastFrameOnly, LM):
    MULTIMODAL = True

    def loglikelihood(self, requests):
        answers = []
        for request in requests:
            context, choice, *media = request.args
            images = list(media[0]["visual"]) if media else []
            assert context.count("<image>") == len(images)
            context = context.replace("<image>", "")
            answers.append(
                (-self.losses(request.task_name, request.doc, context, choice, images), False)
            )
        return answers

    def generate_until(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until


@pytest.fixture(scope="module")
def planted(records):
    """The planted model of each harness and its run, with every question scored."""
    in_lmms, in_lm = InLmmsEval(records), InLmEval(records)
    evaluated = evaluator.simple_evaluate(
        in_lmms, tasks=GROUPS, task_manager=lmms_tasks(), log_samples=True
    )
    return [
        (in_lmms, Run(evaluated["results"], evaluated["samples"], evaluated["details"])),
        (in_lm, evaluate(in_lm, GROUPS, {"tokenizer": None})),
    ]


@pytest.mark.whole
def test_prompts_and_frames_equal_the_reference_in_both_harnesses(planted, records):
    for model, _ in planted:
        assert model.asked.keys() == set(EVERY_TASK)
        for task, asked in model.asked.items():
            for sample_id, (context, numbers, partner) in asked.items():
                assert_asked_as_the_reference(
                    CONDITION[task], records, sample_id, context, numbers, partner
                )


def assert_asked_as_the_reference(condition, records, sample_id, context, numbers, partner):
    record = records[sample_id]
    assert context == text_under(condition, record)
    expected = shown_under(condition, record, records.get(partner))
    if condition == "shuffled":
        assert sorted(numbers) == sorted(expected)
        assert (numbers == shown_by_the_task(record)) == (len(set(numbers)) == 1)
    else:
        assert numbers == expected
    source = records[partner] if partner else record
    last = BASES[shortcut_set.video_of(source)] + source["current_observation_frame"]
    assert all(number <= last for number in numbers)


@pytest.mark.whole
def test_scores_in_both_harnesses_expose_a_model_of_the_last_frame(planted, made):
    """Questions without a partner are counted, and groups have no average."""
    for _, run in planted:
        for benchmark, tasks in TASKS.items():
            assert_exposed(run, tasks)
            for task in tasks:
                assert_counted(run.details[task], CONDITION[task], len(made[1][benchmark]))
        for group in GROUPS:
            assert not [
                name
                for name, value in run.results.get(group, {}).items()
                if "," in name and value != " "
            ]


def assert_exposed(run, tasks):
    name = "acc" if metric(run.results[tasks[0]], "coverage") else "acc_sum"
    scores = {CONDITION[task]: metric(run.results[task], name) for task in tasks}
    same = (
        None,
        "last_frame",
        "frozen",
        "without_goal",
        "last_1_action",
        "last_2_actions",
        "last_4_actions",
    )
    assert {scores[condition] for condition in same} == {1.0}
    for condition in (
        "blind",
        "candidates_only",
        "first_frame",
        "reversed",
        "same_goal_video",
        "other_goal_video",
    ):
        assert scores[condition] < 0.75


def assert_counted(details, condition, size):
    skipped = details.get("without_partner")
    assert details["split_size"] == size
    if condition in ("same_goal_video", "other_goal_video"):
        assert details["num_questions"] == size - skipped
        assert (skipped > 0) == (condition == "same_goal_video")
    else:
        assert skipped is None
        assert details["num_questions"] == size


@pytest.mark.nightly
def test_both_harnesses_are_equal(lmms_run, lm_run):
    """Except for the tolerance, which depends on the questions that an audit draws."""
    details = {}
    for task, entries in lm_run.details.items():
        ranking = {name: value for name, value in entries["ranking"].items() if name != "tolerance"}
        details[task] = entries | {"ranking": ranking}
    assert_same_results(lmms_run, lm_run._replace(details=details), EVERY_TASK)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "condition", ["first_frame", "frozen", "reversed", "without_goal", "last_1_action", "blind"]
)
def test_likelihoods_equal_full_passes(made, qwen, lmms_run, condition):
    folder, questions = made
    media = folder / "media"
    if not media.exists():
        media.mkdir()
        (media / "epic-kitchens").symlink_to(folder / "epic")
        (media / "ego4d").symlink_to(folder / "ego4d")
        (media / "annotations.json").write_text(
            json.dumps({"EgoPlan_validation": questions["egoplan"]})
        )
    slow = SlowEgoPlan(qwen, media)
    ranked = []
    for record in slow.records:
        base = BASES[record["video_id"]]
        images = [slow._frame(record, number - base) for number in shown_under(condition, record)]
        media_items = [{"type": "image", "image": image} for image in images]
        ranked.append(slow.rank(record | {"question": text_under(condition, record)}, media_items))
    assert_same_ranking(lmms_run, f"egoplan_val_{condition}", ranked, slow.records)


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms_eval, in_lm_eval])
def test_cached_answers_are_those_of_the_condition(qwen, lmms_run, tmp_path, run):
    tasks = [
        "egoplan_val",
        "egoplan_val_reversed",
        "egoplan_val_shuffled",
        "egoplan_val_same_goal_video",
    ]
    for _ in range(2):
        done = run(qwen, *tasks, use_cache=str(tmp_path / "cache"))
        for task in tasks:
            for sample, other in zip(done.samples[task], lmms_run.samples[task], strict=True):
                losses = [
                    [choice["loss"] for choice in row["details"]["predictions"]["choices"]]
                    for row in (sample, other)
                ]
                assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.nightly
@pytest.mark.parametrize("run", [in_lmms_eval, in_lm_eval])
def test_a_limit_applies_to_the_questions_with_a_partner(qwen, run):
    done = run(qwen, "egoplan_val_same_goal_video", limit=4)
    details = done.details["egoplan_val_same_goal_video"]
    assert details["num_questions"] == 4
    assert details["without_partner"] == shortcut_set.WITHOUT_SAME_GOAL


@pytest.mark.nightly
@pytest.mark.parametrize("family", ["llava", "idefics3", "gemma3", "blip2_opt"])
@pytest.mark.parametrize("is_chat", [True, False])
def test_candidates_alone_are_ranked_by_many_families(made, family, is_chat):
    """The template of Idefics3 reads a turn's first item, and BLIP-2 has no template."""
    folder, task = made[0] / family, "egoplan_val_candidates_only"
    if not folder.exists():
        save(family, folder)
    run = (
        in_lmms_eval(folder, task)
        if family == "blip2_opt"
        else in_lm_eval(folder, task, apply_chat_template=is_chat)
    )
    choices = [str(sample["details"]["predictions"]["choices"]) for sample in run.samples[task]]
    assert len(choices) == len(made[1]["egoplan"])
    assert len(set(choices)) == 1  # all questions have the same candidates
    assert run.details[task]["ties"] == 0


@pytest.mark.nightly
@pytest.mark.parametrize("checkpoint", ["qwen", "text"])
def test_an_empty_input_without_a_template_begins_with_a_special_token(made, qwen, checkpoint):
    """The tokenizer of Qwen adds no token by itself."""
    task = "egoplan_val_candidates_only"
    if checkpoint == "text":
        folder = save_language_model(made[0] / "text")
        run = in_lm_eval(
            folder, task, model="hf", metadata={"tokenizer": str(folder)}, apply_chat_template=False
        )
    else:
        run = in_lm_eval(qwen, task, apply_chat_template=False)
    assert run.details[task]["predictions"] == len(made[1]["egoplan"])


@pytest.mark.nightly
def test_metadata_cannot_change_the_shortcut(made, qwen):
    for task, shortcut in (("egoplan_val", "reversed"), ("egoplan_val_reversed", "shuffled")):
        with pytest.raises(LmmsEgoplanError, match=rf"{task}: --metadata shortcut={shortcut}: "):
            evaluate("dummy", [task], {"shortcut": shortcut})


@pytest.mark.nightly
def test_a_backend_of_video_files_is_told_what_works(made):
    manager = lmms_tasks("llava_vid", LMMS_EVAL_TASKS / "egoplan")
    tasks = manager.load_task_or_group(["egoplan_val_reversed", "egoplan_val_same_goal_video"])
    task = tasks["egoplan_val_reversed"]
    with pytest.raises(LmmsEgoplanError, match=re.escape("reversed needs media frames")):
        task.doc_to_visual(task.eval_docs[0])
    task = tasks["egoplan_val_same_goal_video"]
    (path,) = task.doc_to_visual(task.eval_docs[0])
    assert task.eval_docs[0]["partner"]["video_id"] in path
