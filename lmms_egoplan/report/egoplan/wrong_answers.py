"""Read runs' wrong answers to EgoPlan-Bench, for people and judges who label them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loguru import logger

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.answers import EGOPLAN, Series, read_series
from lmms_egoplan.report.egoplan.docs import read_docs, references
from lmms_egoplan.report.egoplan.failures import Failure, Frames
from lmms_egoplan.report.egoplan.gallery import frames_of
from lmms_egoplan.report.egoplan.remarks import missing_questions
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.samples import HOW_TO_LOG
from lmms_egoplan.report.scores import Answer, Key
from lmms_egoplan.stats.correction import draw


def wrong_answers(runs: Sequence[Path], count: int | None) -> list[tuple[Failure, Frames]]:
    """Read the wrong answers of runs in which a choice was read; see `_drawn`.

    Raises:
        LmmsEgoplanError: A run cannot be read, there are no wrong answers, or their questions are
            missing.
    """
    read = read_runs(runs)
    for skipped in read.skipped:
        logger.warning(f"Skipped: {skipped}")
    tasks = read_series(read.runs, EGOPLAN)
    # The main tasks come first, see `read_docs`.
    tasks.sort(key=lambda task: task.shortcut is not None)
    docs, problem = read_docs(tasks, EGOPLAN)
    asked: set[Key] = set()
    for task in tasks:
        asked.update(task.answers or ())
    gaps = list(missing_questions(asked, docs, problem))
    wrong = list(_drawn(tasks, docs, gaps, count))
    if not wrong:
        raise LmmsEgoplanError(
            f"{', '.join(map(str, runs))}: no wrong answers to EgoPlan's questions; {HOW_TO_LOG}"
        )
    return wrong


def wrong_answers_of(task: Series) -> list[Answer]:
    """Return a task's answers with accuracy 0, in order."""
    return [answer for answer in (task.answers or {}).values() if answer.scores["acc"] == 0]


def _drawn(
    tasks: Sequence[Series], docs: Mapping[Key, Doc], gaps: Sequence[str], count: int | None
) -> Iterator[tuple[Failure, Frames]]:
    """Yield wrong answers in which a choice was read, with the frames of the question.

    Skip shortcuts and tasks without video.

    Args:
        tasks: The runs' tasks.
        docs: The questions that are available.
        gaps: What is missing in the questions.
        count: Size of the random sample of each task's answers; None, or more than there are,
            for all.

    Raises:
        LmmsEgoplanError: Questions are missing.
    """
    for task in tasks:
        if task.shortcut is not None or task.without_video:
            continue
        wrong = wrong_answers_of(task)
        wrong.sort(key=lambda answer: answer.key)
        answers = [answer for answer in wrong if answer.record.chosen is not None]
        logger.info(
            f"{task.name}: {len(answers)} wrong answers, and "
            f"{len(wrong) - len(answers)} without a choice"
        )
        if not answers:
            continue
        if gaps:
            raise LmmsEgoplanError(gaps[0])
        parts = [answer.record.part or "" for answer in answers]
        for position in draw(parts, min(count or len(parts), len(parts))):
            answer = answers[position]
            doc = docs[answer.key]
            yield _failure(task, answer, doc, len(answers)), frames_of(doc, visuals.EGOPLAN)


def _failure(series: Series, answer: Answer, doc: Doc, num_wrong: int) -> Failure:
    """Return a wrong answer as people and judges see it.

    Args:
        series: The task of a run that asked the question.
        answer: The wrong answer.
        doc: The question.
        num_wrong: Number of wrong answers from which this one was drawn.
    """
    texts = references(doc) | {
        "Choices": "; ".join(doc["choices"]),
        "Right choice": doc["answer"],
        "The model's choice": doc["choices"][answer.record.chosen],
    }
    if answer.record.text:
        texts["The model's reply"] = answer.record.text
    return Failure(
        id=f"{answer.id} of {series.name}",
        model=series.name,
        video=doc["video_id"],
        run=f"{series.source.model}, {series.source.time}, {series.task}",
        texts=texts,
        wrong=num_wrong,
    )
