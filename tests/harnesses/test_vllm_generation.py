"""Replies of both harnesses' vLLM models, compared with transformers.

Requires vLLM or its CPU build.
"""

import gc
import json

import pytest
from transformers import AutoTokenizer

from harnesses.lm_eval.asking import generation, prompt
from harnesses.lmms_eval.small_requests import generation_requests
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.ranking import ContextTooLongError
from ranking.engine.checkpoints import save
from ranking.reference import picture

pytest.importorskip("vllm", reason="needs vLLM; .ci/vllm runs this")
pytestmark = pytest.mark.nightly

LENGTH = 512
ENGINE = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": LENGTH,
    "kv_cache_memory_bytes": 2**26,
}
LIMITS = [3, 40, 40, 7, 40, 40]
DOCS = [
    {
        "text": f"{'What now? ' * number}Next?",
        "visuals": [picture(3 * number + k, (84, 56)) for k in range(number % 3)],
    }
    for number in range(len(LIMITS))
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Return a checkpoint for which one in 16 tokens ends a text, so that some replies end before
    their limit.
    """
    folder = save("qwen2_5_vl", tmp_path_factory.mktemp("checkpoint"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    file = folder / "generation_config.json"
    ends = [tokenizer.eos_token_id, *range(0, len(tokenizer), 16)]
    settings = json.loads(file.read_text(encoding="utf-8")) | {"eos_token_id": ends}
    file.write_text(json.dumps(settings), encoding="utf-8")
    return str(folder)


def assert_same(texts, expected):
    """Compare texts.

    Those of transformers also have the text of the token that ends them, and parts of letters.
    """
    assert any(texts)
    for text, longer in zip(texts, expected, strict=True):
        assert longer.startswith(text)
        assert len(longer) - len(text) < 10


def test_replies_and_tokens_in_lmms_eval_are_those_of_hf_vlm(checkpoint):
    from lmms_egoplan.harnesses.lmms_eval.vllm_ranker import VLLMRanker

    def answered(model):
        settings = {"until": [], "do_sample": False}
        requests = [
            generation_requests(model, DOCS, max_new_tokens=limit, **settings)[index]
            for index, limit in enumerate(LIMITS)
        ]
        results = model.generate_until(requests)
        counts = [
            (result.token_counts.input_tokens, result.token_counts.output_tokens)
            for result in results
        ]
        return [result.text for result in results], counts

    expected, counts = answered(HFVLM(checkpoint, dtype="float32", device="cpu"))
    assert {output == limit for (_, output), limit in zip(counts, LIMITS, strict=True)} == {
        True,
        False,
    }
    for name in ("max_new_tokens", "max_frame_num"):
        with pytest.raises(LmmsEgoplanError, match=name):
            VLLMRanker(checkpoint, **ENGINE, **{name: 2000})
    model = VLLMRanker(checkpoint, **ENGINE)
    texts, own_counts = answered(model)
    assert_same(texts, expected)
    assert own_counts == counts

    longest = max(range(len(DOCS)), key=lambda index: len(texts[index]))
    free = texts[longest]
    stop = free[len(free) // 2 :][:2]
    (stopped,) = model.generate_until(
        generation_requests(model, [DOCS[longest]], max_new_tokens=40, until=[stop])
    )
    assert stopped.text == free.split(stop)[0]
    assert stopped.token_counts.output_tokens < 40
    again = generation_requests(
        model, [DOCS[longest]], max_new_tokens=40, until=[], do_sample=None, num_beams=1
    )
    assert [result.text for result in model.generate_until(again)] == [free]
    for texts, facts in (
        (["Next? " * 300], f"{LENGTH}"),
        ([f"{k}" * 470 for k in range(8)], f"{LENGTH}.* limit"),
    ):
        docs = [{"text": text, "visuals": []} for text in texts]
        with pytest.raises(ContextTooLongError, match=rf"question small/\d: .*{facts}"):
            list(model.generate_until(generation_requests(model, docs, max_new_tokens=100)))
    del model
    gc.collect()


def test_replies_in_lm_eval_are_those_of_hf_vlm_ranker(checkpoint):
    from lmms_egoplan.harnesses.lm_eval.vllm_ranker import VLLMVLMRanker

    def answered(model):
        requests = [
            generation(
                number,
                prompt(doc["text"], len(doc["visuals"]), model),
                doc["visuals"] or None,
                max_gen_toks=limit,
            )
            for number, (doc, limit) in enumerate(zip(DOCS, LIMITS, strict=True))
        ]
        answers = model.generate_until(requests)
        return answers, [answer.truncated for answer in answers]

    expected, truncated = answered(HFVLMRanker(checkpoint, dtype="float32", device="cpu"))
    assert {*truncated} == {True, False}
    model = VLLMVLMRanker(checkpoint, **ENGINE)
    answers, own_truncated = answered(model)
    assert_same(answers, expected)
    assert own_truncated == truncated
    del model
    gc.collect()
