"""What the harness does without each patch, and with it."""

import importlib
import re
import sys
from functools import partial
from types import SimpleNamespace

import pytest
from lmms_eval import evaluator, utils
from lmms_eval.api.filter import FilterEnsemble
from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts
from lmms_eval.api.model import lmms
from lmms_eval.api.task import ConfigurableTask, Task
from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.tasks import TaskManager
from tenacity import RetryCallState, retry_if_exception_type

from benchmarks.egothink.source import write_source
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.subset import COLUMN, SUBSET
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.generated_reply import GeneratedReply
from lmms_egoplan.harnesses.evaluation import running
from lmms_egoplan.harnesses.lmms_eval import patches
from lmms_egoplan.harnesses.lmms_eval.filters import RequestFilter
from lmms_egoplan.harnesses.lmms_eval.package_tasks import has_package_tasks
from lmms_egoplan.harnesses.lmms_eval.response_cache import ModelCache
from lmms_egoplan.paths import LMMS_EVAL_TASKS

PATCHES = (
    patches.apply_to_command,
    patches.one_index,
    patches.register_tasks,
    patches.announce_judges_early,
    *patches.EVALUATION_PATCHES,
)
JUDGED = "egothink_object_existence"


@pytest.fixture(autouse=True, scope="module")
def patched():
    """Create a `TaskManager`, as every evaluation does."""
    return manager()


def manager():
    return TaskManager(
        "ERROR", include_path=str(LMMS_EVAL_TASKS / "egothink"), include_defaults=False
    )


def original(function):
    """Return the harness's own function."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    assert function.__module__.startswith("lmms_eval.")
    return function


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.__name__)
def test_each_patch_has_its_reason_its_versions_and_its_pull_request(patch):
    text = patch.__doc__
    assert re.search(r"^ +Reason: ", text, re.MULTILINE)
    assert re.search(r"^ +Versions: 0\.7\.3 and newer\.$", text, re.MULTILINE)
    (pull_request,) = re.findall(r"^ +Unnecessary with: (.*)\.$", text, re.MULTILINE)
    folder = LMMS_EVAL_TASKS.parents[1] / pull_request
    assert pull_request == "no pull request is proposed" or (folder / "PR.md").exists()


def test_a_newer_harness_that_cannot_be_patched_is_logged(monkeypatch, warned):
    """It runs other tasks, but not ours: their scores could be wrong."""

    def fail():
        raise AttributeError("FilterEnsemble")

    selecting = manager()
    monkeypatch.setattr(patches, "EVALUATION_PATCHES", (fail,))
    monkeypatch.setattr(patches, "_apply_to_evaluation", patches._apply_to_evaluation.__wrapped__)
    patches._apply_to_evaluation()
    assert "FilterEnsemble" in warned[0]
    assert selecting.match_tasks(["no_such_task"]) == []
    with pytest.raises(LmmsEgoplanError, match=r"fail .*FilterEnsemble"):
        selecting.match_tasks([JUDGED])


def test_the_command_hides_a_failure(monkeypatch):
    command = importlib.import_module("lmms_eval.__main__")
    own = vars(command)["cli_evaluate"]
    monkeypatch.delitem(sys.modules, command.__name__)
    monkeypatch.setattr(sys, "argv", ["lmms-eval", "--model", "hf_vlm", "--tasks", "egoplan_val"])
    monkeypatch.setattr(command, "__class__", type(command))

    def fail(_):
        raise ValueError("no such file")

    monkeypatch.setattr(command, "cli_evaluate_single", fail)
    assert own() is None
    patches.apply_to_command(command, {"hf_vlm"})
    with pytest.raises(SystemExit) as caught:
        command.cli_evaluate()
    assert caught.value.code == 1


def test_the_index_of_tasks_is_built_for_every_evaluation(monkeypatch):
    reads = []
    monkeypatch.setattr(
        TaskManager, "_get_task_and_group", lambda _, folder: reads.append(folder) or {}
    )
    manager()
    manager()
    assert len(reads) == 2
    with patches.one_index():
        manager()
        manager()
    assert len(reads) == 3


def test_the_packages_folder_is_not_indexed(monkeypatch):
    folders = []
    monkeypatch.setattr(
        TaskManager, "_get_task_and_group", lambda _, folder: folders.append(folder) or {}
    )
    TaskManager("ERROR")
    assert str(LMMS_EVAL_TASKS) in folders
    folders.clear()
    monkeypatch.setattr(
        TaskManager, "initialize_tasks", original(TaskManager.initialize_tasks), raising=True
    )
    TaskManager("ERROR")
    assert folders
    assert str(LMMS_EVAL_TASKS) not in folders


def test_selected_tasks_ask_no_judge(monkeypatch):
    asked = []
    monkeypatch.setattr(patches, "announce_judge", lambda *arguments: asked.append(arguments))
    names = [JUDGED]
    assert original(TaskManager.match_tasks)(manager(), names) == names
    assert not asked
    assert manager().match_tasks(names) == names
    assert asked


def test_only_a_limit_selects_questions(monkeypatch):
    docs = [(0, {COLUMN: None}), (1, {COLUMN: {"asked": 1}}), (2, {"another": "task"})]
    monkeypatch.setenv(SUBSET, "1")
    for create in (utils.create_iterator, evaluator.create_iterator):
        assert [*original(create)(docs, 0, 1)] == docs
        assert [*create(docs, 0, 1)] == docs[1:]
        monkeypatch.delenv(SUBSET)
        assert [*create(docs, 0, 1)] == docs
        monkeypatch.setenv(SUBSET, "1")


@pytest.mark.parametrize(
    ("error", "is_repeated"),
    [(LmmsEgoplanError("not prepared"), False), (OSError(), True), (KeyboardInterrupt(), False)],
)
def test_an_error_of_the_data_is_repeated(error, is_repeated):
    """The harness's own rule repeats all of them, except an interruption."""
    retrying = ConfigurableTask.download.retry
    state = RetryCallState(retrying, None, (), {})
    state.set_exception((type(error), error, None))
    assert retry_if_exception_type()(state) is isinstance(error, Exception)
    assert retrying.retry(state) is is_repeated


def answered(text, output_tokens=4):
    """Return a request of a task with an answer."""

    class Small:
        task_name = "small"
        args = None
        config = SimpleNamespace(reasoning_tags=None)
        lmms_eval_specific_kwargs = None

        def doc_to_visual(self, _doc):
            return []

    return Instance(
        request_type="generate_until",
        arguments=("Next?", {"max_new_tokens": 4}, Small().doc_to_visual, 0, "small", "test"),
        idx=0,
        metadata={"task": "small", "doc_id": 0, "repeats": 1},
        resps=[text],
        token_counts=[TokenCounts(output_tokens=output_tokens)],
    )


def test_filters_do_not_know_the_requests():
    request_filter = RequestFilter()
    request_filter.apply = lambda resps, _: request_filter.responses(resps)
    ensemble = FilterEnsemble("none", [request_filter])
    with pytest.raises(RuntimeError, match="does not apply filters"):
        original(FilterEnsemble.apply)(ensemble, [answered("open tap")], None)
    instance = answered("open tap")
    ensemble.apply([instance], None)
    assert instance.filtered_resps["none"].truncated


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A task of this package with a judge."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
    prepare_egothink(write_source(tmp_path / "source"))
    return manager().load_task_or_group([JUDGED])[JUDGED]


def test_requests_to_a_judge_are_not_announced(task, monkeypatch):
    announced = []
    monkeypatch.setattr(patches, "announce_requests", lambda *values: announced.append(values))
    task.args = None
    arguments = {"rank": 0, "world_size": 1, "limit": 2}
    original(Task.build_all_requests)(task, **arguments)
    assert len(task.instances) == 2
    assert not announced
    task.build_all_requests(**arguments)
    assert [(name, count) for name, count, _ in announced] == [(JUDGED, 2)]


class Answering(lmms):
    """A model that looks for the evaluation that it is part of."""

    is_simple = True

    def __init__(self):
        super().__init__()
        self.evaluations = []

    def generate_until(self, requests):
        self.evaluations.append(running())
        return ["yes"] * len(requests)

    def loglikelihood(self, requests):
        raise NotImplementedError

    def generate_until_multi_round(self, requests):
        raise NotImplementedError


@pytest.mark.usefixtures("task")
def test_an_evaluation_has_no_record_and_hides_its_model(monkeypatch):
    model = Answering()
    evaluate = partial(
        evaluator.simple_evaluate, model, tasks=[JUDGED], task_manager=manager(), limit=2
    )
    recorded = evaluate()
    assert recorded["record"]["tasks"][JUDGED]["questions"] == 2
    monkeypatch.setattr(evaluator, "evaluate", original(evaluator.evaluate))
    assert "record" not in evaluate()
    assert [evaluation and evaluation.model for evaluation in model.evaluations] == [model, None]
    assert running() is None


def test_only_evaluations_of_this_package_are_recorded():
    ours = SimpleNamespace(config=SimpleNamespace(metadata={"benchmark": "egoplan"}))
    foreign = SimpleNamespace(config=SimpleNamespace(metadata=[{"version": 1}]))
    assert not has_package_tasks({"mmmu_val": foreign, "group": {"mme": ("group", foreign)}})
    assert has_package_tasks({"mmmu_val": foreign, "group": {"own": ("group", ours)}})
    assert has_package_tasks({"egoplan_val_own": foreign})
    unscored = SimpleNamespace(config=SimpleNamespace(metadata={"count_metric": "num_questions"}))
    assert has_package_tasks({"mine": unscored})


def test_a_reply_forgets_its_end():
    reply = GeneratedReply("<think>hm</think>open tap", True)
    tags = [["<think>", "</think>"]]
    kept = evaluator.strip_reasoning_tags(reply, tags)
    plain = original(evaluator.strip_reasoning_tags)(reply, tags)
    assert kept == plain == "open tap"
    assert kept.truncated
    assert not hasattr(plain, "truncated")


def test_the_cache_does_not_know_the_weights(tmp_path):
    class Backend:
        cache_run = "weights-1"

        def open_cache(self, _folder):
            return "weights 1"

    assert evaluator.ResponseCache is ModelCache
    given = {"model": "hf_vlm", "model_args": "pretrained=x,workers=2"}
    own = ResponseCache.create(str(tmp_path / "own"), **given)
    assert own.model_fingerprint == 'hf_vlm|{"pretrained":"x","workers":2}'
    bound = ModelCache.create(str(tmp_path / "bound"), **given).opened(Backend())
    assert bound.model_fingerprint == 'hf_vlm|{"pretrained":"x","weights":"weights 1"}'
    assert bound._run_id == "weights-1" != own._run_id
    for cache in (own, bound):
        cache.close()
    reply = GenerationResult("open tap", TokenCounts(1, 2))
    assert own._extract_cacheable(reply) == "open tap"
    assert bound._extract_cacheable(reply)[0] == "open tap"
