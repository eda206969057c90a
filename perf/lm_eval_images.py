"""Measure memory, open files and time of lm-eval's requests with images: lazy, read early, or
opened early.

lm-eval builds all requests of a task before the first one runs, and keeps them until the end of the
run. This program builds the requests of `egoplan_val` on generated media with the sizes of the
validation split. It takes each question's images once from its requests, like a model class. Every
arm is a separate process:

lazy    the task without changes, all questions
read    images are read when requests are built, the first `--part` questions
opened  images are opened with `PIL.Image.open` when requests are built, `--part` questions with
frame files

    python perf/lm_eval_images.py                            # 3,355 questions, about 6 minutes
    python perf/lm_eval_images.py --questions 400            # two to three minutes
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from egoplan_media import EGO4D_SIZE, EPIC_SIZE, QUESTIONS, prepare, record

from lmms_egoplan.progress import track

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from PIL import Image

FRAMES = 8
ARMS = ("lazy", "read", "opened")

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=QUESTIONS, help="Number of questions.")
    parser.add_argument(
        "--part", type=int, default=200, help="Number of questions for 'read' and 'opened'."
    )
    parser.add_argument(
        "--hashed", type=int, default=20, help="Number of questions to hash; each takes seconds."
    )
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.arm:
        return print(json.dumps(_measure(arguments.arm, arguments.part, arguments.hashed)))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        # A separate process, because its memory must not count.
        maker = multiprocessing.get_context("spawn").Process(
            target=_prepare, args=(Path(folder), arguments.questions)
        )
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        print(
            f"{arguments.questions} questions prepared in {time.perf_counter() - start:.0f} s",
            flush=True,
        )
        command = [
            sys.executable,
            __file__,
            f"--part={arguments.part}",
            f"--hashed={arguments.hashed}",
        ]
        environment = os.environ | {"LMMS_EGOPLAN_DATA": folder, "HF_HUB_OFFLINE": "1"}
        figures = {}
        for arm in ARMS:
            output = subprocess.check_output([*command, "--arm", arm], env=environment, text=True)
            figures[arm] = json.loads(output.splitlines()[-1])
    _print_figures(figures, arguments.questions)
    return None


def _measure(arm: str, part: int, hashed: int) -> Figures:
    from lm_eval.tasks import TaskManager

    from lmms_egoplan.paths import LM_EVAL_TASKS

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    task = TaskManager(include_path=str(LM_EVAL_TASKS)).load("egoplan_val")["tasks"]["egoplan_val"]
    lazily = task.config.doc_to_image
    for index in range(2):  # one question per source, to load the decoders
        list(lazily(task.eval_docs[index]))
    chosen: dict[str, Any] = {} if arm == "lazy" else {"limit": part}
    if arm == "read":
        task.config.doc_to_image = lambda doc: list(lazily(doc))
    elif arm == "opened":
        on_files = [
            index
            for index, source in enumerate(task.eval_docs["video_source"])
            if source == "EpicKitchens"
        ]
        chosen = {"samples": on_files[:part]}
        task.config.doc_to_image = _opened

    usage = {"before": _usage(reset=True)}
    building, _ = _timed(lambda: task.build_all_requests(**chosen))
    usage["built"] = _usage()
    questions = [request for request in task.instances if request.idx == 0]
    reading, passed = _timed(lambda: list(_take_images(questions, arm)))
    usage |= {"largest": tuple(map(max, *passed, usage["built"])), "end": _usage()}
    return {
        "questions": len(questions),
        "usage": usage,
        "passed": [passed[len(passed) * eighth // 8 - 1] for eighth in (1, 2, 4, 6, 8)],
        "building": building,
        "reading": reading,
        "hashing": None
        if arm == "opened"
        else _hashing(task.instances, len(questions) if arm == "lazy" else hashed),
    }


def _take_images(questions: "list[Instance]", arm: str) -> Iterator[tuple[float, float, int]]:
    """Load each question's images in turn, and yield the usage while they are in memory."""
    for request in track(questions, f"Taking images, {arm}"):
        images = list(request.args[2]["visual"])
        for image in images:
            image.load()
        assert len(images) == FRAMES
        assert images[0].size in (EPIC_SIZE, EGO4D_SIZE)
        yield _usage()


def _opened(doc: Mapping[str, Any]) -> "list[Image.Image]":
    from PIL import Image

    from lmms_egoplan.benchmarks.egoplan.frames import uniform_frames
    from lmms_egoplan.media.frames import frame_path

    past = [(action["start_frame"], action["stop_frame"]) for action in doc["past_actions"]]
    numbers = uniform_frames(past, doc["current_observation_frame"], FRAMES)
    return [Image.open(frame_path(doc["media_path"], number)) for number in numbers]


def _hashing(requests: "list[Instance]", count: int) -> Figures:
    """Return seconds per question for the hashes of ``--log_samples``, and for one ``--use_cache``
    key per request.
    """
    from lm_eval.api.model import hash_args
    from lm_eval.utils import hash_dict_images

    by_question: dict[int, list[Instance]] = {}
    for request in requests:
        by_question.setdefault(request.doc_id, []).append(request)
    groups = list(by_question.values())[:count]
    samples = [
        {"doc": group[0].doc, "arguments": [request.args for request in group]} for group in groups
    ]
    logging, _ = _timed(lambda: hash_dict_images({"egoplan_val": samples}))
    keys, _ = _timed(
        lambda: [hash_args("loglikelihood", request.args) for group in groups for request in group]
    )
    return {"questions": len(groups), "logging": logging / len(groups), "keys": keys / len(groups)}


def _usage(reset: bool = False) -> tuple[float, float, int]:
    """Return this process's memory now and at its peak since the last reset, in MiB, and its number
    of open files.
    """
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    now, peak = (
        float(status.split(f"{name}:")[1].split()[0]) / 2**10 for name in ("VmRSS", "VmHWM")
    )
    # minus the one that lists them
    return (
        now,
        peak,
        len(list(Path("/proc/self/fd").iterdir())) - 1,
    )


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _prepare(folder: Path, count: int) -> None:
    prepare(folder, [record(number) for number in range(count)])


def _print_figures(figures_by_arm: dict[str, Figures], questions: int) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=120)
    console.print(
        f"{time.strftime('%Y-%m-%d')}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}; {questions} questions of {FRAMES} frames"
    )
    memory_table = Table(
        "arm", "questions", "before", "built", "largest", "end", title="Memory, MiB; open files"
    )
    for arm, figures in figures_by_arm.items():
        usage = figures["usage"]
        memory = [usage["before"][0], usage["built"][0], usage["largest"][1], usage["end"][0]]
        files = [open_files for _, _, open_files in usage.values()]
        cells = (
            f"{mebibytes:.0f}; {number}" for mebibytes, number in zip(memory, files, strict=True)
        )
        memory_table.add_row(arm, str(figures["questions"]), *cells)
    console.print(memory_table)
    eighths = " | ".join(
        f"{now:.0f}; {files}" for now, _, files in figures_by_arm["lazy"]["passed"]
    )
    console.print(f"lazy, after 1, 2, 4, 6 and 8 eighths of the questions: {eighths}")

    growth = {
        arm: figures["usage"]["largest"][1] - figures["usage"]["before"][0]
        for arm, figures in figures_by_arm.items()
    }
    scaled_growth = growth["read"] / figures_by_arm["read"]["questions"] * questions
    console.print(
        f"growth: lazy {growth['lazy']:.0f} MiB; read {growth['read']:.0f} MiB, or "
        f"{scaled_growth:.0f} MiB scaled to all questions, {scaled_growth / growth['lazy']:.0f} "
        "times as much as lazy"
    )
    usage = figures_by_arm["opened"]["usage"]
    files_per_question = (usage["built"][2] - usage["before"][2]) / figures_by_arm["opened"][
        "questions"
    ]
    lazy_usage = figures_by_arm["lazy"]["usage"]
    console.print(
        f"open files: lazy {lazy_usage['largest'][2] - lazy_usage['before'][2]} more than before; "
        f"opened {files_per_question:.1f} per question, which reaches a limit of 1,024 at "
        f"{1024 / files_per_question:.0f} questions"
    )

    times = Table("seconds", "lazy", "read", "read, scaled to all questions", title="Time")
    for title, name in {"building requests": "building", "taking images": "reading"}.items():
        lazy, read = figures_by_arm["lazy"][name], figures_by_arm["read"][name]
        scaled = read / figures_by_arm["read"]["questions"] * questions
        times.add_row(
            title,
            f"{lazy:.2f}",
            f"{read:.2f} ({figures_by_arm['read']['questions']})",
            f"{scaled:.0f}",
        )
    lazy, read = figures_by_arm["lazy"]["hashing"], figures_by_arm["read"]["hashing"]
    for title, name in {
        "hashing, --log_samples": "logging",
        "keys, --use_cache (once)": "keys",
    }.items():
        measured = f"{read[name] * read['questions']:.2f} ({read['questions']})"
        times.add_row(
            title, f"{lazy[name] * questions:.2f}", measured, f"{read[name] * questions:.0f}"
        )
    console.print(times)


if __name__ == "__main__":
    main()
