"""A candidate's tokens are those that lm-eval scores."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from lm_eval.models.huggingface import HFLM
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

from lmms_egoplan.harnesses.lm_eval.checkpoint import token_counter
from zoo import prompts, vocabulary

SIZE = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
}
T5_SIZE = {"d_model": 16, "d_kv": 16, "d_ff": 16, "num_layers": 1, "num_heads": 1}
TOKENIZERS = {
    "qwen2": lambda: vocabulary.qwen2([]),
    "llama2": lambda: vocabulary.llama2([]),
    "llama3": lambda: vocabulary.llama3([], eos="<|eot_id|>"),
    "gemma": lambda: vocabulary.gemma([]),
    "t5": vocabulary.t5,
}
CONTEXTS = [
    "What next?",
    "What next? ",
    "Take the mug.  \n",
    "火 ",
    "  open",
    "<s>What next?",
    "<bos> x",
]
CONTINUATIONS = [
    " put mug on the counter",
    "wash",
    " éteindre le four 火",
    "  twice  ",
    " ",
    "\n",
    ".",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """lm-eval's model class on a tiny checkpoint with each tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: load(name, folder / name) for name in TOKENIZERS}


def load(name, folder):
    tokenizer = TOKENIZERS[name]()
    tokenizer.chat_template = prompts.QWEN3_VL
    tokenizer.save_pretrained(folder)
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    if name == "t5":
        size = T5_SIZE | {"decoder_start_token_id": tokenizer.pad_token_id}
        model = T5ForConditionalGeneration(T5Config(vocab_size=len(tokenizer), **size, **special))
    else:
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **SIZE, **special))
    model.save_pretrained(folder)
    return HFLM(str(folder), device="cpu", dtype="float32")


def scored(model, context, continuation):
    return len(model._encode_pair(context, continuation)[1]) or None


def counter(model):
    result = token_counter({"pretrained": model.pretrained})
    assert result is not None
    return result


def has_clean_boundary(model, context, continuation):
    """Return whether no token spans the boundary, and no white space moves across it."""
    tokens, whole = (model.tok_encode(text) for text in (context, context + continuation))
    return context == context.rstrip() and whole[: len(tokens)] == tokens


@pytest.mark.parametrize("name", TOKENIZERS)
def test_counts_are_those_of_lm_eval(models, name):
    model = models[name]
    counted = counter(model)
    compared = 0
    for context in CONTEXTS:
        chat = model.apply_chat_template([{"role": "user", "content": context}])
        for prompt in (context, chat, chat.rstrip()):
            for continuation in CONTINUATIONS:
                if has_clean_boundary(model, prompt, continuation):
                    expected = scored(model, prompt, continuation)
                    assert counted.count(prompt, continuation) == expected, (prompt, continuation)
                    compared += 1
    assert compared > 20


@pytest.mark.parametrize("name", ["qwen2", "llama2", "llama3", "gemma"])
def test_the_final_line_break_of_a_chat_prompt_is_not_counted(models, name):
    model = models[name]
    prompt = model.apply_chat_template([{"role": "user", "content": "What next?"}])
    assert prompt.endswith("\n")
    num_tokens = len(model.tok_encode("\nwash the mug", add_special_tokens=False)) - len(
        model.tok_encode("\n", add_special_tokens=False)
    )
    assert (
        counter(model).count(prompt, "wash the mug")
        == num_tokens
        == scored(model, prompt, "wash the mug") - 1
    )


TEXTS = st.text(st.sampled_from("ab e.\n\t  火éß<>|1{") | st.characters(codec="utf-8"), max_size=12)


@given(st.sampled_from(sorted(TOKENIZERS)), TEXTS.filter(str.strip), TEXTS)
def test_counts_of_any_text_are_those_of_lm_eval(models, name, context, continuation):
    model = models[name]
    assume(has_clean_boundary(model, context, continuation))
    assert counter(model).count(context, continuation) == scored(model, context, continuation)


def test_the_tokenizer_setting_overrides_the_model(models):
    named = token_counter(
        {"pretrained": models["qwen2"].pretrained, "tokenizer": models["t5"].pretrained}
    )
    context, continuation = "What next?", " éteindre le four"
    expected = [scored(models[name], context, continuation) for name in ("t5", "qwen2")]
    assert expected[0] != expected[1]
    assert named.count(context, continuation) == expected[0]


def test_a_folder_with_only_a_tokenizer_is_accepted(tmp_path):
    vocabulary.qwen2([]).save_pretrained(tmp_path)
    assert token_counter({"tokenizer": str(tmp_path)}).count("What next?", " wash the mug") > 1


@pytest.mark.parametrize("metadata", [{}, {"pretrained": object()}, {"tokenizer": ""}])
def test_without_a_tokenizer_nothing_is_counted(metadata, warned):
    assert token_counter(metadata) is None
    assert warned == []


@pytest.mark.parametrize("key", ["tokenizer", "pretrained", "model"])
def test_an_unknown_tokenizer_is_logged(warned, key):
    assert token_counter({key: "/no/such/tokenizer"}) is None
    assert len(warned) == 1
    assert "/no/such/tokenizer" in warned[0]


def test_a_continuation_without_tokens_has_no_count(models):
    assert counter(models["qwen2"]).count("What next?", "") is None
