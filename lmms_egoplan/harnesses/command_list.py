"""The command that starts lm-eval."""

GROUPS: dict[str, str] = {}

COMMANDS = {"lm-eval": "lm_eval.command:lm_eval"}
