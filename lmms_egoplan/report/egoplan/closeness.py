"""Measure whether wrong answers prefer choices close to the goal (arXiv 2312.06722, sec. 4.2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.answers import Series
from lmms_egoplan.report.egoplan.notes import INTERVAL_NOTE
from lmms_egoplan.report.egoplan.similarity import GoalSimilarities, preference
from lmms_egoplan.report.egoplan.wrong_answers import wrong_answers_of
from lmms_egoplan.report.scores import Answer, Key, mean_of
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.means import Mean


def closeness_table(
    tasks: Sequence[Series], docs: Mapping[Key, Doc], similarities: GoalSimilarities
) -> Table | None:
    """Build the table of the similarity of wrong answers to the goal; None without samples."""
    rows = list(_closeness_rows(tasks, docs, similarities))
    if not rows:
        return None
    columns = (
        Column("run", "Run"),
        Column("task", "Task"),
        Column("measure", "Similarity"),
        Column("prefers", "Prefers"),
        Column("closer", "Picked minus others", decimals=3),
        *interval_columns("closer", decimals=3),
        Column("questions", "Measured"),
        Column("wrong", "Wrong"),
    )
    notes = [
        (
            "The paper says that models often select choices that are close to the "
            "task goal (sec. 4.2, Failure Type-1). Over a run's wrong answers: the "
            "similarity of the goal to the choice that was picked, minus its mean "
            "similarity to the other two wrong ones. This measure is this project's. A "
            "run that picks wrong choices regardless of the goal has 0 on average."
        ),
        (
            "Prefers: close or far choices if the interval excludes 0; empty without an "
            "interval. The intervals are not corrected for the number of rows. Wrong: wrong "
            "answers. Measured: those with a choice, whose question is available."
        ),
        INTERVAL_NOTE,
    ]
    title = "Do wrong answers prefer choices close to the goal?"
    return table_of_runs("egoplan_closeness", title, columns, rows, notes)


def _closeness_rows(
    tasks: Sequence[Series], docs: Mapping[Key, Doc], similarities: GoalSimilarities
) -> Iterator[dict[str, Value]]:
    """Yield each task's mean `preference` of its wrong answers, by each similarity."""
    # Importing nltk takes seconds.
    from lmms_egoplan.report.egoplan.baselines import shared_stems

    values = similarities.values
    measures: dict[str, Callable[[str, str], float]] = {"word stems in common": shared_stems}
    if values:
        measures[similarities.measure] = lambda goal, choice: values[goal, choice]
    for task in tasks:
        if not task.answers:
            continue
        wrong = wrong_answers_of(task)
        for measure, similarity in measures.items():
            measured = _with_preference(wrong, docs, similarity)
            mean = mean_of(measured, "closer")
            row: dict[str, Value] = {
                "run": task.run.name,
                "task": task.task,
                "measure": measure,
                "prefers": _preferred(mean),
                "questions": mean.questions,
                "wrong": len(wrong),
            }
            yield {**row, **mean.cells("closer")}


def _with_preference(
    wrong: Sequence[Answer], docs: Mapping[Key, Doc], similarity: Callable[[str, str], float]
) -> list[Answer]:
    """Return the wrong answers with a choice, with their `preference` as score ``closer``.

    Answers whose question is not available are skipped.
    """
    measured = []
    for answer in wrong:
        doc = docs.get(answer.key)
        gold = LETTERS.index(str(answer.key[2]))
        chosen = answer.record.chosen
        if doc and chosen not in (None, gold):
            nearness = [similarity(doc["task_goal"], choice) for choice in doc["choices"]]
            closer = preference(nearness, chosen, gold)
            measured.append(replace(answer, scores={"closer": closer}))
    return measured


def _preferred(closeness: Mean) -> str | None:
    """Return which choices a run prefers; None without an interval.

    Args:
        closeness: The mean of `preference`.
    """
    if closeness.interval is None:
        return None
    low, high = closeness.interval
    if low > 0:
        return "close choices"
    if high < 0:
        return "far choices"
    return "not shown"
