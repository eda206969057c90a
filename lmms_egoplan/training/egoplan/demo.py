"""Run ``lmms-egoplan train demo``: a tiny model learns to plan in rendered scenes.

lmms-eval measures it.
"""

import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.egoplan.metrics import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.prompts import QUESTION
from lmms_egoplan.demo.folder import LOG, OWN_COMMAND, RESULTS, DemoFolder
from lmms_egoplan.training.egoplan import rendered
from lmms_egoplan.training.egoplan.captions import train_on_captions
from lmms_egoplan.training.egoplan.worlds import procedures

_NOTE = (
    "A tiny model is trained on captions of rendered scenes, then tuned on a rendered EgoPlan-IT. "
    "The questions show other colours and rooms. Do not compare these scores with published ones.\n"
)
_STEPS = (
    "Train a tiny LLaVA on captions of rendered scenes",
    "Render a small EgoPlan-IT, and questions in other colours and rooms",
    "Prepare the questions (lmms-egoplan data prepare)",
    "Evaluate the model before tuning (lmms-eval)",
    "Tune it with the contrastive loss (lmms-egoplan train egoplan)",
    "Evaluate the tuned model with and without the video (lmms-eval)",
    "Write the report (lmms-egoplan report)",
)
_CAPTION_UPDATES = [700, 250]
# Two layers leave LoRA little to change, so it applies to all of their projections.
_PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
_SETTINGS = {
    "lora": {"targets": _PROJECTIONS},
    "num_clips": 4,
    "frames_per_clip": 2,
    "steps": 220,
    "batch_size": 16,
    "per_device_batch_size": 16,
    "contrastive_group": 16,  # the whole batch
    "learning_rate": 0.003,
    "final_learning_rate": 0.00005,
    "precision": "float32",
    "workers": 1,
    "held_out": 0.1,
    "evaluate_every": 50,
}
FOLDER = "egoplan"
TASK = "egoplan_val"
BLIND = "egoplan_val_blind"
BEFORE = "before tuning"
TUNED = "tuned"
WITHOUT_VIDEO = "tuned, without the video"
CHANCE = dict.fromkeys(("id", "od", "all"), 25.0)

_BASE = "base"

Accuracies = Mapping[str, float]
"""Percentages by ``id``, ``od`` and ``all``, as in Table 3."""


class LearningDemo:
    """The steps of the demo, in one folder.

    Args:
        out: As for `DemoFolder`.
        console: Console for progress.
        seed: Random seed for weights, scenes and training.
        steps: Titles of the steps.
    """

    def __init__(self, out: Path, console: Console, seed: int, steps: Sequence[str]) -> None:
        self.folder = DemoFolder(out, (_BASE, FOLDER, "tuned"), console, steps)
        self._seed = seed

    def train_base(self) -> None:
        """Train a LLaVA on captions."""
        code = (
            f"from {__name__} import write_base; write_base({_BASE!r}, {self._seed}, "
            f"{_CAPTION_UPDATES})"
        )
        self.folder.run([sys.executable, "-c", code])

    def render(self) -> None:
        """Render EgoPlan-IT and questions about other worlds."""
        root = self.folder.path / FOLDER
        root.mkdir()
        rendered.write_tuning_data(root, self._seed)
        rendered.write_questions(root, self._seed)

    def prepare(self) -> None:
        """Prepare the questions."""
        media = ("--epic-kitchens", f"{FOLDER}/epic-kitchens", "--ego4d", f"{FOLDER}/ego4d")
        annotations = f"{FOLDER}/{rendered.ANNOTATIONS}"
        self.folder.run(
            [*OWN_COMMAND, "data", "prepare", "egoplan", annotations, "--split", "val", *media]
        )

    def tune(self, name: str, options: Sequence[str] = ()) -> None:
        """Tune into ``tuned/NAME``, with additional options of ``train egoplan``."""
        settings = {
            **_SETTINGS,
            "model": _BASE,
            "data": f"{FOLDER}/{rendered.TUNING_DATA}",
            "seed": self._seed,
            "epic_kitchens": f"{FOLDER}/epic-kitchens",
            "instructions": [f"{FOLDER}/{rendered.CAPTIONS}"],
        }
        config = self.folder.path / "tuned" / f"{name}.yaml"
        config.parent.mkdir(exist_ok=True)
        config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        out = f"tuned/{name}"
        self.folder.run(
            [*OWN_COMMAND, "train", "egoplan", "--config", f"{out}.yaml", "--out", out, *options]
        )

    def ask(self, name: str | None = None, tasks: Sequence[str] = (TASK,)) -> list[Accuracies]:
        """Measure accuracies in each task, of the base or of the model tuned under `name`."""
        adapter = f",peft=tuned/{name}" if name else ""
        arguments = f"pretrained={_BASE},dtype=float32{adapter}"
        results = f"{RESULTS}/{name or _BASE}"
        (metrics,) = self.folder.evaluate(
            {arguments: "hf_vlm"}, tasks, results, dict.fromkeys(tasks, "acc")
        )
        in_domain, out_of_domain = SOURCE_METRIC.values()
        accuracies: list[Accuracies] = []
        for task in tasks:
            values = metrics[task]
            accuracies.append(
                {
                    "id": 100 * values[in_domain],
                    "od": 100 * values[out_of_domain],
                    "all": 100 * values["acc"],
                }
            )
        return accuracies


def run_learning_demo(out: Path, console: Console) -> None:
    """Train, tune and measure a tiny model, and print its accuracies.

    They are those before and after, without video, and by chance.

    Raises:
        LmmsEgoplanError: As for `DemoFolder`; or a command failed, with the end of the log.
        OSError: `out` cannot be written.
    """
    demo = LearningDemo(out, console, 0, _STEPS)
    folder = demo.folder
    console.print(_NOTE, markup=False, highlight=False)
    rows: dict[str, Accuracies] = {"chance": CHANCE}
    with folder.status:
        for step in (demo.train_base, demo.render, demo.prepare):
            folder.begin_step()
            step()
        folder.begin_step()
        (rows[BEFORE],) = demo.ask()
        folder.begin_step()
        demo.tune("tuned")
        folder.begin_step()
        rows[TUNED], rows[WITHOUT_VIDEO] = demo.ask("tuned", (TASK, BLIND))
        folder.begin_step()
        page = folder.report()
    console.print(accuracies_table(rows, "rendered scenes"))
    for line in (
        f"Log of all commands: {folder.path / LOG}",
        f"Report (open in a browser): {page}",
    ):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def accuracies_table(rows: Mapping[str, Accuracies], subject: str) -> Table:
    """Create a table of in-domain, out-of-domain and overall accuracies, like Table 3."""
    table = Table("", "ID %", "OD %", "all %", title=f"Accuracy in {TASK}: {subject}")
    for name, accuracies in rows.items():
        table.add_row(name, *(f"{accuracies[key]:.1f}" for key in ("id", "od", "all")))
    return table


def write_base(folder: str, seed: int, updates: tuple[int, int]) -> None:
    """Train the base model of the demo; see `train_on_captions`."""
    questions = [QUESTION.format(goal=procedure.goal) for procedure in procedures()]
    train_on_captions(Path(folder), questions, updates, random.Random(seed).randrange(2**31))
