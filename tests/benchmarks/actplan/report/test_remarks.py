"""What the report says of ActPlan-1K's runs, and which runs it refuses."""

from dataclasses import replace

import pytest

from benchmarks.actplan.report.synthetic_runs import COUNT, GOOD, MUTE, PART, WEAK
from benchmarks.actplan.synthetic import actplan_answers
from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.runs import read_runs
from report.answers import Answers
from report.synthetic import write_run


def test_remarks_tell_what_scores_are_over(section):
    other = "scores over other instances do not compare with the published ones."
    same = f"{GOOD}, {GOOD} (actplan_text_only), {MUTE}, {WEAK}"
    assert f"{same}: its data have {COUNT} instances, the paper 1,187; {other}" in section.remarks
    assert f"{PART}: its data have 38 instances, the paper 825; {other}" in section.remarks
    assert any(GOOD in text and "in 1.7% of the answers no step was found." in text for text in section.remarks)


def test_a_run_of_some_instances_says_so(tmp_path):
    answers = actplan_answers(40, 0.5)
    write_run(tmp_path, "lmms-eval", "some", {"actplan": Answers(answers.docs[:10], answers.responses[:10])})
    found = ActPlanReport(read_runs([tmp_path]).runs).section()
    assert "some: 10 plans, 25.0% of the instances of the data that were prepared for it." in found.remarks
    assert "some: its data have 40 instances, the paper 1,187; scores over other instances" in " ".join(found.remarks)


def test_instances_that_are_not_prepared_are_told(section):
    doc = actplan_answers(COUNT, 0.5).docs[7]
    told = f"Not in the prepared data: 1 of the instances, {doc['id']} for one; the gallery lacks their images."
    assert told in section.remarks


def test_encoders_and_classifiers_that_differ_are_told(runs):
    (good,) = (run for run in runs if run.name == GOOD)
    task = good.tasks["actplan"]
    other = replace(task, metrics=task.metrics | {"encoder": "/models/bge", "bleurt_model": "/models/other"})
    remarks = ActPlanReport([good, replace(good, name="other", tasks={"actplan": other})]).section().remarks
    assert any("/models/bge; unless that is a copy of all-MiniLM-L6-v2" in text for text in remarks)
    assert any(text.startswith("Different sentence encoders") and "other: /models/bge" in text for text in remarks)
    assert any(text.startswith("Different classifiers") and "other: /models/other" in text for text in remarks)


def encoded(runs, *encoders):
    """The remarks on as many runs, alike but for the encoder."""
    (weak,) = (run for run in runs if run.name == WEAK)
    task = weak.tasks["actplan"]
    tasks = [replace(task, metrics=task.metrics | {"encoder": encoder}) for encoder in encoders]
    return (
        ActPlanReport([replace(weak, name=str(n), tasks={"actplan": task}) for n, task in enumerate(tasks)])
        .section()
        .remarks
    )


def test_an_encoder_is_the_same_however_its_path_is_written(runs):
    remarks = encoded(runs, "/models/bge", "bge", "models/bge/")
    assert not any(text.startswith("Different sentence encoders") for text in remarks)
    (told,) = (text for text in remarks if text.startswith("Steps were compared by"))
    assert told.startswith("Steps were compared by /models/bge; unless that is a copy")


def test_encoders_of_one_folder_differ_by_their_names(runs):
    remarks = encoded(runs, "/models/bge", "/models/gte")
    assert "Different sentence encoders, whose LCS do not compare: 0: /models/bge; 1: /models/gte." in remarks
    assert any(text.startswith("Steps were compared by /models/bge, /models/gte;") for text in remarks)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"official": "walk_to(table)"}, "official"),
        ({"setting": "strange"}, "strange"),
        ({"gold_plan_1": None}, "gold plans must be lists of steps"),
    ],
)
def test_a_sample_of_another_form_is_an_error_that_names_the_run(runs, change, told):
    (run,) = (run for run in runs if run.name == WEAK)
    task = run.tasks["actplan"]
    first, *others = task.samples
    broken = replace(task, samples=(first | {"lcs_norm": first["lcs_norm"] | change}, *others))
    with pytest.raises(LmmsEgoplanError, match=rf"run {WEAK}, samples of actplan: .*{told}"):
        ActPlanReport([replace(run, tasks={"actplan": broken})]).section()
