"""What is wrong with or missing from runs of EgoThink."""

from collections.abc import Iterator, Mapping, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.report.answers import Graded
from lmms_egoplan.benchmarks.egothink.report.prepared_rows import prepared_questions
from lmms_egoplan.benchmarks.egothink.report.scores import Part


def remarks(graded: Sequence[Graded], whole: Mapping[str, Part]) -> Iterator[str]:
    """A sentence or two for each; whole: each run's twelve dimensions."""
    for run in graded:
        part = whole[run.name]
        if missing := [name for name in DIMENSION_NAMES if name not in run.tasks]:
            yield f"{run.name}: no average, since these dimensions were not run: {', '.join(missing)}."
        if unrated := [name for name, task in run.tasks.items() if task.number("score") is None]:
            yield f"{run.name}: no score, since no answer is judged: {', '.join(unrated)}."
        if part.judged < part.questions:
            yield (
                f"{run.name}: {part.questions - part.judged:,} of {part.questions:,} answers are not judged; they "
                "count as neither right nor wrong. lmms-egoplan judge egothink goes on judging."
            )
        if part.is_by_demo:
            yield f"{run.name}: the demo judge compares words; its ratings mean nothing."
        if unlogged := [name for name, task in run.tasks.items() if task.samples is None]:
            yield (
                f"{run.name}: no samples of {', '.join(unlogged)}, which therefore have no intervals, comparisons and "
                "answers in the gallery."
            )
        if run.left_out:
            yield (
                f"{run.name}: left out, since their dimension is unknown or has the benchmark's own task in this run: "
                f"{', '.join(run.left_out)}."
            )
    judges = {run.name: whole[run.name].judge for run in graded if whole[run.name].judge}
    if len(set(judges.values())) > 1:
        names = "; ".join(f"{name}: {judge}" for name, judge in judges.items())
        yield f"Different judges, whose scores do not compare: {names}."
    keys = [key for run in graded for key in run.answers]
    prepared, problems = prepared_questions(keys)
    if problems:
        yield (
            f"{len(problems)} dimensions cannot be read from the prepared data, so the gallery lacks their images and, "
            f"for runs of lmms-eval, their questions: {next(iter(problems.values()))}"
        )
    other = {key for key in keys if key not in prepared and dimension_of(key[0]) not in problems}
    if other:
        yield (
            f"{len(other)} questions are not those of the prepared data, {min(other)[0]} for one; the gallery lacks "
            "their images."
        )
