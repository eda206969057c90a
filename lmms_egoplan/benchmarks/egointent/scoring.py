"""Semantic consistency of predictions and references, as a judge rates it (sec. 4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, SCALE, judge_prompt, read_ratings, scale_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.step_answer import (
    JUDGED_AGAIN,
    JudgedStep,
    Rating,
    StepAnswer,
    Verdict,
    check_judged,
    warn_of_unjudged,
)
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.rater import Rater
from lmms_egoplan.judging.reply import is_ended, without_thinking
from lmms_egoplan.judging.sanitize import sanitize

if TYPE_CHECKING:
    from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["DEFAULT_JUDGE", "JUDGE_VERSION", "SCALE", "GradedStep", "Prediction", "grade"]

# The paper says Qwen3 and not which; this is its largest dense model.
DEFAULT_JUDGE = "Qwen/Qwen3-32B"


@dataclass(frozen=True, kw_only=True)
class Prediction(StepAnswer):
    """A model's answer about a step, with the annotators' text for each of `FIELDS`."""

    references: Mapping[str, str]

    @classmethod
    def of_reply(cls, doc: Mapping[str, Any], *reply: Any) -> "Prediction":
        """As `StepAnswer.of_reply`, with the references of the row."""
        return super().of_reply(doc, *reply, references={field: doc[field] for field in FIELDS})


@dataclass(frozen=True, kw_only=True)
class GradedStep(JudgedStep):
    """A step's prediction and the ratings of its fields.

    ratings: of each of `FIELDS`.
    """

    WHAT = "a graded step as `grade` leaves it"
    RATINGS = "ratings"
    RATED: ClassVar = {field: (field,) for field in FIELDS}

    ratings: dict[str, Rating | None]

    _check = model_validator(mode="after")(check_judged)


@dataclass(frozen=True)
class _Question:
    """One request: some fields of a prediction, given by its index."""

    index: int
    fields: tuple[str, ...]
    request: JudgeRequest


def grade(
    predictions: Sequence[Prediction],
    settings: "JudgeSettings | None",
    *,
    together: bool = False,
    show_progress: bool = True,
) -> list[GradedStep]:
    """Have a judge rate every field that was found; every prediction is kept, in order.

    A missing field is rated 0 and not asked about (see `metrics`). A field that could not be judged has
    no rating and an error; where there are such, a warning names them.

    Args:
        predictions: of a task.
        settings: the judge; None where none is set.
        together: one request for all fields of a step, a third of the requests. A reply that does not rate all of them
            is asked for again twice; of the last one, those that it rates count. The demo judge is asked field by
            field in any case.
        show_progress: a progress bar.
    """
    verdicts: dict[tuple[int, str], Verdict] = {}
    if settings is not None:
        questions = []
        for index, prediction in enumerate(predictions):
            fields = GradedStep.askable(prediction.fields)
            parts = [tuple(fields)] if together and fields and settings.model != DEMO else [(name,) for name in fields]
            questions += [_question(index, prediction, part) for part in parts]
        verdicts = _judge(questions, settings, show_progress)
    steps = [
        GradedStep.of(prediction, {field: verdicts[index, field] for field in FIELDS if (index, field) in verdicts})
        for index, prediction in enumerate(predictions)
    ]
    warn_of_unjudged("EgoIntent", steps, "predicted fields")
    return steps


def _question(index: int, prediction: Prediction, fields: tuple[str, ...]) -> _Question:
    shown = {field: sanitize(prediction.fields[field])[0] for field in fields}
    request = JudgeRequest(
        id=f"{prediction.step_id} {', '.join(shown)}",
        prompt=judge_prompt(prediction.references, shown),
        reference=" ".join(prediction.references[field] for field in shown),
        answer=" ".join(shown.values()),
    )
    return _Question(index, fields, request)


def _judge(
    questions: Sequence[_Question], settings: "JudgeSettings", show_progress: bool
) -> dict[tuple[int, str], Verdict]:
    """Rating and judgement by prediction and field."""
    # Verdicts on different fields are read differently.
    batches: dict[tuple[str, ...], list[_Question]] = {}
    for question in questions:
        batches.setdefault(question.fields if len(question.fields) > 1 else (), []).append(question)
    rater = Rater("EgoIntent", settings, JUDGED_AGAIN, show_progress)
    verdicts: dict[tuple[int, str], Verdict] = {}
    for batch in batches.values():
        judgements = rater.rate([question.request for question in batch], scale_of(batch[0].fields))
        for question, judgement in zip(batch, judgements, strict=True):
            verdicts |= _read(question, judgement)
    return verdicts


def _read(question: _Question, judgement: Judgement) -> dict[tuple[int, str], Verdict]:
    if len(question.fields) == 1:
        return {(question.index, question.fields[0]): (judgement.rating, judgement)}
    # Of a reply that has ended and rates some fields, these count.
    has_ended = judgement.rating is not None or (judgement.finish is not None and is_ended(judgement.finish))
    ratings = read_ratings(without_thinking(judgement.reply or "") or "") if has_ended else {}
    return {(question.index, field): (ratings.get(field), judgement) for field in question.fields}
