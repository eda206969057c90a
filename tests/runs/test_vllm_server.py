"""Run on a ranking server, and resume the run after the server has failed."""

import json

import pytest

from judge_server import Reply
from ranking.engine.chat_server import MODEL, ChatServer
from runs.harness import log, run, start
from runs.small_set import prepare_small_set
from zoo import build, save

pytestmark = pytest.mark.nightly

QUESTIONS = 6


def texts(body):
    """Return the texts of a request, without images, which only a question's first request
    contains.
    """
    content = body["messages"][0]["content"]
    return json.dumps(
        content if isinstance(content, str) else [item.get("text") for item in content]
    )


def test_a_run_resumes_after_the_server_was_lost(tmp_path):
    checkpoint = save("qwen2_5_vl", tmp_path / "checkpoint")
    data = tmp_path / "data"
    data.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(data))
        prepare_small_set(data, QUESTIONS)

    def arguments(server, cache):
        settings = f"base_url={server.url},model={checkpoint},in_flight=1,workers=1"
        return (
            "--tasks",
            "egoplan_val",
            "--model",
            "vllm_ranker",
            "--model_args",
            settings,
            "--use_cache",
            cache,
        )

    asked = []

    def refuse_after_four(body, before):
        asked.append(texts(body))
        # the probe is one of them
        return Reply("no such key", status=401) if len(set(asked)) > 4 else None

    with ChatServer(build("qwen2_5_vl")[1], refuse_after_four) as server:
        server.models[0] |= {"id": str(checkpoint), "root": MODEL}
        process = start(
            data, *arguments(server, tmp_path / "cache"), "--output_path", tmp_path / "none"
        )
        process.wait()
        assert all(
            fact in log(data)
            for fact in ("question egoplan_val/3 (sample_id 103): ", "401: no such key")
        )
        first, server.fault = set(asked), lambda body, before: asked.append(texts(body))
        asked.clear()
        resumed = run(data, tmp_path / "resumed", *arguments(server, tmp_path / "cache"))
        assert len(set(asked)) == 1 + QUESTIONS - 3
        assert len(first & set(asked)) == 2  # the probe, and the question that was refused
        undisturbed = run(data, tmp_path / "undisturbed", *arguments(server, tmp_path / "other"))
    samples = [
        [
            sample["details"]["predictions"]["choices"]
            for sample in sorted(done.samples["egoplan_val"], key=lambda s: s["doc_id"])
        ]
        for done in (resumed, undisturbed)
    ]
    assert len(samples[0]) == QUESTIONS
    assert samples[0] == samples[1]
    known, cached = (
        {sample["doc_id"]: sample["record"] for sample in finished.samples["egoplan_val"]}
        for finished in (undisturbed, resumed)
    )
    assert all(record["images"] == 8 and record["tokens"] > 8 for record in known.values())
    assert cached == known  # stored with the responses
