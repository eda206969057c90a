"""Whole runs of a model whose fast paths are inexact for one question: no number comes of them."""

import pytest

from runs.harness import TWO_PROCESSES, log, metric, run, start
from runs.small_set import prepare_small_set
from zoo import save
from zoo.unusual import save_faulty

pytestmark = pytest.mark.whole


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_small_set(tmp_path, 8)
    return tmp_path


def test_one_process_that_fails_an_audit_ends_the_run_of_all(data):
    """The eighth question, which is the fourth of the second process, is the inexact one."""
    folder = save_faulty(data / "faulty", "7")
    model = f"pretrained={folder},dtype=float32,trust_remote_code=True"
    arguments = ["--tasks", "egoplan_val", "--model", "hf_vlm", "--use_cache", data / "cache", "--model_args", model]
    start(data, *arguments, "--output_path", data / "failed", launcher=TWO_PROCESSES).wait(timeout=600)
    assert "the path packed, exact for earlier questions of this kind (image), is not for this one" in log(data)
    assert "ranking_path=full" in log(data)
    assert not list((data / "failed").rglob("*_results.json"))

    again = run(data, data / "again", *arguments, launcher=TWO_PROCESSES)
    arguments[-1] += ",ranking_path=full"
    forced = run(data, data / "forced", *arguments, launcher=TWO_PROCESSES)
    for sample, expected in zip(again.samples["egoplan_val"], forced.samples["egoplan_val"], strict=True):
        losses = [[choice["loss"] for choice in each["predictions"]["choices"]] for each in (sample, expected)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)
        assert sample["ranking_audits"]["path"] == "full"


def test_results_tell_the_audits(data):
    folder = save("llava", data / "llava")
    arguments = ["--tasks", "egoplan_val", "--model", "hf_vlm", "--model_args", f"pretrained={folder},dtype=float32"]
    results = run(data, data / "out", *arguments).results["egoplan_val"]
    assert metric(results, "ranking_audits") == 4  # the first, second, fourth and eighth question
    assert 0 < metric(results, "ranking_audit_difference") < 1e-5
