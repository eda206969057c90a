"""Remarks on EgoIntent's runs: flaws, differences between runs, and gaps in the prepared data."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from lmms_egoplan.report.egointent.answers import EgoIntentTask
from lmms_egoplan.report.scores import Key, differing


def by_kind_of_step(tasks: Sequence[EgoIntentTask]) -> list[list[EgoIntentTask]]:
    """Group the runs with samples by kind of step: the benchmark's, then Goal-Step's.

    Empty groups are omitted.
    """
    with_samples = [run for run in tasks if run.answers]
    kinds = []
    for is_goalstep in (False, True):
        kinds.append([run for run in with_samples if run.is_goalstep is is_goalstep])
    return [kind for kind in kinds if kind]


def flaws(task: EgoIntentTask) -> Iterator[str]:
    """Yield problems of the annotation file, ratings and samples."""
    yield from _flaws_of_steps(task)
    judged = task.number("judge_coverage")
    if task.number("overall") is None:
        yield "no overall score, since one of the fields was found in replies but never judged."
    elif judged is not None and judged < 1:
        yield (
            f"{100 * (1 - judged):.1f} % of the fields in replies are not judged; they count as "
            "neither right nor wrong."
        )
    if task.number("parsed") == 0:
        yield "no reply contains any of the three fields."
    if task.answers is None:
        yield "no samples, so no heat map, comparisons or gallery."
    unverified = task.percent("unverified")
    if unverified:
        yield f"nobody has verified the references of {unverified:.1f} % of the steps."


def _flaws_of_steps(task: EgoIntentTask) -> Iterator[str]:
    """Yield differences of a task's steps from the benchmark's."""
    size = task.count("split_size")
    asked = task.count("num_steps")
    if task.is_goalstep:
        yield (
            "steps, labels and cuts are Goal-Step's, not EgoIntent's; the published "
            "scores are not comparable."
        )
    if size is not None and asked is not None and asked < size:
        yield f"the model was asked about {asked:,} of the annotation file's {size:,} steps."


def gaps(
    tasks: Sequence[EgoIntentTask],
    kinds: Sequence[Sequence[EgoIntentTask]],
    prepared: Collection[Key],
    problem: str | None,
) -> Iterator[str]:
    """Yield differences between runs, and gaps in the prepared data.

    Runs may differ in visual input, steps, judges and prompts.

    Args:
        tasks: The runs.
        kinds: The runs with samples, by kind of step.
        prepared: The prepared steps.
        problem: The reason why prepared steps are missing.
    """
    yield from _differing_media(tasks)
    for runs in kinds:
        for what in ("judges", "prompts", "judge's prompts"):
            differences = differing({run.name: run.conditions[what] or "unknown" for run in runs})
            if differences:
                yield f"Different {what}, so scores are not comparable: {differences}."
        yield from _different_steps(runs)
    asked: set[Key] = set()
    logged: set[Key] = set()
    for run in tasks:
        for key, step in (run.answers or {}).items():
            asked.add(key)
            if step.doc:
                logged.add(key)
    bare_steps = asked.difference(prepared, logged)
    if bare_steps:
        why = problem or f"they are not in the prepared data, for example {min(bare_steps)[0]}"
        yield (
            f"{len(bare_steps):,} steps have neither references nor images in the gallery: {why}"
        )


def _differing_media(graded: Iterable[EgoIntentTask]) -> Iterator[str]:
    """Yield the visual input of each run if the runs differ in it."""
    media = {}
    for run in graded:
        form = run.text("media")
        if form:
            media[run.name] = form
    if len({form.partition(" ")[0] for form in media.values()}) > 1:
        yield (
            "Steps were shown in different forms, as for open and closed models in the "
            f"paper: {differing(media)}."
        )


def _different_steps(graded: Sequence[EgoIntentTask]) -> Iterator[str]:
    """Yield the number of steps of each run if the runs differ in their steps."""
    asked = {run.name: set(run.answers or ()) for run in graded}
    steps = list(asked.values())
    if all(keys == steps[0] for keys in steps):
        return
    count = len(set.intersection(*steps))
    counts = "; ".join(f"{name}: {len(keys):,}" for name, keys in asked.items())
    yield (
        f"All runs over the same data share {count:,} steps; some runs were asked about "
        f"more: {counts}."
    )
