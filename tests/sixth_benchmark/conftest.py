"""The files belong to a copy of the project, in which `test_toy.py` adds the benchmark."""

collect_ignore = ["files"]
