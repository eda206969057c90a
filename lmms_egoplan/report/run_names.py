"""Unique names of runs for figures and tables."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.run import Run


def names_of(runs: Mapping[Path, Run], chosen: Mapping[Path, str]) -> dict[Path, str]:
    """Give each run a unique name; chosen names stay unless two are equal.

    Args:
        runs: by results file.
        chosen: names of the runs at or below a path; the deepest path counts. Default: the run's own name.

    Raises:
        LmmsEgoplanError: a path with a chosen name has no run.
    """
    by_path = {path.resolve(): name for path, name in chosen.items()}
    named: dict[Path, str] = {}
    without_run = set(by_path)
    for path in runs:
        above = [folder for folder in (path.resolve(), path, *path.parents) if folder in by_path]
        without_run -= set(above)
        if above:
            named[path] = by_path[above[0]]
    if without_run:
        paths = ", ".join(sorted(map(str, without_run)))
        raise LmmsEgoplanError(f"{paths}: has a name, but no run. Name a path that is given, or a path below it")
    names = _distinct({path: _ladder(path, clean(name), runs[path]) for path, name in named.items()}, ())
    others = {path: _ladder(path, clean(run.name), run) for path, run in runs.items() if path not in named}
    return names | _distinct(others, names.values())


def _ladder(path: Path, name: str, run: Run) -> tuple[str, ...]:
    """Return names for a run, each more specific than the one before."""
    details = [run.harness, run.time, str(run.folder), path.name]
    return (name, *(f"{name} ({', '.join(details[:count])})" for count in range(1, len(details) + 1)))


def _distinct(ladders: Mapping[Path, Sequence[str]], taken: Collection[str]) -> dict[Path, str]:
    """Choose the first of each run's names, or a later one if another run has the same."""
    names = {path: ladder[0] for path, ladder in ladders.items()}
    for step in range(1, max(map(len, ladders.values()), default=0)):
        counts = Counter((*names.values(), *taken))
        names = {path: ladders[path][step] if counts[name] > 1 else name for path, name in names.items()}
    return names
