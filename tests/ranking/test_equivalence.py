"""A path is used only if it reproduces full passes, for every question and not only the first."""

import copy
import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, LlavaForConditionalGeneration

from lmms_egoplan.ranking import CandidateRanker, PathError, RankingError
from lmms_egoplan.ranking.audits import AUDITED_EVERY, KindFinder, PathLedger, is_audited
from lmms_egoplan.ranking.equivalence import QUESTIONS
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion
from ranking.planted import planted
from ranking.reference import full_pass, picture, user_turn
from zoo import BEFORE_5_16, build
from zoo.unusual import build_around, save_faulty

ACTIONS = [
    "put mug on the counter",
    "open the fridge",
    "take the milk and then wash it",
    "close the fridge",
]
LETTERS = ["A", "B", "C", "D"]


def question(text="What should I do next?", images=2, seed=0):
    return user_turn(text, [picture(seed * 100 + number) for number in range(images)])


def full_passes(model, processor, messages, candidates):
    """Mean losses of independent passes over a fresh copy of the model, by transformers alone."""
    return [
        full_pass(copy.deepcopy(model), processor, messages, candidate)[0]
        for candidate in candidates
    ]


def assert_full(ranker, model, processor, messages, candidates, atol=1e-4):
    scores = ranker.score(messages, candidates)
    np.testing.assert_allclose(
        [score.nll for score in scores],
        full_passes(model, processor, messages, candidates),
        atol=atol,
    )
    return scores


WORDS = ["mug", "pan"]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("minimax", LETTERS, id="minimax-letters"),
        pytest.param("jamba", WORDS, id="jamba-words"),
        pytest.param("minimax", WORDS, id="minimax-words", marks=pytest.mark.nightly),
        pytest.param("jamba", LETTERS, id="jamba-letters", marks=pytest.mark.nightly),
    ],
)
def test_short_candidates_do_not_choose_an_untested_path(name, first):
    model, processor = build_around(name)
    ranker = CandidateRanker(model, processor)
    assert_full(ranker, model, processor, question(), first)
    for seed in (1, 2, 3):
        assert_full(ranker, model, processor, question(seed=seed), ACTIONS)


@pytest.mark.nightly
@pytest.mark.skipif(BEFORE_5_16, reason="Zamba2's tokens see later ones: refused, as it should be")
def test_candidates_of_two_tokens_after_longer_ones():
    """For a single token on a cache, Zamba2's layers use a separate step, which clamps other time
    steps.
    """
    model, processor = build_around("zamba2")
    ranker = CandidateRanker(model, processor)
    for seed in range(4):
        ranker.score(question(seed=seed), ACTIONS)
    for seed in (5, 6, 7):
        assert_full(ranker, model, processor, question(seed=seed), ["D", "C"])
    assert set(ranker.paths.values()) == {"cached"}


@pytest.mark.skipif(
    BEFORE_5_16, reason="DeepSeek-V3.2's full passes are unreliable below the limit, too"
)
def test_contexts_beyond_the_limit_of_sparse_attention_are_another_kind():
    """Beyond 64 tokens, the total length breaks ties between keys.

    Full passes are unreliable, as their noise shows.
    """
    model, processor = build_around("deepseek_v32")
    ranker = CandidateRanker(model, processor)
    for seed in range(4):
        scores = assert_full(ranker, model, processor, question(images=1, seed=seed), ACTIONS)
    assert 0 < scores[0].use.noise < 1e-5
    scores = ranker.score(question("tap " * 20, images=1), ACTIONS)
    assert scores[0].use.noise > 1e-2
    assert ranker._kinds.keys() == {"image", "image; past index_topk 64"}
    # That noise hides no wrong path of the other kind, whose 8th question is audited.
    for seed in range(4, 7):
        ranker.score(question(images=1, seed=seed), ACTIONS)
    with planted("dropped token"), pytest.raises(PathError):
        ranker.score(question(images=1, seed=7), ACTIONS)


@pytest.mark.parametrize("candidates", [LETTERS, ["A"], ACTIONS], ids=["letters", "one", "actions"])
def test_a_model_whose_keys_depend_on_a_mask_gets_full_passes(candidates):
    """Doge chooses a token's keys from the whole sequence, but only if no token is masked.

    This is not noise.
    """
    ranker = CandidateRanker(*build_around("doge"))
    assert ranker.score(question(images=3), candidates)[0].use.noise < 1e-5
    assert set(ranker.paths.values()) == {"full"}


@pytest.mark.parametrize("candidates", [LETTERS, ACTIONS])
def test_a_model_in_training_mode_is_rejected(candidates):
    model, processor = build("llava")
    model = copy.deepcopy(model)
    ranker = CandidateRanker(model, processor)
    ranker.score(question(), candidates)
    model.model.language_model.train()
    with pytest.raises(RankingError, match=r"question 7: .*model\.eval\(\)"):
        ranker.score(question(), candidates, question_id="7")


@pytest.mark.parametrize(
    ("order", "name"),
    [
        (1, "phi3"),
        (-1, "llama"),
        pytest.param(-1, "phi3", marks=pytest.mark.nightly),
        pytest.param(1, "llama", marks=pytest.mark.nightly),
    ],
)
def test_frequencies_that_depend_on_the_whole_length(order, name):
    """Contexts before, across and beyond the length at which the rotary frequencies change, growing
    or shrinking.
    """
    model, processor = build_around(name)
    ranker = CandidateRanker(model, processor)
    by_length = {}
    for words in range(60):
        messages = question("tap " * words, images=3)
        by_length[ranker.encode(messages, ACTIONS).prefix_length] = messages
    lengths = [length for length in sorted(by_length) if 114 <= length <= 136][::order]
    assert (
        {length > 128 for length in lengths}
        == {length + 9 > 128 for length in lengths}
        == {True, False}
    )
    for length in lengths[::4]:
        assert_full(ranker, model, processor, by_length[length], ACTIONS)


@pytest.mark.parametrize("name", ["minimax", pytest.param("jamba", marks=pytest.mark.nightly)])
def test_half_precision_rejects_inexact_paths(name):
    model, processor = build_around(name)
    model = copy.deepcopy(model).to(torch.bfloat16)
    ranker = CandidateRanker(model, processor)
    for seed in range(QUESTIONS):
        ranker.score(question(seed=seed), ACTIONS)
    assert set(ranker.paths.values()) == {"full"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("llava", torch.float16),
        pytest.param("qwen2_5_vl", torch.bfloat16, marks=pytest.mark.nightly),
        pytest.param("gemma3", torch.float16, marks=pytest.mark.nightly),
        pytest.param("llava", torch.bfloat16, marks=pytest.mark.nightly),
        pytest.param("qwen2_5_vl", torch.float16, marks=pytest.mark.nightly),
        pytest.param("gemma3", torch.bfloat16, marks=pytest.mark.nightly),
    ],
)
def test_half_precision_keeps_the_fast_path_where_rounding_alone_differs(name, dtype):
    model, processor = build(name)
    model = copy.deepcopy(model).to(dtype)
    ranker = CandidateRanker(model, processor)
    uses = [ranker.score(question(seed=seed), ACTIONS)[0].use for seed in range(9)]
    assert set(ranker.paths.values()) == {"packed"}
    assert [use.path for use in uses] == ["full"] * 3 + ["packed"] * 6
    assert [use.audit is not None for use in uses] == [False] * 3 + [True] + [False] * 3 + [
        True,
        False,
    ]
    assert all(use.audit <= use.tolerance == 2 * use.noise < 4e-2 for use in (uses[3], uses[7]))


def test_audits_are_the_2nd_4th_8th_question_and_later_ones_by_their_candidates():
    candidates = [
        [CandidateTokens([number, 1], 0), CandidateTokens([2], 0)] for number in range(20_000)
    ]
    early = [n for n in range(1, AUDITED_EVERY + 1) if is_audited(n, candidates[0])]
    assert early == [2, 4, 8, 16, 32, 64, 128, 256, 512]
    late = [n for n in range(AUDITED_EVERY + 1, 20_000) if is_audited(n, candidates[n])]
    assert 15 < len(late) < 80
    assert all(is_audited(513, candidates[n]) for n in late)
    ranker = CandidateRanker(*build("llava"))
    encoded = ranker.encode(question(images=1), LETTERS[:1])
    audited = [n for n in range(1, 18) if ranker.score_encoded(encoded)[0].use.audit is not None]
    assert audited == [1, 2, 4, 8, 16]


def values_by_order(model, processor, questions, order):
    """Return the log-probability of every token by the question's number, after ranking in this
    order.
    """
    ranker = CandidateRanker(model, processor)
    return {
        number: [score.token_logprobs for score in ranker.score(*questions[number])]
        for number in order
    }


@pytest.mark.parametrize(
    ("name", "images", "texts"),
    [
        ("llava", 4, 2),
        ("blip2", 4, 2),
        *(
            pytest.param(name, 9, 3, marks=pytest.mark.nightly)
            for name in ("llava", "qwen2_5_vl", "gemma3", "blip2")
        ),
    ],
)
def test_a_value_depends_only_on_its_question(name, images, texts):
    """Neither the questions that decide the path or are audited nor questions of other kinds change
    it.
    """
    model, processor = build(name)
    questions = [
        (question(f"What next? {'Now. ' * (seed % 4)}", 1, seed), ACTIONS) for seed in range(images)
    ]
    questions += [
        ([{"role": "user", "content": f"And in room {seed}?"}], ACTIONS) for seed in range(texts)
    ]
    in_order = range(images + texts)
    mixed = values_by_order(
        model, processor, questions, random.Random(0).sample(in_order, len(in_order))
    )
    assert values_by_order(model, processor, questions, in_order) == mixed
    assert (
        values_by_order(model, processor, questions, reversed(range(images))).items()
        <= mixed.items()
    )
    for part in (range(0, images, 2), range(1, images, 2)):
        assert values_by_order(model, processor, questions, part).items() <= mixed.items()


def test_near_ties_use_full_passes_in_float32_and_are_counted_in_half_precision(monkeypatch):
    model, processor = build("llava")
    rankers = [CandidateRanker(model, processor, path=path) for path in ("auto", "packed", "full")]
    first = [ranker.score(question(seed=0), ACTIONS) for ranker in rankers]
    assert [scores[0].use.near_tie for scores in first] == [False] * 3
    losses = sorted(score.nll for score in rankers[2].score(question(seed=9), ACTIONS))
    monkeypatch.setattr("lmms_egoplan.ranking.equivalence.EQUAL", 0.51 * (losses[1] - losses[0]))
    for ranker in rankers:
        ranker.score(question(seed=1), ACTIONS)
    auto, packed, full = (ranker.score(question(seed=9), ACTIONS) for ranker in rankers)
    assert [score.token_logprobs for score in auto] == [score.token_logprobs for score in full]
    assert [(s[0].use.path, s[0].use.near_tie) for s in (auto, packed, full)] == [
        ("full", False),
        ("packed", False),
        ("full", False),
    ]
    half = CandidateRanker(copy.deepcopy(model).to(torch.bfloat16), processor, path="full")
    scores = half.score(question(), ACTIONS)
    losses = sorted(score.nll for score in scores)
    assert scores[0].use.near_tie == (losses[1] - losses[0] < scores[0].use.noise)
    half._checker_of("image").noise = 1.01 * (losses[1] - losses[0])
    assert half.score(question(), ACTIONS)[0].use.near_tie


def test_audits_report_the_largest_difference():
    model, processor = build("llava")
    ranker = CandidateRanker(model, processor)
    for seed in range(2):
        use = ranker.score(question(seed=seed), ACTIONS)[0].use
        assert 0 < use.audit < 1e-5
    assert 0 < use.noise < 1e-5
    later = ranker.score(question(seed=2), ACTIONS)[0].use
    assert later == type(use)("packed", "image", tolerance=1e-4, noise=use.noise)


class Forgetful(LlavaForConditionalGeneration):
    """A model whose passes on a cache are wrong after more than two images, or more than 130
    tokens.
    """

    def forward(self, input_ids=None, pixel_values=None, **kwargs):
        if pixel_values is not None:
            self.is_wrong = len(pixel_values) > 2 or input_ids.shape[1] > 130
        output = super().forward(input_ids=input_ids, pixel_values=pixel_values, **kwargs)
        if pixel_values is None and self.is_wrong:
            output.logits = output.logits * 0.7
        return output


def forgetful():
    model, processor = build("llava")
    copied = Forgetful(model.config).eval()
    copied.load_state_dict(model.state_dict())
    return copied, processor


def test_more_images_than_before_are_audited():
    model, processor = forgetful()
    ranker = CandidateRanker(model, processor)
    for images in (1, 2, 1, 2, 1):
        assert_full(ranker, model, processor, question(images=images), ACTIONS)
    with pytest.raises(PathError, match=r"question q3: .* packed.*image.*ranking_path=full"):
        ranker.score(question(images=3), ACTIONS, question_id="q3")


def test_a_longer_context_than_before_is_audited():
    """No setting contains the model's limit."""
    model, processor = forgetful()
    ranker = CandidateRanker(model, processor)
    for words in (0, 1, 3, 0, 2):
        assert_full(ranker, model, processor, question("tap " * words), ACTIONS)
    with pytest.raises(PathError, match=r"question long: .* packed"):
        ranker.score(question("tap " * 90), ACTIONS, question_id="long")


def test_a_path_is_not_used_after_a_failed_audit():
    model, processor = forgetful()
    ranker = CandidateRanker(model, processor)
    ranker.score(question(images=2), ACTIONS)
    with pytest.raises(PathError) as error:
        ranker.score(question(images=3), ACTIONS)
    assert error.value.paths == ("packed", "cached")
    for seed, images in enumerate((3, 2, 1, 3)):
        assert_full(ranker, model, processor, question(images=images, seed=seed), ACTIONS)
    assert set(ranker.paths.values()) == {"full"}


def test_excluding_a_path_during_the_choice_does_not_delay_it():
    model, processor = build("llava")
    ranker = CandidateRanker(copy.deepcopy(model).to(torch.bfloat16), processor)
    for seed in range(2):
        ranker.score(question(seed=seed), ACTIONS)
    ranker.exclude(["packed"])
    for seed in range(2, 2 + QUESTIONS):
        ranker.score(question(seed=seed), ACTIONS)
    assert ranker.paths == {"image": "cached"}


def test_a_context_beyond_a_window_is_another_kind():
    """With a window of 40 tokens, contexts within, across and beyond it each choose a path."""
    model, processor = build("gemma3")
    config = copy.deepcopy(model.config)
    config.text_config.sliding_window = 40
    wider = AutoModelForImageTextToText.from_config(config).eval()
    ranker = CandidateRanker(wider, processor)
    for text in ("", "What next " * 6, "What next " * 30):
        ranker.score(
            [{"role": "user", "content": text}],
            ["mug", "open the fridge and take the milk out of it"],
        )
    assert list(ranker.paths) == [
        "text",
        "text; across sliding_window 40",
        "text; past sliding_window 40",
    ]


def test_two_limits_with_the_same_name_both_apply():
    """A configuration may contain the same name for an audio encoder, or for each type of layer."""
    settings = {"sliding_window": 48, "audio_encoder_config": {"sliding_window": 250}}
    finder = KindFinder(SimpleNamespace(to_dict=lambda: settings))
    ids = {"input_ids": torch.zeros(1, 60, dtype=torch.long)}
    assert (
        finder.kind(EncodedQuestion(ids, [CandidateTokens([1, 2], 0)], "q"))
        == "text; past sliding_window 48"
    )


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["used first", "rejected first"])
def test_a_path_rejected_by_one_process_is_not_used_by_another(tmp_path, order):
    """Each process chooses a kind's path with a different question; the model is inexact for the
    second one.
    """
    processes = [
        (CandidateRanker(*forgetful()), PathLedger(tmp_path, "model"), images) for images in (1, 3)
    ]

    def rank(ranker, ledger, images):
        (use, *_) = (score.use for score in ranker.score(question(images=images), ACTIONS, "q"))
        ledger.note(use, "q")

    rank(*processes[order[0]])
    with pytest.raises(PathError, match=r"question q: .* packed"):
        rank(*processes[order[1]])
    assert PathLedger(tmp_path, "model").failed() == ["cached", "packed"]


@pytest.mark.parametrize("path", ["packed", "cached", "full"])
def test_a_path_can_be_forced(path, warned):
    model, processor = forgetful()
    ranker = CandidateRanker(model, processor, path=path)
    scores = [ranker.score(question(images=3, seed=seed), ACTIONS) for seed in range(3)]
    assert [use.path for use in (score[0].use for score in scores)] == [path] * 3
    exact = full_passes(model, processor, question(images=3, seed=2), ACTIONS)
    assert np.allclose([score.nll for score in scores[2]], exact, atol=1e-4) == (path == "full")
    assert len(warned) == (0 if path == "full" else 2)  # the first question and the second
    uses = [score[0].use for score in scores if score[0].use.audit is not None]
    assert all(use.audit > use.tolerance == 1e-4 for use in uses)
    assert len(uses) == len(warned)


def test_a_forced_path_that_fails_on_every_question_is_named_each_time():
    ranker = CandidateRanker(*build_around("minimax"), path="packed")
    for name in ("q1", "q2", "q3"):
        with pytest.raises(RankingError, match=f"question {name}: ranking_path=packed: layers of"):
            ranker.score(question(), ACTIONS, question_id=name)


@pytest.mark.parametrize(
    ("name", "path"), [("llava", "shared"), ("blip2", "packed"), ("llava", "fast")]
)
def test_an_unsupported_path_is_an_error(name, path):
    with pytest.raises(ValueError, match=f"ranking_path={path}: .*auto, "):
        CandidateRanker(*build(name), path=path)


def test_remote_code_with_a_fault_is_found_by_an_audit(tmp_path):
    folder = save_faulty(tmp_path / "checkpoint", "Z")
    model = AutoModelForImageTextToText.from_pretrained(
        folder, trust_remote_code=True, dtype=torch.float32
    ).eval()
    ranker = CandidateRanker(model, build("llava")[1])
    for text in ("Next?", "What now?", "And then?"):
        ranker.score(question(text), ACTIONS)
    with pytest.raises(PathError, match="question 4"):
        ranker.score(question("And in room Z?"), ACTIONS, question_id="4")


@pytest.mark.parametrize(
    ("name", "candidate"),
    [
        *itertools.product(
            ["llava", "qwen2_5_vl", "blip2"], ["<image>", "put <image> there", "a<video>"]
        ),
        ("qwen2_vl", "<|image_pad|> mug"),
    ],
)
def test_a_candidate_with_a_placeholder_is_named(name, candidate):
    ranker = CandidateRanker(*build(name))
    with pytest.raises(
        RankingError, match=r"question q: candidate 1 .*<(image|video|\|image_pad\|)>"
    ):
        ranker.score(question(), ["mug", candidate], question_id="q")


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.nightly)]
)
def test_large_logits_in_half_precision_do_not_fail_audits(dtype):
    """In bfloat16, logits near 20 have steps of 0.125.

    Rounding alone would make equal passes differ.
    """
    model, processor = build("llava")
    sharp = copy.deepcopy(model)
    with torch.no_grad():
        sharp.get_output_embeddings().weight.mul_(4)
    sharp = sharp.to(dtype)
    ranker = CandidateRanker(sharp, processor)
    audits = [ranker.score(question(seed=seed), ACTIONS)[0].use.audit for seed in range(8)]
    assert dtype == torch.bfloat16 or 0 < max(filter(None, audits)) < 1e-2
    assert not sharp.get_output_embeddings()._forward_hooks
    in_float32 = CandidateRanker(copy.deepcopy(sharp).float(), processor).score(question(), ACTIONS)
    scores = ranker.score(question(), ACTIONS)
    np.testing.assert_allclose([s.nll for s in scores], [s.nll for s in in_float32], atol=0.2)
