"""Speed of building EgoPlan's questions, against what the language model's replies take.

The language model is a server in a process of its own that takes the same time for each request, and finds goals and
makes phrases by rule. `lmms-egoplan data build egoplan` runs with an empty cache, and once more with everything in it:

(a) EPIC-KITCHENS-100's 9,668 validation narrations: a request a video;
(b) the same narrations in the layout of Ego4D's: requests for verb-object phrases, then a request a video.

    python perf/construction.py                              # some four minutes
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
NARRATIONS = Path(__file__).parents[2] / "shared" / "data" / "epic-kitchens-100" / "EPIC_100_validation.csv"
SERVER = TESTS / "construction" / "egoplan" / "language_model.py"
# What the log says of each kind of request.
ASKED = re.compile(r"\d+ of (\d+) prompts answered by \S+ in ([\d.]+) s: (\d+) now")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=2.0, help="Seconds of each request.")
    parser.add_argument("--concurrency", type=int, default=8, help="Requests at a time.")
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
            asked, asking, whole = _build(narrations, source, folder / source, environment)
            ideal = asked * arguments.latency / arguments.concurrency
            again, _, cached = _build(narrations, source, folder / source, environment)
            assert again == 0
            print(
                f"{title} {asked} requests, ideally {ideal:.2f} s; asking {asking:.2f} s ({asking / ideal:.2f}), whole "
                f"process {whole:.2f} s ({whole / ideal:.2f}, at most 1.3), with everything cached {cached:.2f} s",
                flush=True,
            )


def _build(narrations: Path, source: str, out: Path, environment: dict[str, str]) -> tuple[int, float, float]:
    """Requests, seconds of asking, and seconds of the process."""
    arguments = [str(narrations), "--source", source, "--out", str(out), "--instruction-data"]
    start = time.perf_counter()
    command = [sys.executable, "-m", "lmms_egoplan", "data", "build", "egoplan", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    whole = time.perf_counter() - start
    told = [match.groups() for match in ASKED.finditer(done.stderr)]
    return sum(int(now) for _, _, now in told), sum(float(seconds) for _, seconds, _ in told), whole


def _as_ego4d(path: Path) -> Path:
    sys.path.insert(0, str(TESTS))
    from construction.egoplan.small import as_ego4d, write_ego4d
    from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens

    return write_ego4d(path, as_ego4d(read_epic_kitchens(NARRATIONS)[0]))


@contextmanager
def _server(latency: float) -> Iterator[str]:
    command = [sys.executable, str(SERVER), "--latency", str(latency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
