"""Only evaluations with tasks of this package get a record."""

from datasets import Dataset
from lm_eval import evaluator
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask

from lmms_egoplan.harnesses.evaluation import running
from lmms_egoplan.harnesses.lm_eval import task

QUESTIONS = [{"question": "Next?", "answer": "yes"}]


class Answering(LM):
    """A model that looks for the evaluation that it is part of."""

    evaluation = None

    def generate_until(self, requests):
        self.evaluation = running()
        return ["yes"] * len(requests)

    def loglikelihood(self, requests):
        raise NotImplementedError

    def loglikelihood_rolling(self, requests):
        raise NotImplementedError


class OneQuestion(task.PreparedTask):
    """A task of this package without prepared data."""

    def download(self, *_):
        ConfigurableTask.download(self)


def evaluated(task_class, model):
    settings = {
        "task": "small",
        "custom_dataset": lambda **_: {"test": Dataset.from_list(QUESTIONS)},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "answer",
        "metric_list": [{"metric": "exact_match"}],
        "metadata": {"version": 1.0},
    }
    return evaluator.evaluate(model, {"tasks": {"small": task_class(config=settings)}})


def test_an_evaluation_of_another_project_is_not_recorded():
    model = Answering()
    assert "record" not in evaluated(ConfigurableTask, model)
    assert model.evaluation is None
    recorded = evaluated(OneQuestion, model)
    assert recorded["record"]["tasks"]["small"]["questions"] == 1
    assert model.evaluation.model is model
    assert running() is None
