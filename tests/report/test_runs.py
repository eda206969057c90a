"""Read runs of both harnesses: used and skipped files, and names of runs."""

import inspect
import json
import math
from pathlib import Path

import pytest

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_answers, egothink_bench
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.recompute import check
from lmms_egoplan.report.runs import read_runs, read_scores
from lmms_egoplan.report.samples import find_sample_files, sample_file, start_time
from lmms_egoplan.task_files import package_versions
from patience import processor_time_below
from report.reading import HARNESSES, all_tasks, names_of, one_task, only
from report.synthetic import write_run

HEAVY = {"arguments", "input", "resps", "token_counts", "doc_hash", "prompt_hash", "target_hash"}


def sample_files(results):
    return sorted(results.parent.glob("*samples*.jsonl"))


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_run_of_all_tasks_is_read_completely(tmp_path, harness):
    tasks = all_tasks()
    path = write_run(tmp_path, harness, "org/Model-7B", tasks)
    runs = read_runs([tmp_path])
    run = only(runs)
    assert (run.name, run.model, run.harness) == ("Model-7B", "org/Model-7B", harness)
    time = {"lmms-eval": "2026-01-01 04:00:00 UTC", "lm-eval": "2026-01-01 12:00:00 UTC"}[harness]
    assert (run.folder, run.time, runs.skipped) == (path.parent, time, ())
    assert run.tasks.keys() == tasks.keys()

    content = json.loads(path.read_text())
    for name, task in run.tasks.items():
        assert (task.task, task.config) == (name, content["configs"][name])
        rows = {
            key.split(",")[0]: value
            for key, value in content["results"][name].items()
            if "," in key and "stderr" not in key
        }
        assert json.dumps(task.metrics) == json.dumps(content["details"][name] | rows)
        (log,) = (
            file
            for file in sample_files(path)
            if f"samples_{name}" in file.stem and is_of(file, name)
        )
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert len(task.samples) == len(lines) == len(tasks[name].docs)
        for sample, line in zip(task.samples, lines, strict=True):
            assert not HEAVY & sample.keys()
            assert sample.keys() >= line.keys() - HEAVY - {"filter", "metrics"}
            sent = {"prompt", "asked", "tokens"} & sample.keys()
            assert all(sample[key] == line[key] for key in sample.keys() - sent)
            is_lmms_eval = harness == "lmms-eval"
            assert sample["prompt"] == (
                line["input"] if is_lmms_eval else line["arguments"]["gen_args_0"]["arg_0"]
            )
            assert sample.get("asked") == (line["input"] if is_lmms_eval else None)
            count = len(line["filtered_resps"]) if isinstance(line["filtered_resps"], list) else 1
            assert sample.get("tokens") == ((90 * count, 30 * count) if is_lmms_eval else None)
            assert ("doc" in sample) is (harness == "lm-eval")


def is_of(path, task):
    return path.name.endswith(f"_samples_{task}.jsonl") or path.name.startswith(
        f"samples_{task}_2026"
    )


def test_groups_of_tasks_are_not_tasks(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", egothink_bench(2, 0.5))
    assert "egothink_bench" in json.loads(path.read_text())["results"]
    assert only(read_runs([tmp_path])).tasks.keys() == EGOTHINK_TASKS.keys()


def test_runs_are_found_at_any_depth_and_only_once(tmp_path):
    first = write_run(tmp_path / "a" / "b", "lmms-eval", "org/one", one_task())
    second = write_run(tmp_path / "c", "lm-eval", "org/two", one_task(1))
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "c")
    assert names_of([tmp_path]) == ["one", "two"]
    assert names_of([second, tmp_path, first.parent, link, tmp_path / "c" / ".." / "c"]) == [
        "two",
        "one",
    ]
    assert names_of([first]) == ["one"]


def test_a_results_file_has_only_its_own_samples(tmp_path):
    first = write_run(tmp_path, "lmms-eval", "m", one_task(), time="20260101_120000")
    write_run(tmp_path, "lmms-eval", "m", one_task(1), time="20260102_120000")
    runs = read_runs([first])
    assert len(only(runs).tasks["egoplan_val"].samples) == 10
    assert runs.skipped == ()
    both = read_runs([tmp_path]).runs
    assert both[0].tasks["egoplan_val"].samples != both[1].tasks["egoplan_val"].samples


def test_results_are_recognised_by_content_not_by_name(tmp_path):
    """With --output_path runs/mine.json, lm-eval writes such names."""
    path = write_run(tmp_path, "lm-eval", "m", one_task())
    path.rename(path.with_name(path.name.replace("results_", "mine_")))
    run = only(read_runs([tmp_path]))
    assert len(run.tasks["egoplan_val"].samples) == 10
    assert run.time == "2026-01-01 12:00:00 UTC"


def test_the_harness_is_recognised_by_the_results(tmp_path):
    for harness in HARNESSES:
        write_run(tmp_path, harness, harness, one_task()).rename(tmp_path / f"{harness}.json")
    assert [(run.name, run.harness, run.time) for run in read_runs([tmp_path]).runs] == [
        ("lm-eval", "lm-eval", "2026-01-01 12:00:00 UTC"),
        ("lmms-eval", "lmms-eval", "2026-01-01 04:00:00 UTC"),
    ]


@pytest.mark.parametrize("harness", HARNESSES)
def test_results_of_a_killed_run_are_named_and_its_samples_too(tmp_path, harness):
    whole = write_run(tmp_path / "whole", harness, "whole", one_task())
    killed = write_run(tmp_path / "killed", harness, "killed", one_task())
    killed.write_bytes(killed.read_bytes()[:2000])
    runs = read_runs([tmp_path])
    assert only(runs).folder == whole.parent
    no_json, no_results = runs.skipped
    assert no_json.startswith(f"{killed}: invalid JSON")
    assert no_results.startswith(f"{killed}: ")
    assert "samples of egoplan_val" in no_results


def test_samples_without_results_are_reported_once_per_run(tmp_path):
    write_run(tmp_path, "lm-eval", "whole", one_task())
    lost = write_run(
        tmp_path / "lost",
        "lmms-eval",
        "lost",
        {**one_task(), "egointent": egointent_answers(4, 50)},
    )
    lost.unlink()
    (line,) = read_runs([tmp_path]).skipped
    assert line.startswith(f"{lost}: ")
    assert "egointent, egoplan_val" in line


@pytest.mark.parametrize("harness", HARNESSES)
def test_results_without_samples_have_scores_and_a_remark(tmp_path, harness):
    path = write_run(tmp_path, harness, "m", all_tasks(), log_samples=False)
    runs = read_runs([tmp_path])
    assert all(task.samples is None and task.metrics for task in only(runs).tasks.values())
    (line,) = runs.skipped
    assert line.startswith(f"{path}: no samples of egoplan_val, egoplan_val_blind,")
    assert "--log_samples" in line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"doc_id": 3, "acc": {"sco', "invalid JSON"),
        (b"\xff\xfe\xfd", "invalid JSON"),
        (b'["acc"]', "expected an object, found ['acc']"),
        (b'{"details": {"num_questions": 1}, "acc": 1.0}', "acc: expected an object, found 1.0"),
        (
            b'{"acc": {"score": 1.0, "cluster": "v"}}',
            "details: expected an object, found nothing",
        ),
        (b"[" * 100_000, "invalid JSON"),
    ],
    ids=["cut", "bytes", "list", "number", "foreign", "deep"],
)
def test_a_sample_file_with_a_damaged_line_is_skipped(tmp_path, line, expected):
    path = write_run(
        tmp_path, "lmms-eval", "m", {**one_task(), "egointent": egointent_answers(4, 50)}
    )
    damaged = next(file for file in sample_files(path) if "egoplan" in file.name)
    lines = damaged.read_bytes().splitlines()
    lines[6] = line
    damaged.write_bytes(b"\n".join(lines))
    runs = read_runs([tmp_path])
    tasks = only(runs).tasks
    assert tasks["egoplan_val"].samples is None
    assert tasks["egoplan_val"].metrics["num_questions"] == 10
    assert len(tasks["egointent"].samples) == 4
    (message,) = runs.skipped
    assert message.startswith(f"{damaged}, line 7: {expected}")


def test_an_empty_sample_file_is_skipped(tmp_path):
    (log,) = sample_files(write_run(tmp_path, "lm-eval", "m", one_task()))
    log.write_bytes(b"")
    runs = read_runs([tmp_path])
    assert only(runs).tasks["egoplan_val"].samples is None
    (message,) = runs.skipped
    assert message.startswith(f"{log}: ")


def test_blank_lines_and_line_separators_in_texts_are_valid(tmp_path):
    (log,) = sample_files(
        write_run(tmp_path, "lmms-eval", "m", {"egoplan_val_generate": egoplan_replies(10, 0.5)})
    )
    text = log.read_text()
    assert text.count("should I take") == 10
    log.write_text(text.replace("should I take", "should\u2028I\x85take").replace("\n", "\n\n"))
    runs = read_runs([tmp_path])
    assert len(only(runs).tasks["egoplan_val_generate"].samples) == 10
    assert runs.skipped == ()


def test_lm_eval_on_several_processes_omits_metrics_that_a_question_lacks(tmp_path):
    """In such runs, lm-eval logs None for them. A metric that no question has is NaN."""
    path = write_run(tmp_path, "lm-eval", "m", {"egointent": egointent_answers(10, 50)})
    (log,) = sample_files(path)
    absent = dict.fromkeys(("indoor", "outdoor", "acc_sum"))
    lines = [absent | json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    content = json.loads(path.read_text())
    content["results"]["egointent"]["category,none"] = math.nan
    path.write_text(json.dumps(content))
    runs = read_runs([tmp_path])
    assert runs.skipped == ()
    run = only(runs)
    samples = run.tasks["egointent"].samples
    assert len(samples) == 10
    assert all(
        ("indoor" in sample) is not ("outdoor" in sample) and "category" not in sample
        for sample in samples
    )
    check(run, run.tasks["egointent"])


def foreign(path, task):
    """Add another project's task to a run's results."""
    content = json.loads(path.read_text())
    content["results"][task] = {"alias": task, "score,none": 0.5, "acc,none": 0.5}
    content["configs"][task] = {"task": task}
    path.write_text(json.dumps(content))


def test_tasks_of_other_projects_are_skipped_by_name(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", one_task())
    foreign(path, "egothink_object_existence")
    (tmp_path / "m" / "20260101_120000_samples_egothink_object_existence.jsonl").write_text(
        "not even JSON"
    )
    runs = read_runs([tmp_path])
    assert only(runs).tasks.keys() == {"egoplan_val"}
    (line,) = runs.skipped
    assert line.startswith(f"{path}: ")
    assert line.endswith(": egothink_object_existence")


@pytest.mark.parametrize("harness", HARNESSES)
def test_tasks_of_an_earlier_version_are_skipped_with_both_versions(tmp_path, harness):
    """They have counts and texts in the table of results, and no details."""
    tasks = {"egoplan_val": egoplan_answers(5, 0.5), "egoplan_val_16": egoplan_answers(5, 0.5)}
    write_run(tmp_path / "current", harness, "current", {"actplan": actplan_answers(3, 0.5)})
    path = write_run(tmp_path / "earlier", harness, "m", tasks)
    content = json.loads(path.read_text())
    for task in tasks:
        details = content["details"].pop(task)
        content["results"][task] |= {f"{name},none": value for name, value in details.items()}
        content["versions"][task] = content["configs"][task]["metadata"]["version"] = 0.5
    path.write_text(json.dumps(content))
    package_version = package_versions()["egoplan_val"]
    runs = read_runs([tmp_path])
    assert only(runs).name == "current"
    (line,) = runs.skipped
    assert line.startswith(f"{path}: ")
    for fact in (*tasks, "version 0.5;", package_version):
        assert fact in line
    with pytest.raises(LmmsEgoplanError) as error:
        read_runs([path])
    assert line in str(error.value)
    assert line in read_scores([path]).skipped


def test_variants_of_tasks_with_other_names_are_read(tmp_path):
    path = write_run(tmp_path, "lm-eval", "m", {"egoplan_val_16_frames": egoplan_answers(5, 0.5)})
    assert only(read_runs([path])).tasks["egoplan_val_16_frames"].samples


def test_a_variant_with_an_unknown_name_needs_metadata(tmp_path):
    path = write_run(
        tmp_path, "lm-eval", "m", {**one_task(), "egoplan_val_generate": egoplan_replies(5, 0.5)}
    )
    text = path.read_text().replace("egoplan_val_generate", "mine")
    path.write_text(text)
    assert only(read_runs([path])).tasks.keys() == {"egoplan_val", "mine"}
    content = json.loads(text)
    del content["configs"]["mine"]["metadata"]["benchmark"]
    path.write_text(json.dumps(content))
    runs = read_runs([path])
    assert only(runs).tasks.keys() == {"egoplan_val"}
    assert any("to show mine, add `benchmark: NAME`" in line for line in runs.skipped)


def test_samples_of_a_task_without_results_are_reported(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", {**one_task(), "actplan": actplan_answers(3, 0.5)})
    content = json.loads(path.read_text())
    del content["results"]["actplan"], content["configs"]["actplan"]
    path.write_text(json.dumps(content))
    (line,) = read_runs([tmp_path]).skipped
    assert line.startswith(f"{path}: ")
    assert "actplan" in line


def test_the_first_ten_other_json_files_are_listed(tmp_path):
    write_run(tmp_path, "lmms-eval", "m", one_task())
    texts = ["{}", "[1]", "null", '{"results": {}}', '{"results": [], "configs": {}}', *["1"] * 8]
    for number, text in enumerate(texts):
        (tmp_path / f"other_{number:02}.json").write_text(text)
    skipped = read_runs([tmp_path]).skipped
    assert skipped[0].startswith(f"{tmp_path / 'other_00.json'}: ")
    assert len(skipped) == 11
    assert skipped[10].startswith(f"{tmp_path}: 3 more ")
    assert read_runs([tmp_path, tmp_path]).skipped == skipped


def test_the_first_ten_files_of_a_judge_are_listed(tmp_path):
    results = write_run(tmp_path, "lmms-eval", "m", one_task())
    for number in range(12):
        (results.parent / f"judged_{number:02}.jsonl").write_text("{}")
    skipped = read_runs([tmp_path]).skipped
    assert skipped[0].startswith(f"{results.parent / 'judged_00.jsonl'}: ")
    assert len(skipped) == 11
    assert skipped[10].startswith(f"{tmp_path}: 2 more ")
    assert read_runs([results]).skipped == ()


def test_a_folder_without_a_run_is_named(tmp_path):
    write_run(tmp_path / "full", "lmms-eval", "m", one_task())
    (tmp_path / "empty").mkdir()
    runs = read_runs([tmp_path / "full", tmp_path / "empty"])
    (message,) = runs.skipped
    assert message.startswith(f"{tmp_path / 'empty'}: ")


def test_no_run_is_an_error_that_lists_the_files(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", one_task())
    path.write_text("{")
    with pytest.raises(
        LmmsEgoplanError,
        match=r"no run of the project's tasks; [\s\S]*--log_samples[\s\S]*: .*JSON:",
    ):
        read_runs([tmp_path])


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(LmmsEgoplanError, match=r"gone: .*pass the folder"):
        read_runs([tmp_path / "gone"])


@pytest.mark.nightly
def test_four_runs_of_the_complete_validation_split_are_read(tmp_path):
    answers = {"egoplan_val": egoplan_answers(3355, 0.4)}
    for number, harness in enumerate(HARNESSES * 2):
        write_run(tmp_path / str(number), harness, f"model-{number}", answers)
    with processor_time_below(30):  # usually 2
        runs = read_runs([tmp_path]).runs
    assert [len(run.tasks["egoplan_val"].samples) for run in runs] == [3355] * 4


def test_only_the_harness_caches_are_ignored_silently(tmp_path):
    """Files of ``--use_cache runs/cache`` that remain after a run of lmms-eval 0.7.3, and after a
    killed run.
    """
    write_run(tmp_path, "lmms-eval", "m", one_task())
    run_cache = tmp_path / "cache" / "runs" / "20260101T040000Z_1"
    run_cache.mkdir(parents=True)
    for path in (
        tmp_path / "cache" / "cache",
        run_cache / "rank_0",
        run_cache / "rank_11",
        run_cache / "cache",
    ):
        path.with_name(f"{path.name}.db").write_bytes(b"SQLite format 3\0")
        path.with_name(f"{path.name}.audit.jsonl").write_text(
            '{"cache_key": "k", "response": "a"}\n'
        )
    assert read_runs([tmp_path]).skipped == ()
    foreign = ("my.audit.jsonl", "rank_x.audit.jsonl", "cache.jsonl", "cache.audit.jsonl.json")
    for name in foreign:
        (tmp_path / "cache" / name).write_text("{}")
    skipped = read_runs([tmp_path]).skipped
    assert sorted(line.partition(":")[0] for line in skipped) == sorted(
        str(tmp_path / "cache" / x) for x in foreign
    )


def test_scores_are_read_without_samples_and_with_other_tasks(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "org/m", one_task(), log_samples=False)
    content = json.loads(path.read_text())
    content["results"]["mme"] = {
        "alias": "mme",
        "mme_score,none": 12.5,
        "mme_score_stderr,none": "N/A",
    }
    content["configs"]["mme"] = {"task": "mme"}
    path.write_text(json.dumps(content))
    runs = read_scores([tmp_path])
    run = only(runs)
    assert runs.skipped == runs.without == ()
    assert run.tasks.keys() == {"egoplan_val"}
    assert run.tasks["egoplan_val"].samples is None
    assert {name: task.metrics for name, task in run.other_tasks.items()} == {
        "mme": {"mme_score": 12.5}
    }


def test_paths_without_a_run_are_reported(tmp_path):
    good = write_run(tmp_path / "good", "lmms-eval", "org/m", one_task())
    killed = write_run(tmp_path / "killed", "lmms-eval", "org/m", one_task())
    killed.write_bytes(killed.read_bytes()[:100])
    (tmp_path / "empty").mkdir()
    runs = read_scores([tmp_path / "empty", good, killed])
    assert runs.without == (tmp_path / "empty", killed)
    assert any(line.startswith(f"{killed}: invalid JSON") for line in runs.skipped)
    with pytest.raises(LmmsEgoplanError, match="no results of a run"):
        read_scores([tmp_path / "empty", killed])


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
    for model in (
        "out/Model-7B/checkpoint-200",
        "out/Other/checkpoint-200/",
        "step_400",
        "org/Model-step400",
    ):
        write_run(tmp_path, "lm-eval", model, one_task())
    assert {*names_of([tmp_path])} == {
        "Model-7B/checkpoint-200",
        "Other/checkpoint-200",
        "step_400",
        "Model-step400",
    }


def test_a_copy_of_a_results_file_has_another_name(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", one_task())
    path.with_name("copy_results.json").write_bytes(path.read_bytes())
    names = names_of([tmp_path])
    assert len(set(names)) == len(names) == 2


def test_a_chosen_name_has_priority(tmp_path):
    named = write_run(tmp_path / "a", "lmms-eval", "org/Model", one_task())
    write_run(tmp_path / "b", "lmms-eval", "org/Mine", one_task())
    assert names_of([tmp_path], {tmp_path / "a": "Mine"}) == ["Mine", "Mine (lmms-eval)"]
    assert names_of([tmp_path], {named: "Mine"}) == ["Mine", "Mine (lmms-eval)"]
    assert names_of([tmp_path], {tmp_path / "b" / ".." / "a": "Ours"}) == ["Ours", "Mine"]


def test_the_name_of_the_deepest_folder_counts(tmp_path):
    write_run(tmp_path / "a", "lmms-eval", "one", one_task())
    write_run(tmp_path / "a" / "b", "lmms-eval", "two", one_task())
    assert names_of([tmp_path], {tmp_path: "outer", tmp_path / "a" / "b": "inner"}) == [
        "inner",
        "outer",
    ]


def test_one_name_for_runs_with_different_scores_is_made_unique(tmp_path):
    write_run(tmp_path, "lmms-eval", "one", one_task())
    write_run(tmp_path, "lm-eval", "one", {"egoplan_val": egoplan_answers(10, 0.9, 1)})
    assert names_of([tmp_path], {tmp_path: "Both"}) == ["Both (lmms-eval)", "Both (lm-eval)"]


def test_a_name_for_a_path_without_a_run_is_an_error(tmp_path):
    write_run(tmp_path / "a", "lmms-eval", "m", one_task())
    (tmp_path / "b").mkdir()
    with pytest.raises(LmmsEgoplanError, match=r"--name: no run in .*b$"):
        read_runs([tmp_path], {tmp_path / "b": "Mine"})


def test_a_run_without_a_model_s_name_is_named_after_its_backend(tmp_path):
    path = write_run(
        tmp_path,
        "lmms-eval",
        "m",
        {"egothink_object_existence": egothink_answers("existence", 2, 0.5)},
    )
    content = json.loads(path.read_text()) | {"model_name": ""}
    path.write_text(json.dumps(content))
    assert names_of([tmp_path]) == ["hf_vlm"]


LM_TIME, LMMS_TIME = "2026-11-21T09-36-43.624982", "20261121_093643"


@pytest.mark.parametrize(
    "task", ["egothink_object_existence", "egointent", "egoplan_val_clips", "a_samples_b"]
)
def test_names_of_both_harnesses(task):
    lm = sample_file(Path("runs/m") / f"samples_{task}_{LM_TIME}.jsonl")
    assert (lm.task, lm.time, lm.results) == (
        task,
        LM_TIME,
        Path("runs/m") / f"results_{LM_TIME}.json",
    )
    lmms = sample_file(Path("runs/m") / f"{LMMS_TIME}_samples_{task}.jsonl")
    assert (lmms.task, lmms.time, lmms.results) == (
        task,
        LMMS_TIME,
        Path("runs/m") / f"{LMMS_TIME}_results.json",
    )


def test_results_under_another_name(tmp_path):
    results = tmp_path / f"mine_{LM_TIME}.json"
    results.touch()
    assert sample_file(tmp_path / f"samples_egointent_{LM_TIME}.jsonl").results == results


@pytest.mark.parametrize(
    "name", ["samples.jsonl", f"results_{LM_TIME}.json", "samples_egointent.jsonl", "x.json"]
)
def test_other_file_names_are_not_parsed(name):
    assert sample_file(Path(name)) is None


def test_sample_files_are_found_by_the_prefix_of_the_task(tmp_path):
    (tmp_path / "model").mkdir()
    for name in (
        f"samples_egointent_{LM_TIME}.jsonl",
        f"{LMMS_TIME}_samples_egointent_16.jsonl",
        f"{LMMS_TIME}_samples_egoplan_val.jsonl",
        f"{LMMS_TIME}_samples_not_samples_egointent.jsonl",
    ):
        (tmp_path / "model" / name).touch()
    assert [file.task for file in find_sample_files(tmp_path, "egointent")] == [
        "egointent_16",
        "egointent",
    ]


@pytest.mark.parametrize(
    ("name", "results", "expected"),
    [
        (f"{LMMS_TIME}_results.json", {}, "2026-11-21 01:36:43 UTC"),
        (f"{LMMS_TIME}_results.json", {"date": "20261121_093700"}, "2026-11-21 01:37:00 UTC"),
        ("mine.json", {"date": LMMS_TIME}, "2026-11-21 01:36:43 UTC"),
        (f"results_{LM_TIME}.json", {"date": 1795253754.8}, "2026-11-21 09:35:54 UTC"),
        (f"results_{LM_TIME}.json", {"date": True}, "2026-11-21 09:36:43 (time zone unknown)"),
        (f"results_{LM_TIME}.json", {"date": 1e300}, "2026-11-21 09:36:43 (time zone unknown)"),
        (
            f"results_{LM_TIME}.json",
            {"date": float("nan")},
            "2026-11-21 09:36:43 (time zone unknown)",
        ),
        ("mine.json", {}, "mine"),
        ("00010101_000000_results.json", {}, "00010101_000000"),
    ],
)
def test_the_start_of_a_run_is_in_utc(name, results, expected):
    assert start_time(Path("runs") / name, results) == expected


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("Asia/Singapore", "2026-11-21 01:36:43 UTC"),
        ("America/New_York", "2026-11-21 14:36:43 UTC"),
        ("UTC", "2026-11-21 09:36:43 UTC"),
        (None, "2026-11-21 01:36:43 UTC"),
        ("Nowhere/Else", "2026-11-21 09:36:43 (time zone unknown)"),
        ("../etc/passwd", "2026-11-21 09:36:43 (time zone unknown)"),
        ("", "2026-11-21 09:36:43 (time zone unknown)"),
    ],
)
def test_lmms_evals_times_are_in_its_time_zone(zone, expected):
    results = {"config": {"resolved_cli_args": {"timezone": zone}}}
    assert start_time(Path(f"{LMMS_TIME}_results.json"), results) == expected


def test_the_assumed_default_time_zone_is_lmms_evals():
    from lmms_eval import utils

    assert (
        inspect.signature(utils.get_datetime_str).parameters["timezone"].default == "Asia/Singapore"
    )
