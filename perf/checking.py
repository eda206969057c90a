"""Measure how long `lmms-egoplan run --check` takes to name each of a beginner's mistakes, and
whether it is one line.

Every mistake of ``tests/launch/mistakes.py`` is typed once, in a copy of a folder with the demo's
sets and a tiny checkpoint. Nothing else may use the machine. The limit is 4 s each. No mistake may
load torch or a harness.

    python perf/checking.py
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 4.0
TESTS = Path(__file__).resolve().parents[1] / "tests"
HEAVY = ("torch", "lmms_eval", "lm_eval")


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from launch.mistakes import MISTAKES, environment_of, prepare_folder, problem_lines

    seconds: dict[str, float] = {}
    flawed: list[str] = []
    with tempfile.TemporaryDirectory() as root:
        prepare_folder(Path(root, "first"))
        for mistake in MISTAKES:
            folder = Path(root, "copy")
            shutil.copytree(Path(root, "first"), folder)
            mistake.make(folder)
            environment = (
                environment_of(folder) | mistake.environment | {"PYTHONPROFILEIMPORTTIME": "1"}
            )
            command = [sys.executable, "-m", "lmms_egoplan", "run", *mistake.arguments, "--check"]
            start = time.perf_counter()
            result = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            seconds[mistake.name] = time.perf_counter() - start
            imports, lines = [], []
            for line in problem_lines(result.stderr):
                if line.startswith("import time:"):
                    imports.append(line)
                elif "| INFO " not in line:  # the log names the judge that is asked
                    lines.append(line)
            loaded = {line.rpartition("|")[2].strip() for line in imports}.intersection(HEAVY)
            if result.returncode != 1 or len(lines) != 1 or loaded:
                flawed.append(
                    f"{mistake.name}: exit code {result.returncode}, {len(lines)} lines, "
                    f"loads {loaded or 'nothing'}"
                )
            shutil.rmtree(folder)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores\n")
    print("| mistake | time, s |\n|---|---:|")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"| {name} | {value:.2f} |")
    print(f"\nlimit {LIMIT_S} s: largest {max(seconds.values()):.2f} s")
    if flawed or max(seconds.values()) > LIMIT_S:
        sys.exit("\n".join(flawed) or "too slow")


if __name__ == "__main__":
    main()
