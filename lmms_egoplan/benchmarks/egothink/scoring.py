"""Single-answer grading (sec. 4.1): answers as a judge has rated them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, StrictBool, StrictFloat

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import JUDGE_PROMPT, SCALE
from lmms_egoplan.judging.judge import Judge, warn_of_missing_ratings
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import sanitize
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected

# The paper's GPT-4 is retired.
DEFAULT_JUDGE = "gpt-4o-2024-11-20"

_JUDGE_LATER = "lmms-egoplan judge egothink SAMPLES --out FILE"
# What a run can do without a judge.
OTHERWISE = f"EgoThink's logged samples can be judged later: {_JUDGE_LATER}"


@dataclass(frozen=True)
class Answer:
    """A model's answer to a question.

    id: of the question, ``existence/1``.
    reference: the annotators' answer.
    truncated: whether the answer ends at the limit of new tokens; None where unknown.
    prompts: whose of Tables 5 and 6 the model was asked in (`prompts_name`); None where unknown.
    """

    id: str
    question: str
    reference: str
    answer: str
    truncated: bool | None
    prompts: str | None = None


@dataclass(frozen=True)
class JudgedAnswer(TextRecord):
    """An answer with what a judge made of it.

    id, answer, truncated, prompts: as in `Answer`.
    suspect: whether the answer looks as if it wrote its own rating (`sanitize`); no judge saw that part as it was.
    rating: 0, 0.5 or 1; None where it is not judged.
    judgement: raw text of the judge's last reply; None if none came.
    judge: the model, as the endpoint names it; None where no judge is set.
    error: why there is no rating; None if there is one.
    """

    WHAT = "a judged answer as `grade` leaves it"

    id: AnyText
    answer: AnyText
    truncated: StrictBool | None
    suspect: StrictBool
    rating: Annotated[StrictFloat, Field(ge=0, le=SCALE.best), Expected(f"a number from 0 to {SCALE.best}")] | None
    judgement: AnyText | None
    judge: AnyText | None
    error: AnyText | None
    prompts: AnyText | None = None


def grade(answers: Sequence[Answer], settings: JudgeSettings | None) -> list[JudgedAnswer]:
    """Have a judge rate answers, all together; keep every answer, in order.

    An answer that could not be judged has no rating and an error; a warning names such answers.

    Args:
        answers: Answers of a task.
        settings: The judge; None if none is set.
    """
    return grade_repeatedly(answers, settings, 1)[0]


def grade_repeatedly(
    answers: Sequence[Answer], settings: JudgeSettings | None, repeats: int
) -> list[list[JudgedAnswer]]:
    """Have a judge rate the same answers several times, as `grade` does; return one list for each time.

    The first list is that of `grade`. Each repeat has its own entries in the cache.
    """
    sanitized = [(answer, *sanitize(answer.answer)) for answer in answers]
    asked = [(*each, repeat) for repeat in range(repeats) for each in sanitized]
    judgements: Sequence[Judgement | None] = [None] * len(asked)
    if settings is not None and answers:
        requests = [
            JudgeRequest(
                answer.id,
                JUDGE_PROMPT.format(question=answer.question, ref_answer_1=answer.reference, answer=text),
                answer.reference,
                text,
                repeat=repeat,
            )
            for answer, text, _, repeat in asked
        ]
        dimensions = {dimension_of(answer.id) for answer in answers}
        judge = Judge("EgoThink", settings, f"The answers are saved. Judge the others later: {_JUDGE_LATER}")
        judgements = judge.rate(requests, SCALE, dimensions.pop() if len(dimensions) == 1 else "")
        settings.asking.finish_estimate()
    judged = [
        JudgedAnswer(
            id=answer.id,
            answer=answer.answer,
            truncated=answer.truncated,
            suspect=suspect,
            rating=None if judgement is None or judgement.rating is None else float(judgement.rating),
            judgement=None if judgement is None else judgement.reply,
            judge=None if judgement is None else judgement.judge,
            error="no judge is set" if judgement is None else judgement.error,
            prompts=answer.prompts,
        )
        for (answer, _, suspect, _), judgement in zip(asked, judgements, strict=True)
    ]
    unjudged = [answer.id for answer in judged if answer.rating is None]
    warn_of_missing_ratings("EgoThink", unjudged, len(judged), "answers")
    return [judged[repeat * len(answers) : (repeat + 1) * len(answers)] for repeat in range(repeats)]
