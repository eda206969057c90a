"""Semantic consistency of predictions and references, as a judge rates it (sec. 4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loguru import logger
from pydantic import StrictBool, StrictInt, model_validator

from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, SCALE, judge_prompt, read_ratings, scale_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.step_answer import (
    FoundFields,
    Rating,
    StepAnswer,
    Verdict,
    check_kept,
    kept_verdicts,
)
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.missing_ratings import warn_of_missing_ratings
from lmms_egoplan.judging.reply import is_ended, without_thinking
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText

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


@dataclass(frozen=True)
class GradedStep(TextRecord):
    """A step's prediction and its ratings.

    step_id: of the record.
    fields: the predicted text of each field that was found in the reply; a field that is not there is missing.
    ratings: of each of `FIELDS`, 0..100; 0 where the field is missing, None where it is not judged.
    judgements: of each, raw text of the judge's last reply; None if none came or the field is missing.
    judges: of each, the model, as the endpoint names it; None where no judge is set or the field is missing.
    errors: of each, why there is no rating; None if there is one.
    suspect: the fields that look as if they wrote their own rating (`sanitize`).
    truncated: whether the reply ends at the limit of new tokens; None where unknown.
    frames_shown, frames_sampled: how many frames the model was shown, of how many at 6 per second.
    reply: all that the model wrote, without its thinking; None in what earlier versions logged.
    media: the form in which the model was shown the frames, ``video`` or ``images`` for one (`media_shown`); None in
        what earlier versions logged.
    """

    WHAT = "a graded step as `grade` leaves it"

    step_id: AnyText
    fields: FoundFields
    ratings: dict[str, Rating | None]
    judgements: dict[str, AnyText | None]
    judges: dict[str, AnyText | None]
    errors: dict[str, AnyText | None]
    suspect: list[AnyText]
    truncated: StrictBool | None
    frames_shown: StrictInt
    frames_sampled: StrictInt
    reply: AnyText | None = None
    media: AnyText | None = None

    @model_validator(mode="after")
    def _check(self) -> "GradedStep":
        check_kept(self, "ratings", {field: (field,) for field in FIELDS})
        return self

    @property
    def missing(self) -> list[str]:
        """Fields that were not found in the reply."""
        return [field for field in FIELDS if field not in self.fields]


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
    sanitized = [{field: sanitize(text) for field, text in prediction.fields.items()} for prediction in predictions]
    verdicts: dict[tuple[int, str], Verdict] = {}
    if settings is not None:
        questions = []
        for index, prediction in enumerate(predictions):
            shown = {field: sanitized[index][field][0] for field in FIELDS if field in prediction.fields}
            parts = [tuple(shown)] if together and shown and settings.model != DEMO else [(field,) for field in shown]
            questions += [_question(index, prediction, {field: shown[field] for field in part}) for part in parts]
        verdicts = _judge(questions, settings, show_progress)
    steps = [
        _graded(
            prediction,
            [field for field in FIELDS if field in prediction.fields and sanitized[index][field][1]],
            {field: verdicts.get((index, field)) for field in prediction.fields},
        )
        for index, prediction in enumerate(predictions)
    ]
    unjudged = [f"{step.step_id} {field}" for step in steps for field, rating in step.ratings.items() if rating is None]
    warn_of_missing_ratings("EgoIntent", unjudged, sum(len(step.fields) for step in steps), "predicted fields")
    return steps


def _question(index: int, prediction: Prediction, shown: Mapping[str, str]) -> _Question:
    request = JudgeRequest(
        id=f"{prediction.step_id} {', '.join(shown)}",
        prompt=judge_prompt(prediction.references, shown),
        reference=" ".join(prediction.references[field] for field in shown),
        answer=" ".join(shown.values()),
    )
    return _Question(index, tuple(shown), request)


def _judge(
    questions: Sequence[_Question], settings: "JudgeSettings", show_progress: bool
) -> dict[tuple[int, str], Verdict]:
    """Rating and judgement by prediction and field."""
    from lmms_egoplan.judging.judge import JudgeError, judge_all

    # Verdicts on different fields are read differently.
    batches: dict[tuple[str, ...], list[_Question]] = {}
    for question in questions:
        batches.setdefault(question.fields if len(question.fields) > 1 else (), []).append(question)
    verdicts: dict[tuple[int, str], Verdict] = {}
    failure: JudgeError | None = None
    for batch in batches.values():
        if failure is None:
            requests = [question.request for question in batch]
            try:
                judgements = judge_all(
                    requests, scale_of(batch[0].fields), settings, title="EgoIntent", show_progress=show_progress
                )
            except JudgeError as error:
                logger.error(
                    f"EgoIntent: {error}\nThe answers are kept, and what has been judged is stored: a run with the "
                    "same answers asks for the rest only"
                )
                failure, judgements = error, error.judgements
        else:
            judgements = [Judgement(None, None, settings.model, error=f"not judged: {failure}")] * len(batch)
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


def _graded(prediction: Prediction, suspect: list[str], verdicts: Mapping[str, Verdict | None]) -> GradedStep:
    """`verdicts` has the found fields, with None where no judge is set."""
    ratings, judged = kept_verdicts(FIELDS, verdicts)
    return GradedStep(**prediction.kept(), **judged, ratings=ratings, suspect=suspect)
