"""Give runs unique names."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.tables import clean


def chosen_names(paths: Iterable[Path], chosen: Mapping[Path, str]) -> dict[Path, str]:
    """Return the chosen names of runs, by results file.

    Args:
        paths: results files.
        chosen: names for the runs at or below a path. The deepest path counts.

    Raises:
        LmmsEgoplanError: a path with a chosen name has no run.
    """
    by_path = {path.resolve(): clean(name) for path, name in chosen.items()}
    named: dict[Path, str] = {}
    without_run = set(by_path)
    for path in paths:
        named_paths = [
            folder for folder in (path.resolve(), path, *path.parents) if folder in by_path
        ]
        without_run -= set(named_paths)
        if named_paths:
            named[path] = by_path[named_paths[0]]
    if without_run:
        raise LmmsEgoplanError(f"--name: no run in {', '.join(sorted(map(str, without_run)))}")
    return named


def names_of(runs: Mapping[Path, Run], named: Mapping[Path, str]) -> dict[Path, str]:
    """Return a unique name for each run. Chosen names do not change unless two are equal.

    Args:
        runs: runs by results file, or by one of their results files.
        named: chosen names by results file. Default: the run's own name.
    """
    names = _distinct(
        {path: _ladder(path, named[path], run) for path, run in runs.items() if path in named}, ()
    )
    unnamed = {
        path: _ladder(path, clean(run.name), run) for path, run in runs.items() if path not in named
    }
    return names | _distinct(unnamed, names.values())


def _ladder(path: Path, name: str, run: Run) -> tuple[str, ...]:
    """Return names for a run, from short to specific."""
    details = [run.harness, run.time, str(run.folder), path.name]
    return (
        name,
        *(f"{name} ({', '.join(details[:count])})" for count in range(1, len(details) + 1)),
    )


def _distinct(ladders: Mapping[Path, Sequence[str]], taken: Collection[str]) -> dict[Path, str]:
    """Choose each run's first name that no other run has."""
    names = {path: ladder[0] for path, ladder in ladders.items()}
    for step in range(1, max(map(len, ladders.values()), default=0)):
        counts = Counter((*names.values(), *taken))
        names = {
            path: ladders[path][step] if counts[name] > 1 else name for path, name in names.items()
        }
    return names
