"""Tune a tiny model on a rendered EgoPlan-IT, for several seeds, with the ablations of the paper's
Table 3.

Each seed has its own scenes, weights and folder. The model is trained on captions of rendered
scenes, then tuned on right and wrong answers about their next steps. The questions show other
colours and rooms. lmms-eval measures the accuracies in `egoplan_val` before and after, and without
the video.

    # 3 seeds with 4 ablations each, about 30 minutes on 2 cores
    python perf/demo/learning.py --out learning
    # one seed, 5 minutes
    python perf/demo/learning.py --out learning --seeds 0 --no-ablations
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tuning_set
import yaml
from rich.console import Console
from rich.table import Table

from lmms_egoplan.benchmarks.egoplan.metrics import SOURCE_METRIC
from lmms_egoplan.demo.folder import OWN_COMMAND, RESULTS, DemoFolder

ABLATIONS = {
    "w/o LoRA": "--no-lora",
    "w/o contrastive loss": "--no-contrastive",
    "w/o instructions": "--no-instructions",
    "w/o action recognition": "--no-recognition",
}
# Two layers leave LoRA little to change, so it applies to all of their projections.
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SETTINGS = {
    "lora": {"targets": PROJECTIONS},
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
BASE = "base"
TASK = "egoplan_val"
BLIND = "egoplan_val_blind"
BEFORE = "before tuning"
TUNED = "tuned"
WITHOUT_VIDEO = "tuned, without the video"
CHANCE = dict.fromkeys(("id", "od", "all"), 25.0)

Accuracies = Mapping[str, float]
"""Percentages by ``id``, ``od`` and ``all``, as in Table 3."""


class Learning:
    """The steps of one seed, in one folder.

    Args:
        out: As for `DemoFolder`.
        seed: Random seed for weights, scenes and training.
        console: Console for progress.
        steps: Titles of the steps.
    """

    def __init__(self, out: Path, seed: int, console: Console, steps: Sequence[str]) -> None:
        self.folder = DemoFolder(out, (BASE, FOLDER, "tuned"), console, steps)
        self._seed = seed

    def train_base(self) -> None:
        """Train a LLaVA on captions."""
        program = Path(__file__).resolve().with_name("captions.py")
        self.folder.run([sys.executable, str(program), BASE, str(self._seed)])

    def prepare(self) -> None:
        """Render EgoPlan-IT and questions about other worlds, and prepare the questions."""
        root = self.folder.path / FOLDER
        root.mkdir()
        tuning_set.write_tuning_data(root, self._seed)
        tuning_set.write_questions(root, self._seed)
        media = ("--epic-kitchens", f"{FOLDER}/epic-kitchens", "--ego4d", f"{FOLDER}/ego4d")
        annotations = f"{FOLDER}/{tuning_set.ANNOTATIONS}"
        self.folder.run(
            [*OWN_COMMAND, "data", "prepare", "egoplan", annotations, "--split", "val", *media]
        )

    def tune(self, name: str, options: Sequence[str] = ()) -> None:
        """Tune into ``tuned/NAME``, with additional options of ``train egoplan``."""
        settings = {
            **SETTINGS,
            "model": BASE,
            "data": f"{FOLDER}/{tuning_set.TUNING_DATA}",
            "seed": self._seed,
            "epic_kitchens": f"{FOLDER}/epic-kitchens",
            "instructions": [f"{FOLDER}/{tuning_set.CAPTIONS}"],
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
        arguments = f"pretrained={BASE},dtype=float32{adapter}"
        results = f"{RESULTS}/{name or BASE}"
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


def accuracies_table(rows: Mapping[str, Accuracies], subject: str) -> Table:
    """Create a table of in-domain, out-of-domain and overall accuracies, like Table 3."""
    table = Table("", "ID %", "OD %", "all %", title=f"Accuracy in {TASK}: {subject}")
    for name, accuracies in rows.items():
        table.add_row(name, *(f"{accuracies[key]:.1f}" for key in ("id", "od", "all")))
    return table


def learn(
    out: Path, seed: int, console: Console, ablations: dict[str, str]
) -> dict[str, Accuracies]:
    """Return the accuracies before and after tuning, without the video, and for each ablation."""
    steps = [
        f"seed {seed}: model, scenes, and {TASK} before tuning",
        *(f"seed {seed}: {n}" for n in (TUNED, *ablations)),
    ]
    learning = Learning(out, seed, console, steps)
    rows: dict[str, Accuracies] = {}
    with learning.folder.status:
        learning.folder.begin_step()
        learning.train_base()
        learning.prepare()
        (rows[BEFORE],) = learning.ask()
        learning.folder.begin_step()
        learning.tune("tuned")
        rows[TUNED], rows[WITHOUT_VIDEO] = learning.ask("tuned", (TASK, BLIND))
        for name, option in ablations.items():
            learning.folder.begin_step()
            folder = option.strip("-")
            learning.tune(folder, (option,))
            (rows[name],) = learning.ask(folder)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="Output folder, with a subfolder per seed."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="Seeds to run.")
    parser.add_argument("--no-ablations", action="store_true", help="Skip the ablations.")
    arguments = parser.parse_args()
    console = Console()
    ablations = {} if arguments.no_ablations else ABLATIONS
    measured = []
    for seed in arguments.seeds:
        measured.append(learn(arguments.out / f"seed-{seed}", seed, console, ablations))
        console.print(accuracies_table({"chance": CHANCE} | measured[-1], f"seed {seed}"))
    means = {
        name: {part: statistics.fmean(rows[name][part] for rows in measured) for part in accuracies}
        for name, accuracies in measured[0].items()
    }
    console.print(accuracies_table({"chance": CHANCE} | means, f"mean of {len(measured)} seeds"))


if __name__ == "__main__":
    main()
