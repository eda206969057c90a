"""Test the tasks in the real harness: loading, requests, scoring, aggregation, files."""

import json
import math
from argparse import Namespace
from copy import copy
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import datasets
import pytest
from datasets import Dataset
from lmms_eval.api.instance import GenerationResult, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager
from lmms_eval.utils import load_yaml_config
from PIL import Image

from benchmarks.egoplan.shortcut_set import TASKS as SHORTCUT_TASKS
from example_summary import SUMMARY
from lmms_egoplan.benchmarks.egoplan.presets import load_presets
from lmms_egoplan.benchmarks.egoplan.submission import read_predictions
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.storage import DataMissingError
from media.files import read_numbers, write_epic_folder, write_numbered_video

VAL_TASKS = ["egoplan_val", "egoplan_val_clips", "egoplan_val_generate"]
SPLIT_SIZE = 5
# Each question's reply to a request for a letter, and the number of its tokens; None if it is
# unknown.
WRITTEN = {
    11: ("A", 1),
    12: ("<think>The box is closed.</think> The answer is B.", 16),
    13: ("A or B", None),
    14: ("C) éplucher l'oignon", 5),
}
CHOICES = ["put box away", "take bag", "éplucher l'oignon", "close box"]
# Losses of the four choices, gold letter and video of each question: right, wrong, tied (right),
# not scored.
QUESTIONS = {
    11: ([0.1, 0.9, 0.8, 0.7], "A", "P01_13"),
    12: ([0.1, 0.9, 0.8, 0.7], "B", "P01_13"),
    13: ([0.9, 0.2, 0.2, 0.7], "B", "film"),
    14: ([0.9, math.nan, 0.2, 0.7], "B", "film"),
}


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    folder = tmp_path_factory.mktemp("media")
    return {
        "P01_13": str(write_epic_folder(folder / "P01_13", 1, 50)),
        "film": str(write_numbered_video(folder / "film.mp4", 60)),
    }


@pytest.fixture(scope="module")
def data(media, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path_factory.mktemp("data")))
        save_data(media, "0123abcd")
        yield


def save_data(media, fingerprint):
    for split in ("val", "test"):
        rows = [
            {
                "sample_id": sample_id,
                "video_source": "EpicKitchens" if video == "P01_13" else "Ego4D",
                "video_id": video,
                "task_goal": "store cereal",
                "question": f"Question {sample_id}: what next?",
                "choices": CHOICES,
                "golden_choice_idx": gold if split == "val" else None,
                "answer": CHOICES["ABCD".index(gold)] if split == "val" else None,
                "current_observation_frame": 40,
                "past_actions": [
                    {"narration_text": "step", "start_frame": start, "stop_frame": start + 4}
                    for start in range(5, 35, 5)
                ],
                "media_path": media[video],
                "split_size": SPLIT_SIZE,
                "question_set": "official by counts",
            }
            for sample_id, (_, gold, video) in QUESTIONS.items()
        ]
        EGOPLAN.save(split, Dataset.from_list(rows), **SUMMARY | {"fingerprint": fingerprint})


class Scripted(lmms):
    """A backend that answers from `QUESTIONS` and `WRITTEN`, and records its requests."""

    def __init__(self, stock=False):
        super().__init__()
        self.stock = stock
        self.requests = []

    def __str__(self):
        """Return the model's name in the harness's response cache."""
        return "scripted"

    def loglikelihood(self, requests):
        answers = []
        for context, choice, doc_to_visual, doc_id, task, split in (
            request.args for request in requests
        ):
            doc = self.task_dict[task][split][doc_id]
            self.requests.append((context, choice, doc_to_visual(doc)))
            loss = QUESTIONS[doc["sample_id"]][0][CHOICES.index(choice)]
            score = Loglikelihood(loss, len(choice.split()), False)
            answers.append(
                (loss, False)
                if self.stock
                else GenerationResult(LoglikelihoodText.from_score(score))
            )
        return answers

    def generate_until(self, requests):
        answers = []
        for context, settings, doc_to_visual, doc_id, task, split in (
            request.args for request in requests
        ):
            doc = self.task_dict[task][split][doc_id]
            self.requests.append((context, settings, doc_to_visual(doc)))
            reply, num_tokens = WRITTEN[doc["sample_id"]]
            answers.append(GenerationResult(reply, TokenCounts(output_tokens=num_tokens)))
        return answers

    def generate_until_multi_round(self, requests):
        raise NotImplementedError


@cache
def index(include):
    return TaskManager("ERROR", include_path=str(include), include_defaults=False)


def manager(model_name=None, include=LMMS_EVAL_TASKS / "egoplan"):
    """Return a task manager for a model, without reading all tasks again."""
    of_model = copy(index(include))
    of_model.model_name = model_name
    return of_model


def load(name, **settings):
    return manager(**settings).load_task_or_group(name)[name]


def evaluate(model, tasks, output_path=None, use_cache=None, reasoning_tags=None, **settings):
    arguments = Namespace(
        output_path=output_path, process_with_media=False, reasoning_tags=reasoning_tags
    )
    return simple_evaluate(
        model=model,
        tasks=tasks,
        task_manager=manager(**settings),
        cli_args=arguments,
        bootstrap_iters=0,
        use_cache=use_cache,
    )


def test_index_needs_no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    tasks = manager()
    tagged = sorted(["egoplan_test", "egoplan_val_blind", *VAL_TASKS])
    presets = [f"egoplan__{name}" for name in load_presets("egoplan")]
    shortcuts = sorted(set(SHORTCUT_TASKS["egoplan"]) - set(tagged))
    variants = ["egoplan_val_clips_marked", "egoplan_val_reasoned"]
    untagged = [
        "egoplan_val_thinking",
        "egoplan_val_published",
        "egoplan_val_clips_published",
        *variants,
    ]
    assert sorted(tasks.task_index["egocentric_planning_variants"]["task"]) == variants
    assert tasks.all_subtasks == sorted([*tagged, *untagged, *presets, *shortcuts])
    assert tasks.all_groups == ["egoplan_bench", "egoplan_val_shortcuts"]
    assert sorted(tasks.task_index["egocentric_planning_shortcuts"]["task"]) == shortcuts
    assert sorted(tasks.task_index["egocentric_planning"]["task"]) == tagged


@pytest.mark.usefixtures("data")
def test_group_members():
    ((_, members),) = manager().load_task_or_group("egoplan_bench").items()
    assert sorted(members) == VAL_TASKS


@pytest.mark.parametrize(
    ("task", "file"),
    [("egoplan_val", "EgoPlan_validation.json"), ("egoplan_test", "EgoPlan_test.json")],
)
def test_missing_data_is_one_error(task, file, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    with pytest.raises(DataMissingError, match=f"data prepare egoplan {file}") as error:
        load(task)
    assert "https://ego4d-data.org" in str(error.value)


def test_rows_of_another_version_of_datasets_are_one_error(media, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    save_data(media, "0123abcd")
    folder = tmp_path / "egoplan" / "val"
    info, summary = folder / "val" / "dataset_info.json", folder / "summary.json"
    info.write_text(info.read_text().replace('"List"', '"ListOfAnotherVersion"'))
    summary.write_text(summary.read_text().replace(datasets.__version__, "99.1"))
    with pytest.raises(LmmsEgoplanError, match=r"99\.1") as error:  # not tenacity's RetryError
        load("egoplan_val")
    assert datasets.__version__ in str(error.value)


@pytest.mark.usefixtures("data")
def test_val_from_requests_to_results():
    model = Scripted()
    output = evaluate(model, ["egoplan_val"])
    results = {
        name.removesuffix(",none"): value
        for name, value in output["results"]["egoplan_val"].items()
        if isinstance(value, int | float)
    }
    details = output["details"]["egoplan_val"]
    expected = {
        "acc": 2 / 3,
        "acc_sum": 2 / 3,
        "acc_bytes": 1 / 3,
        "acc_epic_kitchens": 1 / 2,
        "acc_ego4d": 1.0,
        "coverage": 3 / 3355,
    }
    assert {name: results[name] for name in expected} == pytest.approx(expected)
    assert details == {"ties": 1, "predictions": 3, "split_size": 5, "num_questions": 4}
    assert output["results"]["egoplan_val"]["question_set,none"] == "official by counts"
    assert not [
        value for value in output["results"]["egoplan_val"].values() if isinstance(value, list)
    ]
    # Two questions share a video, so the clustered standard error differs from the naive one.
    assert 0 < results["acc_stderr_clustered"] < results["acc_stderr_clt"]
    assert not [name for name in results if name.startswith("details")]

    assert [request[:2] for request in model.requests[:4]] == [
        ("Question 11: what next?", text) for text in CHOICES
    ]
    assert read_numbers(model.requests[0][2]) == [5, 10, 15, 20, 25, 30, 35, 40]
    assert {len(request[2]) for request in model.requests} == {8}

    sample = output["samples"]["egoplan_val"][0]
    assert sample["acc"] == {"cluster": "P01_13", "score": 1.0}
    assert sample["target"] == "A"
    assert sample["details"]["predictions"]["prediction"] == "A"
    assert sample["details"]["predictions"]["choices"][2] == {
        "loss": 0.8,
        "logprob": -1.6,
        "num_tokens": 2,
        "is_greedy": False,
    }
    json.dumps(
        [sample["details"]["predictions"] for sample in output["samples"]["egoplan_val"]],
        allow_nan=False,
    )


@pytest.mark.usefixtures("data")
def test_val_with_a_stock_backend():
    results = evaluate(Scripted(stock=True), ["egoplan_val"])["results"]["egoplan_val"]
    assert results["acc,none"] == pytest.approx(2 / 3)
    assert results["coverage,none"] == pytest.approx(3 / 3355)
    assert "acc_sum,none" not in results
    assert "acc_bytes,none" not in results


@pytest.mark.usefixtures("data")
def test_test_split_writes_predictions(tmp_path):
    output = evaluate(Scripted(), ["egoplan_test"], output_path=str(tmp_path / "runs"))
    results = output["results"]["egoplan_test"]
    assert not [name for name in results if name.startswith("acc")]
    assert results["predictions,none"] == 3
    (path,) = (tmp_path / "runs" / "submissions").iterdir()
    assert read_predictions(path) == [(11, "A"), (12, "A"), (13, "B"), (14, None)]


@pytest.mark.usefixtures("data")
def test_generate():
    model = Scripted()
    output = evaluate(model, ["egoplan_val_generate"], reasoning_tags='[["<think>", "</think>"]]')
    results = output["results"]["egoplan_val_generate"]
    assert results["acc,none"] == 2 / 4
    assert results["acc_epic_kitchens,none"] == 1.0
    assert results["acc_ego4d,none"] == 0.0
    assert results["unparsed,none"] == 1 / 4
    assert results["truncated,none"] == 1 / 3
    details = output["details"]["egoplan_val_generate"]
    assert details["truncated_of"] == 3
    samples = output["samples"]["egoplan_val_generate"]
    assert [sample["truncated"].get("score") for sample in samples] == [0.0, 1.0, None, 0.0]
    assert samples[1]["filtered_resps"] == ["The answer is B."]
    assert samples[1]["resps"] == [WRITTEN[12][0]]  # with the thought
    assert details["predictions"] == 3
    assert results["coverage,none"] == pytest.approx(4 / 3355)
    context, settings, images = model.requests[0]
    assert context.split("\n")[:3] == ["Question 11: what next?", "A. put box away", "B. take bag"]
    assert settings["max_new_tokens"] <= 32
    assert settings["until"] == []
    assert not settings["do_sample"]
    assert all(isinstance(image, Image.Image) for image in images)


@pytest.mark.usefixtures("data")
def test_marks_need_a_backend_that_shows_them():
    task = load("egoplan_val_clips_marked", model_name="hf_vlm")
    with pytest.raises(
        LmmsEgoplanError, match=r"clip_marks: .*--model hf_vlm, vllm_ranker, llava, or a task"
    ):
        task.doc_to_visual(task.eval_docs[0])
    loaded = LoadedModel("hf_vlm", "x", takes_video=True, has_system_turn=True)
    with evaluating(SimpleNamespace(loaded_model=loaded)):
        parts = task.doc_to_visual(task.eval_docs[0])
    assert [
        part if isinstance(part, str) else len(part) if isinstance(part, list) else None
        for part in parts
    ] == [*("<Clip1>", 8, "<Clip2>", 8, "<Clip3>", 8, "<Clip4>", 8, "<Observation>", None)]


def test_cached_responses_are_those_of_the_data(media, tmp_path, monkeypatch):
    """Newly prepared data are scored again, although the texts of questions and choices are the
    same.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    save_data(media, "0123abcd")

    def num_scored():
        model = Scripted()
        tasks = ["egoplan_val_generate", "egoplan_test"]
        evaluate(
            model, tasks, use_cache=str(tmp_path / "cache"), output_path=str(tmp_path / "runs")
        )
        return len(model.requests)

    everything = num_scored()
    assert everything == 4 + 16
    assert num_scored() == 0
    save_data(media, "4567cdef")
    assert num_scored() == everything


@pytest.mark.parametrize(
    ("file", "scorer"),
    [
        ("egoplan_ranking", "score_ranking"),
        ("egoplan_replies", "score_reply"),
        ("egoplan_reasoned", "score_reasoned"),
        ("egoplan_published_ranking", "score_published_clips"),
        ("egoplan_presets", "score_preset"),
        ("egoplan_bench2_ranking", "score_planning_choices"),
        ("egoplan_bench2_replies", "score_planning_letter"),
        ("egoplan_bench2_replies_published", "score_published_letter"),
    ],
)
def test_scorers_keep_the_names_that_cached_responses_depend_on(file, scorer):
    content = load_yaml_config(str(LMMS_EVAL_TASKS.parent / "shared" / f"{file}.yaml"))
    assert content["process_results"].__name__ == scorer


@pytest.mark.usefixtures("data")
def test_generate_makes_chat_messages():
    tasks = manager().load_task_or_group("egoplan_val_generate", task_type="chat")
    task = tasks["egoplan_val_generate"]
    (message,) = task.doc_to_messages(task.eval_docs[0])
    types = [part["type"] for part in message["content"]]
    assert types == ["image"] * 8 + ["text"]


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("task", "model", "shapes"),
    [
        ("egoplan_val", "hf_vlm", [None] * 8),
        ("egoplan_val", "llava", [None] * 6),
        ("egoplan_val_generate", "llava_hf", [None] * 6),
        ("egoplan_val_clips", "hf_vlm", [8, 8, 8, 8, None]),
        ("egoplan_val_clips", "llava", [None] * 5),
        ("egoplan_val_clips", "llava_hf", [None] * 5),
        ("egoplan_val_clips", "llava_onevision", [None] * 33),
    ],
)
def test_visual_input_of_each_model(task, model, shapes):
    loaded = load(task, model_name=model)
    visuals = loaded.doc_to_visual(loaded.eval_docs[0])
    assert [len(part) if isinstance(part, list) else None for part in visuals] == shapes


@pytest.mark.usefixtures("data")
def test_video_backends_get_a_file():
    loaded = load("egoplan_val", model_name="llava_vid")
    (path,) = loaded.doc_to_visual(loaded.eval_docs[2])
    assert Path(path).suffix == ".mp4"
    assert Path(path).is_file()


@pytest.mark.usefixtures("data")
def test_frame_counts_change_in_a_user_task(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "egoplan_val_16.yaml").write_text(
        f"include: {LMMS_EVAL_TASKS}/egoplan/egoplan_val.yaml\n"
        "task: egoplan_val_16\n"
        "lmms_eval_specific_kwargs:\n"
        "  default:\n"
        "    media: frames\n"
        "    num_frames: 16\n"
    )
    model = Scripted()
    results = evaluate(model, ["egoplan_val_16"], include=folder)["results"]["egoplan_val_16"]
    assert results["acc,none"] == pytest.approx(2 / 3)
    assert {len(request[2]) for request in model.requests} == {16}
