"""ActPlan-1K's own subcommands of ``lmms-egoplan``."""

from pathlib import Path

import typer

from lmms_egoplan.benchmarks.actplan.commands.annotate import annotate, annotate_circumstances, annotate_plans
from lmms_egoplan.benchmarks.actplan.commands.bleurt import evaluate, train
from lmms_egoplan.benchmarks.actplan.commands.build import build
from lmms_egoplan.benchmarks.actplan.commands.goal_check import goal_check
from lmms_egoplan.benchmarks.actplan.commands.judge import judge
from lmms_egoplan.benchmarks.actplan.commands.prepare import prepare
from lmms_egoplan.benchmarks.actplan.commands.score import score

METRICS = Path(__file__).resolve().parents[1] / "evaluate_metrics"


def metrics_path() -> None:
    """Print the folder of the metrics for Hugging Face's library evaluate: `actplan_lcs` and `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...], references=[...])`
    """
    typer.echo(METRICS)


COMMANDS = {
    "data prepare actplan": prepare,
    "data build actplan": build,
    "score actplan": score,
    "judge actplan": judge,
    "train bleurt": train,
    "evaluate bleurt": evaluate,
    "evaluate goal-check": goal_check,
    "metrics-path": metrics_path,
    "annotate actplan": annotate,
    "annotate actplan-circumstances": annotate_circumstances,
    "annotate actplan-plans": annotate_plans,
}
HELPS = {
    "data prepare": "`lmms-egoplan data prepare actplan ActPlan-1K/annotation`",
    "score": "`lmms-egoplan score actplan plans.jsonl --out scores.json`",
    "train": "`lmms-egoplan train bleurt finetuning_data.jsonl activities.txt --encoder Elron/bleurt-large-512 "
    "--out classifier`",
    "evaluate": "`lmms-egoplan evaluate bleurt classifier finetuning_data.jsonl activities.txt --split val`",
}
