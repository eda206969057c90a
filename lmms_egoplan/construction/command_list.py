"""The commands that build questions, and the help of their group."""

GROUPS = {
    "data build": """
        Build annotations in a benchmark's format from other data.

        Example: `lmms-egoplan data build egointent goalstep_valid_public.json
        --videos ego4d/full_scale --out steps.jsonl`
    """,
}

COMMANDS = {
    "data build egoplan": "egoplan.commands:build",
    "data build egointent": "egointent.commands:build",
    "data build actplan": "actplan.commands:build",
    "data build egothink": "egothink.commands:build",
}
