"""What stands in YAML beside a part of reports: whole sentences, and the columns of tables."""

from collections.abc import Callable
from pathlib import Path

import yaml

from lmms_egoplan.report.document import Column


def read_notes(module: str, **values: object) -> Callable[..., str]:
    """The texts in ``notes.yaml`` beside a module: a function that gives the one of a name.

    Its other arguments are what stands in the text for ``{name}``.

    Args:
        module: its ``__file__``.
        values: what stands for ``{name}`` in all texts.
    """
    texts = yaml.safe_load(Path(module).with_name("notes.yaml").read_text(encoding="utf-8"))
    lines = {name: " ".join(text.split()) for name, text in texts.items()}
    return lambda name, /, **more: lines[name].format(**values, **more)


def read_columns(module: str) -> dict[str, tuple[Column, ...]]:
    """The columns in ``columns.yaml`` beside a module, by table.

    A column is its title, or a list of what `Column` has behind its key.

    Args:
        module: its ``__file__``.
    """
    tables = yaml.safe_load(Path(module).with_name("columns.yaml").read_text(encoding="utf-8"))
    return {
        table: tuple(Column(key, *([told] if isinstance(told, str) else told)) for key, told in columns.items())
        for table, columns in tables.items()
    }
