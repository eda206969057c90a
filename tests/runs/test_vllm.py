"""Compare vLLM with transformers in both harnesses. Requires vLLM or its CPU build."""

import json
import sys

import pytest
from transformers import AutoProcessor

from lmms_egoplan.paths import LM_EVAL_TASKS
from ranking.engine.chat_server import ChatServer
from ranking.engine.checkpoints import save
from runs.harness import log, run, start
from runs.small_set import prepare_small_set

pytest.importorskip("vllm", reason="needs vLLM; .ci/vllm runs this")
pytestmark = pytest.mark.nightly

ENGINE = "dtype=float32,enforce_eager=True,max_model_len=2048,kv_cache_memory_bytes=134217728"


def test_all_choices_are_those_of_transformers(tmp_path, monkeypatch):
    checkpoint = save("llava", tmp_path / "checkpoint")  # no backend sends it videos
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    prepare_small_set(data, count=9)

    def by_lmms_eval(model, settings):
        arguments = ("--tasks", "egoplan_val", "--model", model, "--model_args", settings)
        return predictions(run(data, tmp_path / model, *arguments).samples["egoplan_val"])

    def by_lm_eval(model, settings, out="lm-eval"):
        arguments = ("--tasks", "egoplan_val", "--model", model, "--model_args", settings, "--apply_chat_template")
        process = start(
            data,
            *(*arguments, "--include_path", LM_EVAL_TASKS, "--log_samples", "--output_path", tmp_path / model / out),
            launcher=[sys.executable, "-m", "lmms_egoplan", "lm-eval"],
        )
        assert process.wait() == 0, log(data)
        (file,) = (tmp_path / model / out).rglob("samples_*.jsonl")
        return predictions(map(json.loads, file.read_text(encoding="utf-8").splitlines()))

    assert by_lmms_eval("vllm_ranker", f"model={checkpoint},{ENGINE}") == by_lmms_eval(
        "hf_vlm", f"pretrained={checkpoint},dtype=float32,device=cpu"
    )
    assert by_lm_eval("vllm-vlm-ranker", f"pretrained={checkpoint},{ENGINE}") == by_lm_eval(
        "hf-vlm-ranker", f"pretrained={checkpoint},dtype=float32"
    )
    with ChatServer(AutoProcessor.from_pretrained(checkpoint)) as server:
        server.models[0]["id"] = str(checkpoint)
        assert len(by_lm_eval("vllm-vlm-ranker", f"pretrained={checkpoint},base_url={server.url}", "served")) == 9
        assert len(server.bodies) == 1 + 9 * 5 + 4 * 4  # a probe; contexts and candidates; four questions both ways


def predictions(samples):
    return {sample["doc_id"]: sample["predictions"]["prediction"] for sample in samples}
