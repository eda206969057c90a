"""Train one step with TRL on the exported preference data. Runs if TRL is installed."""

import math
from importlib.util import find_spec

import pytest

from .small import export, records, write_set

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(find_spec("trl") is None, reason="trl is not installed"),
]


def test_trl_trains_on_the_export(tmp_path, monkeypatch):
    import trl
    from datasets import Image, Sequence, load_dataset
    from transformers import AutoModelForImageTextToText, AutoProcessor

    write_set(tmp_path)
    _, out = export(tmp_path, "trl")
    monkeypatch.chdir(out)
    data = load_dataset(
        "json", data_files="preferences.jsonl", split="train", cache_dir=str(tmp_path / "cache")
    )
    data = data.cast_column("images", Sequence(Image()))
    arguments = {
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
    }
    trainer = trl.DPOTrainer(
        AutoModelForImageTextToText.from_pretrained(tmp_path / "model"),
        args=trl.DPOConfig(
            str(tmp_path / "dpo"), max_length=None, gradient_checkpointing=False, **arguments
        ),
        train_dataset=data,
        processing_class=AutoProcessor.from_pretrained(tmp_path / "model"),
    )
    batch = next(iter(trainer.get_train_dataloader()))
    texts = trainer.processing_class.batch_decode(batch["input_ids"])
    assert any(f"ASSISTANT: {record['answer']}" in text for record in records() for text in texts)
    assert math.isfinite(trainer.train().training_loss)
