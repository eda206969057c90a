"""`CandidateRanker` against independent full passes, for every family of the zoo."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlavaForConditionalGeneration

from lmms_egoplan.ranking import CandidateRanker, ContextTooLongError, RankingError
from lmms_egoplan.ranking.decoder import cache_name
from lmms_egoplan.ranking.loglikelihood import END_OF_ANSWER
from ranking.reference import picture, reference_loss
from zoo import FAMILIES, build
from zoo.unusual import build_t5gemma2

RANKED = [name for name in FAMILIES if name != "paligemma"]
CANDIDATES = [
    "put mug",
    "put mug on the counter",  # the candidate above is a prefix of this one
    (
        "open the fridge, take the milk, close the fridge and then pour all of the water "
        "into the kettle again"
    ),
    "éteindre le four 火",
    "wash",
]


def question(kind: str, text: str = "What should I do next in order to make coffee?") -> list[dict]:
    media = {
        "text": [],
        "image": [{"type": "image", "image": picture(7)}],
        "images": [{"type": "image", "image": picture(seed)} for seed in range(3)],
        "video": [{"type": "video", "video": [picture(seed) for seed in range(4)]}],
    }
    return [{"role": "user", "content": [*media[kind], {"type": "text", "text": text}]}]


CASES = [
    (name, kind)
    for name in RANKED
    for kind in ("images", "text", *(["video"] if FAMILIES[name].takes_video else []))
]
# Each path, and each kind of positions, attention and question encoder. All other cases are
# nightly.
FIRST = [
    ("llava", "images"),
    ("llava", "text"),
    ("qwen2_5_vl", "images"),
    ("qwen2_5_vl", "video"),
    ("qwen3_5", "images"),
    ("gemma3", "images"),
    ("mllama", "images"),
    ("blip2", "images"),
    ("blip2", "text"),
    ("instructblip_vicuna", "images"),
    ("instructblip_vicuna", "text"),
]


# transformers 5.24 renames the argument
@pytest.mark.filterwarnings("error:.*past_key_values:FutureWarning")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *FIRST,
        *(pytest.param(*case, marks=pytest.mark.nightly) for case in CASES if case not in FIRST),
    ],
)
def test_scores_equal_independent_full_passes(name, kind):
    ranker = CandidateRanker(*build(name))
    messages = question(kind)
    expected = [reference_loss(name, messages, candidate) for candidate in CANDIDATES]
    first = ranker.score(messages, CANDIDATES)  # full passes decide the path
    fast = ranker.score(messages, CANDIDATES)
    # Mllama's masks fail on a cache with torch 2.6.
    is_slow = name == "mllama" and kind == "images" and torch.__version__.startswith("2.6.")
    assert set(ranker.paths.values()) <= ({"full"} if is_slow else {"packed", "cached", "shared"})
    assert ranker.paths
    for scores in (first, fast):
        assert [score.num_tokens for score in scores] == [tokens for _, tokens in expected]
        np.testing.assert_allclose(
            [score.nll for score in scores], [loss for loss, _ in expected], atol=1e-4
        )


@pytest.mark.whole
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("packed", ["llava", "qwen2_5_vl", "internvl", "gemma3"]),
        ("cached", ["llava", "qwen2_5_vl", "qwen3_5", "mllama"]),
        ("shared", ["blip2", "instructblip"]),
        ("full", ["llava", "qwen2_vl", "instructblip_vicuna", "blip2"]),
    ],
)
def test_each_path_equals_independent_full_passes(path, names, warned):
    """With the path forced, its scores are returned even if they differ from full passes."""
    different = []
    for name, kind in CASES:
        if name not in names:
            continue
        ranker = CandidateRanker(*build(name), path=path)
        for text in ("What should I do next in order to make coffee?", "And then?"):
            messages = question(kind, text)
            expected = [reference_loss(name, messages, candidate) for candidate in CANDIDATES]
            scores = ranker.score(messages, CANDIDATES)
            for candidate, score, (loss, num_tokens) in zip(
                CANDIDATES, scores, expected, strict=True
            ):
                if score.num_tokens != num_tokens or abs(score.nll - loss) > 1e-4:
                    different.append(
                        (name, kind, text, candidate, score.nll, loss, score.num_tokens, num_tokens)
                    )
        assert set(ranker.paths.values()) == {path}
    assert different == []
    assert warned == []


@pytest.mark.parametrize(
    ("name", "is_marked"),
    [
        ("llava", False),
        ("llava", True),
        ("qwen2_5_vl", True),
        ("gemma3", True),
        ("blip2", False),
        ("blip2", True),
        *(
            pytest.param(name, False, marks=pytest.mark.nightly)
            for name in ("qwen2_5_vl", "gemma3")
        ),
    ],
)
def test_score_eos_and_a_mark_add_the_end_of_the_turn(name, is_marked):
    ranker = CandidateRanker(*build(name), score_eos=not is_marked)
    candidates = [candidate + END_OF_ANSWER * is_marked for candidate in CANDIDATES]
    scores = ranker.score(question("image"), candidates)
    scores = ranker.score(question("image"), candidates)
    if name == "gemma3":  # its turns end with <end_of_turn>, which the reference does not support
        plain = CandidateRanker(*build(name)).score(question("image"), CANDIDATES)
        assert [s.num_tokens for s in scores] == [p.num_tokens + 1 for p in plain]
        assert all(s.logprob < p.logprob for s, p in zip(scores, plain, strict=True))
        return
    expected = [
        reference_loss(name, question("image"), candidate, score_eos=True)
        for candidate in CANDIDATES
    ]
    assert [score.num_tokens for score in scores] == [tokens for _, tokens in expected]
    np.testing.assert_allclose(
        [score.nll for score in scores], [loss for loss, _ in expected], atol=1e-4
    )


def test_marks_are_on_all_candidates_or_on_none():
    with pytest.raises(RankingError, match="question q: some candidates"):
        CandidateRanker(*build("llava")).score(
            question("text"), ["take" + END_OF_ANSWER, "put"], "q"
        )
    with pytest.raises(RankingError, match="candidate 0 is empty"):
        CandidateRanker(*build("llava")).score(question("text"), [END_OF_ANSWER], "q")


@pytest.mark.parametrize(
    "name",
    ["llava"]
    + [
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("qwen2_5_vl", "qwen3_vl", "gemma3", "internvl", "blip2")
    ],
)
def test_bfloat16_keeps_the_order(name):
    model, processor = build(name)
    model = copy.deepcopy(model).to(torch.bfloat16)
    ranker = CandidateRanker(model, processor)
    for kind in ("images", "text"):
        # the first question of a kind runs full passes
        slow = ranker.score(question(kind), CANDIDATES)
        fast = ranker.score(question(kind), CANDIDATES)
        best, second = sorted(score.nll for score in slow)[:2]
        if second - best > 1e-2:
            assert np.argmin([s.nll for s in fast]) == np.argmin([s.nll for s in slow])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_both_attention_implementations_are_packed(attention):
    model, processor = build("llava")
    model = copy.deepcopy(model)
    model.set_attn_implementation(attention)
    ranker = CandidateRanker(model, processor)
    ranker.score(question("images"), CANDIDATES)
    assert list(ranker.paths.values()) == ["packed"]


def test_vision_and_context_run_once_per_question():
    model, processor = build("llava")
    ranker = CandidateRanker(model, processor)
    for _ in range(2):  # the first decides the path; the second is audited
        ranker.score(question("images"), CANDIDATES)
    vision_calls, token_counts = [], []
    with (
        model.model.vision_tower.register_forward_hook(lambda *_: vision_calls.append(1)),
        model.model.language_model.register_forward_hook(
            lambda _, args, kwargs, output: token_counts.append(kwargs["inputs_embeds"].shape[:2]),
            with_kwargs=True,
        ),
    ):
        ranker.score(question("images"), CANDIDATES)
    assert len(vision_calls) == 1
    (prefix_rows, prefix), (candidate_rows, candidates) = token_counts
    assert prefix_rows == candidate_rows == 1  # no row, and so no cache, per candidate
    assert prefix > candidates


def test_questions_do_not_influence_each_other():
    """Qwen-VL keeps position offsets on the model; a text question after an image question must not
    see them.
    """
    ranker = CandidateRanker(*build("qwen2_5_vl"))
    alone = {kind: ranker.score(question(kind), CANDIDATES) for kind in ("images", "text", "video")}
    for kind in ("text", "images", "video", "text", "video", "images"):
        again = ranker.score(question(kind), CANDIDATES)
        np.testing.assert_allclose([s.nll for s in again], [s.nll for s in alone[kind]], atol=1e-4)


def test_is_greedy():
    model, processor = build("qwen2_vl")
    messages = question("image")
    inputs = processor.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True
    )
    answer = model.generate(**inputs, max_new_tokens=6, do_sample=False)[
        :, inputs["input_ids"].shape[1] :
    ]
    text = processor.tokenizer.decode(answer[0])
    tokens = processor.tokenizer(text)["input_ids"]
    greedy, other = CandidateRanker(model, processor).score(messages, [text, "wash the mug"])
    assert greedy.is_greedy == (tokens == answer[0].tolist())
    assert not other.is_greedy


@pytest.mark.parametrize(
    "name",
    [
        "instructblip_vicuna",
        "llava",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("blip2_opt", "qwen2_5_vl")),
    ],
)
def test_the_order_of_the_candidates_does_not_matter(name):
    """InstructBLIP's Q-Former reads the context; a candidate must never get there."""
    ranker = CandidateRanker(*build(name))
    scores = ranker.score(question("images"), CANDIDATES)
    backwards = CandidateRanker(*build(name)).score(question("images"), CANDIDATES[::-1])[::-1]
    np.testing.assert_allclose([s.nll for s in backwards], [s.nll for s in scores], atol=1e-4)


def test_a_single_candidate_scores_as_among_others():
    ranker = CandidateRanker(*build("internvl"))
    together = ranker.score(question("images"), CANDIDATES)
    for candidate, expected in zip(CANDIDATES, together, strict=True):
        (alone,) = ranker.score(question("images"), [candidate])
        assert alone.nll == pytest.approx(expected.nll, abs=1e-4)


@settings(max_examples=20)
@given(
    st.lists(
        st.text(
            st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20
        ).filter(lambda text: text == text.strip() and "<" not in text),
        min_size=1,
        max_size=4,
    )
)
def test_any_text_is_split_at_its_first_character(candidates):
    """The prefix and the candidate's tokens together are the tokens of the whole conversation."""
    for name in ("llava", "qwen2_vl", "smolvlm" if "smolvlm" in FAMILIES else "idefics3"):
        model, processor = build(name)
        messages = question("text")
        encoded = CandidateRanker(model, processor).encode(messages, candidates)
        for candidate, tokens in zip(candidates, encoded.candidates, strict=True):
            whole = processor.apply_chat_template(
                [
                    *messages,
                    {"role": "assistant", "content": [{"type": "text", "text": candidate}]},
                ],
                tokenize=True,
                return_dict=True,
                continue_final_message=True,
            )["input_ids"]
            assert encoded.inputs["input_ids"].tolist()[0] + tokens.tokens == whole[0]
            context = processor.tokenizer.decode(whole[0][: encoded.prefix_length + tokens.first])
            assert not context.endswith(candidate) or context.count(candidate) > 1
            assert tokens.scored_tokens


def test_a_context_that_is_too_long_raises_with_both_lengths_and_the_question():
    model, processor = build("llava")
    limit = model.config.text_config.max_position_embeddings
    messages = question("image", "word " * (limit + 10))
    with pytest.raises(
        ContextTooLongError, match=rf"question egoplan_val/17: .* {limit} positions"
    ) as error:
        CandidateRanker(model, processor).score(messages, CANDIDATES, question_id="egoplan_val/17")
    length = len(
        CandidateRanker(model, processor)
        ._encoder.encode(messages, CANDIDATES, "")
        .inputs["input_ids"][0]
    )
    assert str(length) in str(error.value)


@pytest.mark.parametrize(
    ("candidates", "facts"), [([], ""), (["a", ""], "candidate 1"), (["  "], "candidate 0")]
)
def test_bad_candidates(candidates, facts):
    ranker = CandidateRanker(*build("llava"))
    with pytest.raises(RankingError, match=f"question q: .*{facts}"):
        ranker.score(question("text"), candidates, question_id="q")


@pytest.mark.parametrize("kind", ["images", "text"])
def test_answers_of_t5gemma2_begin_where_generate_begins(kind):
    """It names no token to start with, so `generate` starts with <bos>. Its tokenizer adds another
    one.
    """
    model, processor = build_t5gemma2()
    if kind == "images" and processor.image_token != processor.boi_token:
        pytest.skip(
            "in plain text, this version of the processor takes another placeholder than "
            "its image_token"
        )
    ranker, messages = CandidateRanker(model, processor), question(kind)
    inputs = ranker.encode(messages, CANDIDATES).inputs
    written = model.generate(
        **inputs,
        max_new_tokens=1,
        do_sample=False,
        return_dict_in_generate=True,
        output_logits=True,
    )
    first = written.logits[0][0].log_softmax(-1)
    full = CandidateRanker(model, processor, path="full")
    for scores in (ranker.score(messages, CANDIDATES), full.score(messages, CANDIDATES)):
        for candidate, score in zip(CANDIDATES, scores, strict=True):
            labels = processor.tokenizer(candidate, add_special_tokens=False, return_tensors="pt")[
                "input_ids"
            ]
            with torch.no_grad():
                loss = model(**inputs, labels=labels).loss.item()
            assert (score.num_tokens, score.nll) == (
                labels.shape[1],
                pytest.approx(loss, abs=1e-4),
            ), candidate
            assert score.token_logprobs[0] == pytest.approx(first[labels[0, 0]].item(), abs=1e-4), (
                candidate
            )
    assert set(ranker.paths.values()) <= {"shared"}


@pytest.mark.parametrize("kind", ["images", "video"])
def test_token_types_are_requested_from_a_processor_that_returns_none(kind):
    """Without them, Qwen's models raise an error."""
    model, processor = build("qwen2_5_vl")
    silent = copy.copy(processor)
    silent.return_mm_token_type_ids = False
    usual, scores = (
        CandidateRanker(model, made).score(question(kind), CANDIDATES)
        for made in (processor, silent)
    )
    assert scores == usual


class LosingNumbers(LlavaForConditionalGeneration):
    """A model whose passes on a cache overflow."""

    def forward(self, *args, **kwargs):
        output = super().forward(*args, **kwargs)
        if kwargs.get(cache_name(self)) is not None and kwargs["input_ids"].shape[1] < 90:
            output.logits[0, 3:] = float("nan")
        return output


class WithoutCache(LlavaForConditionalGeneration):
    """A model whose cached passes fail, as those of some remote code do."""

    def forward(self, *args, use_cache=None, **kwargs):
        if use_cache:
            raise NotImplementedError("no cache here")
        return super().forward(*args, use_cache=False, **kwargs)


class IgnoringMasks(LlavaForConditionalGeneration):
    """A model that ignores custom masks and loses its cache: its fast passes run, but are wrong."""

    def forward(self, *args, attention_mask=None, **kwargs):
        kwargs.pop(cache_name(self), None)
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(WithoutCache, "no cache here"), (IgnoringMasks, "nats"), (LosingNumbers, "")],
)
def test_a_model_without_an_exact_fast_path_uses_full_passes_and_logs_one_warning(
    broken, reason, warned
):
    model, processor = build("llava")
    copied = broken(model.config).eval()
    copied.load_state_dict(model.state_dict())
    ranker = CandidateRanker(copied, processor)
    for _ in range(3):
        scores = ranker.score(question("images"), CANDIDATES)
    expected = [
        reference_loss("llava", question("images"), candidate)[0] for candidate in CANDIDATES
    ]
    np.testing.assert_allclose([score.nll for score in scores], expected, atol=1e-4)
    (warning,) = warned
    assert broken.__name__ in warning
    assert reason in warning


class Bidirectional(LlavaForConditionalGeneration):
    """A model whose tokens see later tokens."""

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        length = input_ids.shape[1]
        return super().forward(
            input_ids=input_ids, attention_mask=torch.zeros(1, 1, length, length), **kwargs
        )


def test_a_model_that_sees_later_tokens_is_rejected():
    model, processor = build("llava")
    copied = Bidirectional(model.config).eval()
    copied.load_state_dict(model.state_dict())
    ranker = CandidateRanker(copied, processor)
    with pytest.raises(RankingError, match="nats"):
        ranker.score(question("images"), CANDIDATES)


def test_the_q_formers_question_is_not_cut():
    """The model reads as many tokens as the Q-Former, which reads the question alone."""
    model, processor = build("instructblip_vicuna")
    messages = question("image", "What next?")
    encoded = CandidateRanker(model, processor).encode(messages, ["wash"])
    asked = processor.qformer_tokenizer("What next?")["input_ids"]
    assert encoded.inputs["qformer_input_ids"][0].tolist() == asked
    (score,) = CandidateRanker(model, processor).score(messages, ["wash"])
    expected, _ = reference_loss("instructblip_vicuna", messages, "wash")
    assert score.nll == pytest.approx(expected, abs=1e-4)


def test_paligemma_is_rejected():
    """Its processor adds a line break after the text, so the tokens of a continuation cannot be
    identified.
    """
    with pytest.raises(RankingError, match="PaliGemmaProcessor"):
        CandidateRanker(*build("paligemma")).score(question("image"), CANDIDATES)


def test_a_template_that_changes_answers_is_rejected():
    model, processor = build("llava")
    processor = copy.copy(processor)
    processor.chat_template = processor.chat_template.replace(
        "item['text'] + ' '", "(item['text'] | upper) + ' '"
    )
    ranker = CandidateRanker(model, processor)
    with pytest.raises((RankingError, ValueError), match=r"put mug"):
        ranker.score(question("text"), ["put mug"], question_id="q")
