"""The commands of the annotation page, and the help of their groups."""

GROUPS = {
    "annotate": """
        Label data with human annotators on a local web page. Each annotator gets a personal link.

        Example: `lmms-egoplan annotate egothink gpt-4v.jsonl --db labels.sqlite`, then
        `lmms-egoplan annotate export labels.sqlite --out labels`

        `--study` runs a whole study, such as a paper's; see docs/studies.md.
    """,
}

COMMANDS = {
    "annotate status": "commands:status",
    "annotate export": "commands:export",
    "annotate import": "commands:import_labels",
    "annotate backup": "commands:backup",
    "annotate demo": "commands:demo",
    "annotate egoplan": "commands:annotate_egoplan",
    "annotate egoplan-failures": "commands:annotate_egoplan_failures",
    "annotate egothink": "commands:annotate_egothink",
    "annotate egothink-questions": "commands:annotate_egothink_questions",
    "annotate egointent": "commands:annotate_egointent",
    "annotate actplan": "commands:annotate_actplan",
    "annotate actplan-circumstances": "commands:annotate_circumstances",
    "annotate actplan-plans": "commands:annotate_plans",
    "audit egointent-labels": "commands:audit_egointent",
}
