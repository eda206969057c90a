"""Measuring: a package for each paper, what they share, and the registry of all benchmarks."""
