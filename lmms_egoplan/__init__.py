"""Egocentric planning benchmarks as plugins of the evaluation harnesses."""

__version__ = "0.1.0"
