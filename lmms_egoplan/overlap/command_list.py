"""The commands of the audits, and the help of their group."""

GROUPS = {
    "audit": """
        Compare a benchmark's questions with a model's training data, or your annotations with a
        paper's figures.

        Example: `lmms-egoplan audit egoplan --training EPIC_100_train.csv --out audit`
    """,
}

COMMANDS = {
    "audit egoplan": "commands:audit",
    "audit egoplan_bench2": "commands:audit",
    "audit egointent": "commands:audit",
}
