"""Measure how time, memory and requests of `lmms-egoplan data build` grow with the videos.

Videos, narrations and activities are generated. The language model is a server in a separate
process that replies at once. Each build is a separate process with an empty cache. The program
prints its CPU time (user and system) and its peak memory.

    python perf/construction_growth.py egoplan --videos 1000 10000
    python perf/construction_growth.py egoplan-with-goals --videos 1000 10000 100000
    python perf/construction_growth.py egointent --videos 1000 10000
    python perf/construction_growth.py egothink --videos 1000 10000
    python perf/construction_growth.py actplan --videos 1000
"""

import argparse
import csv
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import NAMESPACE_URL, uuid5

from PIL import Image

# Instead of this folder, whose construction.py would hide the package of the tests.
sys.path[0] = str(Path(__file__).parents[1] / "tests")

from benchmarks.egointent.source import goalstep_video, segment, write_goalstep  # noqa: E402
from construction.actplan.language_model import LanguageModel  # noqa: E402
from construction.actplan.rooms import ACTIVITIES, COLOURS, PROBLEM  # noqa: E402
from construction.ego4d_files import narrated, write_narrations  # noqa: E402
from construction.egointent import language_model as egointent_model  # noqa: E402
from construction.egoplan import language_model as egoplan_model  # noqa: E402
from construction.egoplan.small import epic_row  # noqa: E402
from judge_server import JudgeServer  # noqa: E402
from lmms_egoplan.media.frames import write_video  # noqa: E402

NARRATIONS_PER_VIDEO = 20
STEPS_PER_VIDEO = 5
# The log line for each kind of request.
REQUEST_LOG = re.compile(r"\d+ of (\d+) prompts answered by \S+ in ([\d.]+) s: (\d+) now")
VERBS = ("take", "put", "open", "close", "wash", "cut", "fill", "pour", "stir", "dry")
OBJECTS = ("cup", "kettle", "box", "knife", "plate", "sponge", "carrot", "pan", "lid", "bowl")


@dataclass(frozen=True)
class Measured:
    """The cost of one command.

    Attributes:
        requests: Number of requests to the language model.
        cpu_s: User and system time of the process, in seconds.
        peak_mib: Peak memory of the process, in MiB.
    """

    requests: int
    cpu_s: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=list(SOURCES), help="What is built.")
    parser.add_argument("--videos", type=int, nargs="+", default=[1000], help="Numbers of videos.")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.kind)
        return
    print(f"{time.strftime('%Y-%m-%d')}; Python {platform.python_version()}")
    print("| videos | requests | CPU time, s | CPU time per video, ms | peak memory, MiB |")
    print("|---:|---:|---:|---:|---:|")
    for count in arguments.videos:
        with TemporaryDirectory() as scratch, server_of(arguments.kind) as url:
            folder = Path(scratch)
            options = SOURCES[arguments.kind](folder, count)
            measured = build(options, folder, url)
            print(
                f"| {count:,} | {measured.requests:,} | {measured.cpu_s:.1f} "
                f"| {1000 * measured.cpu_s / count:.2f} | {measured.peak_mib:.0f} |",
                flush=True,
            )


def build(options: list[object], folder: Path, url: str) -> Measured:
    """Run the command, and measure its process."""
    environment = os.environ | {
        "LMMS_EGOPLAN_DATA": str(folder / "data"),
        "LMMS_EGOPLAN_JUDGE_BASE_URL": url,
        "LMMS_EGOPLAN_JUDGE_CONCURRENCY": "8",
    }
    command = [sys.executable, "-m", "lmms_egoplan", "data", "build", *map(str, options)]
    with (folder / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = (folder / "log").read_text(encoding="utf-8")
    if process.returncode:
        raise SystemExit(text[-3000:])
    requests = sum(int(match[3]) for match in REQUEST_LOG.finditer(text))
    return Measured(requests, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_epic_narrations(folder: Path, count: int) -> Path:
    """Write narrations in EPIC-KITCHENS' layout, 20 per video."""
    chance = random.Random(0)
    path = folder / "narrations.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, epic_row().keys())
        writer.writeheader()
        for video in range(count):
            for number in range(NARRATIONS_PER_VIDEO):
                text = f"{chance.choice(VERBS)} {chance.choice(OBJECTS)}"
                # Ids that are not 3 digits have 60 frames per second, like the rows.
                writer.writerow(epic_row(f"P01_v{video}", number, text))
    return path


def egoplan(folder: Path, count: int) -> list[object]:
    """Prepare a build that asks for the goals of each video."""
    narrations = write_epic_narrations(folder, count)
    return ["egoplan", narrations, "--source", "epic-kitchens", "--out", folder / "built"]


def egoplan_with_goals(folder: Path, count: int) -> list[object]:
    """Prepare a build with a file of goals."""
    narrations = write_epic_narrations(folder, count)
    goals = {}
    rows: list[tuple[str, str, str]] = []
    with narrations.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows.append((row["start_timestamp"], row["stop_timestamp"], row["narration"]))
            if len(rows) == NARRATIONS_PER_VIDEO:
                goals[row["video_id"]] = egoplan_model.goals_of(rows)
                rows = []
    (folder / "goals.json").write_text(json.dumps(goals), encoding="utf-8")
    options = ["--source", "epic-kitchens", "--out", folder / "built"]
    return ["egoplan", narrations, *options, "--goals", folder / "goals.json"]


def egointent(folder: Path, count: int) -> list[object]:
    """Prepare a build of 5 narrations per video. All videos have the content of one file."""
    uids = [str(uuid5(NAMESPACE_URL, str(number))) for number in range(count)]
    chance = random.Random(0)
    videos = {}
    for uid in uids:
        rows = [
            (0.5 + 0.6 * number, f"#C C {chance.choice(VERBS)}s the {chance.choice(OBJECTS)}")
            for number in range(STEPS_PER_VIDEO)
        ]
        videos[uid] = {"narration_pass_1": narrated(*rows)}
    narrations = write_narrations(folder / "narration.json", videos)
    steps = [segment(0, 4, "Make tea")]
    goalsteps = [goalstep_video(uid, *steps, goal="Making tea") for uid in uids]
    write_goalstep(folder / "goalstep.json", *goalsteps)
    (folder / "videos").mkdir()
    write_video(folder / "one.mp4", (scene(0) for _ in range(120)), fps=30)
    for uid in uids:
        os.link(folder / "one.mp4", folder / "videos" / f"{uid}.mp4")
    options = ["--narrations", narrations, "--videos", folder / "videos"]
    return ["egointent", folder / "goalstep.json", *options, "--out", folder / "steps.jsonl"]


def egothink(folder: Path, count: int) -> list[object]:
    """Prepare videos of two different frames."""
    (folder / "videos").mkdir()
    for number in range(count):
        frames = [scene(2 * number), scene(2 * number + 1)]
        write_video(folder / f"videos/{number}.mp4", frames, fps=1)
    return ["egothink", folder / "videos", "--out", folder / "built", "--every", 1]


def actplan(folder: Path, count: int) -> list[object]:
    """Prepare activities with a tour each: a video of four rooms."""
    for number in range(count):
        thing, target = list(ACTIVITIES.values())[number % len(ACTIVITIES)]
        name = f"activity_{number}"
        (folder / "bddl" / name).mkdir(parents=True)
        (folder / "bddl" / name / "problem0.bddl").write_text(
            PROBLEM.format(name=name, thing=thing, target=target)
        )
        (folder / "bddl" / name / "task_description_0.txt").write_text(
            f"Two {thing}s are on a table. Put all {thing}s into the {target}.\n"
        )
        frames = [room(number, object_) for object_ in ("table", thing, target, "floor")]
        tour = folder / f"tours/home/{name}/0/sample_0.mp4"
        write_video(tour, frames, fps=1)
    options = ["--images", folder / "tours", "--out", folder / "built"]
    return ["actplan", folder / "bddl", *options]


def scene(seed: int) -> Image.Image:
    """Return an image of 64 x 48 px with random blocks."""
    chance = random.Random(seed)
    blocks = Image.frombytes("L", (16, 12), chance.randbytes(16 * 12))
    return blocks.resize((64, 48), Image.Resampling.NEAREST).convert("RGB")


def room(seed: int, thing: str) -> Image.Image:
    """Return an image of 64 x 48 px with a field of an object's colour on random blocks."""
    image = Image.blend(scene(hash((seed, thing)) % 10**9), Image.new("RGB", (64, 48)), 0.6)
    image.paste(COLOURS[thing], (8, 8, 40, 40))
    return image


SOURCES: dict[str, Callable[[Path, int], list[object]]] = {
    "egoplan": egoplan,
    "egoplan-with-goals": egoplan_with_goals,
    "egointent": egointent,
    "egothink": egothink,
    "actplan": actplan,
}


def serve(kind: str) -> None:
    """Run the language model for a kind of build, and print its URL."""
    if kind == "actplan":
        server: JudgeServer = LanguageModel()
    elif kind == "egointent":
        server = JudgeServer(lambda prompt, _: egointent_model.reply(prompt, 0, lambda _: ""))
    else:
        server = JudgeServer(lambda prompt, _: egoplan_model.reply(prompt, 0, lambda _: ""))
    server.prompts = deque(maxlen=0)
    server.headers = deque(maxlen=0)
    server.bodies = deque(maxlen=0)
    server.answered = deque(maxlen=0)
    with server:
        print(server.url, flush=True)
        signal.pause()


@contextmanager
def server_of(kind: str) -> Iterator[str]:
    """Start the language model in another process, and yield its URL."""
    command = [sys.executable, __file__, kind, "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
