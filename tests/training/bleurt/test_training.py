"""Test training runs: the same command gives the same result, even after interruptions."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from benchmarks.actplan.labelled_plans import record, write_plans
from benchmarks.actplan.tiny_encoder import write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import load_classifier
from lmms_egoplan.benchmarks.actplan.classifier_agreement import evaluate_bleurt
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.bleurt.pairs import Recipe
from lmms_egoplan.training.bleurt.training import paper_learning_rate, train_bleurt

RECIPE = Recipe(epochs=3, learning_rate=1e-3, batch_size=4, max_length=128, seed=3)
COUNT = 14

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Write plans, activities and an encoder."""
    folder = tmp_path_factory.mktemp("inputs")
    records = [record(number) for number in range(COUNT)]
    records[1] |= {"gold_gpt": ["grab(cup) " * 100]}
    plans, activities = write_plans(folder, records, ["train"] * 9 + ["val"] * 4 + [None])
    return plans, activities, str(write_encoder(folder / "encoder"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, inputs):
    """Run without an interruption. Return folder, scores and messages."""
    out, remarks = tmp_path_factory.mktemp("whole") / "run", []
    return out, train_bleurt(*inputs, out, RECIPE, remarks.append), remarks


def same_end(out, whole):
    """Return whether two finished runs are equal, except for their seconds."""
    scores, expected = (json.loads((folder / "scores.json").read_text()) for folder in (out, whole))
    weights, expected_weights = (load_file(folder / "model.safetensors") for folder in (out, whole))
    return (scores | {"seconds": 0}) == (expected | {"seconds": 0}) and all(
        torch.equal(value, expected_weights[name]) for name, value in weights.items()
    )


def test_finished_run_has_all_files_and_scores(whole, inputs):
    out, scores, remarks = whole
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "config.json", "model.safetensors", "run.json", "scores.json",
        "tokenizer.json", "tokenizer_config.json",
    ]  # fmt: skip
    assert json.loads((out / "scores.json").read_text()) == scores
    (remark,) = remarks
    assert all(fact in remark for fact in ("1", "filling_a_box_13", str(inputs[1])))
    assert scores["data"] == {
        "train_instances": 9,
        "without_pair": [],
        "val_instances": 4,
        "val_plans": 8,
        "unknown_activities": {"filling_a_box_13": 1},
    }
    assert [entry["epoch"] for entry in scores["history"]] == [1, 2, 3]
    assert all(
        entry.keys() == {"epoch", "train_loss", "val_loss", "val_accuracy"}
        for entry in scores["history"]
    )
    accuracies = [entry["val_accuracy"] for entry in scores["history"]]
    assert scores["best_epoch"] == accuracies.index(max(accuracies)) + 1
    assert scores["val_accuracy"] == max(accuracies)
    assert scores["train"]["plans"] == 9
    assert scores["settings"]["max_length"] == 128
    for file in ("run.json", "config.json"):
        stored = json.loads((out / file).read_text())
        assert (stored["positives"], stored["shuffled"]) == ("mixed", "activity")
    classifier = load_classifier(out)
    scores_by_model, _ = evaluate_bleurt(classifier, *inputs[:2], "val")
    assert {
        model: vars(source_scores) for model, source_scores in scores_by_model.items()
    } == scores["val"]


def test_model_card_contains_data_settings_and_scores(whole):
    out, scores, _ = whole
    card = (out / "README.md").read_text()
    best = f"Epoch {scores['best_epoch']} of 3"
    for text in ((
        "9 training instances"
    ), "8 labelled plans of 4 val instances", "without a split: 1", best, "0.001",
                 (
                     "3 epochs"
                 ), (
                     "| GPT-4V | 4 |"
                 ), "seed 3", "on cpu in single precision", "Positive pairs: `mixed`",
                 "of a gold plan of the same activity in another order"):  # fmt: skip
        assert text in card
    assert "{" not in card


def test_another_seed_gives_other_numbers(whole, inputs, tmp_path):
    other = train_bleurt(*inputs, tmp_path / "other", replace(RECIPE, seed=4), print)
    assert other["history"] != whole[1]["history"]


def test_finished_run_is_not_repeated(whole, inputs):
    out, scores, _ = whole
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    remarks = []
    assert train_bleurt(*inputs, out, RECIPE, remarks.append) == scores
    assert str(out) in remarks[-1]
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before


# Each epoch has three updates: the eighth is in the middle of the third epoch.
KILLED = """
import os, signal, sys
from itertools import count
from pathlib import Path
import torch
sys.path.insert(0, sys.argv[1])
from training.bleurt.test_training import RECIPE, train_bleurt
updates, update = count(1), torch.optim.AdamW.step
def killing(*args, **kwargs):
    if next(updates) == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(*args, **kwargs)
torch.optim.AdamW.step = killing
train_bleurt(*map(Path, sys.argv[2:4]), sys.argv[4], Path(sys.argv[5]), RECIPE, print)
"""


@pytest.mark.whole
def test_resumed_run_gives_the_same_result(whole, inputs, tmp_path):
    out = tmp_path / "run"
    tests = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", KILLED, tests, *map(str, inputs), str(out)]
    killed = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (out / "scores.json").exists()
    remarks = []
    train_bleurt(*inputs, out, RECIPE, remarks.append)
    assert str(out / "checkpoints" / "checkpoint-6") in remarks[-1]
    assert same_end(out, whole[0])


def test_classifier_without_pair_settings_is_refused(whole, tmp_path):
    folder = shutil.copytree(whole[0], tmp_path / "classifier")
    config = json.loads((folder / "config.json").read_text())
    del config["shuffled"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(LmmsEgoplanError, match=r"config\.json: shuffled.*activity.*instance"):
        load_classifier(folder)


def test_gold_first_is_recorded_and_scored_the_same_way(whole, inputs, tmp_path):
    out, recipe = tmp_path / "run", replace(RECIPE, epochs=1, positives="gold-first")
    scores = train_bleurt(*inputs, out, recipe, print)
    assert (scores["settings"]["positives"], scores["settings"]["shuffled"]) == (
        "gold-first",
        "activity",
    )
    classifier = load_classifier(out)
    scores_by_model, _ = evaluate_bleurt(classifier, *inputs[:2], "val")
    assert classifier.pairs != load_classifier(whole[0]).pairs
    assert {
        model: vars(source_scores) for model, source_scores in scores_by_model.items()
    } == scores["val"]


def test_learns_a_learnable_task(inputs, tmp_path):
    simple = {"gold_gpt": ["grab(a)"], "gold_gemini": ["open(b)"], "pos_gemini": ["close(c)"]}
    records = [
        record(number, **simple, neg_gpt=["walk_to(z) switch-on(z)"]) for number in range(24)
    ]
    plans, activities = write_plans(tmp_path, records, ["train"] * 16 + ["val"] * 8)
    recipe = replace(RECIPE, epochs=5, batch_size=2, learning_rate=5e-3)
    scores = train_bleurt(plans, activities, inputs[2], tmp_path / "run", recipe, print)
    assert scores["val_accuracy"] == 1
    assert scores["train"]["accuracy"] > 0.9  # the first epoch with the highest validation accuracy
    pairs = [("grab(a)", "close(c)"), ("open(b)", "walk_to(z)\nswitch-on(z)")]
    verdicts = load_classifier(tmp_path / "run").judge(pairs)
    assert [verdict.correct for verdict in verdicts] == [True, False]


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory, inputs):
    """Return the folder of a run that stopped after its last checkpoint, before it wrote its
    scores.

    Numbers depend only on the recipe's seed, so its end is the same as `whole`'s.
    """
    out = tmp_path_factory.mktemp("unfinished") / "stopped"
    torch.manual_seed(99)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmms_egoplan.training.bleurt.training.render_card", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            train_bleurt(*inputs, out, RECIPE, print)
    return out


@pytest.fixture
def stopped(unfinished, tmp_path):
    """Return a copy of the unfinished run, and its last checkpoint."""
    out = shutil.copytree(unfinished, tmp_path / "stopped")
    last = out / "checkpoints" / "checkpoint-9"
    assert last.is_dir()
    return out, last


def test_run_stopped_before_its_scores_can_be_finished(stopped, whole, inputs, tmp_path):
    out, _ = stopped
    moved = out.rename(tmp_path / "moved")
    train_bleurt(*inputs, moved, RECIPE, print)
    assert same_end(moved, whole[0])


def test_incomplete_checkpoints_are_ignored(stopped, whole, inputs):
    out, last = stopped
    half = last.with_name("checkpoint-12")
    shutil.copytree(last, half)
    (half / "complete.json").unlink()
    (half / "optimizer.pt").write_bytes(b"half")
    (last / "trainer_state.json").unlink()
    train_bleurt(*inputs, out, RECIPE, print)
    assert same_end(out, whole[0])


def test_folder_of_another_run_is_refused(whole, inputs, tmp_path):
    out, _, _ = whole
    for recipe, facts in (
        (replace(RECIPE, epochs=4), r"epochs: .*\b3\b.*\b4\b"),
        (replace(RECIPE, seed=1), r"seed: .*\b3\b.*\b1\b"),
        (replace(RECIPE, shuffled="instance"), r"'activity'.*'instance'.*--shuffled activity$"),
    ):
        with pytest.raises(LmmsEgoplanError, match=facts):
            train_bleurt(*inputs, out, recipe, print)
    plans, activities, encoder = inputs
    changed = tmp_path / "plans.jsonl"
    changed.write_text(plans.read_text().replace("close(box)", "close(lid)"))
    with pytest.raises(LmmsEgoplanError, match="plans_sha256"):
        train_bleurt(changed, activities, encoder, out, RECIPE, print)
    large = str(write_encoder(tmp_path / "large", hidden_size=64))
    with pytest.raises(LmmsEgoplanError, match="encoder_sha256"):
        train_bleurt(plans, activities, large, out, RECIPE, print)
    copy = shutil.copytree(encoder, tmp_path / "copy")
    assert train_bleurt(plans, activities, str(copy), out, RECIPE, print) == whole[1]


def test_both_splits_are_required(inputs, tmp_path):
    for missing, splits in (("val", ["train"] * 2), ("train", ["val", "test"])):
        plans, activities = write_plans(tmp_path, [record(0), record(1)], splits)
        with pytest.raises(LmmsEgoplanError, match=rf"\b{missing}\b"):
            train_bleurt(plans, activities, inputs[2], tmp_path / "run", RECIPE, print)
    assert not (tmp_path / "run").exists()


def test_divergence_is_reported(inputs, tmp_path):
    with pytest.raises(LmmsEgoplanError, match="--learning-rate"):
        train_bleurt(*inputs, tmp_path / "run", replace(RECIPE, learning_rate=1e30), print)


def test_shorter_encoder_is_reported(inputs, tmp_path):
    plans, activities, _ = inputs
    encoder, remarks = write_encoder(tmp_path / "short", positions=64), []
    scores = train_bleurt(
        plans,
        activities,
        str(encoder),
        tmp_path / "run",
        Recipe(epochs=1, batch_size=32),
        remarks.append,
    )
    assert any("64" in remark and "512" in remark for remark in remarks)
    assert scores["settings"]["max_length"] == 64
    assert scores["settings"]["learning_rate"] == 1e-6
    assert scores["train"]["truncated"] > 0


def test_paper_learning_rates():
    assert [paper_learning_rate(size) for size in (384, 768, 1024)] == [1e-6, 1e-6, 5e-6]
