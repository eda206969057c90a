"""Names by which runs are told apart."""

import json

import pytest

from benchmarks.egothink.synthetic import egothink_answers
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.runs import read_runs
from report.reading import names_of, one_task
from report.synthetic import write_run


def test_equal_names_get_harness_time_and_folder_as_far_as_needed(tmp_path):
    task = one_task()
    write_run(tmp_path / "1", "lmms-eval", "org/Other", task)
    write_run(tmp_path / "2", "lmms-eval", "org/Model", task)
    write_run(tmp_path / "3", "lm-eval", "/models/Model/", task)
    write_run(tmp_path / "4", "lm-eval", "org/Model", task, time="2026-01-02T12-00-00.5")
    fifth = write_run(tmp_path / "5", "lm-eval", "org/Model", task, time="2026-01-03T12-00-00.5")
    sixth = write_run(tmp_path / "6", "lm-eval", "org/Model", task, time="2026-01-03T12-00-00.7")
    assert names_of([tmp_path]) == [
        "Other",
        "Model (lmms-eval)",
        "Model (lm-eval, 2026-01-01 12:00:00 UTC)",
        "Model (lm-eval, 2026-01-02 12:00:00 UTC)",
        f"Model (lm-eval, 2026-01-03 12:00:00 UTC, {fifth.parent})",
        f"Model (lm-eval, 2026-01-03 12:00:00 UTC, {sixth.parent})",
    ]


def test_a_checkpoint_is_named_with_its_training_run(tmp_path):
    for model in ("out/Model-7B/checkpoint-200", "out/Other/checkpoint-200/", "step_400", "org/Model-step400"):
        write_run(tmp_path, "lm-eval", model, one_task())
    assert {*names_of([tmp_path])} == {"Model-7B/checkpoint-200", "Other/checkpoint-200", "step_400", "Model-step400"}


def test_a_copy_of_a_results_file_has_another_name(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", one_task())
    path.with_name("copy_results.json").write_bytes(path.read_bytes())
    names = names_of([tmp_path])
    assert len(set(names)) == len(names) == 2


def test_a_name_that_is_given_stays_and_others_give_way(tmp_path):
    named = write_run(tmp_path / "a", "lmms-eval", "org/Model", one_task())
    write_run(tmp_path / "b", "lmms-eval", "org/Mine", one_task())
    assert names_of([tmp_path], {tmp_path / "a": "Mine"}) == ["Mine", "Mine (lmms-eval)"]
    assert names_of([tmp_path], {named: "Mine"}) == ["Mine", "Mine (lmms-eval)"]
    assert names_of([tmp_path], {tmp_path / "b" / ".." / "a": "Ours"}) == ["Ours", "Mine"]


def test_of_names_for_nested_folders_the_deepest_counts(tmp_path):
    write_run(tmp_path / "a", "lmms-eval", "one", one_task())
    write_run(tmp_path / "a" / "b", "lmms-eval", "two", one_task())
    assert names_of([tmp_path], {tmp_path: "outer", tmp_path / "a" / "b": "inner"}) == ["inner", "outer"]


def test_one_name_for_several_runs_is_made_distinct(tmp_path):
    write_run(tmp_path, "lmms-eval", "one", one_task())
    write_run(tmp_path, "lm-eval", "two", one_task())
    assert names_of([tmp_path], {tmp_path: "Both"}) == ["Both (lmms-eval)", "Both (lm-eval)"]


def test_a_name_for_a_place_without_a_run_is_an_error(tmp_path):
    write_run(tmp_path / "a", "lmms-eval", "m", one_task())
    with pytest.raises(LmmsEgoplanError, match=r"b: has a name, but no run"):
        read_runs([tmp_path], {tmp_path / "b": "Mine"})


def test_a_run_without_a_model_s_name_is_named_after_its_backend(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", {"egothink_object_existence": egothink_answers("existence", 2, 0.5)})
    content = json.loads(path.read_text()) | {"model_name": ""}
    path.write_text(json.dumps(content))
    assert names_of([tmp_path]) == ["hf_vlm"]
