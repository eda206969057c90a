"""The published tables of all benchmarks, by name: ``egoplan_table1`` and so on."""

import json
from decimal import Decimal
from functools import cache
from pathlib import Path

import pandas as pd

import lmms_egoplan.report
from lmms_egoplan.report.published import load_table

_FOLDERS = {
    path.parent.parent.name: path.parent
    for path in Path(lmms_egoplan.report.__path__[0]).glob("*/published/tables.json")
}
DESCRIBED = {
    f"{name}_{table}": described
    for name, folder in _FOLDERS.items()
    for table, described in json.loads((folder / "tables.json").read_text(encoding="utf-8")).items()
}
FILES = {
    f"{name}_{path.stem}": path
    for name, folder in _FOLDERS.items()
    for path in folder.glob("*.csv")
}


def load(stem):
    return load_table(*stem.split("_"))


@cache
def printed(stem):
    """Read the cells as texts, with the printed digits."""
    return pd.read_csv(FILES[stem], dtype=str, keep_default_na=False, encoding="utf-8")


def half_unit(number):
    return Decimal(1).scaleb(number.as_tuple().exponent) / 2
