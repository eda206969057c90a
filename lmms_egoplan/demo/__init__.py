"""``lmms-egoplan demo``: a tiny model, a small set of rendered questions, and lmms-eval on both."""
