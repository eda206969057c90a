"""Toy: four questions about pictures, answered in words or by ranking two choices.

An example of a benchmark, without a paper: https://example.org/toy

Modules, in the order of a paper:

- `records`, `prepare`: the questions, the data that tasks load
- `prompts`: what a model is asked
- `judge`: how an answer is graded, and a verdict read
- `metrics`: what is measured
"""
