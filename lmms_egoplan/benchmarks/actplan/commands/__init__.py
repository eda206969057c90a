"""ActPlan-1K's own subcommands of ``lmms-egoplan``."""

from lmms_egoplan.benchmarks.actplan.commands.annotate import annotate
from lmms_egoplan.benchmarks.actplan.commands.bleurt import evaluate, train
from lmms_egoplan.benchmarks.actplan.commands.metrics_path import metrics_path
from lmms_egoplan.benchmarks.actplan.commands.prepare import prepare
from lmms_egoplan.benchmarks.actplan.commands.score import score

COMMANDS = {
    "data prepare actplan": prepare,
    "score actplan": score,
    "train bleurt": train,
    "evaluate bleurt": evaluate,
    "metrics-path": metrics_path,
    "annotate actplan": annotate,
}
FORMER_OPTIONS = {
    "data prepare actplan": ("--source",),
    "score actplan": ("--plans",),
    "train bleurt": ("--plans", "--activities"),
    "evaluate bleurt": ("--model", "--plans", "--activities"),
}
HELPS = {
    "data prepare": "`lmms-egoplan data prepare actplan ActPlan-1K/annotation`",
    "score": "`lmms-egoplan score actplan plans.jsonl --out scores.json`",
    "train": "`lmms-egoplan train bleurt finetuning_data.jsonl activities.txt --encoder Elron/bleurt-large-512 "
    "--out classifier`",
    "evaluate": "`lmms-egoplan evaluate bleurt classifier finetuning_data.jsonl activities.txt --split val`",
}
