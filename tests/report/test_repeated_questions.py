"""Samples in which a task has a question twice."""

from dataclasses import replace

import pytest

from lmms_egoplan.benchmarks.actplan.report import ActPlanReport
from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport
from lmms_egoplan.benchmarks.egoplan.report import EgoPlanReport
from lmms_egoplan.benchmarks.egothink.report import EgoThinkReport
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.runs import read_runs
from report.reading import all_tasks, only
from report.synthetic import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder, "lmms-eval", "org/Model-7B", all_tasks())
    return only(read_runs([folder]))


@pytest.mark.parametrize(
    ("benchmark", "task", "question"),
    [
        (EgoPlanReport, "egoplan_val_generate", lambda sample: f"question {sample['num_questions']['sample_id']}"),
        (EgoThinkReport, "egothink_object_existence", lambda sample: f"question {sample['score']['id']}"),
        (EgoIntentReport, "egointent", lambda sample: "step {step_id} of video {video_id}".format(**sample["overall"])),
        (ActPlanReport, "actplan_text_only", lambda sample: f"instance {sample['lcs_norm']['id']}"),
    ],
)
def test_a_question_that_is_there_twice_is_an_error_that_names_it(run, benchmark, task, question):
    own = run.tasks[task]
    first, second, *others = own.samples
    broken = replace(own, samples=(first, second, *others[1:], second, first))
    with pytest.raises(LmmsEgoplanError) as error:
        benchmark([replace(run, tasks=run.tasks | {task: broken})])
    assert f"run Model-7B, samples of {task}: {question(second)} is there twice" in str(error.value)
    assert benchmark([run]).section() is not None
