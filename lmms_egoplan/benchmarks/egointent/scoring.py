"""Semantic consistency of predictions and references, as a judge rates it (sec. 4.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import model_validator

from lmms_egoplan.benchmarks.egointent.judge_protocol import JUDGE_VERSION, SCALE, judge_prompt, read_ratings, scale_of
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.step_answer import JudgedStep, Prediction, Rating, check_judged, step_rater
from lmms_egoplan.judging.judgement import DEMO, Judgement, JudgeRequest
from lmms_egoplan.judging.reply import is_ended, without_thinking
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.judging.settings import JudgeSettings

__all__ = ["DEFAULT_JUDGE", "JUDGE_VERSION", "SCALE", "GradedStep", "Prediction", "grade"]

# The paper says Qwen3 and not which; this is its largest dense model.
DEFAULT_JUDGE = "Qwen/Qwen3-32B"
# What a run can do without a judge.
OTHERWISE = "EgoIntent's logged samples can be judged later: lmms-egoplan judge egointent SAMPLES --out FILE"


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


def grade(
    predictions: Sequence[Prediction], settings: JudgeSettings | None, *, together: bool = False, release: bool = False
) -> list[GradedStep]:
    """Have a judge rate every field that was found; keep every prediction, in order.

    A missing field is rated 0 and not asked about (see `metrics`). A field that could not be judged has no rating and
    an error; a warning names such fields.

    Args:
        predictions: Predictions of a task.
        settings: The judge; None if none is set.
        together: Send one request for all fields of a step, a third of the requests. A reply that does not rate all
            fields is asked for again twice; of the last one, those that it rates count. The demo judge is always asked
            field by field.
        release: See `judge_prompt`.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    if settings is not None:
        # Verdicts on different fields are read differently.
        batches: dict[tuple[str, ...], dict[tuple[int, tuple[str, ...]], JudgeRequest]] = {}
        for index, prediction in enumerate(predictions):
            fields = tuple(GradedStep.askable(prediction.fields))
            is_one = together and fields and settings.model != DEMO
            for part in [fields] if is_one else [(field,) for field in fields]:
                batch = batches.setdefault(part if len(part) > 1 else (), {})
                batch[index, part] = _request(prediction, part, release=release)
        rater = step_rater("EgoIntent", settings)
        for batch in batches.values():
            judgements = rater.rate([*batch.values()], scale_of(next(iter(batch))[1]))
            for (index, fields), judgement in zip(batch, judgements, strict=True):
                judged[index] |= _by_field(fields, judgement)
    return GradedStep.of_all(predictions, judged, "EgoIntent", "predicted fields")


def _request(prediction: Prediction, fields: Sequence[str], *, release: bool) -> JudgeRequest:
    shown = {field: sanitize(prediction.fields[field])[0] for field in fields}
    return JudgeRequest(
        id=f"{prediction.step_id} {', '.join(shown)}",
        prompt=judge_prompt(prediction.references, shown, release=release),
        reference=" ".join(prediction.references[field] for field in shown),
        answer=" ".join(shown.values()),
    )


def _by_field(fields: Sequence[str], judgement: Judgement) -> dict[str, Judgement]:
    """Return the judgement of one request as that of each field, with the field's rating."""
    if len(fields) == 1:
        return {fields[0]: judgement}
    # Of a reply that has ended and rates some fields, these count.
    has_ended = judgement.rating is not None or (judgement.finish is not None and is_ended(judgement.finish))
    ratings = read_ratings(without_thinking(judgement.reply or "") or "") if has_ended else {}
    return {field: replace(judgement, rating=ratings.get(field)) for field in fields}
