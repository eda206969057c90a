"""Find the footage of EgoPlan's questions: source videos, ready clips and public copies.

`index` is the entry point. Nothing here evaluates: it decides which files `prepare` writes down.
"""
