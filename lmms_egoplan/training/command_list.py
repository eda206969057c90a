"""The commands of the training, and the help of their groups."""

GROUPS = {
    "data export": """
        Convert a benchmark's data for other programs.

        Example: `lmms-egoplan data export egoplan-it EgoPlan_IT.json --format trl
        --epic-kitchens EPIC-KITCHENS --out trl`
    """,
    "train": """
        Train models on a benchmark's training data, or models for its metrics.

        Example: `lmms-egoplan train egoplan EgoPlan_IT.json --model Qwen/Qwen2.5-VL-7B-Instruct
        --set epic_kitchens=EPIC-KITCHENS --out tuned`
    """,
    "merge": """
        Merge an adapter into its base model.

        Example: `lmms-egoplan merge egoplan tuned --out checkpoint`
    """,
}

COMMANDS = {
    "data export egoplan-it": "egoplan.commands:export",
    "train egoplan": "egoplan.commands:train",
    "train actplan-bleurt": "bleurt.commands:train",
    "merge egoplan": "egoplan.commands:merge",
}
