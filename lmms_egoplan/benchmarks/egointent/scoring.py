"""Semantic consistency of predictions and references, as a judge rates it (sec. 4.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import model_validator

from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, SCALE, judge_prompt, read_ratings, scale_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.step_answer import JudgedStep, Rating, StepAnswer, check_judged, step_rater
from lmms_egoplan.judging.demo import DEMO
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest
from lmms_egoplan.judging.reply import is_ended, without_thinking
from lmms_egoplan.judging.sanitize import sanitize

if TYPE_CHECKING:
    from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["DEFAULT_JUDGE", "JUDGE_VERSION", "SCALE", "GradedStep", "Prediction", "grade"]

# The paper says Qwen3 and not which; this is its largest dense model.
DEFAULT_JUDGE = "Qwen/Qwen3-32B"
# What a run can do without a judge.
OTHERWISE = "EgoIntent's logged samples can be judged later: lmms-egoplan judge egointent SAMPLES --out FILE"


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


_Key = tuple[int, tuple[str, ...]]
"""Index of a prediction, and the fields of it that one request is about."""


def grade(
    predictions: Sequence[Prediction],
    settings: "JudgeSettings | None",
    *,
    together: bool = False,
    release: bool = False,
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
        release: see `judge_prompt`.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    if settings is not None:
        requests: dict[_Key, JudgeRequest] = {}
        for index, prediction in enumerate(predictions):
            fields = GradedStep.askable(prediction.fields)
            parts = [tuple(fields)] if together and fields and settings.model != DEMO else [(name,) for name in fields]
            requests |= {(index, part): _request(prediction, part, release) for part in parts}
        for (index, fields), judgement in _judge(requests, settings).items():
            judged[index] |= _by_field(fields, judgement)
    return GradedStep.of_all(predictions, judged, "EgoIntent", "predicted fields")


def _request(prediction: Prediction, fields: tuple[str, ...], release: bool) -> JudgeRequest:
    shown = {field: sanitize(prediction.fields[field])[0] for field in fields}
    return JudgeRequest(
        id=f"{prediction.step_id} {', '.join(shown)}",
        prompt=judge_prompt(prediction.references, shown, release=release),
        reference=" ".join(prediction.references[field] for field in shown),
        answer=" ".join(shown.values()),
    )


def _judge(requests: Mapping[_Key, JudgeRequest], settings: "JudgeSettings") -> dict[_Key, Judgement]:
    # Verdicts on different fields are read differently.
    batches: dict[tuple[str, ...], list[_Key]] = {}
    for key in requests:
        batches.setdefault(key[1] if len(key[1]) > 1 else (), []).append(key)
    rater = step_rater("EgoIntent", settings)
    judgements: dict[_Key, Judgement] = {}
    for keys in batches.values():
        rated = rater.rate([requests[key] for key in keys], scale_of(keys[0][1]))
        judgements |= zip(keys, rated, strict=True)
    return judgements


def _by_field(fields: tuple[str, ...], judgement: Judgement) -> dict[str, Judgement]:
    """The judgement of one request as that of each field, with the field's rating."""
    if len(fields) == 1:
        return {fields[0]: judgement}
    # Of a reply that has ended and rates some fields, these count.
    has_ended = judgement.rating is not None or (judgement.finish is not None and is_ended(judgement.finish))
    ratings = read_ratings(without_thinking(judgement.reply or "") or "") if has_ended else {}
    return {field: replace(judgement, rating=ratings.get(field)) for field in fields}
