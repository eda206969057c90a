"""Thin adapters to both harnesses, each imported only in its own folder, and their shared code."""
