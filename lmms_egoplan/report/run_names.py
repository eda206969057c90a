"""Give runs unique names."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from textwrap import shorten

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.weights import NOT_KNOWN
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.tables import clean

# What may distinguish runs with equal names, in this order.
_DETAILS = ("precision", "quantisation", "decoding", "harness", "time", "folder", "file")
_LONGEST = 80
# Controls of bidirectional text.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


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

    Equal names are followed by the details in which their runs differ, in brackets.

    Args:
        runs: runs by results file, or by one of their results files.
        named: chosen names by results file. Default: the run's own name.
    """
    chosen = {path: named[path] for path in runs if path in named}
    others = {path: _plain(run.name) for path, run in runs.items() if path not in named}
    names = _distinct(chosen, runs, ())
    return names | _distinct(others, runs, names.values())


def _plain(name: str) -> str:
    """Make a name printable. Marks that change the direction of the text after it are removed."""
    return _DIRECTION.sub("", clean(name))


def _distinct(
    names: Mapping[Path, str], runs: Mapping[Path, Run], taken: Collection[str]
) -> dict[Path, str]:
    """Make names unique, also among names that are taken."""
    details = {path: _details(path, runs[path]) for path in names}
    chosen: dict[Path, list[str]] = {path: [] for path in names}
    unique = dict(names)
    for detail in _DETAILS:
        paths_of: dict[str, list[Path]] = {}
        for path, name in unique.items():
            paths_of.setdefault(name, []).append(path)
        for name, paths in paths_of.items():
            varies = len({details[path][detail] for path in paths}) > 1
            if varies or name in taken:
                for path in paths:
                    chosen[path].append(details[path][detail])
                    unique[path] = _with_details(names[path], chosen[path])
    return unique


def _details(path: Path, run: Run) -> dict[str, str]:
    """Return what may distinguish a run from others of the same name, see `_DETAILS`."""
    identity = {}
    for name in ("precision", "quantisation", "decoding"):
        text = run.identity.get(name, NOT_KNOWN)
        identity[name] = (
            "" if text in (NOT_KNOWN, "none") else shorten(text, _LONGEST, placeholder=" \u2026")
        )
    return {
        **identity,
        "harness": run.harness,
        "time": run.time,
        "folder": str(run.folder),
        "file": path.name,
    }


def _with_details(name: str, details: Iterable[str]) -> str:
    texts = ", ".join(filter(None, details))
    return f"{name} ({texts})" if texts else name
