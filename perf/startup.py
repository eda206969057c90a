"""Measure the CPU time of `lmms-egoplan --help`, and the time that the plugin adds to `lmms-eval
eval --help`.

Every run is a separate process. The arms alternate, and figures are medians of user plus system
time. Ratios are relative to `python -c "import typer, rich, pydantic"`, and depend less on the
machine. The plugin is timed inside lmms-eval, from loading its entry point to its list of models,
because the time of lmms-eval itself varies by more. `lmms-eval --help` loads no plugin.

    python perf/startup.py --repeats 11
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
from statistics import median

HELP_LIMIT_S, PLUGIN_LIMIT_S = 0.5, 0.3
LIBRARIES, HELP, PLUGIN = (
    "import typer, rich, pydantic",
    "lmms-egoplan --help",
    "the plugin in lmms-eval eval --help",
)
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
    arms = {
        LIBRARIES: lambda: processor_seconds("-c", LIBRARIES),
        HELP: lambda: processor_seconds("-m", "lmms_egoplan", "--help"),
        PLUGIN: plugin_seconds,
    }
    for measure in arms.values():  # fills the bytecode and file caches
        measure()
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, measure in arms.items():
            seconds[name].append(measure())
    medians = {name: median(values) for name, values in seconds.items()}
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, medians of {repeats} runs\n"
    )
    print("| command | CPU time, s | ratio |\n|---|---:|---:|")
    for name, value in medians.items():
        print(f"| `{name}` | {value:.2f} | {value / medians[LIBRARIES]:.2f} |")
    limits = {HELP: HELP_LIMIT_S, PLUGIN: PLUGIN_LIMIT_S}
    if failures := [
        f"{name}: {medians[name]:.2f} s; must be below {limit} s"
        for name, limit in limits.items()
        if medians[name] >= limit
    ]:
        sys.exit("\n".join(failures))


def processor_seconds(*arguments: str) -> float:
    """Run a Python process; return its user plus system time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
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
