"""A model's answer about a step, and the record of what a judge made of it, as both judged tasks keep it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, StrictBool, StrictFloat, StrictInt

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.judging.rater import Rater, warn_of_missing_ratings
from lmms_egoplan.judging.sanitize import sanitize
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.serialization import TextRecord
from lmms_egoplan.validation import AnyText, Expected, problem, shown

Answer = TypeVar("Answer", bound="StepAnswer")
Judged = TypeVar("Judged", bound="JudgedStep")

FoundFields = dict[Annotated[Literal[FIELDS], Expected(f"one of {', '.join(FIELDS)}")], AnyText]
"""The text of each field that a reply has."""

Rating = Annotated[StrictFloat, Field(ge=0, le=100), Expected("a number from 0 to 100")]

_NO_JUDGEMENT = Judgement(None, None, None, error="no judge is set")


@dataclass(frozen=True, kw_only=True)
class StepAnswer:
    """A model's answer about a step.

    step_id: of the record.
    fields: the predicted text of each field that was found in the reply, none of them empty.
    truncated: whether the reply ends at the limit of new tokens; None where unknown.
    frames_shown, frames_sampled: how many frames the model was shown, of how many at 6 per second.
    reply: all that the model wrote, without its thinking; None where it is not kept.
    media: the form of its visual input (`media_shown`); None where unknown.
    """

    step_id: str
    fields: Mapping[str, str]
    truncated: bool | None
    frames_shown: int
    frames_sampled: int
    reply: str | None = None
    media: str | None = None

    @classmethod
    def of_reply(
        cls: type[Answer],
        doc: Mapping[str, Any],
        reply: str,
        truncated: bool | None,
        frames_shown: int,
        media: str | None = None,
        **others: Any,
    ) -> Answer:
        """A model's reply about a step, a row of the prepared dataset; `others` are a subclass's own fields."""
        return cls(
            step_id=doc["step_id"],
            fields=read_reply(reply),
            truncated=truncated,
            frames_shown=frames_shown,
            frames_sampled=doc["num_frames"],
            reply=reply,
            media=media,
            **others,
        )


@dataclass(frozen=True, kw_only=True)
class JudgedStep(TextRecord):
    """A step's prediction and its ratings, each of some of its fields.

    step_id: of the record.
    fields: the predicted text of each field that was found in the reply; a field that is not there is missing.
    judgements: of each rating, raw text of the judge's last reply; None if none came or a field is missing.
    judges: of each, the model, as the endpoint names it; None where no judge is set or a field is missing.
    errors: of each, why there is no rating; None if there is one.
    suspect: the fields that look as if they wrote their own rating (`sanitize`).
    truncated: whether the reply ends at the limit of new tokens; None where unknown.
    frames_shown, frames_sampled: how many frames the model was shown, of how many at 6 per second.
    reply: all that the model wrote, without its thinking; None in what earlier versions logged.
    media: the form in which the model was shown the frames, ``video`` or ``images`` for one (`media_shown`); None in
        what earlier versions logged.

    RATINGS: name of the subclass's field with the ratings: 0..100; 0 where a field is missing, None where not judged.
    RATED: by rating, the fields that it is about.
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

    @classmethod
    def of(cls: type[Judged], answer: StepAnswer, judged: Mapping[str, Judgement]) -> Judged:
        """A record of judgements by name; one that could be given and is absent is for want of a judge."""
        ratings: dict[str, float | None] = dict.fromkeys(cls.RATED, 0.0)
        judgements, judges, errors = (dict[str, str | None].fromkeys(cls.RATED) for _ in range(3))
        for name in cls.askable(answer.fields):
            judgement = judged.get(name, _NO_JUDGEMENT)
            ratings[name] = None if judgement.rating is None else float(judgement.rating)
            judgements[name], judges[name] = judgement.reply, judgement.judge
            errors[name] = judgement.error if judgement.rating is None else None
        kept = {name: getattr(answer, name) for name in StepAnswer.__dataclass_fields__}
        return cls(
            **kept | {"fields": dict(answer.fields), cls.RATINGS: ratings},
            judgements=judgements,
            judges=judges,
            errors=errors,
            suspect=[field for field in FIELDS if field in answer.fields and sanitize(answer.fields[field])[1]],
        )

    @classmethod
    def of_all(
        cls: type[Judged],
        answers: Sequence[StepAnswer],
        judged: Sequence[Mapping[str, Judgement]],
        title: str,
        what: str,
    ) -> list[Judged]:
        """As `of`, for each answer; a warning names the ratings that no judge gave.

        Args:
            title: of what was judged.
            what: the ratings are, in the plural.
        """
        steps = [cls.of(*answer) for answer in zip(answers, judged, strict=True)]
        unjudged = [f"{step.step_id} {name}" for step in steps for name, rating in step.rated.items() if rating is None]
        warn_of_missing_ratings(title, unjudged, sum(len(step.askable(step.fields)) for step in steps), what)
        return steps

    @classmethod
    def askable(cls, fields: Collection[str]) -> list[str]:
        """The names of the ratings whose fields are all there."""
        return [name for name, needed in cls.RATED.items() if all(field in fields for field in needed)]

    @property
    def rated(self) -> dict[str, float | None]:
        """The ratings by name."""
        return getattr(self, self.RATINGS)

    @property
    def missing(self) -> list[str]:
        """Names of the ratings of which a field was not found in the reply."""
        askable = self.askable(self.fields)
        return [name for name in self.RATED if name not in askable]

    @property
    def judged(self) -> list[str]:
        """Names of the ratings that a judge gave."""
        return [name for name in self.askable(self.fields) if self.rated[name] is not None]


def check_judged(record: Judged) -> Judged:
    """Check that the parts of a record go together, as `JudgedStep.of` makes them; for pydantic.

    Raises:
        PydanticCustomError: they do not.
    """
    for part in (record.RATINGS, "judgements", "judges", "errors"):
        if getattr(record, part).keys() != record.RATED.keys():
            found = shown([*getattr(record, part)])
            raise problem(f"{part}: expected values of {', '.join(record.RATED)}, found those of {found}")
    for name in record.missing:
        if record.rated[name] != 0:
            found = shown(record.rated[name])
            raise problem(f"{record.RATINGS}.{name}: expected 0 for what is not in the reply, found {found}")
    if not record.fields.keys() >= set(record.suspect):
        raise problem(f"suspect: expected fields of the reply, found {shown(record.suspect)}")
    return record


def step_rater(title: str, settings: JudgeSettings) -> Rater:
    """A judge of answers about steps; see `Rater`."""
    kept = (
        "The answers are kept, and what has been judged is stored: a run with the same answers asks for the rest only"
    )
    return Rater(title, settings, kept)
