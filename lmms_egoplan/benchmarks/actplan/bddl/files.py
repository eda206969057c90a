"""Where the problem of an instance's activity is on disk."""

from pathlib import Path

from lmms_egoplan.benchmarks.actplan.activities import InstanceId
from lmms_egoplan.errors import LmmsEgoplanError

LAYOUTS = (
    "<activity>/problem<n>.bddl, activity_definitions/<activity>/... or, as the release, <scene>/<activity>/<n>/..."
)


def problem_path(folder: str | Path, instance: InstanceId) -> Path | None:
    """The problem of an instance in a folder of one of `LAYOUTS`; None where there is none.

    n is that of the task description: the counterfactual activities have problems of their own, ``problem1.bddl``.
    """
    name = f"problem{instance.description}.bddl"
    places = (
        Path(instance.activity),
        Path("activity_definitions", instance.activity),
        Path(instance.scene, instance.activity, str(instance.description)),
    )
    paths = (Path(folder, place, name) for place in places)
    return next((path for path in paths if path.is_file()), None)


def check_folder(folder: str | Path) -> None:
    """Check that a folder has problems in one of `LAYOUTS`.

    Raises:
        LmmsEgoplanError: it has none.
    """
    if not any(Path(folder).glob("*/problem*.bddl")) and not any(Path(folder).glob("*/*/**/problem*.bddl")):
        raise LmmsEgoplanError(f"{folder}: no BDDL problem in it; expected {LAYOUTS}, n 0 or 1")
