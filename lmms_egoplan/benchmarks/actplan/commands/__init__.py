"""ActPlan-1K's subcommands of ``lmms-egoplan``."""
