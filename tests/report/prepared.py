"""Prepared data of several benchmarks."""

from importlib import import_module
from pathlib import Path


def prepare_data(folder: Path, **counts: int) -> None:
    """Prepare so many questions (EgoThink: in each dimension) of each benchmark that is named.

    Args:
        folder: ``LMMS_EGOPLAN_DATA`` must name it.
    """
    for benchmark, count in counts.items():
        import_module(f"benchmarks.{benchmark}.synthetic").prepare(folder, count)
