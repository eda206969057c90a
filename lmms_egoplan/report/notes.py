"""What a benchmark's part of reports says in whole paragraphs: leads, captions, and notes below tables."""

from pathlib import Path

import yaml


def read_notes(module: str, **values: object) -> dict[str, str]:
    """The texts in ``notes.yaml`` beside a module, by name.

    Args:
        module: its ``__file__``.
        values: what stands in the texts for ``{name}``.
    """
    texts = yaml.safe_load(Path(module).with_name("notes.yaml").read_text(encoding="utf-8"))
    return {name: " ".join(text.split()).format(**values) for name, text in texts.items()}
