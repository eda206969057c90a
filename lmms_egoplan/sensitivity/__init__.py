"""Measure how many points each choice of a protocol moves the score of a model."""
