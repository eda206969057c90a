"""Train one step with TRL on the exported files. Runs if TRL is installed."""

import math
from importlib.util import find_spec

import pytest

import zoo

from .small import export, records, write_set

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed"),
]
ARGUMENTS = {
    "max_steps": 1,
    "per_device_train_batch_size": 2,
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "max_length": None,
    "gradient_checkpointing": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_set(tmp_path_factory.mktemp("set"))
    result, _ = export(folder, "trl")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(params=["llava", "qwen2_5_vl"])
def inputs(request, folder, monkeypatch):
    """Return a function that loads one exported file, and a tiny model and its processor."""
    from datasets import Image, Sequence, load_dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor

    monkeypatch.chdir(folder / "trl")

    def load(name):
        data = load_dataset("json", data_files=name, split="train", cache_dir=str(folder / "cache"))
        return data.cast_column("images", Sequence(Image()))

    checkpoint = folder / request.param
    if not checkpoint.exists():
        zoo.save(request.param, checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    return load, model, AutoProcessor.from_pretrained(checkpoint)


def test_sft_learns_the_answers_only(inputs, tmp_path):
    from trl import SFTConfig, SFTTrainer

    load, model, processor = inputs
    trainer = SFTTrainer(
        model,
        args=SFTConfig(str(tmp_path / "sft"), **ARGUMENTS),
        train_dataset=load("sft.jsonl"),
        processing_class=processor,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    learned = [row[row != -100] for row in batch["labels"]]
    answers = [record["answer"] for record in records()]
    for text in processor.batch_decode(learned, skip_special_tokens=True):
        assert text.strip() in answers
    assert math.isfinite(trainer.train().training_loss)


def test_dpo_compares_the_answers(inputs, tmp_path):
    from trl import DPOConfig, DPOTrainer

    load, model, processor = inputs
    trainer = DPOTrainer(
        model,
        args=DPOConfig(str(tmp_path / "dpo"), **ARGUMENTS),
        train_dataset=load("preferences.jsonl"),
        processing_class=processor,
    )
    batch = next(iter(trainer.get_train_dataloader()))
    completions = [
        row[mask.bool()]
        for row, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)
    ]
    texts = processor.batch_decode(completions, skip_special_tokens=True)
    chosen, rejected = texts[:2], texts[2:]
    negatives = {record["answer"]: record["negative_answers"] for record in records()}
    for right, wrong in zip(chosen, rejected, strict=True):
        assert wrong.strip() in negatives[right.strip()]
    assert math.isfinite(trainer.train().training_loss)
