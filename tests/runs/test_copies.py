"""Evaluate a tiny model on questions that are shown from a public copy."""

from statistics import fmean

import pytest
from tenacity import RetryError

from benchmarks.egoplan.derived_questions import DATA, available
from benchmarks.egoplan.public_copies import (
    COUNT,
    RATES,
    prepare,
    seed_bench_rows,
    source_frames,
    write_official,
    write_seed_bench,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import write_video
from runs.both_harnesses import in_lmms_eval
from zoo import save

pytestmark = pytest.mark.skipif(not available(), reason=f"needs the public annotations in {DATA}")


@pytest.mark.nightly
def test_a_model_is_evaluated_on_a_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_CACHE_RUN_ID", "of-this-test")
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    official = write_official(tmp_path / "official")
    copy = write_seed_bench(tmp_path / "copy", official, seed_bench_rows(official.records[2:]))
    checkpoint, tasks = (
        save("qwen2_5_vl", tmp_path / "qwen"),
        ("egoplan_val", "egoplan_val_generate"),
    )
    assert prepare(official, "seed-bench-r1", copy).exit_code == 0
    run = in_lmms_eval(checkpoint, *tasks, gen_kwargs="max_new_tokens=4")
    for task in tasks:
        results = run.results[task]
        details = run.details[task]
        assert details["media"] == "public copy seed-bench-r1"
        assert results["coverage,none"] == pytest.approx((COUNT - 2) / COUNT)
        assert (details["num_questions"], details["split_size"]) == (COUNT - 2, COUNT)
        assert results["acc,none"] == pytest.approx(
            fmean(sample["acc"]["score"] for sample in run.samples[task])
        )
    record = next(record for record in official.records[2:] if record["task_progress_metadata"])
    path = copy / "videos" / record["video_source"] / f"{record['sample_id']}.mp4"
    write_video(path, source_frames(official, record)[:4], RATES[record["video_source"]])
    assert prepare(official, "seed-bench-r1", copy).exit_code == 0
    with pytest.raises((LmmsEgoplanError, RetryError), match="public copy seed-bench-r1"):
        in_lmms_eval(checkpoint, "egoplan_val_clips")
