"""Ask the judge to rate answers about steps, and combine answers with ratings (sec. 4.1).

`GradedStep` rates how consistent the answer is with the references, the semantic consistency of
sec. 4.1. `diagnostics` has records of the same form with other ratings.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, TypeVar

from annotated_types import Predicate
from PIL import Image
from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

from lmms_egoplan.benchmarks.egointent.judge_protocol import (
    StepProtocol,
    judge_prompt,
    read_ratings,
    scale_of,
)
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.judging.judge import Judge, warn_of_missing_ratings
from lmms_egoplan.judging.judgement import DEMO, Judgement, JudgeRequest
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.judging.text import is_ended, sanitize, without_thinking
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected, problem, quoted

# The paper says Qwen3 without a size. This is the largest dense model of that family.
DEFAULT_JUDGE = "Qwen/Qwen3-32B"
# Message for runs without a judge.
OTHERWISE = (
    "EgoIntent's logged samples can be judged later: lmms-egoplan judge egointent SAMPLES "
    "--out FILE"
)

Judged = TypeVar("Judged", bound="JudgedStep")

FoundFields = dict[
    Annotated[str, Predicate(FIELDS.__contains__), Expected(f"one of {', '.join(FIELDS)}")], AnyText
]
"""Texts by field, for the fields found in a reply."""

Rating = Annotated[StrictFloat, Field(ge=0, le=100), Expected("a number from 0 to 100")]

# Fields that a judged step copies from its prediction.
_SAME = ("step_id", "truncated", "frames_shown", "frames_sampled", "reply", "media")
KEPT = (
    "Answers and judgements are saved. A run with the same answers requests only the missing "
    "judgements"
)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A model's answer about a step.

    Attributes:
        step_id: Id of the step.
        fields: The predicted text of each field that was found in the reply; no text is empty.
        truncated: True if the limit on new tokens ended the reply; None if unknown.
        frames_shown: Number of frames that the model was shown.
        frames_sampled: Number of the step's frames at 6 per second.
        reply: The whole reply without thinking; None if unknown.
        media: The form of the visual input (`media_shown`); None if unknown.
        references: The annotators' text of each field.
        load_images: Reads the frames that the model was shown, oldest first.
    """

    step_id: str
    fields: Mapping[str, str]
    truncated: bool | None
    frames_shown: int
    frames_sampled: int
    reply: str | None = None
    media: str | None = None
    references: Mapping[str, str]
    load_images: Callable[[], Sequence[Image.Image]] = list

    @classmethod
    def of_reply(cls, doc: Mapping[str, Any], reply: str, **facts: Any) -> "Prediction":
        """Read a model's reply about a step.

        Args:
            doc: A row of the prepared dataset.
            reply: The reply without thinking.
            facts: The other fields.
        """
        return cls(
            step_id=doc["step_id"],
            fields=read_reply(reply),
            frames_sampled=doc["num_frames"],
            reply=reply,
            references={field: doc[field] for field in FIELDS},
            **facts,
        )


@dataclass(frozen=True, kw_only=True)
class JudgedStep(TextRecord):
    """A step's prediction and its ratings; each rating is about one or more fields.

    Attributes:
        RATINGS: Name of the subclass's field with the ratings. A rating is 0..100; 0 if a field is
            missing, None if it is not judged.
        RATED: The fields that each rating is about.
        step_id: As in `Prediction`.
        fields: The predicted text of each field that was found in the reply; an absent field is
            missing.
        judgements: For each rating, the raw text of the judge's last reply; None without one or if
            a field is missing.
        judges: For each rating, the model as the endpoint names it; None without a judge or if a
            field is missing.
        errors: For each rating that is None, the reason; None for any other rating.
        suspect: Fields that look as if they contain their own rating (`sanitize`).
        truncated: As in `Prediction`.
        frames_shown: As in `Prediction`.
        frames_sampled: As in `Prediction`.
        reply: As in `Prediction`.
        media: As in `Prediction`.
        protocol: Name of the judge's protocol; None without one, and in records of earlier
            versions.
        judge_prompt_tokens: Prompt tokens of the step's requests, including repeats after a reply
            without a rating, as the endpoint counted them, also if the replies are cached; None if
            one is unknown.
        judge_reply_tokens: Tokens of these replies; None if one is unknown.
    """

    RATINGS: ClassVar[str]
    RATED: ClassVar[Mapping[str, Collection[str]]]

    step_id: AnyText
    fields: FoundFields
    judgements: dict[str, AnyText | None]
    judges: dict[str, AnyText | None]
    errors: dict[str, AnyText | None]
    suspect: list[AnyText]
    truncated: StrictBool | None
    frames_shown: StrictInt
    frames_sampled: StrictInt
    reply: AnyText | None = None
    media: AnyText | None = None
    protocol: AnyText | None = None
    judge_prompt_tokens: StrictInt | None = None
    judge_reply_tokens: StrictInt | None = None

    @classmethod
    def from_prediction(
        cls: type[Judged], prediction: Prediction, judged: Mapping[str, Judgement]
    ) -> Judged:
        """Make a record.

        Args:
            prediction: The model's answer.
            judged: The judgement of each rating; empty without a judge.
        """
        askable = cls.askable(prediction.fields)
        ratings: dict[str, float | None] = {}
        judgements: dict[str, str | None] = dict.fromkeys(cls.RATED)
        judges: dict[str, str | None] = dict.fromkeys(cls.RATED)
        errors: dict[str, str | None] = dict.fromkeys(cls.RATED)
        for name in cls.RATED:
            if name in askable:
                ratings[name] = None
                errors[name] = "no judge is set"
            else:
                ratings[name] = 0.0
        for name, judgement in judged.items():
            judgements[name] = judgement.reply
            judges[name] = judgement.judge
            if judgement.rating is None:
                ratings[name] = None
                errors[name] = judgement.error
            else:
                ratings[name] = float(judgement.rating)
                errors[name] = None
        return cls(
            **{name: getattr(prediction, name) for name in _SAME} | {cls.RATINGS: ratings},
            fields=dict(prediction.fields),
            judgements=judgements,
            judges=judges,
            errors=errors,
            suspect=[
                name
                for name in FIELDS
                if name in prediction.fields and sanitize(prediction.fields[name])[1]
            ],
            judge_prompt_tokens=_total(
                [judgement.prompt_tokens for judgement in judged.values()], len(askable)
            ),
            judge_reply_tokens=_total(
                [judgement.completion_tokens for judgement in judged.values()], len(askable)
            ),
        )

    @classmethod
    def of_all(
        cls: type[Judged],
        predictions: Sequence[Prediction],
        judged: Sequence[Mapping[str, Judgement]],
    ) -> list[Judged]:
        """Make a record for each prediction.

        Args:
            predictions: The predictions.
            judged: For each prediction, its judgements by rating.
        """
        return [cls.from_prediction(*step) for step in zip(predictions, judged, strict=True)]

    @classmethod
    def warn_of_missing(
        cls: type[Judged], steps: Sequence[Judged], title: str, ratings_name: str
    ) -> None:
        """Warn about ratings without a judgement.

        Args:
            steps: The judged steps.
            title: Name of the task for the warning.
            ratings_name: Name of the ratings for the warning, in the plural.
        """
        unjudged: list[str] = []
        num_askable = 0
        for step in steps:
            unjudged += [
                f"{step.step_id} {name}" for name, rating in step.rated.items() if rating is None
            ]
            num_askable += len(step.askable(step.fields))
        warn_of_missing_ratings(title, unjudged, num_askable, ratings_name)

    @classmethod
    def askable(cls, fields: Collection[str]) -> list[str]:
        """List the ratings whose fields were all found."""
        return [name for name, needed in cls.RATED.items() if set(needed) <= set(fields)]

    @property
    def rated(self) -> dict[str, float | None]:
        """The ratings by name."""
        return getattr(self, self.RATINGS)

    @property
    def missing(self) -> list[str]:
        """Names of the ratings with a missing field."""
        askable = self.askable(self.fields)
        return [name for name in self.RATED if name not in askable]

    @property
    def judged(self) -> list[str]:
        """Names of the ratings that come from a judge."""
        return [name for name in self.askable(self.fields) if self.rated[name] is not None]


def check_judged(record: Judged) -> Judged:
    """Check that the parts of a record agree, as in records of `JudgedStep.from_prediction`.

    This is a validator for pydantic.

    Raises:
        PydanticCustomError: They disagree.
    """
    for part in (record.RATINGS, "judgements", "judges", "errors"):
        if getattr(record, part).keys() != record.RATED.keys():
            names = quoted([*getattr(record, part)])
            raise problem(
                f"{part}: expected values for {', '.join(record.RATED)}, found values for {names}"
            )
    for name in record.missing:
        if record.rated[name] != 0:
            rating = quoted(record.rated[name])
            raise problem(
                f"{record.RATINGS}.{name}: expected 0 for a field that is not in the "
                f"reply, found {rating}"
            )
    if not record.fields.keys() >= set(record.suspect):
        raise problem(f"suspect: expected fields of the reply, found {quoted(record.suspect)}")
    return record


@dataclass(frozen=True, kw_only=True)
class GradedStep(JudgedStep):
    """A step's prediction and the ratings of its fields.

    Attributes:
        ratings: The rating of each of `FIELDS`.
    """

    WHAT = "a graded step, as returned by `grade`"
    RATINGS = "ratings"
    RATED: ClassVar = {field: (field,) for field in FIELDS}

    ratings: dict[str, Rating | None]

    _check = model_validator(mode="after")(check_judged)


def grade(
    predictions: Sequence[Prediction],
    settings: JudgeSettings | None,
    protocol: StepProtocol,
    *,
    together: bool = False,
) -> list[GradedStep]:
    """Rate the found fields of each prediction with a judge; keep the order.

    A missing field is rated 0 without a request (see `metrics`). A field that could not be judged
    has an error instead of a rating. If there is a judge, a warning names such fields.

    Args:
        predictions: Predictions of a task.
        settings: The judge; None without a judge.
        protocol: The judge's protocol.
        together: Send one request for all fields of a step, which takes a third of the requests. If
            a reply does not rate all fields, the request is repeated up to twice, and the ratings
            in the last reply are used. The demo judge always gets one request for each field.
    """
    judged: list[dict[str, Judgement]] = [{} for _ in predictions]
    if settings is not None:
        is_together = together and settings.model != DEMO
        judge = Judge("EgoIntent", settings, KEPT)
        for batch in _batches(predictions, protocol, together=is_together):
            fields_of_first = batch[0].fields
            judgements = judge.rate([item.request for item in batch], scale_of(fields_of_first))
            for item, judgement in zip(batch, judgements, strict=True):
                judged[item.index] |= _by_field(item.fields, judgement)
    steps = GradedStep.of_all(predictions, judged)
    if settings is not None:  # otherwise, nobody expects ratings
        GradedStep.warn_of_missing(steps, "EgoIntent", "predicted fields")
    return [
        replace(step, protocol=protocol.name if any(step.judges.values()) else None)
        for step in steps
    ]


@dataclass(frozen=True, slots=True)
class _Item:
    """One request of a batch.

    Attributes:
        index: Position of the prediction.
        fields: The fields that the request rates.
        request: The request.
    """

    index: int
    fields: tuple[str, ...]
    request: JudgeRequest


def _batches(
    predictions: Sequence[Prediction], protocol: StepProtocol, *, together: bool
) -> list[list[_Item]]:
    """Return the requests for predictions, grouped by their scale.

    A batch has one scale, which depends on the fields of the requests. Requests about one field
    share a batch.
    """
    batches: dict[tuple[str, ...], list[_Item]] = {}
    for index, prediction in enumerate(predictions):
        for fields in _fields_of_requests(prediction, together=together):
            key = fields if len(fields) > 1 else ()
            request = _request(prediction, fields, protocol)
            batches.setdefault(key, []).append(_Item(index, fields, request))
    return list(batches.values())


def _fields_of_requests(prediction: Prediction, *, together: bool) -> list[tuple[str, ...]]:
    """Return the fields that each request about a prediction rates."""
    fields = GradedStep.askable(prediction.fields)
    if together and fields:
        return [tuple(fields)]
    return [(field,) for field in fields]


def _request(prediction: Prediction, fields: Sequence[str], protocol: StepProtocol) -> JudgeRequest:
    predictions = {field: sanitize(prediction.fields[field])[0] for field in fields}
    return JudgeRequest(
        id=f"{prediction.step_id} {', '.join(predictions)}",
        prompt=judge_prompt(prediction.references, predictions, protocol),
        reference=" ".join(prediction.references[field] for field in predictions),
        answer=" ".join(predictions.values()),
    )


def _by_field(fields: Sequence[str], judgement: Judgement) -> dict[str, Judgement]:
    """Return the judgement of one request as a judgement of each field, with the field's rating."""
    if len(fields) == 1:
        return {fields[0]: judgement}
    # A complete reply may rate only some of the fields.
    has_ended = judgement.rating is not None or (
        judgement.finish is not None and is_ended(judgement.finish)
    )
    ratings: dict[str, float] = {}
    if has_ended:
        ratings = read_ratings(without_thinking(judgement.reply or "") or "")
    by_field: dict[str, Judgement] = {}
    for field in fields:
        by_field[field] = replace(judgement, rating=ratings.get(field))
        # The first field has the request's tokens.
        judgement = replace(judgement, prompt_tokens=0, completion_tokens=0)
    return by_field


def _total(tokens: Sequence[int | None], count: int) -> int | None:
    """Add the tokens of judgements; None if one of `count` is unknown or missing."""
    known = [number for number in tokens if number is not None]
    if len(known) < len(tokens) or len(tokens) < count:
        return None
    return sum(known)
