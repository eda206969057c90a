"""Every change of this package to lmms-eval, one function each.

`apply` and `apply_to_command` are called by the plugin. Each patch says why it is needed, for which
versions of the harness, and which pull request makes it unnecessary. ``upstream/`` has the pull
requests. The patches do not affect tasks and backends of other projects, except that a command
with several evaluations indexes the task files once.

The harness's modules are imported inside the functions: the plugin is loaded with every start of
the harness, while they are being imported.
"""

import copy
import functools
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from loguru import logger
from tenacity import retry_if_exception

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import load_judge, load_scorers
from lmms_egoplan.benchmarks.presets import reject_former_variable
from lmms_egoplan.benchmarks.subset import COLUMN, SUBSET, mark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.generated_reply import GeneratedReply
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.harnesses.lmms_eval.package_tasks import has_package_tasks
from lmms_egoplan.judging.judge import announce_requests
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.ranking.audits import failed_audits
from lmms_egoplan.run_events import forward_warnings
from lmms_egoplan.task_files import (
    benchmark_folder,
    is_group,
    judge_name,
    preset_name,
    read_task_file,
    scores_end_token,
)
from lmms_egoplan.text import clean_text

INCLUDE_PATH_HINT = "--include_path $(lmms-egoplan tasks-path)"
TASKS_MODULE = "lmms_eval.tasks"
COMMAND_MODULE = "lmms_eval.__main__"


def apply(tasks: ModuleType, backends: Collection[str]) -> None:
    """Apply all patches, except those of the command.

    Those of `TaskManager` are applied now, and the others when the first one is created: then, the
    harness's modules are complete. Incompatible changes in a newer harness never raise, since other
    tasks and models must continue to work.

    Args:
        tasks: The module ``lmms_eval.tasks``.
        backends: Names of this package's backends.
    """
    register_tasks(tasks)
    announce_judges_early(tasks, backends)
    apply_with_task_manager(tasks)


def apply_with_task_manager(tasks: ModuleType) -> None:
    """Apply the other patches when the first `TaskManager` is created."""
    manager = getattr(tasks, "TaskManager", None)
    if manager is None:
        return
    create = manager.__init__

    @functools.wraps(create)
    def create_after_patches(self: Any, *args: Any, **kwargs: Any) -> None:
        _apply_to_evaluation()
        create(self, *args, **kwargs)

    manager.__init__ = create_after_patches


@functools.cache
def _apply_to_evaluation() -> tuple[str, ...]:
    """Apply `EVALUATION_PATCHES`, and return why those that failed did."""
    problems = []
    for patch in EVALUATION_PATCHES:
        try:
            patch()
        except (AttributeError, ImportError) as error:
            problem = (
                f"this lmms-eval differs from the one that {patch.__name__} was written for "
                f"({error})"
            )
            problems.append(problem)
            logger.warning(f"lmms-egoplan: {problem}; this package's tasks and backends may fail")
    return tuple(problems)


def _refuse_unpatched_harness() -> None:
    """Refuse the package's tasks if a patch failed: their scores could be those of another run.

    Raises:
        LmmsEgoplanError: The message names the patches that failed.
    """
    problems = _apply_to_evaluation()
    if problems:
        raise LmmsEgoplanError(
            f"{'; '.join(problems)}; install the newest lmms-egoplan, or lmms-eval 0.7.3"
        )


def apply_to_command(command: Any, backends: Collection[str]) -> None:
    """Exit with 1 after a failed run of this package's backends.

    Reason: the harness's command prints the error of a run and exits with 0.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.

    Plugins are registered while the module is still executing, so its function cannot be replaced
    yet. A property of the module's class takes precedence over attributes that the module defines
    later.

    Args:
        command: The module ``lmms_eval.__main__``.
        backends: Names of this package's backends.
    """

    class Command(ModuleType):
        """The module of the harness's command."""

        @property
        def cli_evaluate(self) -> Callable[..., None]:
            """The harness's function, which on its own only prints a run's error and returns."""
            return functools.partial(_evaluate, self, vars(self)["cli_evaluate"], backends)

    command.__class__ = Command


def _evaluate(
    command: Any, cli_evaluate: Callable[..., None], backends: Collection[str], *args: Any
) -> None:
    evaluate_one = command.cli_evaluate_single
    models = set()
    has_failed = False
    problems: list[str] = []

    def noting_failures(arguments: Any) -> Any:
        nonlocal has_failed
        forward_warnings()
        models.add(arguments.model)
        if arguments.model not in backends:
            return evaluate_one(arguments)
        try:
            results, samples = evaluate_one(arguments)
        except LmmsEgoplanError as error:
            sys.exit(f"lmms-egoplan: the run failed: {error}")
        except Exception:
            has_failed = True
            raise
        problems.extend(failed_audits((results or {}).get(DETAILS, {})))
        return results, samples

    command.cli_evaluate_single = noting_failures
    with one_index():
        cli_evaluate(*args)
    if not has_failed and models and models <= set(backends):
        from lmms_egoplan import process_group  # loads torch, like the harness

        try:
            process_group.wait_and_leave()
        except LmmsEgoplanError as error:
            problems.append(str(error))
    if problems:
        sys.exit("lmms-egoplan: the run failed: " + " ".join("; ".join(problems).split()))
    if has_failed:
        sys.exit(1)  # the harness has printed the error


@contextmanager
def one_index() -> Iterator[None]:
    """Share the index of tasks among all evaluations of a command.

    Reason: the harness reads thousands of files to build it, in each evaluation.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    manager: Any = getattr(sys.modules.get(TASKS_MODULE), "TaskManager", None)
    read: Any = getattr(manager, "initialize_tasks", None)
    indices: dict[str, Any] = {}

    def initialize_tasks(*args: Any, **kwargs: Any) -> Any:
        key = repr((args[1:], kwargs))
        if key not in indices:
            indices[key] = read(*args, **kwargs)
        return copy.deepcopy(indices[key])

    if read is None:
        yield
        return
    manager.initialize_tasks = initialize_tasks
    try:
        yield
    finally:
        manager.initialize_tasks = read


def register_tasks(tasks: ModuleType) -> None:
    """Make every `TaskManager` index the package's task folder, unless the harness already does.

    Reason: the harness has entry points for models only, so tasks need ``--include_path``.
    Versions: 0.7.3 and newer.
    Unnecessary with: upstream/2-task-entry-points.
    """
    if hasattr(tasks, "plugin_task_folders"):
        return None
    try:
        manager = tasks.TaskManager
        initialize_tasks = manager.initialize_tasks
        parameters = inspect.signature(initialize_tasks).parameters
    except AttributeError as error:
        return warn_that_tasks_are_not_registered(str(error))
    if not {"include_path", "include_defaults"} <= set(parameters):
        return warn_that_tasks_are_not_registered(
            "TaskManager.initialize_tasks has other parameters"
        )

    @functools.wraps(initialize_tasks)
    def with_package_tasks(
        self: Any,
        include_path: str | list[str] | None = None,
        *,
        include_defaults: bool = True,
        **kwargs: Any,
    ) -> Any:
        paths = [include_path] if isinstance(include_path, str) else list(include_path or ())
        package_tasks = str(LMMS_EVAL_TASKS)
        if include_defaults and package_tasks not in paths:
            paths.append(package_tasks)
        return initialize_tasks(
            self, include_path=paths or None, include_defaults=include_defaults, **kwargs
        )

    manager.initialize_tasks = with_package_tasks
    return None


def warn_that_tasks_are_not_registered(reason: str) -> None:
    """Log what to do with a harness to which tasks cannot be added."""
    logger.warning(
        f"lmms-egoplan: this lmms-eval does not let a plugin add tasks ({reason}); run "
        f"with {INCLUDE_PATH_HINT}"
    )


def announce_judges_early(tasks: ModuleType, backends: Collection[str]) -> None:
    """Test judges and other scorers when tasks are selected. Tasks test the remaining ones.

    Reason: the harness loads tasks, and with them their judges, after the model.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.

    Args:
        tasks: The module ``lmms_eval.tasks``.
        backends: Names of this package's backends.
    """
    try:
        manager = tasks.TaskManager
        match_tasks = manager.match_tasks
    except AttributeError:
        return

    @functools.wraps(match_tasks)
    def with_judge_test(self: Any, *args: Any, **kwargs: Any) -> Any:
        matched = match_tasks(self, *args, **kwargs)
        paths = list(_package_files(self, matched))
        if paths:
            reject_former_variable()
            _refuse_unpatched_harness()
        model = getattr(self, "model_name", None)
        published = [path for path in paths if scores_end_token(read_task_file(path))]
        is_command = COMMAND_MODULE in sys.modules
        if model and published and is_command and model not in backends:
            raise LmmsEgoplanError(
                f"{published[0].stem}: {model} does not score the end of an answer; use hf_vlm"
            )
        load_scorers({benchmark_folder(path).name for path in paths})
        _announce_judges(paths)
        return matched

    manager.match_tasks = with_judge_test


def _announce_judges(paths: Iterable[Path]) -> None:
    """Test each judge of some tasks once."""
    names: dict[tuple[str, str], None] = {}
    for path in paths:
        task = read_task_file(path)
        name = judge_name(task)
        if name:
            names[name, preset_name(task)] = None
    for name, preset in names:
        judge = load_judge(name, preset)
        announce_judge(judge.default_model, judge.otherwise, judge.probe_form)


def _package_files(manager: Any, names: Iterable[str]) -> Iterator[Path]:
    """Yield the package's files that define tasks with these names.

    Names of groups and tags mean all their tasks.
    """
    for name in names:
        entry = manager.task_index.get(name, {})
        if entry.get("type") == "tag":
            yield from _package_files(manager, entry["task"])
            continue
        path = Path(entry.get("yaml_path") or "")
        if LMMS_EVAL_TASKS not in path.parents:
            continue
        yield path
        content = read_task_file(path)
        if is_group(content):
            yield from _package_files(manager, content["task"])


def ask_subsets() -> None:
    """Ask only the questions of a compact run.

    Reason: the harness has ``--limit``, which takes the first questions. Documents keep the numbers
    that cached responses have.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval import evaluator, utils
    from lmms_eval.api.task import ConfigurableTask

    download = ConfigurableTask.download
    create = utils.create_iterator

    @functools.wraps(download)  # with its attribute `retry`, see `show_errors_of_data`
    def download_and_mark(self: Any, *args: Any, **kwargs: Any) -> None:
        download(self, *args, **kwargs)
        if not os.environ.get(SUBSET):
            return
        benchmark, split_folder = Path("hub", self.config.dataset_path).parts[-2:]
        for rows in (self.dataset, self.dataset_no_image):
            for split in rows:
                rows[split] = mark(rows[split], benchmark, split_folder)

    @functools.wraps(create)
    def create_iterator(numbered: Iterable[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        if not os.environ.get(SUBSET):
            return create(numbered, *args, **kwargs)
        # lmms-eval passes either numbers of documents or pairs of a number and a document.
        chosen = (
            entry for entry in numbered if isinstance(entry, int) or entry[1].get(COLUMN, True)
        )
        return create(chosen, *args, **kwargs)

    ConfigurableTask.download = download_and_mark
    utils.create_iterator = create_iterator
    evaluator.create_iterator = create_iterator


def show_errors_of_data() -> None:
    """Raise an error of this package's data at once.

    Reason: the harness loads data again after any error, five times, and then hides the error.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval.api.task import ConfigurableTask

    def may_help(error: BaseException) -> bool:
        return isinstance(error, Exception) and not isinstance(error, LmmsEgoplanError)

    ConfigurableTask.download.retry.retry = retry_if_exception(may_help)


def show_requests_to_filters() -> None:
    """Pass the requests to this package's filters before they are applied.

    Reason: a filter gets this process's responses and the whole dataset. With ``--limit``,
    ``--offset`` or several processes, it cannot match them, and it never gets token counts.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval.api.filter import FilterEnsemble

    apply_filters = FilterEnsemble.apply

    @functools.wraps(apply_filters)
    def show_and_apply(self: Any, instances: list[Any], *args: Any, **kwargs: Any) -> None:
        from lmms_egoplan.harnesses import record
        from lmms_egoplan.harnesses.lmms_eval.filters import RequestFilter

        for instance in instances:
            record.note(instance)
        request_filters = [
            filter_ for filter_ in self.filters if isinstance(filter_, RequestFilter)
        ]
        for filter_ in request_filters:
            filter_.requests = instances
        if request_filters:
            # The harness logs replies next to the filters' output; one unwritable reply would lose
            # the whole file.
            for instance in instances:
                instance.resps = [
                    clean_text(resp) if isinstance(resp, str) else resp for resp in instance.resps
                ]
        apply_filters(self, instances, *args, **kwargs)

    FilterEnsemble.apply = show_and_apply


def announce_judge_requests() -> None:
    """Announce the requests to judges before the model is asked.

    Reason: the harness calls nothing of a task between its requests and the model.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval.api.task import Task

    build = Task.build_all_requests

    @functools.wraps(build)
    def build_and_announce(self: Any, *args: Any, **kwargs: Any) -> None:
        from lmms_egoplan.harnesses.lmms_eval.filters import JudgedFilter

        build(self, *args, **kwargs)
        if getattr(self.args, "predict_only", False):
            return
        for ensemble in getattr(self, "_filters", ()):
            for filter_ in ensemble.filters:
                if isinstance(filter_, JudgedFilter):
                    num_requests = filter_.REQUESTS * len(self.instances)
                    announce_requests(self.task_name, num_requests, filter_.DEFAULT_JUDGE)

    Task.build_all_requests = build_and_announce


def keep_generated_replies() -> None:
    """Keep what a reply knows about its end when reasoning is removed from it.

    Reason: the harness makes a plain string of it, and scoring needs to know whether the limit on
    new tokens ended the reply.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval import evaluator

    strip = evaluator.strip_reasoning_tags

    @functools.wraps(strip)
    def strip_and_keep(text: str, tag_pairs: Any) -> str:
        stripped = strip(text, tag_pairs)
        if isinstance(text, GeneratedReply):
            return GeneratedReply(stripped, text.truncated)
        return stripped

    evaluator.strip_reasoning_tags = strip_and_keep


def record_evaluations() -> None:
    """Let tasks find the evaluated model, and add the record to results and samples.

    Reason: the harness passes the model to no function of a task, and logs neither the processor
    nor the tokens and images of a question. Evaluations without this package's tasks are not
    recorded.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval import evaluator

    from lmms_egoplan.harnesses import record

    evaluate = evaluator.evaluate
    evaluate_and_record = record.recorded(evaluate)

    @functools.wraps(evaluate)
    def evaluate_model(lm: Any, task_dict: Any, *args: Any, **kwargs: Any) -> Any:
        if has_package_tasks(task_dict):
            return evaluate_and_record(lm, task_dict, *args, **kwargs)
        with evaluating(lm):
            return evaluate(lm, task_dict, *args, **kwargs)

    evaluator.evaluate = evaluate_model


def bind_response_cache() -> None:
    """Bind ``--use_cache`` to the weights, and store the counts of a question with its responses.

    Reason: the harness's keys contain the name of a checkpoint, not its content. It also stores the
    text of a reply without its token counts, and an unfinished run under a random ID.
    Versions: 0.7.3 and newer.
    Unnecessary with: no pull request is proposed.
    """
    from lmms_eval import evaluator

    from lmms_egoplan.harnesses.lmms_eval.response_cache import ModelCache

    evaluator.ResponseCache = ModelCache


EVALUATION_PATCHES = (
    ask_subsets,
    show_errors_of_data,
    show_requests_to_filters,
    announce_judge_requests,
    keep_generated_replies,
    record_evaluations,
    bind_response_cache,
)
"""The patches that `apply` applies when the first `TaskManager` is created."""
