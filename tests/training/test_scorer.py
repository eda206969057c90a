"""Compare scores and gradients of one pass over several questions with one pass per answer."""

import copy

import numpy as np
import pytest
import torch

from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.decoder import UnsupportedPathError
from lmms_egoplan.training.passes import AnswerPasses, kind
from lmms_egoplan.training.scorer import AnswerScorer
from ranking.reference import picture, reference_loss
from ranking.test_ranking import RANKED, question
from zoo import FAMILIES, build

ANSWER, NEGATIVE = (
    "put mug on the counter",
    "open the fridge, take the milk and then close it again",
)
SEPARATE_ONLY = {"qwen3_5"}
# The shape of their images depends on their number.
SAME_COUNT = ("mllama", "idefics3", "llava_onevision")


def kinds(name):
    return ("images", "text", *(["video"] if FAMILIES[name].takes_video else []))


def messages(kind, count, text):
    """Ask about this many images or videos."""
    images = [{"type": "image", "image": picture(seed)} for seed in range(count)]
    videos = [
        {"type": "video", "video": [picture(seed + frame) for frame in range(4)]}
        for seed in range(count)
    ]
    media = {"text": [], "images": images, "video": videos}[kind]
    return [{"role": "user", "content": [*media, {"type": "text", "text": text}]}]


def questions(name, ranker, kind):
    """Encode three questions of different lengths, whose answers are longer or shorter."""

    counts = (2, 2, 2) if name in SAME_COUNT else (2, 1, 3)
    texts = ("What should I do next in order to make coffee?", "What next?", "What now, please?")
    answers = ([ANSWER, NEGATIVE], [NEGATIVE, ANSWER, "wash"], [ANSWER])
    return [
        ranker.encode(messages(kind, count, text), candidates)
        for count, text, candidates in zip(counts, texts, answers, strict=True)
    ]


def scores_and_gradients(model, scorer, batches):
    """Return the scores of all answers, and the gradients of a loss that weights them all."""
    model.zero_grad()
    scores = [score for batch in batches for choices in scorer(batch) for score in choices]
    weights = [1.0 + index for index in range(len(scores))]
    sum(weight * score for weight, score in zip(weights, scores, strict=True)).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return [score.item() for score in scores], gradients


def assert_equal(actual, expected):
    np.testing.assert_allclose(actual[0], expected[0], atol=1e-5)
    assert actual[1].keys() == expected[1].keys()
    scale = max(gradient.abs().max() for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(
            actual[1][name] / scale, gradient / scale, atol=1e-5, rtol=1e-4, msg=name
        )


@pytest.mark.parametrize("name", RANKED)  # Answers of PaliGemma cannot be scored.
def test_padded_batches_equal_one_pass_per_answer(name):
    model, processor = build(name)
    ranker = CandidateRanker(model, processor)
    if name == "instructblip":  # In float32, rounding alone changes its gradients by 2e-5.
        model = copy.deepcopy(model).double()
    for medium in kinds(name):
        encoded = questions(name, ranker, medium)
        assert len({kind(question) for question in encoded}) == 1
        one_by_one = AnswerScorer(model, way="separate", is_padded=False)
        expected = scores_and_gradients(model, one_by_one, [[one] for one in encoded])
        for way in ("separate",) if name in SEPARATE_ONLY else ("separate", "shared"):
            scorer = AnswerScorer(model, way=way)
            passes = []
            with model.register_forward_pre_hook(lambda *_: passes.append(1)):  # noqa: B023
                actual = scores_and_gradients(model, scorer, [encoded])
            assert_equal(actual, expected)
            if medium != "text":  # Some families compute texts in an inner model.
                assert len(passes) == 1


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "mllama"])
def test_questions_about_different_media_have_different_passes(name):
    """A pass has text alone, images, videos, or for Mllama one number of images."""
    model, processor = build(name)
    ranker = CandidateRanker(model, processor)
    asked = [("text", 0), ("images", 1), ("images", 2), ("text", 0)]
    asked += [("video", 1)] if FAMILIES[name].takes_video else []
    encoded = [
        ranker.encode(messages(medium, count, "What next?"), [ANSWER, NEGATIVE])
        for medium, count in asked
    ]
    expected = scores_and_gradients(model, AnswerScorer(model), [[one] for one in encoded])
    assert_equal(scores_and_gradients(model, AnswerScorer(model), [encoded]), expected)


@pytest.mark.parametrize(
    ("name", "kind"), [(name, "images") for name in ("llava", "qwen2_5_vl", "gemma3", "blip2")]
)
def test_scores_match_the_reference_and_the_ranker(name, kind):
    model, processor = build(name)
    ranker = CandidateRanker(model, processor)
    encoded = ranker.encode(question(kind), [ANSWER, NEGATIVE])
    scores = [s.mean().item() for s in AnswerPasses(model).logprobs([encoded])[0]]
    np.testing.assert_allclose(
        scores, [-reference_loss(name, question(kind), a)[0] for a in (ANSWER, NEGATIVE)], atol=1e-5
    )
    np.testing.assert_allclose(
        scores, [-score.nll for score in ranker.score_encoded(encoded)], atol=1e-5
    )


def test_vision_encoder_runs_once():
    model, processor = build("llava")
    encoded = CandidateRanker(model, processor).encode(question("images"), [ANSWER, NEGATIVE])
    for way, images in (("shared", 6), ("separate", 12)):
        sizes = []
        with model.model.vision_tower.register_forward_pre_hook(
            lambda _, inputs, keywords: sizes.append(len((*inputs, *keywords.values())[0])),  # noqa: B023
            with_kwargs=True,
        ):
            AnswerScorer(model, way=way)([encoded, encoded])
        assert sizes == [images]


def test_recurrent_layers_need_separate_rows():
    model, processor = build("qwen3_5")
    encoded = CandidateRanker(model, processor).encode(question("images"), [ANSWER, NEGATIVE])
    with pytest.raises(UnsupportedPathError):
        AnswerPasses(model).logprobs([encoded])
    scorer = AnswerScorer(model)
    scorer.check(processor, [encoded])
    assert scorer.way == "separate"
    assert scorer.is_padded


def test_a_model_for_which_padding_is_not_exact_gets_one_pass_per_question(caplog):
    """This one adds the number of masked tokens to all logits of the first token."""
    model, processor = build("llava")
    model = copy.deepcopy(model)

    def shift(_, __, keywords, output):
        mask = keywords["attention_mask"]
        output.logits[..., 0] += (mask == 0).sum() if mask.ndim == 2 else 0
        return output

    model.register_forward_hook(shift, with_kwargs=True)
    ranker = CandidateRanker(model, processor)
    encoded = questions("llava", ranker, "images")
    scorer = AnswerScorer(model)
    scorer.check(processor, encoded)
    assert (scorer.way, scorer.is_padded) == ("shared", False)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "separate pass for every question" in warning
    assert "nats" in warning


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "blip2"])
def test_gradient_checkpointing_changes_nothing(name):
    model, processor = build(name)
    encoded = questions(name, CandidateRanker(model, processor), "images")
    scorer = AnswerScorer(model)
    expected = scores_and_gradients(model, scorer, [encoded])
    model.train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        actual = scores_and_gradients(model, scorer, [encoded])
    finally:
        model.gradient_checkpointing_disable()
        model.eval()
    assert_equal(actual, expected)


@pytest.mark.parametrize("answers", [("put", "wash it"), ("wash it", "put"), ("put", "put")])
def test_answers_of_one_token(answers):
    model, processor = build("llava")
    encoded = CandidateRanker(model, processor).encode(question("images"), answers)
    (shared,) = AnswerScorer(model)([encoded])
    (separate,) = AnswerScorer(model, way="separate", is_padded=False)([encoded])
    torch.testing.assert_close(shared, separate, atol=1e-5, rtol=0)
