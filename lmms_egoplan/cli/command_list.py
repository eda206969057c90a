"""The general commands, and the help of their groups."""

GROUPS = {
    "data": """
        Prepare the benchmarks' data, and list the prepared splits.

        Example: `lmms-egoplan data prepare egothink hub`, then `lmms-egoplan data status`
    """,
}

COMMANDS = {
    "demo": "demo:demo",
    "run": "run:run",
    "data status": "data:status",
    "show": "report:show",
    "report": "report:report",
    "ledger": "ledger:ledger",
    "compare": "report:compare",
    "tasks-path": "data:tasks_path",
}
