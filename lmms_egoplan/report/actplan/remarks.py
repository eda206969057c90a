"""Remarks on ActPlan-1K's runs: flaws, scorers, and gaps in the prepared data."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath

from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.answers import Planned
from lmms_egoplan.report.scores import Key, differing

_ENCODER = "all-minilm-l6-v2"


def flaws(task: Planned) -> Iterator[str]:
    """Yield remarks on a task's instances, answers and samples."""
    asked = task.number("num_plans")
    prepared = task.number("split_size")
    if task.number("lcs_norm") is None:
        yield "no LCS, because no instance has gold plan 1."
    if asked is not None and prepared and asked < prepared:
        yield f"{asked:,} plans, {asked / prepared:.1%} of the prepared instances."
    unparsed = task.number("unparsed")
    if unparsed:
        yield f"{unparsed:.1%} of the answers have no step."
    cut = task.number("bleurt_truncated")
    if cut:
        yield (
            f"for {cut:.1%} of the plans, the classifier saw only part of the plan or gold plan."
        )
    if task.answers is None:
        yield ("no samples, so no comparisons and no plans in the gallery.")


def gaps(
    planned: Sequence[Planned], prepared: Collection[Key], problem: str | None
) -> Iterator[str]:
    """Yield remarks on encoders, classifiers and the prepared data.

    Args:
        planned: The runs' tasks.
        prepared: The prepared instances.
        problem: The reason why prepared instances are missing.
    """
    yield from _scorers(planned)
    asked: set[Key] = set()
    for run in planned:
        asked.update(run.answers or ())
    missing = asked.difference(prepared)
    if problem:
        yield (
            f"The gallery has no images and, for runs of lmms-eval, no task descriptions: {problem}"
        )
    elif missing:
        yield (
            f"{len(missing):,} of the instances are not in the prepared data, for "
            f"example {min(missing)[0]}. The gallery lacks their images."
        )


def _scorers(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield remarks on encoders and classifiers."""
    encoders = {run.name: run.task_run.metrics.get("encoder") or "" for run in planned}
    unofficial = [
        name for name in encoders.values() if _ENCODER not in name.lower().replace("_", "-")
    ]
    unofficial_by_end = {_last_part(name): name for name in sorted(unofficial, reverse=True)}
    if unofficial_by_end:
        names = ", ".join(
            name or "an unnamed encoder" for name in sorted(unofficial_by_end.values())
        )
        yield (
            f"Steps were compared by {names}. LCS is comparable with Table 4 only if this is a "
            "copy of all-MiniLM-L6-v2."
        )
    differences = differing(encoders, _last_part)
    if differences:
        yield (
            "Different sentence encoders, so LCS is not comparable between these runs: "
            f"{differences}."
        )
    classified = [run for run in planned if run.number("bleurt_correct") is not None]
    classifiers = {run.name: str(run.task_run.metrics.get("bleurt_model")) for run in classified}
    # Default folders have the same name.
    classifiers_encoders = {run.name: marks.encoder_of(run) for run in classified}
    differences = differing(classifiers, _last_part) or differing(classifiers_encoders)
    if differences:
        yield (
            "Different classifiers, so verdicts are not comparable between these runs: "
            f"{differences}."
        )


def _last_part(path: str) -> str:
    return PurePath(path).name
