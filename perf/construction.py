"""Measure the time to build EgoPlan's questions, relative to the time of the language model's
replies.

The language model is a server in a separate process. It takes the same time for each request, and
finds goals and makes phrases by rule. `lmms-egoplan data build egoplan` runs with an empty cache,
then again with a full cache:

(a) EPIC-KITCHENS-100's 9,668 validation narrations: one request per video;
(b) the same narrations in Ego4D's layout: requests for verb-object phrases, then one request per
video.

    python perf/construction.py                              # about four minutes
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
NARRATIONS = (
    Path(__file__).parents[2] / "shared" / "data" / "epic-kitchens-100" / "EPIC_100_validation.csv"
)
SERVER = TESTS / "construction" / "egoplan" / "language_model.py"
# The log line for each kind of request.
REQUEST_LOG = re.compile(r"\d+ of (\d+) prompts answered by \S+ in ([\d.]+) s: (\d+) now")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--latency", type=float, default=2.0, help="Seconds per request.")
    parser.add_argument("--concurrency", type=int, default=8, help="Number of concurrent requests.")
    arguments = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as scratch, _server(arguments.latency) as url:
        folder = Path(scratch)
        environment = os.environ | {
            "LMMS_EGOPLAN_DATA": str(folder / "data"),
            "LMMS_EGOPLAN_JUDGE_BASE_URL": url,
            "LMMS_EGOPLAN_JUDGE_CONCURRENCY": str(arguments.concurrency),
        }
        for title, source, narrations in (
            ("(a)", "epic-kitchens", NARRATIONS),
            ("(b)", "ego4d", _as_ego4d(folder / "narration.json")),
        ):
            requests, asking, whole = _build(narrations, source, folder / source, environment)
            ideal = requests * arguments.latency / arguments.concurrency
            new_requests, _, cached = _build(narrations, source, folder / source, environment)
            assert new_requests == 0
            print(
                f"{title} {requests} requests, ideal {ideal:.2f} s; asking {asking:.2f} s "
                f"({asking / ideal:.2f}), whole process {whole:.2f} s ({whole / ideal:.2f}, limit "
                f"1.3), everything cached {cached:.2f} s",
                flush=True,
            )


def _build(
    narrations: Path, source: str, out: Path, environment: dict[str, str]
) -> tuple[int, float, float]:
    """Run the command; return the number of requests, the seconds of asking, and the seconds of the
    process.
    """
    arguments = [str(narrations), "--source", source, "--out", str(out), "--instruction-data"]
    start = time.perf_counter()
    command = [sys.executable, "-m", "lmms_egoplan", "data", "build", "egoplan", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    whole = time.perf_counter() - start
    logged = [match.groups() for match in REQUEST_LOG.finditer(done.stderr)]
    return (
        sum(int(now) for _, _, now in logged),
        sum(float(seconds) for _, seconds, _ in logged),
        whole,
    )


def _as_ego4d(path: Path) -> Path:
    """Write the narrations in Ego4D's layout."""
    # Instead of this folder, whose construction.py would hide the package of the tests.
    sys.path[0] = str(TESTS)
    from construction.ego4d_files import write_narrations
    from construction.egoplan.small import as_ego4d
    from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens

    return write_narrations(path, as_ego4d(read_epic_kitchens(NARRATIONS)[0]))


@contextmanager
def _server(latency: float) -> Iterator[str]:
    """Start the language model and yield its URL."""
    command = [sys.executable, str(SERVER), "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
