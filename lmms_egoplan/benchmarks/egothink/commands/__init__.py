"""EgoThink's own subcommands of ``lmms-egoplan``."""

from lmms_egoplan.benchmarks.egothink.commands.agreement import agreement
from lmms_egoplan.benchmarks.egothink.commands.annotate import annotate
from lmms_egoplan.benchmarks.egothink.commands.judge import judge
from lmms_egoplan.benchmarks.egothink.commands.prepare import prepare

COMMANDS = {
    "data prepare egothink": prepare,
    "judge egothink": judge,
    "agreement": agreement,
    "annotate egothink": annotate,
}
HELPS = {
    "annotate": "`lmms-egoplan annotate egothink --items gpt-4v.jsonl --db labels.sqlite`, then `lmms-egoplan annotate "
    "export --db labels.sqlite --out labels`",
    "data": "`lmms-egoplan data prepare egothink hub`, then `lmms-egoplan data status`",
    "judge": "`lmms-egoplan judge egothink runs/my-model --out judged.jsonl`",
    "judge, defaults": "EgoThink gpt-4o-2024-11-20",
    "report RUNS": "Files of `lmms-egoplan judge egothink --repeats N` add a table of judge noise.",
}
