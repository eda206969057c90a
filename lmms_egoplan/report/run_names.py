"""Names for runs, by which figures and tables tell them apart."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.gallery import clean
from lmms_egoplan.report.run import Run


def names_of(runs: Mapping[Path, Run], given: Mapping[Path, str]) -> dict[Path, str]:
    """A name for each run, all different; names that were given stay unless two of them are the same.

    Args:
        runs: by results file; their names are those that they have unless another is given.
        given: names of the runs at or below a path; the deepest path counts.

    Raises:
        LmmsEgoplanError: a name is given for a path without a run.
    """
    wanted = {path.resolve(): name for path, name in given.items()}
    own: dict[Path, str] = {}
    without_run = set(wanted)
    for path in runs:
        places = [place for place in (path.resolve(), path, *path.parents) if place in wanted]
        without_run -= set(places)
        if places:
            own[path] = wanted[places[0]]
    if without_run:
        told = ", ".join(sorted(map(str, without_run)))
        raise LmmsEgoplanError(f"{told}: has a name, but no run. Name a path that is given, or a path below it")
    found = _distinct({path: _ladder(path, clean(name), runs[path]) for path, name in own.items()}, ())
    others = {path: _ladder(path, clean(run.name), run) for path, run in runs.items() if path not in own}
    return found | _distinct(others, found.values())


def _ladder(path: Path, name: str, run: Run) -> tuple[str, ...]:
    """Names for a run, each more telling than the one before."""
    told = [run.harness, run.time, str(run.folder), path.name]
    return (name, *(f"{name} ({', '.join(told[:count])})" for count in range(1, len(told) + 1)))


def _distinct(ladders: Mapping[Path, Sequence[str]], taken: Collection[str]) -> dict[Path, str]:
    """The first of each run's names, or a later one where another run has the same."""
    found = {path: names[0] for path, names in ladders.items()}
    for step in range(1, max(map(len, ladders.values()), default=0)):
        counts = Counter((*found.values(), *taken))
        found = {path: ladders[path][step] if counts[name] > 1 else name for path, name in found.items()}
    return found
