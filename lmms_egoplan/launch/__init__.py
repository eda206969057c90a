"""Check, estimate, start and watch the run of a harness: everything behind ``lmms-egoplan run``."""
