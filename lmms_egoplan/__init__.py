"""Egocentric planning benchmarks as plugins for evaluation harnesses."""

__version__ = "0.1.0"
