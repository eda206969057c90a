"""Check that all entries of the registry exist, and that no shared module names a benchmark."""

import json
import pickle
import re
import runpy
from pathlib import Path
from pkgutil import resolve_name

import pytest

import lmms_egoplan
from command_tree import COMMANDS, GROUPS
from lmms_egoplan.benchmarks.actplan import instances
from lmms_egoplan.benchmarks.actplan.instances import INSTANCES
from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.base import BENCHMARKS, DEMO_SETS, load_judge
from lmms_egoplan.benchmarks.splits import SPLITS
from lmms_egoplan.demo import DATA
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.launch.tasks import leaf_tasks
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.storage import DataMissingError, split_dir
from lmms_egoplan.task_files import count_metric, judge_name, main_metric, read_task_file
from lmms_egoplan.task_files import metrics as metrics_of
from report.prepared import prepare_data

PACKAGE = Path(lmms_egoplan.__file__).parent
# Folders of the benchmarks in the package.
ROOMS = {path.parent.name for path in PACKAGE.glob("benchmarks/*/__init__.py")}
# Name, commands and variables of the package, and the key of the report page's theme in a browser.
OWN_NAMES = re.compile(
    r"`lmms-egoplan [^`]+|lmms[-_]egoplan\w*|LmmsEgoplan\w*|egoplan-report-theme", re.IGNORECASE
)
# Packages with a module or folder per benchmark or for certain benchmarks, and the CLI, whose help
# lists benchmarks.
NAMING = (
    "annotation",
    "benchmarks",
    "cli",
    "construction",
    "overlap",
    "planner",
    "sensitivity",
    "training",
)
# Modules for each benchmark in rooms that serve all of them, and arguments of their commands.
OF_EACH = re.compile(rf"report/({'|'.join(ROOMS)})/.*|report/(benchmarks|judged)\.py|options\.py")
# Base of the tasks of both versions of one benchmark.
BASE_OF_TASKS = PACKAGE / "harnesses" / "lm_eval" / "choices.py"
# Its last text says where to look in the report of the demo.
DEMO = PACKAGE / "demo" / "run.py"
GOALSTEP = r"goal-?step"
# The benchmarks with synthetic questions.
SYNTHETIC = sorted(path.parent.name for path in Path(__file__).parent.glob("*/synthetic.py"))


@pytest.fixture(params=BENCHMARKS, ids=lambda benchmark: benchmark.name)
def benchmark(request):
    return request.param


def room_of(benchmark):
    """Return the name of the benchmark's folder in the package."""
    return report_class(benchmark.name).__module__.split(".")[2]


def names_in(folder):
    """Return the names of the tasks and groups in a folder."""
    task_names = set()
    for path in folder.rglob("*.yaml"):
        content = read_task_file(path)
        task_names |= {
            name for key in ("task", "group") if isinstance(name := content.get(key), str)
        }
    return task_names


def test_every_folder_of_a_benchmark_is_in_the_registry():
    assert {room_of(benchmark) for benchmark in BENCHMARKS} == ROOMS
    names = [benchmark.name for benchmark in BENCHMARKS]
    assert names == [splits.benchmark for splits in SPLITS]
    for tasks in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        assert {path.name for path in tasks.iterdir() if any(path.glob("*.yaml"))} == set(names)


def test_hooks_exist(benchmark):
    assert benchmark.splits.benchmark == benchmark.name
    assert benchmark.splits.official
    assert issubclass(report_class(benchmark.name), BenchmarkReport)
    assert f"data prepare {benchmark.name}" in COMMANDS


@pytest.mark.parametrize("name", DEMO_SETS)
def test_demo_sets_have_data_and_tasks(name):
    """A folder with the name of a task would hide the task from lmms-eval."""
    demo = DEMO_SETS[name]
    task_names = names_in(LMMS_EVAL_TASKS / name)
    assert (DATA / demo.folder).is_dir()
    assert demo.folder not in task_names
    assert {*demo.tasks, *demo.scores} <= task_names
    assert demo.prepare[0] == name


def test_without_runs_no_figure_is_drawn(benchmark):
    """Reports of labels only have no runs."""
    assert [
        figure.key for figure in report_class(benchmark.name)([]).figures() if figure is not None
    ] == []


def test_tasks_are_those_of_both_harnesses(benchmark):
    assert benchmark.suite
    for tasks in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        assert {*benchmark.suite, *benchmark.suite_thinking} <= names_in(tasks / benchmark.name)
        assert all(
            re.match(rf"{benchmark.name}(_|$)", name) for name in names_in(tasks / benchmark.name)
        )
    assert any(LMMS_EVAL_TASKS.parent.glob(f"shared/{benchmark.name}*.yaml"))


def test_the_reports_help_names_the_published_tables(benchmark):
    from report.printed_tables import DESCRIBED

    text = " ".join(COMMANDS["report"].help.split())
    named = re.search(
        rf"{re.escape(benchmark.title)}(?:'s)? (?:Tables )?((?:\d+|, | and | to )+)", text
    )
    numbers = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", named[1] if named else ""):
        numbers |= {*range(int(first), int(last or first) + 1)}
    assert {f"{benchmark.name}_table{number}" for number in numbers} == {
        stem for stem in DESCRIBED if stem.startswith(f"{benchmark.name}_table")
    }


def test_all_judged_tasks_have_their_judge(benchmark):
    """A task is judged if its filter's answers are."""
    judges = set()
    for path, content in tasks_in(LMMS_EVAL_TASKS / benchmark.name).items():
        is_judged = "judged" in str(content.get("filter_list"))
        assert is_judged == (judge_name(content) is not None), path
        judges.add(judge_name(content))
    assert judges - {None} == set(benchmark.judges)


def tasks_in(folder):
    """Return the task files, without included files and groups."""
    contents = {path: read_task_file(path) for path in folder.rglob("*.yaml")}
    return {
        path: content for path, content in contents.items() if isinstance(content.get("task"), str)
    }


def test_the_help_names_the_default_judges():
    """Help that loads them would be slow."""
    defaults = {
        load_judge(name).default_model: None
        for benchmark in BENCHMARKS
        for name in benchmark.judges
    }
    words = [word.strip(".,") for word in GROUPS["judge"].help.split()]
    assert [*dict.fromkeys(word for word in words if word in defaults)] == [*defaults]


def check_metrics(task):
    """Check that a task's main metric is a row, and that its details count the questions."""
    *rows, last = metrics_of(task)
    assert main_metric(task) in rows
    assert last == DETAILS
    count = count_metric(task)
    assert count.startswith("num_")
    aggregate = resolve_name(metrics_of(task)[DETAILS])
    assert aggregate([{count: 1}, {count: 1}]) == {count: 2}


def test_scored_tasks_name_their_benchmark_main_metric_and_count(benchmark):
    """The report finds tasks by the benchmark's name."""
    shared = [
        read_task_file(path)
        for path in (LMMS_EVAL_TASKS.parent / "shared").glob(f"{benchmark.name}*.yaml")
    ]
    assert shared
    for task in shared:
        check_metrics(task)
    functions = {task["process_results"] for task in shared}
    metrics = [task["metric_list"] for task in shared]
    for tasks in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        for path, content in tasks_in(tasks / benchmark.name).items():
            named = content["metadata"].get("benchmark")
            is_scored = content["process_results"] in functions or content["metric_list"] in metrics
            assert named == (benchmark.name if is_scored else None), path
            check_metrics(content)


def test_cached_responses_are_bound_to_the_data(benchmark):
    """Applies to lmms-eval; lm-eval's base task adds the fingerprint to each document."""
    for path, content in tasks_in(LMMS_EVAL_TASKS / benchmark.name).items():
        assert content["metadata"].get("data"), path


def test_functions_of_tasks_load_without_data(benchmark, tmp_path, monkeypatch):
    """Otherwise, the tasks could not be listed."""
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    assert runpy.run_path(str(LMMS_EVAL_TASKS / benchmark.name / "utils.py"))


def test_no_answer_stops_at_an_empty_line(benchmark):
    """Except under a preset, which stops where its pipeline does."""
    for tasks in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        for path, content in tasks_in(tasks / benchmark.name).items():
            is_preset = bool(content["metadata"].get("asked_as"))
            if content["output_type"] == "generate_until" and not is_preset:
                assert content["generation_kwargs"]["until"] == [], path


def files_of_all():
    """Yield the modules and templates that all benchmarks share."""
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if (
            path.suffix in (".py", ".js", ".jinja", ".css")
            and place.parts[0] not in NAMING
            and not OF_EACH.fullmatch(place.as_posix())
        ):
            yield path


def without_own_names(path):
    """Return a file's text without `OWN_NAMES`, but with all line breaks."""
    text = path.read_text(encoding="utf-8")
    return OWN_NAMES.sub(lambda name: "\n" * name[0].count("\n"), text)


def test_no_shared_module_names_a_benchmark():
    """Includes comments and docstrings.

    Exception: the file names in ``tasks/shared``.
    """
    names = re.compile(
        "|".join([GOALSTEP, *(re.escape(benchmark.name) for benchmark in BENCHMARKS)]),
        re.IGNORECASE,
    )
    scanned = [path for path in files_of_all() if path not in (BASE_OF_TASKS, DEMO)]
    assert len(scanned) > 100
    naming = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in scanned
        for number, line in enumerate(without_own_names(path).splitlines(), 1)
        if names.search(line)
    ]
    assert naming == []
    assert not [path for path in scanned if names.search(path.relative_to(PACKAGE).as_posix())]


def test_no_task_names_another_benchmark(benchmark):
    room = rf"benchmarks\.{room_of(benchmark)}\b"
    own_names = re.compile(
        f"{OWN_NAMES.pattern}|{room}|{benchmark.name}|{benchmark.title}", re.IGNORECASE
    )
    other_names = re.compile(
        "|".join(other.name for other in BENCHMARKS if other is not benchmark), re.IGNORECASE
    )
    for tasks in (LMMS_EVAL_TASKS, LM_EVAL_TASKS):
        for path in [
            *(tasks / benchmark.name).rglob("*.yaml"),
            *(tasks / benchmark.name).glob("*.py"),
        ]:
            text = path.read_text(encoding="utf-8")
            if path.parent.name == "presets":
                # Their comments name files of other projects.
                text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
            assert not other_names.search(own_names.sub("", text)), path


def section_on_adding_a_benchmark():
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition("## Adding a benchmark\n")[2].partition("\n## ")[0]


def test_contributing_names_the_shared_files_that_the_example_changes():
    patch = PACKAGE.parent / "tests" / "sixth_benchmark" / "shared.patch"
    changed = re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(encoding="utf-8"), re.MULTILINE)
    table = section_on_adding_a_benchmark().partition("| shared file |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE) == changed


def test_contributing_adds_a_benchmark_in_six_steps_with_existing_files():
    section = section_on_adding_a_benchmark()
    steps = re.findall(r"^\| (\d+) \| (.+?) \| ", section, re.MULTILINE)
    assert steps
    assert [int(number) for number, _ in steps] == [*range(1, len(steps) + 1)]
    assert len(steps) <= 6
    folders = [PACKAGE / "benchmarks" / room_of(benchmark) for benchmark in BENCHMARKS]
    for name in (name for _, files in steps for name in re.findall(r"`([^`]+)`", files)):
        here = [PACKAGE.parent / name.replace("<name>", folder.name) for folder in folders]
        assert any(path.exists() for path in [*here, *(folder / name for folder in folders)]), name


def test_splits_can_be_pickled(benchmark):
    """lm-eval sends its tasks, which contain the splits, between processes."""
    assert pickle.loads(pickle.dumps(benchmark.splits)) == benchmark.splits


@pytest.mark.parametrize("use", ["folder", "fingerprint", "load"])
def test_missing_data_name_the_command(benchmark, use, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepared = benchmark.splits
    split = [*prepared.official][-1]
    with pytest.raises(DataMissingError) as caught:
        getattr(prepared, use)(split)
    folder = tmp_path / benchmark.name / split
    for fact in (
        split,
        str(folder),
        f"data prepare {benchmark.name}",
        "https://",
        "LMMS_EGOPLAN_DATA",
    ):
        assert fact in str(caught.value)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_prepared_data_are_found_unless_damaged(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    (prepared,) = (benchmark.splits for benchmark in BENCHMARKS if benchmark.name == name)
    prepare_data(tmp_path, **{name: 3})
    split = next(split for split in prepared.official if split_dir(name, split).exists())
    summary = split_dir(name, split) / "summary.json"
    assert prepared.folder(split) == split_dir(name, split)
    assert prepared.fingerprint(split) == json.loads(summary.read_text())["fingerprint"]
    assert len(prepared.load(split)) == 3
    summary.write_text("{")
    with pytest.raises(LmmsEgoplanError, match=r"summary.json: damaged"):
        prepared.load(split)


OFFICIAL_SIZES = {
    **{
        "egoplan_val": 3355,
        "egothink_object_existence": 50,
        "egothink_activity_activity": 100,
        "egointent": 3014,
    },
    **{
        "actplan": 1187,
        "actplan_normal": INSTANCES["normal"],
        "actplan_counterfactual": INSTANCES["counterfactual"],
    },
}


def test_coverage_is_a_share_of_the_official_questions_or_of_the_prepared_ones(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare_data(tmp_path, egoplan=24, egothink=2, egointent=6, actplan=24)
    found = {}
    for name, official in OFFICIAL_SIZES.items():
        (task,) = leaf_tasks("lmms-eval", [name]).values()
        rows = task.benchmark.splits.load(task.split)
        for question_set, expected in (("own", len(rows)), ("official", official)):
            asked = rows.remove_columns("question_set").add_column(
                "question_set", [question_set] * len(rows)
            )
            if process := read_task_file(task.path).get("process_docs"):
                asked = getattr(instances, process.rpartition(".")[2])(asked)
                expected = len(asked) if question_set == "own" else official
            if asked and (covers := task.benchmark.covers(task.split, asked)) != expected:
                found[name, question_set] = covers, expected
    assert not found
