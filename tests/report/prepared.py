"""Prepared data of several benchmarks."""

from importlib import import_module
from pathlib import Path


def prepare_data(folder: Path, **counts: int) -> None:
    """Prepare questions of benchmarks.

    Args:
        folder: folder for the data. ``LMMS_EGOPLAN_DATA`` must name it.
        counts: number of questions by benchmark; for EgoThink, in each dimension.
    """
    for benchmark, count in counts.items():
        import_module(f"benchmarks.{benchmark}.synthetic").prepare(folder, count)
