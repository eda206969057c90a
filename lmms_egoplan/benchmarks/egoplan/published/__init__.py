"""The tables that EgoPlan-Bench's paper prints: a CSV file each, described in ``tables.json``."""

from functools import partial
from pathlib import Path

from lmms_egoplan.report.published import load_table

load = partial(load_table, Path(__file__).parent)
