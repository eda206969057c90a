"""Compare a model's training data with the questions of a benchmark: ``lmms-egoplan audit``."""
