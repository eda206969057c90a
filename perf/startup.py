"""Measure the processor time of `lmms-egoplan --version` and of each help, and the time that the
plugin adds to `lmms-eval eval --help`.

Every run is a separate process. The arms alternate, and figures are medians of user plus system
time. The help of `lmms-egoplan lm-eval` is that of its harness, and is not measured. The plugin is
timed inside lmms-eval, from loading its entry point to its list of models, because the time of
lmms-eval itself varies by more. `lmms-eval --help` loads no plugin.

    python perf/startup.py --repeats 11
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1] / "tests"
VERSION = "lmms-egoplan --version"
HELP = "lmms-egoplan --help"
PLUGIN = "the plugin in lmms-eval eval --help"
LIMITS_S = {VERSION: 0.4, HELP: 0.8, PLUGIN: 0.3}
OTHER_HELP_LIMIT_S = 1.2
IN_HARNESS = """
import sys, time
from importlib.metadata import EntryPoint

load = EntryPoint.load

def timed(point):
    start = time.process_time()
    payload = load(point)
    if not point.value.startswith("lmms_egoplan."):
        return payload
    models = payload()
    print("seconds", time.process_time() - start, file=sys.stderr)
    return models

EntryPoint.load = timed
sys.argv = ["lmms-eval", "eval", "--help"]
from lmms_eval.cli.dispatch import main
main()
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=11, help="Number of runs of each arm.")
    repeats = parser.parse_args().repeats
    arms = arms_by_command()
    for measure in arms.values():  # fills the bytecode and file caches
        measure()
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, measure in arms.items():
            seconds[name].append(measure())
    medians = {name: median(values) for name, values in seconds.items()}
    others = sorted(medians.keys() - LIMITS_S.keys(), key=medians.__getitem__)
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, medians of {repeats} runs\n"
    )
    print("| command | CPU time, s | limit, s |\n|---|---:|---:|")
    print_row(f"`{VERSION}`", medians[VERSION], LIMITS_S[VERSION])
    print_row(f"`{HELP}`", medians[HELP], LIMITS_S[HELP])
    slowest = f"slowest of the other {len(others)} helps: `{others[-1]}`"
    print_row(slowest, medians[others[-1]], OTHER_HELP_LIMIT_S)
    print_row(f"fastest of them: `{others[0]}`", medians[others[0]], OTHER_HELP_LIMIT_S)
    print_row(PLUGIN, medians[PLUGIN], LIMITS_S[PLUGIN])
    failures = []
    for name, value in medians.items():
        limit = LIMITS_S.get(name, OTHER_HELP_LIMIT_S)
        if value >= limit:
            failures.append(f"{name}: {value:.2f} s; must be below {limit} s")
    if failures:
        sys.exit("\n".join(failures))


def arms_by_command() -> dict[str, Callable[[], float]]:
    """Return a function for each command that measures it once."""
    sys.path.insert(0, str(TESTS))
    from command_tree import COMMANDS, GROUPS

    arms: dict[str, Callable[[], float]] = {
        VERSION: partial(command_seconds, "--version"),
        HELP: partial(command_seconds, "--help"),
        PLUGIN: plugin_seconds,
    }
    for path in (*GROUPS, *COMMANDS):
        if path != "lm-eval":
            arms[f"lmms-egoplan {path} --help"] = partial(command_seconds, *path.split(), "--help")
    return arms


def print_row(name: str, seconds: float, limit: float) -> None:
    print(f"| {name} | {seconds:.2f} | {limit} |")


def command_seconds(*arguments: str) -> float:
    """Run the command in a process; return its user plus system time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "lmms_egoplan", *arguments], check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plugin_seconds() -> float:
    """Return user plus system time from loading the plugin's entry point to its list of models."""
    process = subprocess.run(
        [sys.executable, "-c", IN_HARNESS], check=True, capture_output=True, text=True
    )
    (line,) = (line for line in process.stderr.splitlines() if line.startswith("seconds "))
    return float(line.split()[1])


if __name__ == "__main__":
    main()
