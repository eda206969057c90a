"""The written answers of the model class that ranks behind images."""

import dill
import numpy as np
import pytest
from lm_eval.api.model import CacheHook, CachingLM
from lm_eval.models.hf_vlms import HFMultimodalLM

from harnesses.lm_eval.asking import (
    ARGUMENTS,
    CANDIDATES,
    FAMILIES,
    LONG,
    TEXTS,
    generation,
    lazy,
    pictures,
    prompt,
    ranking,
)
from lmms_egoplan.harnesses.lm_eval import ranker
from lmms_egoplan.ranking import ContextTooLongError


@pytest.mark.parametrize("name", FAMILIES)
def test_generation_is_that_of_the_parent_class(checkpoint, chat, name):
    parent = HFMultimodalLM(checkpoint[name], **ARGUMENTS)
    answers = []
    for model in (parent, chat[name]):
        requests = [
            generation(number, prompt(text, 1, model), lazy(number, 1), max_gen_toks=8)
            for number, text in enumerate(TEXTS)
        ]
        answers.append(model.generate_until(requests))
    assert answers[0] == answers[1]
    assert len(set(answers[0])) > 1


def test_generation_with_and_without_images_keeps_the_order(chat):
    model = chat["qwen2_5_vl"]
    requests = [
        generation(
            number, prompt(TEXTS[number % 3], count, model), lazy(number, count) if count else None, max_gen_toks=8
        )
        for number, count in enumerate([0, 1, 0, 2, 1, 0])
    ]
    alone = [answer for request in requests for answer in model.generate_until([request])]
    assert model.generate_until(requests) == alone
    assert len(set(alone)) > 3


def test_answers_that_have_come_are_stored_before_a_run_ends(chat, tmp_path, monkeypatch):
    model = chat["llava"]
    monkeypatch.setattr(ranker, "BATCHES_STORED", 1)
    context = prompt(TEXTS[0], 1, model)
    requests = [generation(number, context, lazy(number, 1), max_gen_toks=8) for number in range(4)]
    too_long = generation(4, prompt(LONG, 1, model), lazy(4, 1), max_gen_toks=8)
    expected = model.generate_until(requests)
    stored = CachingLM(model, str(tmp_path / "answers.db"))
    with pytest.raises(ContextTooLongError):
        stored.generate_until([*requests, too_long])
    monkeypatch.setattr(HFMultimodalLM, "generate_until", None)
    try:
        assert stored.generate_until(requests) == expected
    finally:
        stored.dbdict.close()
        model.set_cache_hook(CacheHook(None))


@pytest.mark.parametrize("count", [0, 1])
def test_prompts_that_do_not_fit_are_an_error_in_generation(chat, count):
    model = chat["llava"]
    request = generation(0, prompt(LONG, count, model), lazy(0, count) if count else None, max_gen_toks=8)
    with pytest.raises(ContextTooLongError, match=r"\d+ tokens.* 2040 .*word word"):
        model.generate_until([request])


def test_a_prompt_that_just_fits_is_not_refused(chat):
    model = chat["qwen2_5_vl"]
    context, images = prompt("Next?", 1, model), [pictures(0, 1)]
    length = model.tok_batch_multimodal_encode([context], images)["input_ids"].shape[1]
    assert model.tok_batch_multimodal_encode([context], images, left_truncate_len=length)
    with pytest.raises(ContextTooLongError, match=rf"\b{length} tokens.*\b{length - 1}\b"):
        model.tok_batch_multimodal_encode([context], images, left_truncate_len=length - 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_prompts_from_the_request_cache_are_answered_as_others(chat, plain, name):
    """Also by a model that has rendered none itself."""
    context = prompt("Next?", 2, chat[name])
    ranked, written = ranking(0, context, CANDIDATES, lazy(0, 2)), generation(1, context, lazy(0, 2), max_gen_toks=8)
    cached = dill.loads(dill.dumps([*ranked, written]))
    assert not plain[name].chat_applied
    expected = chat[name].loglikelihood(ranked)
    answers = plain[name].loglikelihood(cached[:-1])
    np.testing.assert_allclose([total for total, _ in answers], [total for total, _ in expected], atol=1e-4)
    assert plain[name].generate_until(cached[-1:]) == chat[name].generate_until([written])
