"""Read a written answer as each published pipeline does, wrong behaviour included."""

from collections.abc import Callable, Mapping

from lmms_egoplan.benchmarks.egoplan.reply import first_letter, parse_letter

READERS: Mapping[str, Callable[[str], str | None]] = {"clear": parse_letter, "first_letter": first_letter}
"""Readers by name. Each takes a reply as generated, with its thoughts, and returns A to D, or None for no letter."""
