"""Join the results files of one model, and nothing else."""

import json
import re
from itertools import permutations

import pytest

from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmarks import read_reports
from lmms_egoplan.report.changes import changes_of
from lmms_egoplan.report.identity import identity_of
from lmms_egoplan.report.result_table import result_table
from lmms_egoplan.report.runs import read_run, read_runs, read_scores
from lmms_egoplan.report.sections import build_section
from report.machines import NAMES, QUESTIONS, TWO, write_job, write_machines
from report.prepared import prepare_data
from report.reading import names_of, only
from report.synthetic import write_run

EGOPLAN = {"egoplan_val": egoplan_answers(12, 0.6, 1)}
OTHER_SCORES = {"egoplan_val": egoplan_answers(12, 0.2, 2)}
EGOTHINK = egothink_bench(2, 0.7, 1)


def counts_of(*arguments):
    """Return the number of tasks of each run."""
    return [len(run.tasks) for run in read_scores(*arguments).runs]


def change(path, *keys, value):
    """Set a nested value of a results file."""
    content = json.loads(path.read_text())
    part = content
    for key in keys[:-1]:
        part = part[key]
    part[keys[-1]] = value
    path.write_text(json.dumps(content))


def unrecord(path):
    change(path, "record", value={})
    return path


@pytest.mark.parametrize("read", [read_runs, read_scores])
def test_runs_of_one_model_on_several_machines_are_one_run(tmp_path, read):
    runs = read(write_machines(tmp_path))
    assert [run.name for run in runs.runs] == [*NAMES]
    first, second = runs.runs
    assert first.tasks.keys() == second.tasks.keys() == {"egoplan_val", *EGOTHINK}
    assert first.checkpoint != second.checkpoint
    assert second.parts == ()
    # the newest first; the later of two files with the same EgoThink tasks counts
    assert [len(part.tasks) for part in first.parts] == [len(EGOTHINK), 0, 1]
    assert {folder.relative_to(tmp_path).parts[0] for folder in first.folders} == {
        "desk",
        "cluster",
    }
    assert first.source("egoplan_val").folder.parent == tmp_path / "desk"
    assert first.source("egoplan_val", *EGOTHINK) is first
    assert first.time == first.parts[0].time == "2026-01-03 04:00:00 UTC"
    assert first.provenance["backend"] == "hf_vlm"
    assert first.provenance["folder"].count("; ") == 1
    if read is read_runs:
        assert all(task.samples for task in first.tasks.values())


def test_joined_tasks_form_one_average_and_one_row(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_data(tmp_path / "data", **QUESTIONS)
    reports = read_reports(read_runs(write_machines(tmp_path)).runs, BENCHMARKS)
    table = result_table([build_section(report) for _, report in reports])
    assert [row.model for row in table.rows] == [*NAMES]
    assert all(cell.headline.interval for row in table.rows for cell in row.cells)
    assert [column.section.key for column in table.columns] == ["egoplan", "egothink"]


def test_dimensions_of_egothink_from_several_jobs_are_averaged_with_one_judge(tmp_path):
    tasks = list(EGOTHINK)
    write_job(tmp_path / "1", {task: EGOTHINK[task] for task in tasks[:4]})
    second = write_job(tmp_path / "2", {task: EGOTHINK[task] for task in tasks[4:]})
    assert counts_of([tmp_path]) == [len(tasks)]
    for task in tasks[4:]:
        change(second, "details", task, "judge_model", value="another")
    assert counts_of([tmp_path]) == [4, len(tasks) - 4]
    for task in tasks[4:]:  # answers without ratings do not contradict
        change(second, "results", task, "score,judged", value=float("nan"))
    assert counts_of([tmp_path]) == [len(tasks)]


@pytest.mark.parametrize(
    "different",
    [
        {"weights": TWO},
        {"record": {"adapter": "a" * 64}},
        {"record": {"configuration": "a" * 64}},
        {"record": {"dtype": "torch.float16"}},
        {"record": {"quantisation": {"quant_method": "awq", "bits": 4}}},
        {"record": {"processor": {"chat_template_sha256": "d" * 64}}},
        {"record": {"pixels": {"image": {"max": 602112}}}},
        {"arguments": {"score_eos": "True"}},
        {"arguments": {"argument_of_another_project": "1"}},
        {"arguments": {"system_prompt": "Be brief, please."}},
        {"config": {"gen_kwargs": "temperature=0.7"}},
        {"config": {"system_instruction": "Be brief."}},
        {"config": {"num_fewshot": 2}},
    ],
    ids=str,
)
def test_other_weights_or_settings_are_another_run_even_with_the_same_path(tmp_path, different):
    write_job(tmp_path / "1", EGOPLAN)
    write_job(tmp_path / "2", EGOTHINK, **different)
    assert counts_of([tmp_path]) == [1, len(EGOTHINK)]
    assert len({run.name for run in read_scores([tmp_path]).runs}) == 2
    with pytest.raises(LmmsEgoplanError, match=r"--name A: .*/1/.* and .*/2/.* are not one model"):
        read_scores([], (), {tmp_path / "1": "A", tmp_path / "2": "A"})


@pytest.mark.parametrize(
    "equal",
    [
        {"model": "/elsewhere/snapshots/abc"},
        {"harness": "lm-eval"},
        {"arguments": {"device": "cpu", "workers": "3", "revision": "abc", "dtype": "bfloat16"}},
        {"arguments": {"score_eos": "False", "max_frames_num": "8"}},
        {"config": {"batch_size": "32", "device": "cuda:3", "limit": 100}},
        {"config": {"random_seed": 7, "model": "llava"}},
        {"record": {"class": "LLM", "attention": "eager"}},
    ],
    ids=str,
)
def test_machine_harness_and_speed_do_not_matter(tmp_path, equal):
    write_job(tmp_path / "1", EGOPLAN)
    write_job(tmp_path / "2", EGOTHINK, **equal)
    assert counts_of([tmp_path]) == [1 + len(EGOTHINK)]


def test_runs_without_recorded_weights_join_only_by_name(tmp_path):
    unrecord(write_job(tmp_path / "1", EGOPLAN))
    unrecord(write_job(tmp_path / "2", EGOTHINK))
    known = write_job(tmp_path / "3", {"egoplan_val_blind": EGOPLAN["egoplan_val"]})
    assert counts_of([tmp_path]) == [1, len(EGOTHINK), 1]
    named = {tmp_path / "1": "A", tmp_path / "2": "A"}
    run, other = read_scores([tmp_path], (), named).runs
    assert (run.name, len(run.tasks), run.checkpoint) == ("A", 1 + len(EGOTHINK), "")
    assert other.source("egoplan_val_blind") is other
    assert names_of([], named) == ["A"]  # folders that only have a name are read
    run = only(read_scores([], (), {**named, known: "A"}))
    assert run.checkpoint == read_scores([known]).runs[0].checkpoint != ""


def test_a_run_without_a_name_joins_the_named_one_with_its_weights(tmp_path):
    write_job(tmp_path / "1", EGOPLAN)
    write_job(tmp_path / "2", EGOTHINK)
    assert names_of([tmp_path], {tmp_path / "2": "A"}) == ["A"]
    assert names_of([tmp_path], {tmp_path / "1": "A", tmp_path / "2": "B"}) == ["A", "B"]


def test_one_task_with_two_scores_is_two_rows_with_the_difference(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_data(tmp_path / "data", egoplan=12)
    write_job(tmp_path / "1", EGOPLAN, time="20260101_120000")
    write_job(tmp_path / "2", OTHER_SCORES, time="20260103_120000")
    write_job(tmp_path / "3", EGOTHINK, time="20260102_120000")
    older, newer = read_runs([tmp_path]).runs
    assert older.checkpoint == newer.checkpoint
    assert older.tasks.keys() == {"egoplan_val"}
    assert newer.tasks.keys() == {"egoplan_val", *EGOTHINK}  # with the newer of the two
    ((_, report),) = (
        (part, report)
        for part, report in read_reports((older, newer), BENCHMARKS)
        if part.benchmark == "egoplan"
    )
    table = result_table([build_section(report)])
    assert [row.model for row in table.rows] == [older.name, newer.name]
    (remark,) = (text for text in table.footnotes if "one model with several scores" in text)
    assert older.name in remark
    assert newer.name in remark


def test_one_task_with_the_same_score_is_one_row_of_the_newest_file(tmp_path):
    write_job(tmp_path / "1", EGOPLAN, time="20260103_120000")
    write_job(tmp_path / "2", EGOPLAN, time="20260101_120000")
    run = only(read_runs([tmp_path]))
    assert run.source("egoplan_val").folder.parent == tmp_path / "1"
    assert len(run.tasks["egoplan_val"].samples) == 12


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("versions", "egoplan_val"), 0.5),
        (("configs", "egoplan_val", "metadata", "data"), "d" * 64),
        (("configs", "egoplan_val", "metadata", "preset"), "another"),
        (("configs", "egoplan_val", "generation_kwargs"), {"temperature": 1}),
        (("details", "egoplan_val", "judge_model"), "a judge"),
        (("details", "egoplan_val", "num_questions"), 6),
    ],
    ids=str,
)
def test_equal_scores_under_other_conditions_are_two_rows(tmp_path, keys, value):
    for number in (1, 2):
        path = write_job(tmp_path / str(number), EGOPLAN)
        change(path, "configs", "egoplan_val", "output_type", value="generate_until")
        change(path, "configs", "egoplan_val", "generation_kwargs", value={"do_sample": False})
        change(path, "configs", "egoplan_val", "metadata", "data", value="e" * 64)
    assert counts_of([tmp_path]) == [1]
    change(path, *keys, value=value)
    assert counts_of([tmp_path]) == [1, 1]


def test_a_trial_stays_apart_from_the_run_of_all_questions(tmp_path):
    trial = {"egoplan_val": egoplan_answers(5, 0.6, 1), **egothink_bench(1, 0.5, 3)}
    write_job(tmp_path / "1", EGOPLAN, time="20260101_120000")
    write_job(tmp_path / "2", trial, time="20260103_120000", config={"limit": 5})
    write_job(tmp_path / "3", EGOTHINK, time="20260102_120000")
    assert counts_of([tmp_path]) == [1 + len(EGOTHINK), len(trial)]


def test_hub_names_with_commits_identify_weights(tmp_path):
    for number, tasks in ((1, EGOPLAN), (2, EGOTHINK)):
        path = unrecord(write_job(tmp_path / str(number), tasks, harness="lm-eval"))
        change(path, "config", "model_sha", value="a" * 40)
    assert counts_of([tmp_path]) == [1 + len(EGOTHINK)]
    change(path, "config", "model_sha", value="b" * 40)
    assert counts_of([tmp_path]) == [1, len(EGOTHINK)]
    change(path, "config", "model_sha", value="")
    assert identity_of(json.loads(path.read_text()))["weights"] == "not known"

    # a commit and a digest of files do not contradict
    change(path, "config", "model_sha", value="a" * 40)
    assert counts_of([tmp_path]) == [1 + len(EGOTHINK)]
    known = write_job(tmp_path / "3", {"egoplan_val_blind": EGOPLAN["egoplan_val"]})
    named = {tmp_path / "1": "A", known: "A"}
    assert len(only(read_scores([], (), named)).tasks) == 2


@pytest.mark.parametrize(
    "argument",
    ["peft", "delta", "lora_local_path", "adapter_name_or_path", "subfolder", "gguf_file"],
)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_arguments_with_other_weights_than_the_commits_are_not_known(
    tmp_path, argument, is_recorded
):
    for number, tasks in ((1, EGOPLAN), (2, EGOTHINK)):
        path = write_job(
            tmp_path / str(number),
            tasks,
            harness="lm-eval",
            arguments={argument: "x", "autogptq": "False"},
            record={"adapter": "not known"} if argument == "peft" else None,
        )
        change(path, "config", "model_sha", value="a" * 40)
        if not is_recorded:
            unrecord(path)
    assert counts_of([tmp_path]) == [1, len(EGOTHINK)]
    assert {run.checkpoint for run in read_scores([tmp_path]).runs} == {""}


def test_a_recorded_adapter_counts_whatever_its_folder(tmp_path):
    for number, tasks in ((1, EGOPLAN), (2, EGOTHINK)):
        arguments = {"peft": f"run-{number}/adapter"}
        write_job(tmp_path / str(number), tasks, arguments=arguments, record={"adapter": "a" * 64})
    assert counts_of([tmp_path]) == [1 + len(EGOTHINK)]


@pytest.mark.parametrize("value", ["", [], 0, False, float("nan"), "not known", "x" * 64, None])
@pytest.mark.parametrize("name", ["weights", "adapter", "configuration"])
def test_what_is_no_digest_is_not_known(tmp_path, name, value):
    for number, tasks in ((1, EGOPLAN), (2, EGOTHINK)):
        write_job(tmp_path / str(number), tasks, record={name: value})
    assert counts_of([tmp_path]) == [1, len(EGOTHINK)]
    known = write_job(tmp_path / "3", {"egoplan_val_blind": EGOPLAN["egoplan_val"]})
    assert counts_of([tmp_path]) == [1, len(EGOTHINK), 1]
    assert names_of([], {tmp_path / "1": "A", known: "A"}) == ["A"]  # contradicts nothing


@pytest.mark.parametrize(
    ("later", "models"),
    [
        ({"config": {"gen_kwargs": "seed=1"}}, "the same weights"),
        ({"weights": TWO}, "the same name, but different weights"),
        ({"weights": "not known"}, "the same name; the weights are not recorded"),
        (
            {"weights": TWO, "model": "org/Model-7B/checkpoint-400"},
            "checkpoints of one training run, by their names",
        ),
        ({"weights": TWO, "model": "org/Other"}, None),
    ],
)
def test_a_change_says_whether_the_weights_are_the_same(tmp_path, monkeypatch, later, models):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_data(tmp_path / "data", egoplan=12)
    write_job(tmp_path / "1", EGOPLAN, time="20260101_120000")
    write_job(tmp_path / "2", OTHER_SCORES, time="20260103_120000", **later)
    ((_, report),) = read_reports(read_runs([tmp_path / "1", tmp_path / "2"]).runs, BENCHMARKS)
    assert [change.models for change in changes_of(report)] == ([models] if models else [])


def test_an_identity_contains_no_keys(tmp_path):
    path = write_job(
        tmp_path / "1",
        EGOPLAN,
        arguments={
            "my_secret": "12345",
            "url": "x?key=67890",
            "azure_openai_key": "12345,67890",
            "headers": '{"Authorization": "Bearer 12345 67890"}',
        },
        config={
            "gen_kwargs": 'api_key=12345,extra_headers={"Authorization":"Bearer 67890"},top_k=5',
            "system_instruction": "Be brief. token=12345 sk-abcdefghijkl67890",
        },
    )
    identity = only(read_scores([path])).identity
    assert "my_secret=[hidden]" in identity["model arguments"]
    assert "top_k=5" in identity["decoding"]
    assert identity["system instruction"].startswith("Be brief. token=")
    other = write_job(tmp_path / "2", EGOTHINK, config={"gen_kwargs": "api_key=67890"})
    with pytest.raises(LmmsEgoplanError) as error:
        read_scores([], (), {path: "A", other: "A"})
    assert not re.search("12345|67890", f"{identity} {error.value}")


def test_a_folder_with_several_jobs_of_one_model_is_one_run_to_compare(tmp_path):
    write_job(tmp_path / "1", EGOPLAN)
    write_job(tmp_path / "2", EGOTHINK)
    run, _ = read_run([tmp_path], "A", BENCHMARKS)
    assert len(run.tasks) == 1 + len(EGOTHINK)
    write_run(tmp_path / "3", "lmms-eval", "org/Another", EGOPLAN)
    with pytest.raises(LmmsEgoplanError, match="expected one run"):
        read_run([tmp_path], "A", BENCHMARKS)


def test_dimensions_that_were_asked_otherwise_are_not_averaged(tmp_path):
    tasks = list(EGOTHINK)
    write_job(tmp_path / "1", {task: EGOTHINK[task] for task in tasks[:6]})
    rest = {task: EGOTHINK[task] for task in tasks[6:]}
    path = write_job(tmp_path / "2", rest)
    assert counts_of([tmp_path]) == [12]
    original = path.read_text()
    for entry in ("prompts", "judge_protocol"):
        for task in rest:
            change(path, "details", task, entry, value="another")
        assert counts_of([tmp_path]) == [6, 6], entry
        path.write_text(original)
    change(path, "config", "limit", value=1.0)
    assert counts_of([tmp_path]) == [6, 6]


def test_equal_main_scores_alone_do_not_make_two_runs_equal(tmp_path):
    write_job(tmp_path / "1", EGOPLAN, time="20260101_120000")
    path = write_job(tmp_path / "2", EGOPLAN, time="20260102_120000")
    assert counts_of([tmp_path]) == [1]
    change(path, "results", "egoplan_val", "acc_sum,none", value=0.123)
    assert counts_of([tmp_path]) == [1, 1]


def test_a_scored_trial_does_not_replace_a_whole_run_without_a_score(tmp_path):
    path = write_job(tmp_path / "1", EGOTHINK, time="20260101_120000")
    for task in EGOTHINK:
        change(path, "results", task, "score,judged", value=float("nan"))
    write_job(tmp_path / "2", egothink_bench(1, 0.7, 1), time="20260102_120000")
    assert counts_of([tmp_path]) == [12, 12]


def test_the_copy_with_samples_is_kept(tmp_path):
    write_job(tmp_path / "1", EGOPLAN, time="20260101_120000")
    newer = write_job(tmp_path / "2", EGOPLAN, time="20260102_120000")
    for log in newer.parent.glob("*_samples_*"):
        log.unlink()
    for folders in (["1", "2"], ["2", "1"]):
        (run,) = read_runs([tmp_path / name for name in folders]).runs
        assert run.tasks["egoplan_val"].samples


def test_a_prompt_of_all_jobs_is_one_condition(tmp_path):
    tasks = list(EGOTHINK)
    prompt = {"system_prompt": "Be brief, please."}
    for folder, of_job, device in (("1", tasks[:6], "cuda:0"), ("2", tasks[6:], "cuda:1")):
        answers = {task: EGOTHINK[task] for task in of_job}
        write_job(tmp_path / folder, answers, arguments={**prompt, "device": device})
    write_job(tmp_path / "3", EGOTHINK, weights=TWO, model="org/Other", arguments=prompt)
    ((_, report),) = read_reports(read_runs([tmp_path]).runs, BENCHMARKS)
    first, second = report.headlines[:2]
    assert first.run != second.run
    assert first.protocol == second.protocol
    assert first.rank is not None
    assert not any(pair.why for pair in report.differences)


def test_scripted_replies_of_a_part_make_the_whole_a_demo(tmp_path):
    tasks = list(EGOTHINK)
    path = write_job(tmp_path / "1", {task: EGOTHINK[task] for task in tasks[:6]})
    change(path, "config", "model", value="scripted")
    write_job(tmp_path / "2", {task: EGOTHINK[task] for task in tasks[6:]})
    named = {tmp_path / "1": "A", tmp_path / "2": "A"}
    ((_, report),) = read_reports(read_runs([], named).runs, BENCHMARKS)
    assert report.headlines[0].is_demo


@pytest.mark.parametrize("order", [*permutations("ABZ")], ids="".join)
def test_a_score_without_a_judge_is_in_no_column_of_two_judges(tmp_path, order):
    answers = {
        "A": egointent_answers(20, 80, seed=1, judge="gpt-4o"),
        "B": egointent_answers(20, 60, seed=2, judge="llama-70b"),
        "Z": egointent_answers(20, 50, missing=1.0),
    }
    for number, name in enumerate(order):
        of_task = {"egointent": answers[name]}
        write_job(tmp_path / str(number), of_task, weights=name.encode().hex() * 32, model=name)
    runs = read_runs([tmp_path]).runs
    ((_, report),) = read_reports(runs, BENCHMARKS)
    protocols = {line.run: line.protocol for line in report.headlines}
    assert len(set(protocols.values())) == 3
    assert "gpt-4o" in protocols["A"]
    assert "llama-70b" in protocols["B"]
    assert "judge gpt-4o" not in protocols["Z"] + protocols["B"]
    # with one judge, it is in that judge's column
    ((_, report),) = read_reports([run for run in runs if run.name != "B"], BENCHMARKS)
    assert len({line.protocol for line in report.headlines}) == 1


def test_a_folder_of_several_models_gets_no_single_name(tmp_path):
    for number, (model, answers) in enumerate((("org/One", EGOPLAN), ("org/Two", EGOTHINK))):
        unrecord(write_job(tmp_path / "runs" / str(number), answers, model=model))
    with pytest.raises(LmmsEgoplanError, match=r"--name A: .*runs has runs of One and Two"):
        read_scores([], (), {tmp_path / "runs": "A"})
    assert counts_of([], (), {tmp_path / "runs" / name: "A" for name in "01"}) == [13]
