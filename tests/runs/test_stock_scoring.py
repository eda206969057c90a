"""Run the backend on a task with the harness's own scoring, and the tasks on a backend like the
harness's own.
"""

import sys

import pytest
from datasets import Dataset, DatasetDict
from lmms_eval.api.model import lmms
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager

from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import number_image
from ranking.reference import reference_loss
from runs.both_harnesses import lmms_tasks
from runs.harness import metric, run
from runs.small_set import prepare_small_set
from zoo import save

TASK = """
task: stock_choice
dataset_path: {folder}
dataset_kwargs:
  load_from_disk: true
test_split: test
output_type: multiple_choice
doc_to_text: question
doc_to_visual: !function utils.images
doc_to_choice: choices
doc_to_target: gold
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: acc_norm
    aggregation: mean
    higher_is_better: true
"""
UTILS = """
from PIL import Image


def images(doc):
    return [Image.open(path) for path in doc["images"]]
"""
CHOICES = ["pour water", "take the mug from the shelf", "sauté the onion", "wash"]


@pytest.fixture(autouse=True)
def no_run_id(monkeypatch):
    """Restore the variable, which the backend sets for its process."""
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "")
    monkeypatch.delenv("LMMS_CACHE_RUN_ID")


@pytest.fixture
def rows(tmp_path):
    rows = []
    for number in range(8):
        path = tmp_path / f"{number}.png"
        number_image(number * 1000).save(path)
        question = f"What comes after {number}?"
        row = {
            "question": question,
            "choices": CHOICES,
            "gold": number % 4,
            "images": [str(path)] * 2,
        }
        rows.append(row)
    (tmp_path / "task").mkdir()
    DatasetDict({"test": Dataset.from_list(rows)}).save_to_disk(tmp_path / "set")
    (tmp_path / "task" / "stock_choice.yaml").write_text(TASK.format(folder=tmp_path / "set"))
    (tmp_path / "task" / "utils.py").write_text(UTILS)
    return rows


def test_a_task_with_the_harnesss_own_scoring(tmp_path, rows):
    save("llava", tmp_path / "model")
    right = {"acc": 0, "acc_norm": 0}
    for row in rows:
        image = {"type": "image", "image": number_image(rows.index(row) * 1000)}
        text = {"type": "text", "text": row["question"]}
        messages = [{"role": "user", "content": [image, image, text]}]
        losses = [reference_loss("llava", messages, choice)[0] for choice in CHOICES]
        per_character = [loss / len(choice) for loss, choice in zip(losses, CHOICES, strict=True)]
        right["acc"] += losses.index(min(losses)) == row["gold"]
        right["acc_norm"] += per_character.index(min(per_character)) == row["gold"]
    assert right["acc"] > 0
    manager = TaskManager(include_path=str(tmp_path / "task"), include_defaults=False)
    model_args = f"pretrained={tmp_path / 'model'},dtype=float32"
    evaluated = simple_evaluate("hf_vlm", model_args, tasks=["stock_choice"], task_manager=manager)
    for name, count in right.items():
        value = metric(evaluated["results"]["stock_choice"], name)
        assert value == pytest.approx(count / len(rows)), name


# A later lmms-eval that has renamed the function that the plugin extends.
CHANGED_HARNESS = """
from lmms_eval.tasks import TaskManager

TaskManager.index_tasks = TaskManager.initialize_tasks
del TaskManager.initialize_tasks
TaskManager.__getattr__ = lambda self, name: getattr(\
self, {"initialize_tasks": "index_tasks"}[name])

from lmms_eval.__main__ import cli_evaluate

cli_evaluate()
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("rows")
def test_a_changed_harness_still_runs_other_tasks(tmp_path):
    save("llava", tmp_path / "model")
    results = run(
        tmp_path,
        tmp_path / "output",
        *("--tasks", "stock_choice", "--include_path", tmp_path / "task", "--limit", 2),
        *("--model", "hf_vlm", "--model_args", f"pretrained={tmp_path / 'model'}"),
        launcher=[sys.executable, "-c", CHANGED_HARNESS],
    ).results
    assert 0 <= metric(results["stock_choice"], "acc") <= 1
    assert "--include_path $(lmms-egoplan tasks-path)" in (tmp_path / "log.txt").read_text()


class StockBackend(lmms):
    """A backend that answers ``loglikelihood`` with pairs. The shortest choice is the likeliest."""

    def loglikelihood(self, requests):
        return [(0.5 + len(request.args[1]), False) for request in requests]

    def generate_until(self, requests):
        raise NotImplementedError

    def generate_until_multi_round(self, requests):
        raise NotImplementedError


def test_a_backend_that_answers_with_pairs(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    records = prepare_small_set(tmp_path)
    manager = lmms_tasks(folder=LMMS_EVAL_TASKS / "egoplan")
    evaluated = simple_evaluate(
        StockBackend(), tasks=["egoplan_val"], task_manager=manager, log_samples=True
    )
    results = evaluated["results"]["egoplan_val"]
    shortest = [
        min("ABCD", key=lambda x, r=record: len(r[f"choice_{x.lower()}"])) for record in records
    ]
    right = [
        letter == record["golden_choice_idx"]
        for letter, record in zip(shortest, records, strict=True)
    ]
    assert 0 < sum(right) < len(right)
    assert metric(results, "acc") == pytest.approx(sum(right) / len(right))
    assert evaluated["details"]["egoplan_val"]["ties"] == 0
    assert metric(results, "coverage") == 1
    assert not {"acc_sum,none", "acc_bytes,none"} & {
        name for name, value in results.items() if isinstance(value, float) and value == value
    }
    samples = evaluated["samples"]["egoplan_val"]
    assert [str(sample["filtered_resps"][0]) for sample in samples] == ["(10.5, False)"] * len(
        samples
    )
