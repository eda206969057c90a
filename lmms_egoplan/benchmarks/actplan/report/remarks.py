"""What is to be known of the runs before their scores are compared."""

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from lmms_egoplan.benchmarks.actplan.report.answers import Planned
from lmms_egoplan.benchmarks.actplan.report.prepared_rows import prepared_instances

_ENCODER = "all-minilm-l6-v2"


def remarks(planned: Sequence[Planned]) -> Iterator[str]:
    for run in planned:
        asked, covered = run.number("num_plans"), run.number("coverage")
        if run.number("lcs_norm") is None:
            yield f"{run.name}: no LCS, since no instance has gold plan 1."
        if covered is not None and covered < 1:
            yield f"{run.name}: {asked:,} plans, {covered:.1%} of the instances of the data that were prepared for it."
        if asked and round(asked / (covered or 1)) != run.official:
            yield (
                f"{run.name}: its data have {round(asked / (covered or 1)):,} instances, the paper {run.official:,}; "
                "scores over other instances do not compare with the published ones."
            )
        if unparsed := run.number("unparsed"):
            yield f"{run.name}: in {unparsed:.1%} of the answers no step was found."
        if cut := run.number("bleurt_truncated"):
            yield f"{run.name}: the classifier saw {cut:.1%} of the plans cut, or beside a cut gold plan."
        if run.plans is None:
            yield f"{run.name}: no samples, and therefore no intervals, comparisons and plans in the gallery."
    yield from _scorers(planned)
    prepared, problem = prepared_instances()
    if problem:
        yield f"The gallery has no images and, for runs of lmms-eval, no task descriptions: {problem}"
    elif other := {key for run in planned for key in run.plans or () if key not in prepared}:
        yield (
            f"Not in the prepared data: {len(other):,} of the instances, {json.loads(min(other))[0]} for one; the "
            "gallery lacks their images."
        )


def _scorers(planned: Sequence[Planned]) -> Iterator[str]:
    """What is to be said of encoders and classifiers."""
    encoders = {run.name: run.task_run.metrics.get("encoder") or "" for run in planned}
    unlike = [name for name in encoders.values() if _ENCODER not in name.lower().replace("_", "-")]
    others = sorted({_last_part(name): name for name in sorted(unlike, reverse=True)}.values())
    if others:
        yield (
            f"Steps were compared by {', '.join(name or 'an unnamed encoder' for name in others)}; unless that is a "
            "copy of all-MiniLM-L6-v2, LCS does not compare with Table 4."
        )
    if len(set(map(_last_part, encoders.values()))) > 1:
        told = "; ".join(f"{name}: {encoder}" for name, encoder in encoders.items())
        yield f"Different sentence encoders, whose LCS do not compare: {told}."
    without = [run.name for run in planned if run.number("bleurt_correct") is None]
    if without:
        yield f"No classifier, and therefore no correctness: {', '.join(without)}."
    classifiers = {
        run.name: str(run.task_run.metrics.get("bleurt_model")) for run in planned if run.name not in without
    }
    if len(set(map(_last_part, classifiers.values()))) > 1:
        told = "; ".join(f"{name}: {classifier}" for name, classifier in classifiers.items())
        yield f"Different classifiers, whose verdicts do not compare: {told}."


def _last_part(path: str) -> str:
    """Encoders of one name count as one, however the paths to them are written."""
    return PurePath(path).name
