"""The command that measures the sensitivity to prompts."""

GROUPS: dict[str, str] = {}

COMMANDS = {"sensitivity": "commands:sensitivity"}
