"""EgoThink's questions and answers in the gallery."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, dimension_of
from lmms_egoplan.benchmarks.egothink.prepare import question_format
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.report.document import Images, ShownAnswer, Verdict
from lmms_egoplan.report.egothink.answers import EgoThinkTask
from lmms_egoplan.report.prepared import read_prepared, with_images
from lmms_egoplan.report.scores import Answer, Key

QUESTION_FORMAT = "question format"
_VERDICTS: dict[float | None, Verdict] = {0.0: "wrong", 1.0: "right", None: "unscored"}


def question_fields(
    key: Key, answers: Sequence[Answer], prepared: Mapping[Key, tuple[str, Images]]
) -> dict[str, Any]:
    """Return the prepared question, or the text that lm-eval logged.

    No harness logs the image.

    Args:
        key: The question's key.
        answers: The answers, at least one.
        prepared: Texts and images of the prepared questions.
    """
    question_id = answers[0].id
    reference = key[1]
    logged = next((answer.doc.get("question") for answer in answers if answer.doc), None)
    prepared_question = prepared.get(key)
    if prepared_question is not None:
        text, images = prepared_question
    else:
        text = logged or f"{question_id}: text not available"
        images = None
    dimension = BY_NAME[dimension_of(question_id)]
    facts = {"capability": dimension.capability, "dimension": dimension.name}
    if logged or prepared_question is not None:
        facts[QUESTION_FORMAT] = question_format(text, str(reference))
    return {
        "question": text,
        "facts": facts,
        "references": {"Reference answer": reference},
        "images": images,
    }


def shown_answer(answer: Answer) -> ShownAnswer:
    """Return the answer with the judge's rating and reply."""
    judged = answer.record
    if judged.rating is None:
        tags = [f"not judged: {judged.error}"]
    else:
        tags = [f"{judged.rating:g} of 1 by {judged.judge}"]
    if judged.truncated:
        tags.append("cut off")
    if judged.suspect:
        tags.append("suspect")
    verdict = _VERDICTS.get(judged.rating, "partly")
    return ShownAnswer(verdict, judged.answer, rating="; ".join(tags), judgement=judged.judgement)


def read_prepared_questions(
    graded: Sequence[EgoThinkTask],
) -> tuple[dict[Key, tuple[str, Images]], dict[str, str]]:
    """Read texts and images of the prepared questions.

    Also return the error of each unreadable dimension.
    """
    names: dict[str, None] = {}
    for run in graded:
        for answer in run.answers.values():
            names[dimension_of(answer.id)] = None
    prepared: dict[Key, tuple[str, Images]] = {}
    problems: dict[str, str] = {}
    for name in names:
        rows, problem = read_prepared(partial(_read_rows, name))
        prepared |= rows
        if problem:
            problems[name] = problem
    return prepared, problems


def _read_rows(dimension: str) -> dict[Key, tuple[str, Images]]:
    rows = with_images(EGOTHINK.load(dimension), "image")
    return {(row["id"], row["answer"]): (row["question"], images) for row, images in rows}
