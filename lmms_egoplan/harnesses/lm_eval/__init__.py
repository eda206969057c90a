"""The adapter to lm-eval, and the only modules that import it: base classes of tasks, images, and
model classes.
"""
