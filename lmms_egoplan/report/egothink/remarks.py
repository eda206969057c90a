"""Remarks on EgoThink's runs: flaws, different judges, and gaps in the prepared data."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, dimension_of
from lmms_egoplan.benchmarks.egothink.presets import load_presets
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.scores import Key, differing


def flaws(task: EgoThinkTask) -> Iterator[str]:
    """Yield the problems of dimensions, judges and samples."""
    whole = task.whole
    missing = [name for name in DIMENSION_NAMES if name not in task.tasks]
    if missing:
        yield f"no average, because these dimensions were not run: {', '.join(missing)}."
    unrated = [name for name, run in task.tasks.items() if run.number("score") is None]
    if unrated:
        yield f"no score, because no answer is judged: {', '.join(unrated)}."
    if whole.judged < whole.questions:
        count = whole.questions - whole.judged
        if task.ranking_flaw:
            yield (
                f"{count:,} of {whole.questions:,} judgements failed and count as "
                "-1, as the judge's protocol has it. To judge the answers again, "
                "run lmms-egoplan judge egothink."
            )
        else:
            yield (
                f"{count:,} of {whole.questions:,} answers are not judged and count as neither "
                "right nor wrong. To judge them, run lmms-egoplan judge egothink."
            )
    unlogged = [name for name, run in task.tasks.items() if run.samples is None]
    if unlogged:
        yield (
            f"no samples of {', '.join(unlogged)}, so no comparisons and no answers in the gallery."
        )
    preset = load_presets().get(task.preset)
    if preset and preset.unknown:
        fields = ", ".join(preset.unknown).replace("_", " ")
        yield (
            f"the source of this preset does not state {fields}. This project's own choice is used."
        )
    if task.left_out:
        yield (
            "excluded, because their dimension is unknown or already has a task of "
            f"the benchmark in this run: {', '.join(task.left_out)}."
        )


def gaps(
    graded: Sequence[EgoThinkTask], prepared: Collection[Key], problems: Mapping[str, str]
) -> Iterator[str]:
    """Yield notes on different judges and on questions that are not prepared.

    Args:
        graded: The runs.
        prepared: The prepared questions.
        problems: The error of each unreadable dimension.
    """
    judges = differing({run.name: run.judge for run in graded})
    if judges:
        yield f"Different judges, so these scores are not comparable: {judges}."
    if problems:
        problem = next(iter(problems.values()))
        yield (
            f"{len(problems)} dimensions are unreadable in the prepared data. The gallery "
            f"lacks their images and, for runs of lmms-eval, their questions: {problem}"
        )
    unknown: set[Key] = set()
    for run in graded:
        for key in run.answers:
            if key not in prepared and dimension_of(str(key[0])) not in problems:
                unknown.add(key)
    if unknown:
        yield (
            f"{len(unknown)} questions differ from the prepared data, for example "
            f"{min(unknown)[0]}; the gallery lacks their images."
        )
