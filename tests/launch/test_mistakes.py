"""``lmms-egoplan run --check`` names each mistake in one line, before a model class is imported.

``--dry-run`` prints the command or script.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from loguru import logger
from typer.testing import CliRunner

from launch.mistakes import (
    CHECKPOINT,
    MISTAKES,
    copy_folder,
    environment_of,
    prepare_folder,
    problem_lines,
)
from lmms_egoplan.cli import app
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.launch.tasks import choose_tasks, leaf_tasks
from patience import FOREVER_S

# A check loads only the list of commands from these rooms.
ROOMS = ("report", "demo", "sensitivity", "construction", "annotation", "overlap", "training")
ROOMS += ("planner",)
CHECK = """
import sys
from lmms_egoplan.cli import app
try:
    app(["run", *sys.argv[1:], "--check"])
except SystemExit as exit:
    print(*sys.modules, sep="\\n")
    sys.exit(exit.code)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first") / "set"
    prepare_folder(folder)
    return folder


@pytest.fixture
def run(folder, tmp_path, monkeypatch):
    """Return a function that runs the command in a copy of the folder."""
    copy = tmp_path / "copy"
    copy_folder(folder, copy)

    def run(*arguments, environment=None, make=None):
        if make is not None:
            make(copy)
        for name, value in (
            environment_of(folder) | {"LMMS_EGOPLAN_DATA": str(copy / "data")} | (environment or {})
        ).items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(copy)
        return CliRunner().invoke(app, ["run", *arguments])

    return run


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_each_mistake_gives_one_line(mistake, run):
    result = run(*mistake.arguments, "--check", environment=mistake.environment, make=mistake.make)
    assert result.exit_code == 1, result.output
    (line,) = problem_lines(result.stderr)
    for fact in mistake.facts:
        assert fact in line
    assert result.stdout == ""


def test_the_tasks_of_a_preset_are_in_the_printed_command(run):
    arguments = ("--benchmarks", "egothink", "--protocol", "official", "--dry-run")
    judge = {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"}
    for harness in ("lmms-eval", "lm-eval"):
        result = run(CHECKPOINT, *arguments, "--harness", harness, environment=judge)
        assert result.exit_code == 0, result.output
        command = shlex.split(result.stdout)
        assert "=" not in command[0]
        assert command[command.index("--tasks") + 1] == "egothink__official"


def test_the_limits_on_pixels_of_a_preset_are_in_the_printed_command(run):
    arguments = (CHECKPOINT, "--benchmarks", "egoplan", "--protocol", "seed-bench-r1", "--dry-run")
    (variable, *command) = shlex.split(run(*arguments).stdout)
    assert variable == "LMMS_EGOPLAN_PIXELS=seed-bench-r1"
    assert command[command.index("--tasks") + 1] == "egoplan__seed-bench-r1"
    script = run(*arguments, "--launcher", "slurm", "--processes", "2")
    assert "\nexport LMMS_EGOPLAN_PIXELS=seed-bench-r1\n" in script.stdout


def test_a_preset_tests_the_judge_under_its_protocol():
    """Presets whose judge has the same protocol share the test."""
    tasks = ["egothink_object_existence__official", "egothink_object_existence__physbrain"]
    official, physbrain = leaf_tasks("lmms-eval", tasks).values()
    settings = JudgeSettings("judge", "http://127.0.0.1:9/v1")
    names = []
    for task in (official, physbrain):
        names.append(task.judge.probe_form(settings)[0].protocol)
    assert names == ["authors", ""]


def test_limits_on_the_judge_are_in_the_printed_command(run, tmp_path):
    prices = tmp_path / "prices of judges.json"
    prices.write_text('{"judge": {"input": 1, "output": 1}}')
    limits = ("--max-requests", "7", "--max-cost", "0.5", "--prices", str(prices))
    result = run(CHECKPOINT, "--benchmarks", "egoplan_val", *limits, "--dry-run")
    assert result.exit_code == 0, result.output
    variables = dict(word.split("=", 1) for word in shlex.split(result.stdout)[:3])
    names = {
        f"LMMS_EGOPLAN_JUDGE_{name.lstrip('-').replace('-', '_').upper()}" for name in limits[::2]
    }
    assert variables == dict(zip(sorted(names), [limits[3], limits[1], limits[5]], strict=True))


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (
            (
                *("--launcher", "slurm", "--nodes", "2", "--processes", "8"),
                *("--model-args", "workers=3"),
            ),
            (
                *("--nodes=2", "--nproc_per_node=8", "srun"),
                "--cpus-per-task=24\n",
                "PORT=$((20000 + SLURM_JOB_ID % 10000))",
                "--job-name='a b'\n",
            ),
        ),
        (
            ("--launcher", "torchrun", "--nodes", "2", "--processes", "4"),
            ("--node_rank", "--nproc_per_node=4"),
        ),
        (
            ("--launcher", "accelerate", "--nodes", "2", "--processes", "4"),
            ("--num_processes=8", "--machine_rank"),
        ),
    ],
)
def test_scripts_for_several_nodes_are_valid(run, arguments, facts):
    printed = run(
        CHECKPOINT, "--benchmarks", "egoplan_val", *arguments, "--dry-run", "--out", "runs/a b"
    )
    assert printed.exit_code == 0, printed.output
    subprocess.run(["bash", "-n"], input=printed.stdout, text=True, check=True)
    for fact in (*facts, "--tasks egoplan_val", "'runs/a b/results'"):
        assert fact in printed.stdout
    assert not Path("runs/a b").exists()


@pytest.mark.parametrize("harness", ["lmms-eval", "lm-eval"])
def test_a_preset_means_the_tasks_of_the_benchmarks_that_have_it(run, harness, caplog):
    run("--help")  # sets the data's folder
    messages: list[str] = []
    sink = logger.add(lambda message: messages.append(message.record["message"]))
    tasks = choose_tasks(harness, [], "official", ranks=True)
    logger.remove(sink)
    assert tasks == ["egoplan__official", "egothink__official"]
    (message,) = messages
    assert "--protocol official" in message
    assert "ActPlan-1K" in message
    assert "EgoPlan" not in message
    assert choose_tasks(harness, ["egoplan_bench2"], "flageval", ranks=False) == [
        "egoplan_bench2__flageval"
    ]
    with pytest.raises(LmmsEgoplanError, match=r"egoplan.*has lmms-eval-0\.7\.3, official"):
        choose_tasks(harness, ["egoplan"], "flageval", ranks=True)
    with pytest.raises(LmmsEgoplanError, match="egoplan_bench2: lmms-egoplan data prepare"):
        choose_tasks(harness, [], "mimo", ranks=True)


def test_all_problems_are_named_at_once(run):
    result = run(
        "chekpoint",
        "--benchmarks",
        "egoplan_bench2,egothink",
        "--model-args",
        "dtyp=a",
        "--processes",
        "2",
        "--check",
    )
    lines = problem_lines(result.stderr)
    assert len(lines) == 5
    for fact in ("chekpoint", "egoplan_bench2", "EgoThink", "dtyp", "--processes"):
        assert sum(fact in line for line in lines) >= 1


def test_a_check_loads_neither_a_report_nor_a_making_room(folder):
    result = subprocess.run(
        [sys.executable, "-c", CHECK, CHECKPOINT, "--benchmarks", "egoplan,actplan"],
        cwd=folder,
        env=environment_of(folder),
        capture_output=True,
        text=True,
        timeout=FOREVER_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.split()
    assert "lmms_egoplan.launch.checks" in loaded
    for room in ROOMS:
        package = f"lmms_egoplan.{room}"
        assert not {name for name in loaded if name == package or name.startswith(f"{package}.")}
    assert not {"torch", "transformers", "lmms_eval", "lm_eval"} & {*loaded}
