"""Toy's part of a report."""
