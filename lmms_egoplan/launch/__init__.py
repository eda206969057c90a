"""Check, count, start and watch a run of a harness, for ``lmms-egoplan run``."""
