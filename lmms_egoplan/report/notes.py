"""What reports say in whole sentences: leads, captions, notes below tables, and what is wrong with runs."""

from collections.abc import Callable
from pathlib import Path

import yaml


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
