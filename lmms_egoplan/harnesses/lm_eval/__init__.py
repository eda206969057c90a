"""Adapt tasks, images and models to lm-eval.

Only these modules import lm-eval.
"""
