"""A model's answer about a step, and what the records of both judged tasks keep of it and of verdicts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StrictFloat

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.judging.judgement import Judgement
from lmms_egoplan.validation import AnyText, Expected, problem, shown

Answer = TypeVar("Answer", bound="StepAnswer")

FoundFields = dict[Annotated[Literal[FIELDS], Expected(f"one of {', '.join(FIELDS)}")], AnyText]
"""The text of each field that a reply has."""

Rating = Annotated[StrictFloat, Field(ge=0, le=100), Expected("a number from 0 to 100")]

Verdict = tuple[float | None, Judgement]
"""A rating, None where there is none, and the judgement that it is read from."""


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

    def kept(self) -> dict[str, Any]:
        """What a record keeps of the answer, by the fields' names."""
        return {name: getattr(self, name) for name in StepAnswer.__dataclass_fields__} | {"fields": dict(self.fields)}


def kept_verdicts(
    names: Collection[str], verdicts: Mapping[str, Verdict | None]
) -> tuple[dict[str, float | None], dict[str, dict[str, str | None]]]:
    """What a record keeps of verdicts.

    Args:
        names: of all ratings.
        verdicts: by name, with None where no judge is set. A name is absent where the judge had nothing to rate.

    Returns:
        The ratings by name, 0 where there was nothing to rate; and ``judgements``, ``judges`` and ``errors``, each by
        name, as `GradedStep` has them.
    """
    ratings: dict[str, float | None] = dict.fromkeys(names, 0.0)
    judgements, judges, errors = (dict[str, str | None].fromkeys(names) for _ in range(3))
    for name, verdict in verdicts.items():
        if verdict is None:
            ratings[name], errors[name] = None, "no judge is set"
            continue
        rating, judgement = verdict
        ratings[name] = None if rating is None else float(rating)
        judgements[name], judges[name] = judgement.reply, judgement.judge
        errors[name] = judgement.error if rating is None else None
    return ratings, {"judgements": judgements, "judges": judges, "errors": errors}


def check_kept(record: Any, name: str, rated: Mapping[str, Collection[str]]) -> None:
    """Check that what a record keeps of an answer goes with what it keeps of verdicts, as `kept_verdicts` gives it.

    Args:
        record: with ``fields``, ``judgements``, ``judges``, ``errors`` and ``suspect``, each of its right type.
        name: of its ratings.
        rated: by rating, the fields of an answer that it is about.

    Raises:
        PydanticCustomError: it does not.
    """
    for part in (name, "judgements", "judges", "errors"):
        if getattr(record, part).keys() != rated.keys():
            raise problem(
                f"{part}: expected values of {', '.join(rated)}, found those of {shown([*getattr(record, part)])}"
            )
    for key, rating in getattr(record, name).items():
        if rating != 0 and not record.fields.keys() >= set(rated[key]):
            raise problem(f"{name}.{key}: expected 0 for what is not in the reply, found {shown(rating)}")
    if not record.fields.keys() >= set(record.suspect):
        raise problem(f"suspect: expected fields of the reply, found {shown(record.suspect)}")
