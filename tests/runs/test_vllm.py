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

GENERATED, LIMIT = "egoplan_val_generate", 16
ENGINE = "dtype=float32,enforce_eager=True,max_model_len=2048,kv_cache_memory_bytes=134217728"


def test_all_choices_are_those_of_transformers(tmp_path, monkeypatch):
    checkpoint = save("llava", tmp_path / "checkpoint")  # no backend sends it videos
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(data))
    prepare_small_set(data, count=9)

    def by_lmms_eval(model, settings):
        arguments = (
            "--tasks",
            f"egoplan_val,{GENERATED}",
            "--model",
            model,
            "--model_args",
            settings,
        )
        samples = run(data, tmp_path / model, *arguments).samples
        return predictions(samples["egoplan_val"]), token_counts(samples[GENERATED])

    def by_lm_eval(model, settings, *tasks, out="lm-eval"):
        folder = tmp_path / model / out
        arguments = (
            "--tasks",
            ",".join(tasks),
            "--model",
            model,
            "--model_args",
            settings,
            "--apply_chat_template",
        )
        process = start(
            data,
            *(
                *arguments,
                "--include_path",
                LM_EVAL_TASKS,
                "--log_samples",
                "--output_path",
                folder,
            ),
            launcher=[sys.executable, "-m", "lmms_egoplan", "lm-eval"],
        )
        assert process.wait() == 0, log(data)
        files = {task: next(folder.rglob(f"samples_{task}_2*.jsonl")) for task in tasks}
        return {
            task: list(map(json.loads, files[task].read_text(encoding="utf-8").splitlines()))
            for task in tasks
        }

    assert by_lmms_eval("vllm_ranker", f"model={checkpoint},{ENGINE}") == by_lmms_eval(
        "hf_vlm", f"pretrained={checkpoint},dtype=float32,device=cpu"
    )
    on_vllm, expected = (
        by_lm_eval(model, f"pretrained={checkpoint},{settings}", "egoplan_val", GENERATED)
        for model, settings in (("vllm-vlm-ranker", ENGINE), ("hf-vlm-ranker", "dtype=float32"))
    )
    assert predictions(on_vllm["egoplan_val"]) == predictions(expected["egoplan_val"])
    assert token_counts(on_vllm[GENERATED]) == token_counts(expected[GENERATED])
    with ChatServer(AutoProcessor.from_pretrained(checkpoint)) as server:
        server.models[0]["id"] = str(checkpoint)
        settings = f"pretrained={checkpoint},base_url={server.url}"
        assert (
            len(by_lm_eval("vllm-vlm-ranker", settings, "egoplan_val", out="served")["egoplan_val"])
            == 9
        )
        # a probe; contexts and candidates; four questions both ways
        assert len(server.bodies) == 1 + 9 * 5 + 4 * 4


def token_counts(samples):
    """Return the tokens of each question's prompt and reply."""
    counts = {sample["doc_id"]: sample["token_counts"] for sample in samples}
    assert all(0 < count["output_tokens"] <= LIMIT for (count,) in counts.values())
    assert any(count["output_tokens"] == LIMIT for (count,) in counts.values())
    return counts


def predictions(samples):
    return {sample["doc_id"]: sample["details"]["predictions"]["prediction"] for sample in samples}
