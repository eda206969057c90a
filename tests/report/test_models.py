"""Facts about runs' models, from results, real checkpoints and their damaged copies."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from lmms_egoplan.report.models import UNKNOWN, model_facts, parse_name
from lmms_egoplan.report.run import Run
from zoo import build, save

TRAINING = (
    "trainable_parameters",
    "image_text_data",
    "instruction_data",
    "egocentric_data",
    "video_data",
)
PARTS = {
    "llava": ("clip_vision_model", "llama", "gelu (projector_hidden_act)"),
    "qwen2_5_vl": ("qwen2_5_vl", "qwen2_5_vl_text", UNKNOWN),
    "instructblip": ("instructblip_vision_model", "t5", "instructblip_qformer"),
}


def facts(model, record=None, tasks=("a",), **provenance):
    return model_facts(
        Run(
            "run", Path(), "lm-eval", str(model), "", {}, provenance=provenance, record=record or {}
        ),
        tasks,
    )


@pytest.mark.parametrize("family", PARTS)
def test_facts_are_those_of_the_checkpoint(tmp_path, family):
    folder = save(family, tmp_path / "Org-VL-3B")
    row = facts(folder)
    assert row["total_billions"] * 1e9 == sum(x.numel() for x in build(family)[0].parameters())
    encoder, llm, module = PARTS[family]
    assert row["image_encoder"].startswith(encoder)
    assert row["image_encoder"].endswith(" (vision_config)")
    assert row["llm"].startswith(f"{llm}, ")
    assert row["alignment_module"].startswith(module)
    assert (row["facts_from"], row["named_billions"]) == (str(folder), 3)
    assert {row[name] for name in (*TRAINING, "images")} == {UNKNOWN}
    config = json.loads((folder / "config.json").read_text())
    assert (
        f"{config['text_config'].get('num_hidden_layers') or config['text_config']['num_layers']} "
        "layers"
    ) in row["llm"]


@pytest.fixture
def sharded(tmp_path):
    """A checkpoint in several files, with an index."""
    folder = save("llava", tmp_path / "model")
    (folder / "model.safetensors").unlink()
    build("llava")[0].save_pretrained(folder, max_shard_size="50KB")
    assert len([*folder.glob("*.safetensors")]) > 2
    return folder


def test_shards_are_counted_once_and_other_files_are_not(sharded):
    shutil.copy(next(sharded.glob("model-00001*")), sharded / "consolidated.safetensors")
    assert facts(sharded)["total_billions"] * 1e9 == sum(
        x.numel() for x in build("llava")[0].parameters()
    )


def test_the_hubs_cache_is_read_and_nothing_is_downloaded(sharded, tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub/models--org--Tiny/snapshots/abc"
    shutil.copytree(sharded, snapshot)
    (tmp_path / "hub/models--org--Tiny/refs").mkdir()
    (tmp_path / "hub/models--org--Tiny/refs/main").write_text("abc")
    assert (
        facts("org/Tiny")["facts_from"]
        == facts("org/Tiny", revision="abc")["facts_from"]
        == str(snapshot)
    )
    for other in (
        facts("org/Tiny", revision="def"),
        facts("gpt-4o"),
        facts("org/Other"),
        facts("a/b/c"),
        facts("/none"),
        facts("~nobody-here/model"),
    ):
        assert (
            "config.json: cannot be read" in other["facts_from"]
            or "Repo id" in other["facts_from"]
            or "home" in other["facts_from"]
        )
        assert other["total_billions"] is None
        assert {other[name] for name in ("image_encoder", "llm", "alignment_module")} == {UNKNOWN}


def damaged(folder, kind):
    if kind == "quantised":
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(
            json.dumps(config | {"quantization_config": {"quant_method": "awq"}})
        )
    elif kind == "quantised part":
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["quantization_config"] = {"quant_method": "compressed-tensors"}
        (folder / "config.json").write_text(json.dumps(config))
    elif kind == "packed":
        shard = next(folder.glob("model-00002*"))
        save_file(
            load_file(shard) | {"layer.qweight": torch.zeros((2, 2), dtype=torch.int32)}, shard
        )
    elif kind == "shard":
        next(folder.glob("model-00002*")).unlink()
    elif kind == "pointer":
        next(folder.glob("model-00002*")).write_text("version https://git-lfs.github.com/spec/v1\n")
    elif kind == "index":
        (folder / "model.safetensors.index.json").write_text("[]")
    elif "weight_map" in kind:
        (folder / "model.safetensors.index.json").write_text(kind)
    else:
        (folder / "config.json").write_text(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "quantised",
        "quantised part",
        "packed",
        "shard",
        "pointer",
        "index",
        '{"weight_map": ["a"]}',
        '{"weight_map": {"a": 3}}',
        "{",
        "[]",
    ],
)
def test_an_unusable_checkpoint_has_no_wrong_number(sharded, kind):
    damaged(sharded, kind)
    row = facts(sharded)
    if kind == "[]":  # not an object; the weights are complete
        assert row["total_billions"] is not None
    else:
        assert row["total_billions"] is None
        assert row["facts_from"] != str(sharded)
    assert (row["llm"] == UNKNOWN) == (kind in ("{", "[]"))


def test_logged_facts_come_first_except_the_packed_weights_of_quantised_models(sharded):
    spans = {
        "tasks": {
            "a": {"images": {"mean": 8.0}},
            "b": {"images": {"not_known": 3}},
            "c": {"images": {"mean": 8.0}},
        }
    }
    assert facts(sharded, spans | {"model": {"parameters": 7_000}})["total_billions"] == 7e-6
    assert facts(sharded, parameters="8000")["total_billions"] == 8e-6
    damaged(sharded, "quantised")
    assert facts(sharded, spans | {"model": {"parameters": 7_000}})["total_billions"] is None
    assert (
        facts(sharded, {"model": {"parameters": "not known"}}, parameters="8000")["total_billions"]
        is None
    )
    assert facts("gpt-4o", {"model": "not known"} | spans, ["a", "c"])["images"] == "8.0"
    assert facts("gpt-4o", spans, ["a", "b"])["images"] == f"8.0, {UNKNOWN}"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("Qwen3-VL-30B-A3B-Instruct", ("qwen3-vl-a3b", 30, "instruction")),
        ("Qwen-VL-Chat", ("qwen-vl", None, "instruction")),
        ("gemma-3-4b-pt", ("gemma-3", 4, "base")),
        ("gemma-3-12b-it", ("gemma-3", 12, "instruction")),
        ("llava-1.5-13b-hf", ("llava-1.5-hf", 13, UNKNOWN)),
        ("InternVL2_5-8B", ("internvl2-5", 8, UNKNOWN)),
        ("gpt-4o-2024-11-20", ("gpt-4o-2024-11-20", None, UNKNOWN)),
        ("Positron-Database", ("positron-database", None, UNKNOWN)),
    ],
)
def test_names(model, expected):
    assert parse_name(model) == expected
