"""A model's answer about a step, and what the records of both judged tasks keep of it and of verdicts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.reply import read_reply
from lmms_egoplan.judging.judgement import Judgement

Answer = TypeVar("Answer", bound="StepAnswer")

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


def is_kept_value(name: str, values: Mapping[str, Any], ratings: str, rated: Mapping[str, Collection[str]]) -> bool:
    """Whether a field of a record has a value that `kept` or `kept_verdicts` can have given.

    Args:
        name: of the record's field, one of the keys of `values`.
        ratings: name of the field that has the ratings.
        rated: by rating, the fields of an answer that it is about.
    """
    value, fields = values[name], values["fields"]
    found = fields.keys() if isinstance(fields, dict) else set()
    if name == "step_id":
        return isinstance(value, str)
    if name in ("reply", "media"):
        return value is None or isinstance(value, str)
    if name == "truncated":
        return value is None or isinstance(value, bool)
    if name in ("frames_shown", "frames_sampled"):
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "suspect":
        return isinstance(value, list) and all(isinstance(field, str) and field in found for field in value)
    if not isinstance(value, dict):
        return False
    if name == "fields":
        return value.keys() <= set(FIELDS) and all(isinstance(text, str) for text in value.values())
    if value.keys() != rated.keys():
        return False
    if name == ratings:
        return all(_is_rating(rating, found >= set(rated[key])) for key, rating in value.items())
    return all(text is None or isinstance(text, str) for text in value.values())


def _is_rating(rating: Any, asked: bool) -> bool:
    if rating is None:
        return asked
    return isinstance(rating, float) and 0 <= rating <= (100 if asked else 0)
