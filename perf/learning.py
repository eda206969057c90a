"""Tune a tiny model on a rendered EgoPlan-IT, for several seeds, with the ablations of the paper's
Table 3.

Each seed has its own scenes, weights and folder, and runs the steps of `lmms-egoplan train demo`.
lmms-eval measures the accuracies in `egoplan_val`.

    python perf/learning.py --out learning                # 3 seeds with 4 ablations each, about 30
    minutes on 2 cores python perf/learning.py --out learning --no-ablations
"""

import argparse
import statistics
from pathlib import Path

from rich.console import Console

from lmms_egoplan.training.egoplan.demo import (
    BEFORE,
    BLIND,
    CHANCE,
    TASK,
    TUNED,
    WITHOUT_VIDEO,
    Accuracies,
    LearningDemo,
    accuracies_table,
)

ABLATIONS = {
    "w/o LoRA": "--no-lora",
    "w/o contrastive loss": "--no-contrastive",
    "w/o instructions": "--no-instructions",
    "w/o action recognition": "--no-recognition",
}


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


def learn(
    out: Path, seed: int, console: Console, ablations: dict[str, str]
) -> dict[str, Accuracies]:
    """Return the accuracies before and after tuning, without the video, and for each ablation."""
    steps = [
        f"seed {seed}: model, scenes, and {TASK} before tuning",
        *(f"seed {seed}: {n}" for n in (TUNED, *ablations)),
    ]
    demo = LearningDemo(out, console, seed, steps)
    rows: dict[str, Accuracies] = {}
    with demo.folder.status:
        demo.folder.begin_step()
        demo.train_base()
        demo.render()
        demo.prepare()
        (rows[BEFORE],) = demo.ask()
        demo.folder.begin_step()
        demo.tune("tuned")
        rows[TUNED], rows[WITHOUT_VIDEO] = demo.ask("tuned", (TASK, BLIND))
        for name, option in ablations.items():
            demo.folder.begin_step()
            folder = option.strip("-")
            demo.tune(folder, (option,))
            (rows[name],) = demo.ask(folder)
    return rows


if __name__ == "__main__":
    main()
