"""Make the files of `old_artefacts`, and read them with another version of the package."""

import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loguru import logger

from output_cases.inputs import (
    INTENTS,
    THOUGHTS,
    demo_sets,
    prepare_sets,
    scripted_judge,
    write_answers,
)

_JUDGED = {"egothink": THOUGHTS, "egointent": INTENTS}
_MODEL = "org/judge-of-the-artefacts"
_TASKS = "egoplan_val,egoplan_val_generate,egoplan_bench2,egothink_bench,egointent,actplan"
_STRATA = ("dimension", "rating", "dimension,rating")
_LABELLED = 3  # labels of the first annotator
_LONGEST_S = 900
_LONGEST_PROBLEM = 300
_REFUSAL = re.compile(r"in (format \d+; this version reads format \d+)")


def make() -> None:
    """Make all files in the current folder."""
    prepare_sets()
    write_answers()
    _make_judgements()
    _evaluate("responses", "run")
    _make_labels()
    Path("draws.json").write_text(json.dumps(_draw(), indent=1))
    _make_training()
    print("made", flush=True)


@dataclass(frozen=True)
class Place:
    """Where files are read.

    old: folder with the files, which is not changed.
    new: empty folder for copies.
    """

    old: Path
    new: Path


def read(names: Sequence[str]) -> int:
    """Read the files in the current folder, and return the number of failures."""
    old = Path.cwd()
    os.environ["LMMS_EGOPLAN_ENCODER"] = str(old / "tiny-encoder")
    logger.remove()
    failures = 0
    current = Path(tempfile.mkdtemp(prefix="old-artefacts-data-"))
    shutil.copytree(old / "data", current / "data")
    if _refused(current / "data"):
        shutil.rmtree(current / "data")
        print("prepared again:", _prepare_again(old, current / "data") or "all", flush=True)
    for name in names or list(_READERS):
        with tempfile.TemporaryDirectory(prefix="old-artefacts-") as folder:
            os.chdir(folder)
            # If this version refuses the old prepared data, the other files are read without them.
            shutil.copytree(current / "data", "data")
            shutil.copy2(old / "data/judgements.sqlite", "data/judgements.sqlite")
            os.environ["LMMS_EGOPLAN_DATA"] = str(Path("data").resolve())
            try:
                problems = _READERS[name](Place(old, Path(folder)))
            except Exception as error:
                problems = [f"{type(error).__name__}: {error}"]
            os.chdir(old)
        failures += bool(problems)
        shown = "; ".join(problem[:_LONGEST_PROBLEM] for problem in problems)
        print(f"{name}: {shown or 'read'}", flush=True)
    shutil.rmtree(current)
    return failures


def _prepare_again(old: Path, data: Path) -> list[str]:
    """Prepare the old sets in a new folder, from the folder that contains them."""
    os.environ["LMMS_EGOPLAN_DATA"] = str(data)
    os.chdir(old)
    results = [_command("data", "prepare", *demo_set.prepare) for demo_set in demo_sets()]
    return [result.output[-_LONGEST_PROBLEM:] for result in results if result.exit_code]


def _refused(data: Path) -> list[str]:
    """Return why prepared data are refused; nothing if they are read."""
    os.environ["LMMS_EGOPLAN_DATA"] = str(data)
    result = _command("data", "status")
    if result.exit_code == 0:
        return []
    lines = [line for line in result.output.splitlines() if _REFUSAL.search(line)]
    reasons = [f"{line.partition(' in ')[0]}: {_REFUSAL.search(line)[1]}" for line in lines]
    return reasons or [result.output]


def _command(*arguments: str | Path) -> Any:
    from typer.testing import CliRunner

    from lmms_egoplan.cli import app

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def _make_judgements() -> None:
    with scripted_judge(_MODEL, always_rates=True):
        for benchmark, answers in _JUDGED.items():
            result = _command("judge", benchmark, answers, "--out", f"{benchmark}.jsonl")
            if not Path(f"{benchmark}.jsonl").exists():  # some replies have no rating
                shutil.copy(f"{benchmark}.jsonl.partial", f"{benchmark}.jsonl")
            print(result.output)


def _read_judgements(place: Place) -> list[str]:
    """Judge the same answers with a judge that counts its requests."""
    problems = []
    with scripted_judge(_MODEL, always_rates=True) as server:
        for benchmark, answers in _JUDGED.items():
            result = _command("judge", benchmark, place.old / answers, "--out", "judged.jsonl")
            if server.prompts:
                problems.append(f"{len(server.prompts)} requests of {benchmark}: {result.output}")
                server.prompts.clear()
            judged = [path for path in Path().glob("judged.jsonl*") if path.is_file()]
            if not judged:
                problems.append(f"{benchmark}: {result.output}")
                continue
            problems += _differing_rows(place.old / f"{benchmark}.jsonl", judged[0])
            judged[0].unlink()
    return problems


def _differing_rows(old: Path, new: Path) -> list[str]:
    pairs = [[json.loads(line) for line in path.read_text().splitlines()] for path in (old, new)]
    if len(pairs[0]) != len(pairs[1]):
        return [f"{old.name}: {len(pairs[0])} rows, now {len(pairs[1])}"]
    problems = set()
    for before, after in zip(*pairs, strict=True):
        for name in before.keys() | after.keys():
            if before.get(name, "missing") != after.get(name, "missing"):
                problems.add(
                    f"{old.name}: {name}: {before.get(name, 'missing')!r}, "
                    f"now {after.get(name, 'missing')!r}"
                )
    return sorted(problems)[:5]


def _evaluate(cache: str | Path, out: str | Path, folder: Path = Path()) -> None:
    """Run lmms-eval on the first questions with the tiny model and a cache of responses."""
    checkpoint = (folder / "checkpoint").resolve()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "lmms_eval", "--tasks", _TASKS, "--model", "hf_vlm"),
            *("--model_args", f"pretrained={checkpoint},dtype=float32", "--limit", "3"),
            *("--batch_size", "8", "--gen_kwargs", "max_new_tokens=8", "--log_samples"),
            *("--use_cache", str(cache), "--output_path", str(out)),
        ],
        env=os.environ | {"LMMS_EGOPLAN_JUDGE_MODEL": "demo"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    Path("lmms-eval.log").write_text(done.stdout)
    if not list(Path(out).rglob("*_results.json")):
        raise RuntimeError(f"no results: {done.stdout[-3000:]}")


def _computed(cache: Path) -> list[str]:
    """Return the key of each response that was computed and stored."""
    return [
        json.loads(line)["cache_key"]
        for path in sorted((cache / "runs").rglob("*.audit.jsonl"))
        for line in path.read_text().splitlines()
    ]


def _read_responses(place: Place) -> list[str]:
    """Repeat the run with a copy of the cache. No response may be added to it."""
    shutil.copytree(place.old / "responses", "responses")
    if not _refused(place.old / "data"):
        os.environ["LMMS_EGOPLAN_DATA"] = str(place.old / "data")
    before = _computed(Path("responses"))
    _evaluate("responses", "run", place.old)
    after = _computed(Path("responses"))
    problems = []
    if not before:
        problems.append("the cache is empty")
    if before != after:
        problems.append(f"{len(before)} responses are stored, {len(after) - len(before)} are new")
    names = {}
    for folder in (place.old / "run", Path("run")):
        for path in folder.rglob("*_samples_*.jsonl"):
            names.setdefault(path.name.partition("_samples_")[2], []).append(path)
    for name, paths in sorted(names.items()):
        if len(paths) != 2:
            problems.append(f"{name}: missing")
            continue
        rows = [[json.loads(line) for line in path.read_text().splitlines()] for path in paths]
        answers = [[row["filtered_resps"] for row in of_run] for of_run in rows]
        if answers[0] != answers[1]:
            problems.append(f"{name}: other responses")
    return problems


def _open_labels(folder: Path, old: Path) -> Any:
    """Open the database in a folder, on the steps in another."""
    from annotation.studies import open_store
    from lmms_egoplan.annotation.egointent import FLOW, read_items
    from lmms_egoplan.annotation.serve import Team

    steps = old / "egointent-steps"
    return open_store(
        FLOW,
        folder / "labels.sqlite",
        lambda _: read_items(steps / "steps.jsonl", steps / "videos"),
        "steps",
        Team(2),
    )


def _label(store: Any, count: int) -> None:
    from annotation.egointent_labelling import unchanged
    from annotation.serving import enter, post, served

    with served(store) as address:
        client = enter(address, store, "annotator-1")
        for _ in range(count):
            assert post(client, **unchanged(client.page.text)).status_code == 200


def _clips(store: Any) -> list[str]:
    """Return the names of all clips of the database's forms. Missing ones are cut."""
    from lmms_egoplan.annotation.egointent import FLOW
    from lmms_egoplan.annotation.serve import media_folder

    folder = media_folder(store.database.path)
    media = [part for item in store.items() for part in FLOW.form(item.contents).media]
    return sorted(folder.file(part).name for part in media)


def _make_labels() -> None:
    store = _open_labels(Path(), Path().resolve())
    _label(store, _LABELLED)
    Path("clips.json").write_text(json.dumps(_clips(store)))
    store.close()
    result = _command("annotate", "export", "labels.sqlite", "--out", "labels")
    assert result.exit_code == 0, result.output


def _read_labels(place: Place) -> list[str]:
    """Open a copy of the database and its clips, export it, show all clips, and add a label."""
    shutil.copy2(place.old / "labels.sqlite", "labels.sqlite")
    shutil.copytree(place.old / "labels.sqlite.media", "labels.sqlite.media")
    names = {path.name for path in Path("labels.sqlite.media").iterdir()}
    result = _command("annotate", "export", "labels.sqlite", "--out", "labels")
    problems = [] if result.exit_code == 0 else [result.output]
    compared = filecmp.dircmp(place.old / "labels", "labels")
    for name in compared.left_only + compared.right_only + compared.diff_files:
        if name not in (".lmms-egoplan.jsonl", ".lmms-egoplan.lock"):
            problems.append(f"labels/{name} differs")
    store = _open_labels(place.new, place.old)
    if _clips(store) != json.loads((place.old / "clips.json").read_text()):
        problems.append("clips have other names")
    _label(store, 1)
    store.close()
    added = {path.name for path in Path("labels.sqlite.media").iterdir()} - names
    if added:
        problems.append(f"{len(added)} new clips")
    return problems


def _draw(folder: Path = Path()) -> dict[str, list[str]]:
    """Draw samples of judged answers, by each kind of stratum."""
    from lmms_egoplan.annotation.egothink import read_items, sample_items
    from lmms_egoplan.annotation.serve import media_folder

    media = media_folder(Path("draws.sqlite"))
    items = read_items([folder / THOUGHTS], media, [folder / "egothink.jsonl"])
    drawn = {}
    for by in _STRATA:
        for count in (5, 12):
            chosen = sample_items(items, count, by)
            drawn[f"{count} by {by}"] = [item.id for item in chosen]
    return drawn


def _read_draws(place: Place) -> list[str]:
    old = json.loads((place.old / "draws.json").read_text())
    return [f"{name}: another sample" for name, ids in _draw(place.old).items() if ids != old[name]]


def _train(out: str, *options: str, until: str | None = None, folder: Path = Path()) -> None:
    """Train on the small set, and kill the run when a file exists."""
    command = [sys.executable, "-m", "lmms_egoplan", "train", "egoplan"]
    command += ["--config", str((folder / "tuning.yaml").resolve()), "--out", out, *options]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true"}
    with Path(f"{out}.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        ends = time.monotonic() + _LONGEST_S
        while until and not Path(out, until).exists() and process.poll() is None:
            assert time.monotonic() < ends, f"{out}/{until} is still missing"
            time.sleep(0.02)
        if until:
            process.send_signal(signal.SIGKILL)
        code = process.wait(_LONGEST_S)
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(Path(f"{out}.log").read_text()[-3000:])


def _make_training() -> None:
    from lmms_egoplan.training.egoplan.settings import settings_text
    from training.egoplan.small import tuning, write_set

    small = Path("training").resolve()
    small.mkdir()
    write_set(small)
    Path("tuning.yaml").write_text(settings_text(tuning(small)), encoding="utf-8")
    _train("trained")
    _train("interrupted", until="checkpoints/checkpoint-2/complete.json")


def _read_training(place: Place) -> list[str]:
    """Resume a copy of the interrupted run. Its weights must be those of the whole run."""
    shutil.copytree(place.old / "interrupted", "interrupted")
    _train("interrupted", "--resume", folder=place.old)
    problems = []
    for name in ("adapter_model.safetensors", "adapter_config.json", "config.yaml"):
        if not filecmp.cmp(place.old / "trained" / name, Path("interrupted", name), shallow=False):
            problems.append(f"{name} differs from that of the uninterrupted run")
    return problems


def _read_data(place: Place) -> list[str]:
    """List a copy of the old prepared data, with the formats that are refused."""
    shutil.copytree(place.old / "data", "old-data")
    return _refused(place.new / "old-data")


_READERS: dict[str, Callable[[Place], list[str]]] = {
    "data": _read_data,
    "judgements": _read_judgements,
    "responses": _read_responses,
    "labels": _read_labels,
    "draws": _read_draws,
    "training": _read_training,
}

if __name__ == "__main__":
    if sys.argv[1] == "make":
        make()
    else:
        sys.exit(min(read(sys.argv[2:]), 1))
