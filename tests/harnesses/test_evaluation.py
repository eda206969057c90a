"""An evaluation has its own model and counts, and ends with them."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.evaluation import evaluating, running
from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel, loaded_model
from lmms_egoplan.judging.settings import judge_settings
from lmms_egoplan.memory_ahead import PEAK

REQUEST = SimpleNamespace(task_name="task", doc_id=0)


def backend(model_type):
    loaded = LoadedModel("hf_vlm", model_type, takes_video=True, has_system_turn=True)
    return SimpleNamespace(loaded_model=loaded)


def test_tasks_of_all_threads_see_the_evaluated_model():
    """Other models may be loaded before and after it."""
    models = [backend("llava"), backend("qwen2_5_vl")]
    with ThreadPoolExecutor(1) as pool:
        for model in models:
            with evaluating(model):
                assert pool.submit(loaded_model, "hf_vlm").result() is model.loaded_model
                assert loaded_model("vllm_ranker") is None
    with evaluating(object()):  # another project's
        assert loaded_model("hf_vlm") is None
    assert loaded_model("hf_vlm") is None


def interrupted():
    """Be interrupted in an evaluation that knows something."""
    with evaluating(object()):
        record.note(REQUEST, tokens=3)
        PEAK.num_bytes = 5
        assert record.known("task", 0) == {"tokens": 3}
        raise KeyboardInterrupt


def test_counts_and_peak_memory_do_not_outlive_an_evaluation():
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert running() is None
    record.note(REQUEST, tokens=4)
    assert record.known("task", 0) == {}
    with evaluating(object()):
        assert record.known("task", 0) == {}
        assert PEAK.num_bytes == 0


def test_the_limits_of_judges_count_the_requests_of_one_evaluation(monkeypatch):
    """The tasks of an evaluation share them, and the test request before it counts."""
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MAX_REQUESTS", "10")
    for _ in range(2):
        limits = judge_settings("none").usage.limits
        assert limits.requests == 0
        limits.retry()
        with evaluating(object()):
            assert judge_settings("none").usage.limits.requests == 1
