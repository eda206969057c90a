"""Test the similarity of goals and answers, and its levels."""

import json
import random
import sys
from pathlib import Path

import pytest

from benchmarks.actplan.tiny_encoder import write_encoder
from lmms_egoplan.encoder import ENCODER_VARIABLE, load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egoplan.similarity import LEVELS, levels, similarities

PAIRS = [
    ("make tea", "fill the kettle"),
    ("make tea", "make tea"),
    ("put the leftovers into the fridge", "open box"),
    ("wash the pan", "pour water"),
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return str(write_encoder(tmp_path_factory.mktemp("bert")))


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    return tmp_path


def write_sentence_encoder(data, monkeypatch):
    """Write a small sentence encoder to ``encoder`` in the prepared data, and set it."""
    from lmms_egoplan.demo.checkpoint import write_encoder

    write_encoder(data / "encoder")
    monkeypatch.setenv(ENCODER_VARIABLE, str(data / "encoder"))


def cache_file(data):
    (path,) = (data / "egoplan" / "similarity").glob("*.json")
    return path


def tokens(folder, text):
    """Return the token vectors of one text, and a mask of those that are not special."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    ids = tokenizer(text)["input_ids"]
    with torch.no_grad():
        vectors = model(torch.tensor([ids])).last_hidden_state[0].double()
    return vectors, [number not in tokenizer.all_special_ids for number in ids]


def bert_score(folder, goal, answer):
    def cosine(first, second):
        return float(first @ second / (first.norm() * second.norm()))

    (first, first_mask), (second, second_mask) = tokens(folder, goal), tokens(folder, answer)
    precision = [
        max(cosine(a, b) for b in second)
        for a, counts in zip(first, first_mask, strict=True)
        if counts
    ]
    recall = [
        max(cosine(b, a) for a in first)
        for b, counts in zip(second, second_mask, strict=True)
        if counts
    ]
    precision, recall = sum(precision) / len(precision), sum(recall) / len(recall)
    return 2 * precision * recall / (precision + recall)


def test_bertscore_equals_a_slow_reference(bert):
    values, _ = similarities(PAIRS, bert)
    assert values == pytest.approx({pair: bert_score(bert, *pair) for pair in PAIRS}, abs=2e-6)
    assert values["make tea", "make tea"] == 1
    assert len(set(values.values())) == len(PAIRS)


def test_the_measure_names_method_and_model(bert):
    _, measure = similarities(PAIRS, bert)
    assert measure.startswith("BERTScore (F1")
    assert measure.endswith(f"/{Path(bert).name}, layer 2 of 2")


def test_order_and_other_pairs_do_not_matter(bert, data, monkeypatch):
    values, _ = similarities(PAIRS, bert)
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data / "other"))
    alone = {pair: similarities([pair], bert)[0][pair] for pair in reversed(PAIRS)}
    assert alone == pytest.approx(values, abs=2e-6)


def test_values_are_cached(bert, data):
    similarities(PAIRS[:2], bert)
    content = json.loads(cache_file(data).read_text())
    assert sorted(tuple(pair) for *pair, _ in content["values"]) == sorted(PAIRS[:2])
    for entry in content["values"]:
        entry[2] = 0.25
    cache_file(data).write_text(json.dumps(content))
    values, measure = similarities(PAIRS, bert)
    assert [values[pair] for pair in PAIRS[:2]] == [0.25, 0.25]
    assert 0.25 not in [values[pair] for pair in PAIRS[2:]]
    assert measure == content["measure"]


def test_another_model_in_the_folder_is_computed_again(data):
    folder = data / "model"
    first = similarities(PAIRS, str(write_encoder(folder)))[0]
    second = similarities(PAIRS, str(write_encoder(folder, hidden_size=48)))[0]
    assert first != second


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "[" * 100_000,
        '{"measure": "m", "values": [["make tea", "x"]]}',
        '{"values": NaN}',
    ],
)
def test_damaged_values_are_computed_again(bert, data, content):
    measured = similarities(PAIRS, bert)
    cache_file(data).write_text(content)
    assert similarities(PAIRS, bert) == measured


def test_values_that_are_not_finite_are_computed_again(bert, data):
    measured = similarities(PAIRS, bert)
    cache_file(data).write_text(cache_file(data).read_text().replace("1.0]", "NaN]"))
    assert "NaN" in cache_file(data).read_text()
    assert similarities(PAIRS, bert) == measured


def test_read_only_data_do_not_matter(bert, data, monkeypatch):
    (data / "file").write_text("")
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data / "file"))
    assert similarities(PAIRS[:1], bert)[0][PAIRS[0]] == pytest.approx(
        bert_score(bert, *PAIRS[0]), abs=2e-6
    )


def test_a_text_without_tokens_has_similarity_0(bert):
    assert similarities([("make tea", "")], bert)[0] == {("make tea", ""): 0}


def test_an_unavailable_model_is_named(data):
    with pytest.raises(
        LmmsEgoplanError, match=r"BERTScore with /no/such/folder: .*BERT-like model"
    ):
        similarities(PAIRS, "/no/such/folder")
    assert not (data / "egoplan").exists()


def test_without_a_model_sentence_embeddings_are_compared(data, monkeypatch):
    write_sentence_encoder(data, monkeypatch)
    load_encoder()
    values, measure = similarities(PAIRS)
    assert measure == f"cosine of the sentence embeddings of {data.name}/encoder"
    for goal, answer in PAIRS:
        first, second = load_encoder().encode([goal, answer], show_progress_bar=False).astype(float)
        cosine = sum(first * second) / (sum(first**2) * sum(second**2)) ** 0.5
        assert values[goal, answer] == pytest.approx(cosine, abs=2e-6)


@pytest.mark.whole
def test_sentences_are_compared_in_a_separate_process(data, monkeypatch):
    write_sentence_encoder(data, monkeypatch)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "sentence_transformers", raising=False)
        measured = similarities(PAIRS)
        assert "sentence_transformers" not in sys.modules
    load_encoder()
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data / "other"))
    assert similarities(PAIRS) == measured


def test_without_any_encoder(data, monkeypatch):
    monkeypatch.setenv(ENCODER_VARIABLE, "/no/such/folder")
    with pytest.raises(LmmsEgoplanError, match="/no/such/folder cannot be loaded"):
        similarities(PAIRS)
    assert not (data / "egoplan").exists()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 90, 91, 92])
def test_levels_are_equally_large(count):
    level_of = levels({number: random.Random(number).random() for number in range(count)})
    sizes = [list(level_of.values()).count(level) for level in range(len(LEVELS))]
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1


def test_levels_follow_the_values():
    values = {number: random.Random(number).random() for number in range(60)}
    level_of = levels(values)
    highest = [
        max(values[question] for question in level_of if level_of[question] == level)
        for level in range(3)
    ]
    lowest = [
        min(values[question] for question in level_of if level_of[question] == level)
        for level in range(3)
    ]
    assert highest[0] < lowest[1]
    assert highest[1] < lowest[2]


def test_equal_values_are_ordered_by_question():
    values = dict.fromkeys((9, 4, 7, 1, 8, 2), 0.5)
    expected = {1: 0, 2: 0, 4: 1, 7: 1, 8: 2, 9: 2}
    assert levels(values) == expected == levels(dict(reversed(values.items())))
