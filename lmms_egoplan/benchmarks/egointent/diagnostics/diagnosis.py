"""A step with its reference-free scores, and the text in which a harness carries it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.egointent.diagnostics.judge_protocol import SCORES, askable
from lmms_egoplan.benchmarks.egointent.fields import FIELDS
from lmms_egoplan.serialization import from_text, to_text


@dataclass(frozen=True)
class Diagnosis:
    """A step's prediction and its scores.

    step_id: of the record.
    fields: the predicted text of each field that was found in the reply.
    scores: of each of `SCORES`, 0..100; 0 where one of its fields is missing, None where it is not judged.
    judgements: of each, raw text of the judge's last reply; None if none came or a field is missing.
    judges: of each, the model, as the endpoint names it; None where no judge is set or a field is missing.
    errors: of each, why there is no score; None if there is one.
    suspect: the fields that look as if they wrote their own rating (`sanitize`).
    truncated: whether the reply ends at the limit of new tokens; None where unknown.
    frames_shown, frames_sampled: how many frames the model was shown, of how many at 6 per second.
    reply: all that the model wrote, without its thinking; None in what earlier versions logged.
    media: the form in which the model was shown the frames (`media_shown`); None in what earlier versions logged.
    """

    step_id: str
    fields: dict[str, str]
    scores: dict[str, float | None]
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
        """Scores of which a field was not found in the reply."""
        return [name for name in SCORES if name not in askable(self.fields)]

    def to_text(self) -> str:
        """For `from_text`; nothing that a harness strips from texts is in it."""
        return to_text(self)

    @classmethod
    def from_text(cls, text: str) -> "Diagnosis":
        """Read what `to_text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        return from_text(text, cls, "a diagnosis as `diagnose` leaves it", _is_right)


def _is_right(name: str, values: Mapping[str, Any]) -> bool:
    value, fields = values[name], values["fields"]
    found = fields.keys() & set(FIELDS) if isinstance(fields, dict) else set()
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
        return value.keys() <= set(FIELDS) and all(isinstance(part, str) for part in value.values())
    if value.keys() != set(SCORES):
        return False
    if name == "scores":
        asked = askable(found)
        return all(_is_score(score, score_name in asked) for score_name, score in value.items())
    return all(part is None or isinstance(part, str) for part in value.values())


def _is_score(score: Any, asked: bool) -> bool:
    if score is None:
        return asked
    return isinstance(score, float) and 0 <= score <= (100 if asked else 0)
