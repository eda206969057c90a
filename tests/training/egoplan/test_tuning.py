"""Run tuning on a small EgoPlan-IT: trained weights, resuming, results and errors."""

import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText, AutoProcessor
from typer.testing import CliRunner

from lmms_egoplan.cli import app
from lmms_egoplan.demo.checkpoint import write_checkpoint
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import lock_folder
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.decoder import MaskKinds
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood
from lmms_egoplan.training.checks import probes
from lmms_egoplan.training.egoplan.data import (
    find_frames,
    hold_out,
    plan_samples,
    read_instructions,
    recognition_of,
    recognition_samples,
)
from lmms_egoplan.training.egoplan.settings import read_settings, settings_text
from lmms_egoplan.training.egoplan.tuning import tune_egoplan
from lmms_egoplan.training.questions import AnswerEncoder
from lmms_egoplan.training.samples import Drawn, Mix, Sample
from lmms_egoplan.training.settings import Lora
from patience import FOREVER_S, wait_until
from ranking.reference import picture
from ranking.test_ranking import question
from volumes import volume_of
from zoo import build

from .small import ACTIONS, records, tuning, write_set


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_set(tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="module")
def run(folder):
    """Return the folder and summary of an uninterrupted run."""
    return folder / "run", tune_egoplan(tuning(folder), folder / "run")


def weights(out):
    return load_file(out / "adapter_model.safetensors")


def losses(history):
    return [entry["loss"] for entry in history if "loss" in entry]


def scores(model, processor):
    return [
        score.nll
        for score in CandidateRanker(model.eval(), processor).score(question("images"), ACTIONS)
    ]


def start(folder, out, *options, processes=1, variables=None, stderr=None, **settings):
    config = folder / f"{out.name}.yaml"
    config.write_text(settings_text(tuning(folder, **settings)), encoding="utf-8")
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    launcher = launcher if processes > 1 else []
    command = [
        sys.executable,
        *launcher,
        "-m",
        "lmms_egoplan",
        "train",
        "egoplan",
        "--config",
        str(config),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    environment |= variables or {}
    return subprocess.Popen([*command, "--out", str(out), *options], env=environment, stderr=stderr)


def test_run_writes_adapter_card_and_settings(run):
    out, summary = run
    assert summary["samples"] == {"egoplan": 10, "recognition": 8}
    assert summary["held_out"] == 5
    assert summary["answer_passes"] == "shared"
    assert 0 < summary["trainable"] < summary["parameters"]
    names = {path.name for path in out.iterdir()}
    assert {
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.yaml",
        "README.md",
        "history.json",
    } <= names
    first, second, *_ = json.loads((out / "history.json").read_text())
    assert (first["step"], second["step"]) == (0, 1)
    assert "eval_accuracy" in first  # before the first update
    assert "violated" in second
    card = " ".join((out / "README.md").read_text().split())
    for fact in (
        *(
            "model.multi_modal_projector",
            "5 questions",
            "33.3%",
            "8 layers",
            "2 k_proj, 2 o_proj, 2 q_proj, 2 v_proj",
        ),
        *("10 egoplan (55.6%", "8 recognition (44.4%", "24", "group of 2", "`contrastive_group`"),
    ):
        assert fact in card
    assert yaml.safe_load((out / "config.yaml").read_text())["contrastive_group"] == 2
    names = set(weights(out))
    assert any("language_model.layers.0.self_attn.q_proj.lora_A" in name for name in names)
    assert any("multi_modal_projector.linear_1.weight" in name for name in names)
    assert not any("vision_tower" in name for name in names)


def test_adapter_and_merged_checkpoint_agree_and_differ_from_the_base(folder, run):
    result = CliRunner().invoke(
        app, ["merge", "egoplan", str(run[0]), "--out", str(folder / "merged")]
    )
    assert result.exit_code == 0, result.output
    processor = AutoProcessor.from_pretrained(folder / "merged")
    base = scores(AutoModelForImageTextToText.from_pretrained(folder / "model"), processor)
    merged = scores(AutoModelForImageTextToText.from_pretrained(folder / "merged"), processor)
    loaded = load_adapter(AutoModelForImageTextToText.from_pretrained(folder / "model"), run[0])
    assert scores(loaded, processor) == pytest.approx(merged, abs=1e-4)
    assert max(abs(one - other) for one, other in zip(base, merged, strict=True)) > 1e-3


def test_adapter_for_another_base_is_refused(folder, run, tmp_path):
    write_checkpoint(tmp_path)
    other = AutoModelForImageTextToText.from_pretrained(tmp_path)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    with pytest.raises(LmmsEgoplanError, match=re.escape(str(run[0]))):
        load_adapter(other, run[0])


# Without held-out questions and checks of media.
EIGHT = {"steps": 1, "batch_size": 8, "lora": {"dropout": 0.0}, "held_out": 0.0, "check": False}


@pytest.fixture(scope="module")
def ranked(folder):
    """Return the scores of the first eight samples' answers and negatives, from the ranker."""
    settings = tuning(folder, **EIGHT)
    records_ = read_instructions(settings.data)
    roots = {"EpicKitchens": settings.epic_kitchens, "Ego4D": None}
    footage = find_frames(records_, roots, settings.num_clips, "")
    recognised = recognition_of(records_, settings.num_clips)
    mix = Mix(
        {
            "egoplan": plan_samples(records_, footage, settings.visuals, ""),
            "recognition": recognition_samples(recognised, footage, settings.visuals, ""),
        },
        None,
        settings.seed,
    )
    processor = AutoProcessor.from_pretrained(settings.model)
    ranker = CandidateRanker(
        AutoModelForImageTextToText.from_pretrained(settings.model).eval(), processor
    )
    encoder = AnswerEncoder(processor, is_encoder_decoder=False)
    return [
        [score.nll for score in ranker.score_encoded(encoder.encode(mix.at(position)))]
        for position in range(8)
    ]


@pytest.mark.parametrize(("group", "size"), [(4, 4), (2, 4)])
def test_first_loss_matches_an_independent_ranking(folder, ranked, group, size):
    means = []
    for start in range(0, 8, group):
        gaps = [
            right - wrong
            for right, *wrongs in ranked[start : start + group]
            for wrong in wrongs
            if wrong < right
        ]
        means.append(sum(gaps) / len(gaps) if gaps else 0.0)
    gaps = [right - wrong for right, *wrongs in ranked for wrong in wrongs if wrong < right]
    assert abs(sum(means) / len(means) - sum(gaps) / len(gaps)) > 0.01  # groups matter here
    settings = tuning(folder, **EIGHT, contrastive_group=group, per_device_batch_size=size)
    summary = tune_egoplan(settings, folder / f"group-{group}")
    assert summary["padded"]
    (first,) = (entry for entry in summary["history"] if "contrastive" in entry)
    assert first["contrastive"] == pytest.approx(sum(means) / len(means), abs=1e-4)
    assert first["nll"] == pytest.approx(sum(right for right, *_ in ranked) / 8, abs=1e-4)


@pytest.mark.nightly
def test_division_into_passes_does_not_change_the_loss(folder, run):
    """Eight samples in one pass or in several give the same losses and weights."""
    outs = {size: folder / f"passes-{size}" for size in (2, 4, 8)}
    results = {}
    for size, out in outs.items():
        settings = tuning(
            folder, lora={"dropout": 0.0}, batch_size=8, per_device_batch_size=size, steps=4
        )
        results[size] = tune_egoplan(settings, out)
    for size in (2, 4):
        assert losses(results[size]["history"]) == pytest.approx(
            losses(results[8]["history"]), abs=1e-4
        )
        for name, values in weights(outs[8]).items():
            torch.testing.assert_close(weights(outs[size])[name], values, atol=1e-4, rtol=1e-3)


def test_existing_run_is_not_overwritten(folder, run):
    with pytest.raises(LmmsEgoplanError, match="--resume"):
        tune_egoplan(tuning(folder), run[0])
    for other in ({"seed": 1}, {"contrastive_group": 1}):
        with pytest.raises(LmmsEgoplanError, match=next(iter(other))):
            tune_egoplan(tuning(folder, **other), run[0], resume=True)


@pytest.mark.whole
def test_run_resumes_after_a_kill_with_the_same_weights(folder, run):
    out = folder / "killed"
    process = start(folder, out)
    wait_until(
        lambda: list(out.glob("checkpoints/checkpoint-2/complete.json")), lambda: process.poll()
    )
    process.send_signal(signal.SIGKILL)
    process.wait(FOREVER_S)
    assert start(folder, out, "--resume").wait(FOREVER_S) == 0
    for name, values in weights(run[0]).items():
        assert torch.equal(weights(out)[name], values), name


@pytest.mark.whole
def test_the_best_checkpoint_is_kept_through_a_kill(folder):
    """The accuracy on these few questions stays the same, so the first checkpoint is the best."""
    best = {"trainer": {"load_best_model_at_end": True}, "evaluate_every": 2}
    summary = tune_egoplan(tuning(folder, **best), folder / "best")
    evaluations = {
        entry["step"]: entry["eval_accuracy"]
        for entry in summary["history"]
        if "eval_accuracy" in entry and entry["step"] > 0
    }
    assert list(evaluations) == [2, 4, 6]
    assert summary["best_step"] == max(evaluations, key=evaluations.get) < 6
    checkpoints = folder / "best" / "checkpoints"
    best_checkpoint = checkpoints / f"checkpoint-{summary['best_step']}"
    assert {*checkpoints.iterdir()} == {best_checkpoint, checkpoints / "checkpoint-6"}
    assert all(
        torch.equal(weights(best_checkpoint)[name], v)
        for name, v in weights(folder / "best").items()
    )
    assert f"after update {summary['best_step']}," in (folder / "best" / "README.md").read_text()

    out = folder / "best-killed"
    process = start(folder, out, **best)
    wait_until(
        lambda: list(out.glob("checkpoints/checkpoint-4/complete.json")), lambda: process.poll()
    )
    process.send_signal(signal.SIGKILL)
    process.wait(FOREVER_S)
    assert start(folder, out, "--resume", **best).wait(FOREVER_S) == 0
    for name, values in weights(folder / "best").items():
        assert torch.equal(weights(out)[name], values), name
    shutil.rmtree(out / "checkpoints" / best_checkpoint.name)
    with pytest.raises(LmmsEgoplanError, match="checkpoint-2: the best checkpoint so far"):
        tune_egoplan(tuning(folder, **best), out, resume=True)


@pytest.mark.whole
def test_an_error_of_two_processes_is_printed_once(folder):
    """Also an error about samples that only one of them has read."""
    damaged = dialogues(folder, ("Hi", "Hello"), ("Hi", "\u4e00" * 1000), ("Hi", "\u4e01" * 1000))
    cases = [({"data": folder / "nowhere.json"}, ["nowhere.json"])]
    cases.append(({"instructions": [damaged]}, ["2 of 26 samples", "record 1: ", "record 2: "]))
    for settings, facts in cases:
        process = start(folder, folder / "once", processes=2, stderr=subprocess.PIPE, **settings)
        _, errors = process.communicate(timeout=FOREVER_S)
        text = errors.decode()
        assert process.returncode == 1
        assert text.count("lmms-egoplan: ") == 1, text
        assert [text.count(fact) for fact in facts] == [1] * len(facts), text


@pytest.mark.nightly
def test_reporters_write_losses(folder):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tune_egoplan(tuning(folder, report_to=["tensorboard"], steps=2), folder / "board")
    (events,) = (folder / "board").rglob("events.out.tfevents.*")
    board = EventAccumulator(str(events))
    board.Reload()
    assert [event.step for event in board.Scalars("train/loss")] == [1, 2]
    assert {"train/nll", "train/contrastive", "eval/accuracy"} <= {*board.Tags()["scalars"]}


@pytest.mark.nightly
def test_weights_and_biases_logs_offline(folder):
    if importlib.util.find_spec("wandb") is None:
        pytest.skip("wandb is not installed")
    variables = {"WANDB_MODE": "offline", "WANDB_DIR": str(folder / "logs")}
    (folder / "logs").mkdir()
    process = start(
        folder, folder / "logged-offline", variables=variables, report_to=["wandb"], steps=2
    )
    assert process.wait(FOREVER_S) == 0
    assert list((folder / "logs").rglob("*.wandb"))


@pytest.mark.whole
def test_two_processes_have_the_same_loss_as_one(folder):
    """Each process makes two passes."""
    settings = {"lora": {"dropout": 0.0}, "batch_size": 8}
    one = tune_egoplan(tuning(folder, **settings), folder / "one")
    assert start(folder, folder / "two", processes=2, **settings).wait(FOREVER_S) == 0
    assert {"config.yaml", "README.md"} <= {path.name for path in (folder / "two").iterdir()}
    two = json.loads(Path(folder / "two" / "history.json").read_text())
    assert losses(two) == pytest.approx(losses(one["history"]), abs=1e-4)
    held_out = [
        [entry["eval_accuracy"] for entry in h if "eval_accuracy" in entry]
        for h in (two, one["history"])
    ]
    assert held_out[0] == held_out[1]


@pytest.mark.parametrize(
    ("changes", "without", "message"),
    [
        ({"negative_answers": []}, None, "record 3, sample_id 13, negative_answers: "),
        (
            {"negative_answers": [" pour milk into the bowl", ACTIONS[3]]},
            None,
            r"record 3, .*negative_answers\[1\]",
        ),
        ({"answer": ""}, None, "record 3, sample_id 13, answer: "),
        ({}, 12, r"P01_01 \(sample_id 11, 12, 13\): .*frame_0000000012.jpg"),
    ],
)
def test_invalid_data_is_refused_before_training(tmp_path, changes, without, message):
    write_set(tmp_path, changes, without)
    refused = refusal(tmp_path, tmp_path / "out")
    assert re.fullmatch(rf"{tmp_path / 'EgoPlan_IT.json'}: .*{message}.*", refused)  # in one line


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_clips": 4, "frames_per_clip": 40},
            r"EgoPlan_IT.json, sample_id \d4: .*\d+ tokens .* 161 images",
        ),
        ({"proportions": {"egoplan": 0.0}}, "proportions: egoplan: 0"),
        (
            {"per_device_batch_size": 3, "contrastive_group": 3},
            r"batch_size: 4 .*per_device_batch_size.*\b3 x 1\b",
        ),
    ],
)
def test_unsuitable_settings_are_refused_before_training(folder, settings, message):
    assert re.search(message, refusal(folder, folder / "refused", **settings))


def test_backend_loads_the_adapter_and_caches_per_adapter(folder, run, tmp_path, monkeypatch):
    from harnesses.lmms_eval.small_requests import ranking_requests
    from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM

    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "own")
    plain, tuned = HFVLM(str(folder / "model")), HFVLM(str(folder / "model"), peft=str(run[0]))
    assert plain.open_cache(tmp_path / "a") != tuned.open_cache(tmp_path / "b")
    doc = {"text": "What next?", "visuals": [picture(3)], "choices": ACTIONS}
    base, tuned = (
        [
            parse_loglikelihood(response.text).loss
            for response in model.loglikelihood(ranking_requests(model, [doc]))
        ]
        for model in (plain, tuned)
    )
    assert max(abs(one - other) for one, other in zip(base, tuned, strict=True)) > 1e-3
    expected = load_adapter(AutoModelForImageTextToText.from_pretrained(folder / "model"), run[0])
    ranker = CandidateRanker(expected, AutoProcessor.from_pretrained(folder / "model"))
    messages = [
        {
            "role": "user",
            "content": [
                {"type": "image", "image": picture(3)},
                {"type": "text", "text": doc["text"]},
            ],
        }
    ]
    assert tuned == pytest.approx(
        [score.nll for score in ranker.score(messages, ACTIONS)], abs=1e-5
    )


def test_losses_are_means_over_updates_and_the_card_omits_unseen_parts(folder):
    proportions = {"egoplan": 1.0, "recognition": 0.0}
    settings = tuning(
        folder, steps=4, log_every=2, proportions=proportions, held_out=0.0, check=False
    )
    summary = tune_egoplan(settings, folder / "logged")
    card = (folder / "logged" / "README.md").read_text()
    assert "15 egoplan (100.0%" in card
    assert "recognition" not in card
    logged = [entry for entry in summary["history"] if "loss" in entry]
    assert [entry["step"] for entry in logged] == [2, 4]
    for entry in logged:
        assert entry["nll"] + entry["contrastive"] == pytest.approx(entry["loss"], abs=1e-4)


def test_only_the_base_is_in_bfloat16(folder):
    summary = tune_egoplan(
        tuning(folder, precision="bfloat16", steps=1, held_out=0.0, check=False), folder / "bf16"
    )
    assert summary["precision"] == "bfloat16"
    assert all(math.isfinite(loss) for loss in losses(summary["history"]))
    assert {values.dtype for values in weights(folder / "bf16").values()} == {torch.float32}


def recognition_file(folder, **changes):
    """Write the recognition file of ``data build egoplan`` for the records with a past action."""
    rows = [
        {name: value for name, value in record.items() if name != "negative_answers"}
        | {"question": "What was done?", "answer": "Open the cupboard."}
        for record in records()
        if record["task_progress_metadata"]
    ]
    rows[2] |= changes
    path = folder / "EgoPlan_IT_action_recognition.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def projector_run(folder):
    """Return the folder and summary of a run without LoRA, with its own action recognition file."""
    settings = tuning(folder, lora=None, recognition_data=recognition_file(folder), steps=1)
    return folder / "projector", tune_egoplan(settings, folder / "projector")


def test_without_lora_only_the_projector_is_trained(projector_run):
    assert all("multi_modal_projector" in name for name in weights(projector_run[0]))


def test_action_recognition_is_read_from_its_own_file(folder, projector_run):
    out, summary = projector_run
    assert summary["samples"] == {"egoplan": 10, "recognition": 8}  # one video is held out
    path = folder / "EgoPlan_IT_action_recognition.json"
    assert str(path) in json.loads((out / "run.json").read_text())["files"]


def test_error_in_action_recognition_names_its_file(folder, tmp_path):
    path = recognition_file(tmp_path, answer=" ")
    message = refusal(folder, folder / "wrong", recognition_data=path)
    assert message.startswith(f"{path}: record 2, sample_id 13, answer: ")


def dialogues(folder, *records):
    """Write dialogues in LLaVA's layout and return the path."""
    path = folder / "dialogues.json"
    turns = [[{"from": "human", "value": q}, {"from": "gpt", "value": a}] for q, a in records]
    path.write_text(json.dumps([{"conversations": turn} for turn in turns]), encoding="utf-8")
    return path


def refusal(folder, out, *, resume=False, **settings):
    with pytest.raises(LmmsEgoplanError) as refused:
        tune_egoplan(tuning(folder, **settings), out, resume=resume)
    assert not out.exists()
    return str(refused.value)


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl"])
def test_padded_batches_are_checked_for_each_kind_of_media(name):
    """The positions of the samples in the mix do not matter."""
    _, processor = build(name)
    encoder = AnswerEncoder(processor, is_encoder_decoder=False, positions=4096)
    plan = Sample(
        "plan", (("What next?", "wash"),), ("open it", "take a cup"), partial(frames, 3), 4
    )
    text = Sample("text", (("Who are you?", "A model."),))
    image = Sample("image", (("What is this?", "A cup."),), (), partial(frames, 0), 1)
    batches = probes(encoder, [[text, image], [plan]])
    names = [[question.question_id for question in batch] for batch in batches]
    if name == "qwen2_5_vl":
        assert names == [["text"], ["image"], ["plan"]]
    else:
        assert names == [["text"], ["image", "plan"]]  # LLaVA's clips are images
    assert all(len(question.candidates) > 1 for batch in batches for question in batch)


def frames(count):
    return [[picture(number) for number in range(count)]] * bool(count) + [picture(9)]


def test_leaking_mask_is_detected(folder, monkeypatch):
    whole = MaskKinds.packed

    def leaky(self, row_lengths, prefix_length, model):
        mask = whole(self, row_lengths, prefix_length, model)
        if len(row_lengths) > 1:
            first, second = row_lengths[:2]
            mask[..., first : first + second, prefix_length : prefix_length + first] = 0
        return mask

    monkeypatch.setattr(MaskKinds, "packed", leaky)
    settings = tuning(
        folder, steps=1, proportions={"recognition": 9.0, "egoplan": 1.0}, held_out=0.0, check=False
    )
    assert tune_egoplan(settings, folder / "leaky")["answer_passes"] == "separate"


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("negative_answers", [ACTIONS[0], "take <image> cup"], r"negative_answers\[1\].*<image>"),
        ("answer", "take </s> cup", "answer.*</s>"),
        ("question", "What next, <s>?", "question.*<s>"),
    ],
)
def test_placeholders_and_special_tokens_are_refused_before_training(
    tmp_path, folder, field, text, message
):
    (tmp_path / "model").symlink_to(folder / "model")
    write_set(tmp_path, {field: text})
    refused = refusal(tmp_path, tmp_path / "out", recognition=False)
    # in one line
    assert re.fullmatch(rf"{tmp_path / 'EgoPlan_IT.json'}, sample_id 13, {message}.*", refused)


def test_special_token_in_a_dialogue_names_record_and_field(folder, tmp_path):
    path = dialogues(tmp_path, ("Hi", "Hello"), ("Who?", "</s>"), ("<pad>", "x"))
    head, *lines = refusal(folder, folder / "special", instructions=[path]).splitlines()
    assert "2" in head
    facts = [
        (f"{path}, record 1, conversations[1]", "</s>"),
        (f"{path}, record 2, conversations[0]", "<pad>"),
    ]
    for line, (field, token) in zip(lines, facts, strict=True):
        assert field in line
        assert token in line


def test_short_text_with_many_tokens_is_refused(folder, tmp_path):
    path = dialogues(tmp_path, ("Hi", "take a bowl " * 100), ("Hi", "\u4e00" * 1000))
    assert f"{path}, record 1: " in refusal(folder, folder / "long", instructions=[path])


def test_sample_found_too_long_during_training_is_named(folder, tmp_path):
    path = dialogues(tmp_path, ("Hi", "\u4e00" * 1000))
    with pytest.raises(LmmsEgoplanError, match=r"record 0: .*\d+ tokens"):
        tune_egoplan(tuning(folder, instructions=[path], workers=1, check=False), folder / "guard")


@pytest.mark.parametrize(
    ("check", "workers", "damaged"), [(True, 0, [11, 21, 31]), (True, 2, [21]), (False, 1, [21])]
)
def test_damaged_media_are_named_before_training_if_checked(
    tmp_path, folder, check, workers, damaged, capfd
):
    (tmp_path / "model").symlink_to(folder / "model")
    write_set(tmp_path)
    # the observation of its second question, which is neither the longest nor the shortest
    for sample in damaged:
        frame = tmp_path / f"epic/P01/rgb_frames/P01_0{sample // 10}/frame_0000000012.jpg"
        frame.write_bytes(frame.read_bytes()[:200])
    settings = tuning(
        tmp_path, workers=workers, check=check, recognition=False, held_out=0.0, steps=4
    )
    with pytest.raises(LmmsEgoplanError) as error:
        tune_egoplan(settings, tmp_path / "out")
    assert ("15/15" in capfd.readouterr().err) == check
    assert (tmp_path / "out" / "run.json").exists() == (not check)
    lines = [line for line in str(error.value).splitlines() if "sample_id" in line]
    for sample, line in zip(damaged, lines, strict=True):
        assert f"{tmp_path / 'EgoPlan_IT.json'}, sample_id {sample}: " in line
        assert f"P01_0{sample // 10}/frame_0000000012.jpg" in line
        assert line.count("sample_id") == 1
        assert "skip-missing" not in line


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 5e-6}, "final_learning_rate: .*learning_rate.*5e-06.*1e-05"),
        ({"learning_rate": 5e-6, "final_learning_rate": 0}, None),
        ({"warmup_learning_rate": 1e-2}, "warmup_learning_rate: .*learning_rate.*0.001.*0.01"),
        ({"contrastive_group": 4}, "contrastive_group: 4 .*per_device_batch_size, 2"),
        ({"contrastive_group": 4, "contrastive": False}, None),
        ({"per_device_batch_size": 3}, "contrastive_group: 2 .*per_device_batch_size, 3"),
        ({"trainer": {"max_steps": 3}}, "trainer.max_steps: "),
        (
            {"trainer": {"load_best_model_at_end": True}},
            "trainer.load_best_model_at_end: .*save_every is 2 and evaluate_every 6",
        ),
        ({"quantize": "4bit", "lora": None}, "quantize: needs lora"),
        ({"trainer": {"output_dir": "x"}}, "trainer.output_dir: .*--out"),
        (
            {"trainer": {"gradient_accumulation_steps": 2}},
            "trainer.gradient_accumulation_steps: .*batch_size",
        ),
        ({"trainer": {"remove_unused_columns": True}}, "trainer.remove_unused_columns"),
        ({"trainer": {"optim": "adafactor"}}, None),
    ],
)
def test_contradictory_settings_are_refused(folder, settings, message):
    if message is None:
        tuning(folder, **settings)
        return
    (folder / "wrong.yaml").write_text(
        yaml.safe_dump(tuning(folder).model_dump(mode="json") | settings)
    )
    with pytest.raises(LmmsEgoplanError, match=f"{folder / 'wrong.yaml'}: {message}"):
        read_settings(folder / "wrong.yaml", {})


@pytest.mark.nightly
def test_infinite_loss_ends_the_run_with_advice(folder):
    settings = tuning(
        folder,
        learning_rate=0.9,
        trainer={"optim": "sgd"},
        max_grad_norm=0,
        warmup_learning_rate=0.9,
    )
    settings = settings.model_copy(update={"steps": 60, "weight_decay": 1e30})
    with pytest.raises(LmmsEgoplanError, match=r"--out.*learning_rate"):
        tune_egoplan(settings, folder / "diverges")


def test_resume_requires_a_run(folder):
    assert "--resume" in refusal(folder, folder / "nothing", resume=True)


@pytest.mark.whole
def test_run_resumes_with_other_workers(folder, run):
    tune_egoplan(
        tuning(folder, workers=1, check=False, log_every=2, save_every=3), run[0], resume=True
    )


def test_run_does_not_resume_with_other_files(folder, run):
    identity = json.loads((run[0] / "run.json").read_text())
    changed = identity | {"files": dict.fromkeys(identity["files"], "0" * 64), "lora": None}
    del changed["contrastive_group"]  # as in a run of an earlier version
    (run[0] / "run.json").write_text(json.dumps(changed))
    try:
        with pytest.raises(LmmsEgoplanError) as error:
            tune_egoplan(tuning(folder), run[0], resume=True)
    finally:
        (run[0] / "run.json").write_text(json.dumps(identity))
    message = str(error.value)
    for fact in (
        f"files: {folder / 'EgoPlan_IT.json'}: ",
        "lora: ",
        "contrastive_group: ",
        "--resume",
    ):
        assert fact in message
    assert "0000" not in message


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("room", "file"),
    [(100_000, "adapter_model.safetensors"), (120_000, "base.json"), (300_000, "optimizer.pt")],
)
def test_full_disk_error_names_the_checkpoints_file(folder, tmp_path, capfd, room, file):
    with volume_of(tmp_path / "volume", room) as mount:
        if mount != tmp_path / "volume":
            pytest.skip("needs a volume that can be mounted")
        assert start(folder, mount / "out").wait() == 1
    stderr = capfd.readouterr().err
    line = next(line for line in stderr.splitlines() if "lmms-egoplan: " in line)
    assert f"checkpoint-2/{file}: " in line
    assert str(mount) in line
    assert "Traceback" not in stderr


def test_folder_in_use_is_refused(folder):
    (folder / "locked").mkdir()
    with lock_folder(folder / "locked"):
        result = CliRunner().invoke(app, ["train", "egoplan", "--out", str(folder / "locked")])
    assert result.exit_code == 1
    assert f"{folder / 'locked'} is in use" in result.output


@pytest.fixture
def train(monkeypatch, tmp_path):
    """Return a function that runs the command and returns the settings, without tuning."""
    tuned = []
    monkeypatch.setattr(
        "lmms_egoplan.training.egoplan.tuning.tune_egoplan",
        lambda settings, *_, **__: tuned.append(settings),
    )

    def run(*options):
        tuned.clear()
        result = CliRunner().invoke(
            app, ["train", "egoplan", *map(str, options), "--out", str(tmp_path / "out")]
        )
        return (tuned[0] if tuned else None), result.output

    return run


def test_ablations_change_settings_and_drop_proportions(folder, tmp_path, train):
    path = dialogues(tmp_path, ("Hi", "Hello"))
    shares = {"egoplan": 2.0, "recognition": 1.0, "dialogues": 1.0}
    settings = tuning(folder, instructions=[path], proportions=shares)
    (tmp_path / "config.yaml").write_text(settings_text(settings))
    config = ("--config", tmp_path / "config.yaml")
    assert train(*config)[0] == settings
    for option, changes in (
        ("--no-lora", {"lora": None}),
        ("--no-contrastive", {"contrastive": False}),
        (
            "--no-recognition",
            {"recognition": False, "proportions": {"egoplan": 2.0, "dialogues": 1.0}},
        ),
        (
            "--no-instructions",
            {"instructions": [], "proportions": {"egoplan": 2.0, "recognition": 1.0}},
        ),
    ):
        assert train(*config, option)[0] == settings.model_copy(update=changes), option


def test_command_line_overrides_the_file(folder, tmp_path, train):
    (tmp_path / "config.yaml").write_text(settings_text(tuning(folder)))
    sets = (
        "epochs=3",
        "learning_rate=3e-5",
        "lora={r: 8}",
        "check=false",
        "instructions=[a.json, b.json]",
        "steps=null",
    )
    options = [word for assignment in sets for word in ("--set", assignment)]
    settings, _ = train(
        tmp_path / "x.json", "--model", "m", "--config", tmp_path / "config.yaml", *options
    )
    changed = {
        "model": "m",
        "data": tmp_path / "x.json",
        "epochs": 3,
        "learning_rate": 3e-5,
        "check": False,
    }
    changed |= {"lora": Lora(r=8), "instructions": [Path("a.json"), Path("b.json")], "steps": None}
    assert settings == tuning(folder).model_copy(update=changed)


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        ("epochs=0", "epochs"),
        ("lora={s: 8}", "lora.s"),
        ("speed=1", "speed"),
        ("lora={r: 8", "lora"),
        ("seed", "seed"),
    ],
)
def test_invalid_command_line_setting_is_named(tmp_path, train, assignment, key):
    settings, output = train(tmp_path / "x.json", "--model", "m", "--set", assignment)
    assert settings is None
    assert key in output


def videos(folder, *counts):
    """Return this many records of each video."""
    rows = [
        records()[0] | {"sample_id": 1000 * video + index, "video_id": f"P01_{video}"}
        for video, count in enumerate(counts, 1)
        for index in range(count)
    ]
    (folder / "videos.json").write_text(json.dumps(rows), encoding="utf-8")
    return read_instructions(folder / "videos.json")


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [((500, 500), 0.01, 500), ((96, 1, 1, 2), 0.03, 3), ((5,) * 60, 0.1, 30)],
)
@pytest.mark.parametrize("seed", range(4))
def test_held_out_videos_fit_the_share(tmp_path, counts, share, expected, seed):
    trained, held_out = hold_out(videos(tmp_path, *counts), share, seed)
    assert 0 < len(held_out) <= expected
    assert expected == 3 or len(held_out) == expected
    assert len(trained) + len(held_out) == sum(counts)


def test_one_video_cannot_be_held_out(tmp_path):
    records = videos(tmp_path, 7)
    with pytest.raises(LmmsEgoplanError, match=r"held_out: 0\.5"):
        hold_out(records, 0.5, 0)
    assert len(hold_out(records, 0, 0)[0]) == 7


@pytest.fixture
def adapter(run, tmp_path):
    return Path(
        shutil.copytree(run[0], tmp_path / "adapter", ignore=shutil.ignore_patterns("checkpoints"))
    )


def cut(path):
    path.write_bytes(path.read_bytes()[:1000])


def without_lora(path):
    save_file({name: value for name, value in load_file(path).items() if "lora" not in name}, path)


@pytest.mark.parametrize(
    ("name", "change", "facts"),
    [
        ("adapter_model.safetensors", cut, ""),
        ("adapter_model.safetensors", without_lora, r" 16 .*\d+ tensors.*lora"),
        ("adapter_model.safetensors", Path.unlink, ""),
        ("base.json", lambda path: path.write_text("{}"), "name"),
        ("base.json", lambda path: path.write_text("[]"), ""),
        ("adapter_config.json", lambda path: path.write_text("[]"), ""),
    ],
)
def test_damaged_adapter_is_one_line_of_error(folder, adapter, name, change, facts):
    change(adapter / name)
    model = AutoModelForImageTextToText.from_pretrained(folder / "model")
    with pytest.raises(LmmsEgoplanError, match=rf"adapter/{name}: .*{facts}") as caught:
        load_adapter(model, adapter)
    assert "\n" not in str(caught.value)


def test_merge_without_a_base_names_the_option(adapter, tmp_path):
    config = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": "elsewhere/model"})
    )
    result = CliRunner().invoke(
        app, ["merge", "egoplan", str(adapter), "--out", str(tmp_path / "merged")]
    )
    assert result.exit_code == 1
    assert all(fact in result.output for fact in ("elsewhere/model", "--model"))


def test_marks_stand_before_clips_and_observation(folder):
    settings = tuning(folder, clip_marks=True, num_clips=2)
    rows = read_instructions(settings.data)
    frames = find_frames(rows, {"EpicKitchens": folder / "epic"}, 2, "file")
    drawn = Drawn(plan_samples(rows, frames, settings.visuals, "file")[3], 0, None)
    _, processor = build("qwen2_5_vl")
    encoded = AnswerEncoder(processor, is_encoder_decoder=False).encode(drawn)
    text = processor.tokenizer.decode(encoded.inputs["input_ids"][0])
    order = [
        text.index(name) for name in ("<Clip1>", "<Clip2>", "<Observation>", "What action should I")
    ]
    media = [match.start() for match in re.finditer("<.vision_start.>", text)]
    assert len(media) == 3
    assert sorted(order + media) == [
        order[0],
        media[0],
        order[1],
        media[1],
        order[2],
        media[2],
        order[3],
    ]


def test_marks_need_a_template_that_keeps_their_places(folder, tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"puts all images before the text.* without marks"):
        tune_egoplan(tuning(folder, clip_marks=True), tmp_path / "out")
