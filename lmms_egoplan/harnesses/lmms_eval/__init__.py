"""Adapt tasks, models and filters to lmms-eval.

Only these modules import lmms-eval.
"""
