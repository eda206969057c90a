"""Ask the judge to grade answers, and read its verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.judging.judge import Judge, warn_of_missing_ratings
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest, RatingScale
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import sanitize
from lmms_egoplan.judging.verdicts import agreed_rating
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText

DEFAULT_JUDGE = "gpt-4o-2024-11-20"

PROMPT = """\
Question: {question}
Right answer: {reference}
Answer of a model: {answer}

Is the model's answer right? End with "Rating: [[1]]" if it is, else with "Rating: [[0]]"."""


@dataclass(frozen=True)
class JudgedAnswer(TextRecord):
    """An answer with its judgement.

    Attributes:
        id: Id of the question.
        answer: The model's answer.
        rating: 0 or 1; None without a rating.
        judgement: The judge's reply; None without one.
        judge: The judge's name from the endpoint; None without a judge.
        error: Why there is no rating; None with a rating.
    """

    WHAT = "a judged answer, as returned by `grade`"

    id: AnyText
    answer: AnyText
    rating: float | None
    judgement: AnyText | None
    judge: AnyText | None
    error: AnyText | None


def read_rating(verdict: str) -> float | None:
    """Read the rating in a verdict.

    >>> read_rating("It names the cup. Rating: [[1]]"), read_rating("Rating: [[0.5]]")
    (1.0, None)
    """
    return agreed_rating(verdict, {"0": 0.0, "1": 1.0}.get)


SCALE = RatingScale(read_rating, best=1)


def grade(
    docs: Sequence[Mapping[str, Any]], answers: Sequence[str], settings: JudgeSettings | None
) -> list[JudgedAnswer]:
    """Judge all answers of a task.

    Args:
        docs: Rows of the prepared dataset.
        answers: The model's answer to each.
        settings: The judge; None without a judge.
    """
    judgements = [Judgement(None, None, "", error="no judge is set")] * len(docs)
    if settings is not None:
        requests = [_request(doc, answer) for doc, answer in zip(docs, answers, strict=True)]
        judge = Judge("Toy", settings, "The answers are saved.")
        judgements = judge.rate(requests, SCALE)
    judged = []
    for doc, answer, judgement in zip(docs, answers, judgements, strict=True):
        judged_answer = JudgedAnswer(
            id=doc["id"],
            answer=answer,
            rating=judgement.rating,
            judgement=judgement.reply,
            judge=judgement.judge or None,
            error=judgement.error,
        )
        judged.append(judged_answer)
    unrated = [answer.id for answer in judged if answer.rating is None]
    warn_of_missing_ratings("Toy", unrated, len(judged), "answers")
    return judged


def _request(doc: Mapping[str, Any], answer: str) -> JudgeRequest:
    text, _ = sanitize(answer)
    prompt = PROMPT.format(question=doc["question"], reference=doc["answer"], answer=text)
    return JudgeRequest(doc["id"], prompt, doc["answer"], text)
