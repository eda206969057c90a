"""Training data for other trainers, and a training run of a few steps."""

import os
import shutil
from pathlib import Path

from output_cases.commands import Commands
from output_cases.store import store_folder

_FILE_TIME = 1_700_000_000


def train() -> None:
    """Train the demo's tiny model on a small set, merge the adapter, and export the set."""
    from lmms_egoplan.training.egoplan.settings import settings_text
    from training.egoplan.small import tuning, write_set

    Path("small").mkdir()
    small = write_set(Path("small").resolve())
    for path in small.rglob("*"):  # the identity of an export contains the times of its media
        os.utime(path, (_FILE_TIME, _FILE_TIME))
    settings = settings_text(tuning(small, steps=2, save_every=1, evaluate_every=2))
    Path("tuning.yaml").write_text(settings, encoding="utf-8")
    commands = Commands("commands")
    commands.run("train", "egoplan", "--config", "tuning.yaml", "--out", "tuned")
    commands.run("train", "egoplan", "--config", "tuning.yaml", "--out", "tuned", "--resume")
    commands.run("train", "egoplan", "--config", "tuning.yaml", "--out", "tuned")
    commands.run("merge", "egoplan", "tuned", "--out", "merged")
    for form in ("trl", "ms-swift", "llama-factory"):
        commands.run(
            *("data", "export", "egoplan-it", "small/EgoPlan_IT.json", "--format", form),
            *("--epic-kitchens", "small/epic", "--out", form),
        )
    for folder in ("tuned/checkpoints", "small"):
        shutil.rmtree(folder, ignore_errors=True)
    store_folder("files", Path())
