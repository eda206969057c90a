"""Single-answer grading (sec. 4.1): answers as a judge has rated them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StrictBool, StrictFloat

from lmms_egoplan.benchmarks.egothink.dimensions import dimension_of
from lmms_egoplan.benchmarks.egothink.judge_protocol import JUDGE_PROMPT, SCALE
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.rater import Rater, warn_of_missing_ratings
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected

if TYPE_CHECKING:
    from lmms_egoplan.judging.settings import JudgeSettings

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


def grade(answers: Sequence[Answer], settings: "JudgeSettings | None") -> list[JudgedAnswer]:
    """Have a judge rate answers, all together; every answer is kept, in order.

    An answer that could not be judged has no rating and an error; where there are such, a warning names them.

    Args:
        answers: of a task.
        settings: the judge; None where none is set.
    """
    return grade_repeatedly(answers, settings, 1)[0]


def grade_repeatedly(
    answers: Sequence[Answer], settings: "JudgeSettings | None", repeats: int
) -> list[list[JudgedAnswer]]:
    """As `grade`, several times with the same questions to the judge; one list for each time, from the first on.

    The first time is what `grade` gives. What was asked before is not asked again, each time for itself.
    """
    shown = [sanitize(answer.answer) for answer in answers]
    judgements: Sequence[Judgement | None] = [None] * (len(answers) * repeats)
    if settings is not None and answers:
        requests = [
            _request(answer, text, repeat)
            for repeat in range(repeats)
            for answer, (text, _) in zip(answers, shown, strict=True)
        ]
        dimensions = {dimension_of(answer.id) for answer in answers}
        rater = Rater("EgoThink", settings, f"The answers are saved. Judge the others later: {_JUDGE_LATER}")
        judgements = rater.rate(requests, SCALE, dimensions.pop() if len(dimensions) == 1 else "")
        settings.asking.finish_estimate()
    judged = [
        _judged(answer, suspect, judgement)
        for (answer, (_, suspect)), judgement in zip(
            [*zip(answers, shown, strict=True)] * repeats, judgements, strict=True
        )
    ]
    warn_of_missing_ratings(
        "EgoThink", [answer.id for answer in judged if answer.rating is None], len(judged), "answers"
    )
    return [judged[repeat * len(answers) : (repeat + 1) * len(answers)] for repeat in range(repeats)]


def _request(answer: Answer, shown: str, repeat: int) -> JudgeRequest:
    prompt = JUDGE_PROMPT.format(question=answer.question, ref_answer_1=answer.reference, answer=shown)
    return JudgeRequest(answer.id, prompt, answer.reference, shown, repeat=repeat)


def _judged(answer: Answer, suspect: bool, judgement: Judgement | None) -> JudgedAnswer:
    return JudgedAnswer(
        id=answer.id,
        answer=answer.answer,
        truncated=answer.truncated,
        suspect=suspect,
        rating=None if judgement is None or judgement.rating is None else float(judgement.rating),
        judgement=judgement and judgement.reply,
        judge=judgement and judgement.judge,
        error="no judge is set" if judgement is None else judgement.error,
        prompts=answer.prompts,
    )
