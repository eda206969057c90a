"""What is wrong with or missing from runs of EgoIntent."""

from collections.abc import Iterator, Sequence

from lmms_egoplan.benchmarks.egointent.heatmap import Heatmap
from lmms_egoplan.benchmarks.egointent.report.answers import Graded
from lmms_egoplan.benchmarks.egointent.report.prepared_rows import prepared_steps
from lmms_egoplan.benchmarks.egointent.report.scores import OFFICIAL, annotated, is_by_demo


def remarks(graded: Sequence[Graded], heatmaps: Sequence[Heatmap]) -> Iterator[str]:
    """A sentence or two for each."""
    for run in graded:
        size, asked = annotated(run), run.number("num_steps")
        if run.is_goalstep:
            yield (
                f"{run.name}: steps, labels and cuts are Goal-Step's, not EgoIntent's; the published scores do not "
                "compare."
            )
        elif size is not None and size != OFFICIAL:
            yield (
                f"{run.name}: the annotation file has {size:,} steps, the paper {OFFICIAL:,}; the published scores do "
                "not compare."
            )
        if size is not None and asked < size:
            yield f"{run.name}: {asked:,} of the annotation file's {size:,} steps were asked."
        if run.number("overall") is None:
            yield f"{run.name}: no overall score, since of one of the fields that were found nothing is judged."
        elif (judged := run.number("judge_coverage")) is not None and judged < 1:
            unjudged = f"{100 * (1 - judged):.1f} % of the found fields are not judged"
            yield f"{run.name}: {unjudged}; they count as neither right nor wrong."
        if run.number("parsed") == 0:
            yield f"{run.name}: in no reply was any of the three fields found."
        if is_by_demo(run):
            yield f"{run.name}: the demo judge compares words; its ratings mean nothing."
        if run.steps is None:
            yield f"{run.name}: no samples, and therefore no intervals, heat map, comparisons and steps in the gallery."
        if unverified := run.number("unverified"):
            yield f"{run.name}: nobody has verified the references of {100 * unverified:.1f} % of the steps."
    media = {run.name: run.media for run in graded if run.media}
    if len({shown.partition(" ")[0] for shown in media.values()}) > 1:
        told = "; ".join(f"{name}: {shown}" for name, shown in media.items())
        yield f"Steps were shown in different forms, as in the paper to open and to closed models: {told}."
    for heatmap in heatmaps:
        for warning in heatmap.warnings:
            yield f"{warning[0].upper()}{warning[1:]}."
    prepared, problem = prepared_steps()
    logged = {key: step for run in graded for key, step in (run.steps or {}).items() if step.doc}
    bare = {key for run in graded for key in run.steps or () if key not in prepared and key not in logged}
    if bare:
        why = problem or f"they are not in the prepared data, {min(bare)[0]} for one"
        yield f"{len(bare):,} steps have neither references nor images in the gallery: {why}"
