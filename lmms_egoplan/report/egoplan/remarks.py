"""Remarks on runs of EgoPlan-Bench and EgoPlan-Bench2: flaws, and gaps in the prepared data."""

from collections.abc import Collection, Iterator

from lmms_egoplan.jsonl import member
from lmms_egoplan.report.egoplan.answers import Series
from lmms_egoplan.report.scores import Key
from lmms_egoplan.report.tables import share


def flaws(task: Series) -> Iterator[str]:
    """Yield problems with a task's questions and samples."""
    yield from _flaws_of_questions(task)
    if task.answers is None:
        yield "no samples, so no groups, comparisons or gallery."
    if task.ranking_flaw and task.shortcut:
        yield f"{task.ranking_flaw}; not compared."
    if task.ranking.get("note"):
        yield f"{task.ranking['note']}."
    if task.is_reasoned:
        yield (
            "the prompt is not the paper's, which describes one case and prints no prompt (App. "
            f"B.2). {share(task.number('incomplete'))} of the replies lack the summary, the "
            "description or the plan, or have another order."
        )
    unknown = _unknown_fields(task)
    if unknown:
        yield (
            f"not known or not followed in this preset: {', '.join(unknown)}. This project's or "
            "the model's own choice is used."
        )


def _unknown_fields(task: Series) -> list[str]:
    """Return the fields of the task's preset that are not known or not followed."""
    fields = []
    unknown = task.text("unknown_fields") or "none"
    if unknown != "none":
        fields.append(unknown)
    pixels = member(task.task_run.config, "metadata", "pixels")
    if pixels:
        fields.append(f"pixels ({pixels})")
    return fields


def _flaws_of_questions(task: Series) -> Iterator[str]:
    """Yield questions that were not asked or have no score."""
    size = task.count("split_size")
    asked = task.count("num_questions")
    with_score = task.questions
    if asked is not None and size is not None and asked < size:
        yield f"{asked:,} of the annotation file's {size:,} questions were asked."
    failed = task.count("authors_fail") or 0
    if failed and asked is not None:
        ids = task.text("authors_fail_ids") or "unknown"
        yield (
            f"{failed:,} of {asked:,} questions have no score, as the authors' code fails on "
            f"them: progress or action have too few frames. Their sample ids: {ids}."
        )
    if asked is None or with_score is None:
        return
    missing = asked - with_score - failed
    if missing > 0 and task.is_reasoned:
        yield (
            f"{missing:,} of {asked:,} questions have no score, as no letter was "
            "read from the last part of the reply."
        )
    elif missing > 0:
        yield (
            f"{missing:,} of {asked:,} questions have no score, as a choice's mean "
            "log-probability is unknown or not finite."
        )


def missing_questions(
    asked: Collection[Key], docs: Collection[Key], problem: str | None
) -> Iterator[str]:
    """Yield problems with the prepared data.

    Args:
        asked: The questions that were asked.
        docs: The questions that are available.
        problem: The reason why prepared questions are missing.
    """
    missing = set(asked).difference(docs)
    if missing:
        why = problem or f"they are not in the prepared data, for example {min(missing)[1]}"
        yield (
            f"{len(missing):,} questions are missing here, with their goals, past actions and "
            f"frames, and in the baselines without a model: {why}"
        )
