"""Compare vLLM with transformers on tiny float32 checkpoints, if vLLM (or its CPU build) is
installed.
"""

import gc

import psutil
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from lmms_egoplan.ranking import CandidateRanker, ContextTooLongError
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import EngineError, ranking_arguments
from lmms_egoplan.ranking.methods import FORCED, PROMPT_LOGPROBS
from ranking.engine.checkpoints import save
from ranking.reference import picture, user_turn

vllm = pytest.importorskip("vllm", reason="needs vLLM; .ci/vllm runs this")
pytestmark = pytest.mark.nightly

# Keys and values of two layers, two heads of 64, in float32.
_BYTES_A_TOKEN = 2 * 2 * 2 * 64 * 4
CANDIDATES = ["put mug", "put mug on the counter", "open the fridge, take the milk", "wash"]


def start(folder, cache, **arguments):
    return vllm.LLM(
        str(folder),
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        kv_cache_memory_bytes=cache,
        limit_mm_per_prompt={"image": 8},
        **ranking_arguments(arguments),
    )


@pytest.fixture(scope="module", params=["llava", "qwen2_5_vl", "qwen3_vl"])
def engine(request, tmp_path_factory):
    from lmms_egoplan.ranking.engine.local import LocalEngine

    folder = save(request.param, tmp_path_factory.mktemp(request.param))
    llm = start(folder, cache=2**26)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    yield LocalEngine(llm), model, AutoProcessor.from_pretrained(folder)
    del llm
    gc.collect()


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_images_have_the_tokens_of_the_limits(family, tmp_path):
    from lmms_egoplan.harnesses.pixels import set_engine_budget

    folder = save(family, tmp_path / family)
    processor = AutoProcessor.from_pretrained(folder)
    token = (2 * processor.image_processor.patch_size) ** 2
    limits = {"min_pixels": 2 * token, "max_pixels": 6 * token}
    _, arguments = set_engine_budget("vllm_ranker", processor, limits, {})
    llm = start(folder, 2**26, **arguments)
    text = processor.apply_chat_template(
        user_turn("Next?", [None]), tokenize=False, add_generation_prompt=True
    )
    for shape in ((280, 168), (30, 20), (84, 56)):
        image = picture(1, shape)
        prompt = {"prompt": text, "multi_modal_data": {"image": [image]}}
        (output,) = llm.generate([prompt], vllm.SamplingParams(max_tokens=1))
        expected = processor(text=text, images=[image], return_tensors="pt")["input_ids"][
            0
        ].tolist()
        assert output.prompt_token_ids == expected
        assert 2 <= expected.count(processor.image_token_id) <= 6


def question(number, kind):
    frames = [picture(9 * number + seed, (84, 56)) for seed in range(2 + 2 * (number % 2))]
    messages = user_turn(
        "What should I do next? " * (1 + number % 3), frames if kind == "image" else []
    )
    return messages, CANDIDATES, f"{kind} {number}"


@pytest.mark.parametrize("method", ["auto", FORCED, PROMPT_LOGPROBS])
@pytest.mark.parametrize("kind", ["text", "image"])
def test_scores_are_those_of_transformers(engine, method, kind):
    llm, model, processor = engine
    questions = [question(number, kind) for number in range(5)]
    reference = CandidateRanker(model, processor, path="full")
    ranker = EngineRanker(llm, processor, method=method)
    rows = list(ranker.scores(ranker.encode(*arguments) for arguments in questions))
    assert ranker.methods == {kind: PROMPT_LOGPROBS if method == PROMPT_LOGPROBS else FORCED}
    for row, arguments in zip(rows, questions, strict=True):
        expected = reference.score(*arguments)
        assert [score.num_tokens for score in row] == [score.num_tokens for score in expected]
        assert [score.nll for score in row] == pytest.approx(
            [score.nll for score in expected], abs=1e-4
        )
        assert [score.is_greedy for score in row] == [score.is_greedy for score in expected]


def test_a_context_that_does_not_fit_is_named(engine):
    llm, _, processor = engine
    ranker = EngineRanker(llm, processor)
    fits = ranker.encode(*question(0, "text"))
    scores = ranker.scores(
        [fits, ranker.encode(user_turn("What next? " * 300), CANDIDATES, "small/7")]
    )
    next(scores)
    with pytest.raises(ContextTooLongError, match=r"question small/7: .*\d+ tokens"):
        next(scores)
    (row,) = ranker.scores([fits])  # the engine continues
    assert len(row) == len(CANDIDATES)


def test_a_full_cache_changes_no_score_and_a_dead_engine_raises(tmp_path):
    from lmms_egoplan.ranking.engine.local import LocalEngine

    folder = save("qwen2_5_vl", tmp_path)
    # hardly more than the longest question
    engine = LocalEngine(start(folder, cache=_BYTES_A_TOKEN * 640))
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    reference = CandidateRanker(model, processor, path="full")
    questions = [question(number, "image") for number in range(24)]
    ranker = EngineRanker(engine, processor, method=FORCED, in_flight=24)
    rows = list(ranker.scores(ranker.encode(*arguments) for arguments in questions))
    for row, arguments in zip(rows, questions, strict=True):
        assert [score.nll for score in row] == pytest.approx(
            [s.nll for s in reference.score(*arguments)], abs=1e-4
        )

    scores = ranker.scores(ranker.encode(*arguments) for arguments in questions)
    received = [next(scores)]
    for process in psutil.Process().children(recursive=True):
        if "EngineCore" in process.name() or "EngineCore" in " ".join(process.cmdline()):
            process.kill()
    with pytest.raises(EngineError, match="--use_cache"):
        received.extend(scores)
    assert [row[0].nll for row in received] == [row[0].nll for row in rows[: len(received)]]
