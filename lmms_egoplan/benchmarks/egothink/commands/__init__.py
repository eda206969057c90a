"""EgoThink's subcommands of ``lmms-egoplan``."""
