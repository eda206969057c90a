"""Processor time of `lmms-egoplan --help`, and what the plugin adds to the help of `lmms-eval eval`.

Every run is a process of its own; the arms alternate, and the figures are medians of user and system time. The ratios
are to `python -c "import typer, rich, pydantic"`, so they depend less on the machine. The plugin is timed inside
lmms-eval, from the load of its entry point to its list of models: lmms-eval itself varies by more. `lmms-eval --help`
loads no plugin.

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
LIBRARIES, HELP, PLUGIN = "import typer, rich, pydantic", "lmms-egoplan --help", "the plugin in lmms-eval eval --help"
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=11)
    repeats = parser.parse_args().repeats
    arms = {
        LIBRARIES: lambda: processor_seconds("-c", LIBRARIES),
        HELP: lambda: processor_seconds("-m", "lmms_egoplan", "--help"),
        PLUGIN: plugin_seconds,
    }
    for measure in arms.values():  # bytecode and the cache of files
        measure()
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, measure in arms.items():
            seconds[name].append(measure())
    medians = {name: median(values) for name, values in seconds.items()}
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, medians of {repeats} runs\n")
    print("| command | processor, s | ratio |\n|---|---:|---:|")
    for name, value in medians.items():
        print(f"| `{name}` | {value:.2f} | {value / medians[LIBRARIES]:.2f} |")
    limits = {HELP: HELP_LIMIT_S, PLUGIN: PLUGIN_LIMIT_S}
    if above := [f"{name}: not below {limit} s" for name, limit in limits.items() if medians[name] >= limit]:
        sys.exit("\n".join(above))


def processor_seconds(*arguments: str) -> float:
    """User and system time of a Python process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plugin_seconds() -> float:
    """User and system time from the load of the plugin's entry point to its list of models."""
    ran = subprocess.run([sys.executable, "-c", IN_HARNESS], check=True, capture_output=True, text=True)
    (line,) = (line for line in ran.stderr.splitlines() if line.startswith("seconds "))
    return float(line.split()[1])


if __name__ == "__main__":
    main()
