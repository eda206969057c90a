"""Texts of reports in YAML: sentences, and the columns of tables."""

from collections.abc import Callable
from pathlib import Path

import yaml

from lmms_egoplan.report.document import Column


def read_notes(module: str, **values: object) -> Callable[..., str]:
    """Read ``notes.yaml`` next to a module; return a function from a text's name to the text.

    The function's other arguments replace ``{name}`` in the text.

    Args:
        module: its ``__file__``.
        values: they replace ``{name}`` in all texts.
    """
    texts = yaml.safe_load(Path(module).with_name("notes.yaml").read_text(encoding="utf-8"))
    lines = {name: " ".join(text.split()) for name, text in texts.items()}
    return lambda name, /, **more: lines[name].format(**values, **more)


def read_columns(module: str) -> dict[str, tuple[Column, ...]]:
    """Read the columns in ``columns.yaml`` next to a module, by table.

    A column is its title, or a list of `Column`'s fields after the key.

    Args:
        module: its ``__file__``.
    """
    tables = yaml.safe_load(Path(module).with_name("columns.yaml").read_text(encoding="utf-8"))
    return {
        table: tuple(Column(key, *([fields] if isinstance(fields, str) else fields)) for key, fields in columns.items())
        for table, columns in tables.items()
    }
