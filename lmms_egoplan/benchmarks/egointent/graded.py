"""A step with what a judge made of its prediction, and the text in which a harness carries it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.serialization import from_text, to_text


@dataclass(frozen=True)
class GradedStep:
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

    step_id: str
    fields: dict[str, str]
    ratings: dict[str, float | None]
    judgements: dict[str, str | None]
    judges: dict[str, str | None]
    errors: dict[str, str | None]
    suspect: list[str]
    truncated: bool | None
    frames_shown: int
    frames_sampled: int
    reply: str | None = None
    media: str | None = None

    @property
    def missing(self) -> list[str]:
        """Fields that were not found in the reply."""
        return [field for field in FIELDS if field not in self.fields]

    def to_text(self) -> str:
        """For `from_text`; nothing that a harness strips from texts is in it."""
        return to_text(self)

    @classmethod
    def from_text(cls, text: str) -> "GradedStep":
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        return from_text(text, cls, "a graded step as `grade` leaves it", _is_right)


def _is_right(name: str, values: Mapping[str, Any]) -> bool:
    value = values[name]
    if name == "step_id":
        return isinstance(value, str)
    if name in ("reply", "media"):
        return value is None or isinstance(value, str)
    if name == "truncated":
        return value is None or isinstance(value, bool)
    if name in ("frames_shown", "frames_sampled"):
        return isinstance(value, int) and not isinstance(value, bool)
    found = values["fields"].keys() if isinstance(values["fields"], dict) else set()
    if name == "fields":
        return (
            isinstance(value, dict) and found <= set(FIELDS) and all(isinstance(part, str) for part in value.values())
        )
    if name == "suspect":
        return isinstance(value, list) and all(isinstance(field, str) and field in found for field in value)
    if not isinstance(value, dict) or value.keys() != set(FIELDS):
        return False
    if name == "ratings":
        return all(_is_rating(rating, field in found) for field, rating in value.items())
    return all(part is None or isinstance(part, str) for part in value.values())


def _is_rating(rating: Any, found: bool) -> bool:
    if not found:
        return isinstance(rating, float) and rating == 0
    return rating is None or (isinstance(rating, float) and 0 <= rating <= 100)
