"""Register this package's models and tasks with lmms-eval.

Only this module changes the harness's registries.

lmms-eval calls `register` through the entry-point group ``lmms_eval.models`` at startup. A harness
with the group ``lmms_eval.tasks`` finds the tasks there (`task_folder`). Otherwise, they are added
to its `TaskManager`.
"""

import copy
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from loguru import logger

from lmms_egoplan.benchmarks.base import BENCHMARKS, load_scorers
from lmms_egoplan.benchmarks.subset import COLUMN, SUBSET, mark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from lmms_egoplan.ranking.audits import failed_audits

INCLUDE_PATH_HINT = "--include_path $(lmms-egoplan tasks-path)"
_TASKS_MODULE = "lmms_eval.tasks"
_COMMAND_MODULE = "lmms_eval.__main__"
_PACKAGE_BACKENDS: set[str] = set()


def register() -> Iterable[Any]:
    """Register the tasks, and return the manifests of the models.

    They include ``llava`` if upstream's cannot run.

    ``lmms_eval.tasks`` loads torch, so it is not imported here: the tasks are added when the
    harness imports it. Incompatible changes in a newer harness never raise, since other tasks and
    models must continue to work.
    """
    tasks = sys.modules.get(_TASKS_MODULE)
    if tasks:
        _change_task_manager(tasks)
    elif importlib.util.find_spec(_TASKS_MODULE) is None:
        _warn_that_tasks_are_not_registered(f"it has no {_TASKS_MODULE}")
    elif not any(isinstance(finder, _TasksFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TasksFinder())
    from lmms_eval.models.registry_v2 import ModelManifest

    classes = {"hf_vlm": "HFVLM", "scripted": "Scripted", "vllm_ranker": "VLLMRanker"}
    llava = importlib.util.find_spec("llava")
    # LLaVA-NeXT, which lmms-eval's own backend needs, is not installed
    if llava is None or llava.origin is None:
        classes["llava"] = "Llava"
    folder = "lmms_egoplan.harnesses.lmms_eval"
    manifests = [
        ModelManifest(name, simple_class_path=f"{folder}.{name}.{kind}")
        for name, kind in classes.items()
    ]
    command = sys.modules.get(_COMMAND_MODULE)
    if command:
        _PACKAGE_BACKENDS.update(manifest.model_id for manifest in manifests)
        command.__class__ = _Command
    return manifests


class _Command(ModuleType):
    """The module of the harness's command, changed to exit with 1 after a failed run.

    This applies to runs of this package's backends.

    Plugins are registered while the module is still executing, so its function cannot be replaced
    yet. A property of the module's class takes precedence over attributes that the module defines
    later.
    """

    @property
    def cli_evaluate(self) -> Callable[..., None]:
        """The harness's function, which on its own only prints a run's error and returns."""
        return functools.partial(_evaluate, self, vars(self)["cli_evaluate"])


def _evaluate(command: Any, cli_evaluate: Callable[..., None], *args: Any) -> None:
    evaluate_one = command.cli_evaluate_single
    models = set()
    errors = []
    audits = []

    def noting_failures(arguments: Any) -> Any:
        models.add(arguments.model)
        if arguments.model not in _PACKAGE_BACKENDS:
            return evaluate_one(arguments)
        try:
            results, samples = evaluate_one(arguments)
        except LmmsEgoplanError as error:
            sys.exit(f"lmms-egoplan: the run failed: {error}")
        except Exception as error:
            errors.append(str(error))
            raise
        audits.extend(failed_audits((results or {}).get("results", {})))
        return results, samples

    command.cli_evaluate_single = noting_failures
    with _one_index():
        cli_evaluate(*args)
    if not errors and models and models <= _PACKAGE_BACKENDS:
        from lmms_egoplan import process_group  # loads torch, like the harness

        try:
            process_group.wait_and_leave()
        except LmmsEgoplanError as error:
            errors.append(str(error))
    failures = errors + audits
    if failures:
        sys.exit("lmms-egoplan: the run failed: " + " ".join("; ".join(failures).split()))


@contextmanager
def _one_index() -> Iterator[None]:
    """Share the index of tasks among all evaluations of a command.

    Building it reads thousands of files.
    """
    manager: Any = getattr(sys.modules.get(_TASKS_MODULE), "TaskManager", None)
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


def task_folder() -> Path:
    """Return the folder of the package's tasks, for harnesses that request it."""
    return LMMS_EVAL_TASKS


class _TasksFinder(MetaPathFinder):
    """Find ``lmms_eval.tasks`` with the other finders, and change it after the import.

    `_change_task_manager` does this.
    """

    def find_spec(
        self, fullname: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _TASKS_MODULE:
            return None
        finders = (finder for finder in sys.meta_path if not isinstance(finder, _TasksFinder))
        spec = next(
            filter(None, (finder.find_spec(fullname, path, target) for finder in finders)), None
        )
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            _change_task_manager(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _change_task_manager(tasks: ModuleType) -> None:
    _register_tasks(tasks)
    _test_judges_early(tasks)
    if os.environ.get(SUBSET):
        _ask_subsets()


def _ask_subsets() -> None:
    """Ask only the questions of a compact run.

    Their documents keep the numbers that cached responses have.
    """
    from lmms_eval import utils
    from lmms_eval.api.task import ConfigurableTask

    download = ConfigurableTask.download
    create = utils.create_iterator

    @functools.wraps(download)  # with its attribute `retry`, which `filters` sets
    def download_and_mark(self: Any, *args: Any, **kwargs: Any) -> None:
        download(self, *args, **kwargs)
        for rows in (self.dataset, self.dataset_no_image):
            rows.update(
                {
                    split: mark(rows[split], *Path("hub", self.config.dataset_path).parts[-2:])
                    for split in rows
                }
            )

    def create_iterator(numbered: Iterable[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        # lmms-eval passes either numbers of documents or pairs of a number and a document.
        chosen = (
            entry for entry in numbered if isinstance(entry, int) or entry[1].get(COLUMN, True)
        )
        return create(chosen, *args, **kwargs)

    ConfigurableTask.download = download_and_mark
    utils.create_iterator = vars(sys.modules.get("lmms_eval.evaluator", utils))[
        "create_iterator"
    ] = create_iterator


def _register_tasks(tasks: ModuleType) -> None:
    """Make every `TaskManager` index the package's task folder, unless the harness already does."""
    if hasattr(tasks, "plugin_task_folders"):
        return None
    try:
        manager = tasks.TaskManager
        initialize_tasks = manager.initialize_tasks
        parameters = inspect.signature(initialize_tasks).parameters
    except AttributeError as error:
        return _warn_that_tasks_are_not_registered(str(error))
    if not {"include_path", "include_defaults"} <= set(parameters):
        return _warn_that_tasks_are_not_registered(
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


def _test_judges_early(tasks: ModuleType) -> None:
    """Test judges and other scorers when tasks are selected, before a model loads.

    Tasks test the remaining ones.
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
        names = {name for path in paths for name in (path.name, path.parent.name)}
        model = getattr(self, "model_name", None)
        published = [path for path in paths if "closed_choices" in path.read_text(encoding="utf-8")]
        if model and published and _PACKAGE_BACKENDS and model not in _PACKAGE_BACKENDS:
            raise LmmsEgoplanError(
                f"{published[0].stem}: {model} does not score the end of an answer; use hf_vlm"
            )
        load_scorers(names)
        for benchmark in BENCHMARKS:
            for judge in benchmark.load_judges(names):
                announce_judge(judge.default_model, judge.otherwise, judge.probe_form)
        return matched

    manager.match_tasks = with_judge_test


def _package_files(manager: Any, names: Iterable[str]) -> Iterator[Path]:
    """Yield the package's files that define tasks, groups and tags with these names."""
    for name in names:
        entry = manager.task_index.get(name, {})
        if entry.get("type") == "tag":
            yield from _package_files(manager, entry["task"])
            continue
        path = Path(entry.get("yaml_path") or "")
        if LMMS_EVAL_TASKS in path.parents:
            yield path


def _warn_that_tasks_are_not_registered(reason: str) -> None:
    logger.warning(
        f"lmms-egoplan: this lmms-eval does not let a plugin add tasks ({reason}); run "
        f"with {INCLUDE_PATH_HINT}"
    )
