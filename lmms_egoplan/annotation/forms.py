"""Define forms: what annotators see of an item, what they are asked, and how input is read."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

from lmms_egoplan.annotation.clips import Media
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.text import strip_controls
from lmms_egoplan.validation import quoted

LONGEST = 4000
"""Maximum length of a text that an annotator writes, in characters."""

Values = dict[str, Any]
"""Values by field name. Fields that do not apply are absent."""
Contents = Mapping[str, Any]
"""Contents of an item's form, as in `Item`."""
Earlier = Sequence[Values]
"""Values of an item's earlier rounds, as in `Flow.form`."""


class FormError(LmmsEgoplanError):
    """A browser sent input that does not fit the form."""


@dataclass(frozen=True)
class Prose:
    """A text."""

    KIND: ClassVar[str] = "prose"

    title: str
    text: str


@dataclass(frozen=True)
class Steps:
    """A numbered list of texts."""

    KIND: ClassVar[str] = "steps"

    title: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """An image."""

    KIND: ClassVar[str] = "picture"

    title: str
    media: Media


class Film(Picture):
    """A clip with playback controls."""

    KIND: ClassVar[str] = "film"


FormPart = Prose | Steps | Picture
"""A part of a form that annotators see. `KIND` is the name of its kind, for templates."""


@dataclass(frozen=True)
class Option:
    """A value of a field, with its displayed text."""

    value: str
    text: str


@dataclass(frozen=True)
class _Question:
    """Base of all fields.

    Attributes:
        KIND: Name of the kind of fields, for templates.
        name: Name in `Values`.
        title: Displayed question.
        help: Further explanation.
        applies: Name and values of another field. The field is asked only if the other one has one
            of these values.
    """

    KIND: ClassVar[str]

    name: str
    title: str
    _: KW_ONLY
    help: str = ""
    applies: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Choice(_Question):
    """Choose one of several options.

    Attributes:
        options: All options.
        initial: Value of the option chosen at first; "" for none.
    """

    KIND: ClassVar[str] = "choice"

    options: tuple[Option, ...]
    initial: str = ""

    def read(self, sent: Sequence[str]) -> str:
        """Return the chosen option."""
        if len(sent) != 1 or sent[0] not in [option.value for option in self.options]:
            raise FormError(f"{self.title}: choose one")
        return sent[0]


@dataclass(frozen=True)
class Marks(_Question):
    """Mark, for each option, the steps that it concerns. Step 0 means the whole plan.

    Attributes:
        options: All options.
        steps: Number of steps.
    """

    KIND: ClassVar[str] = "marks"

    options: tuple[Option, ...]
    steps: int

    def read(self, sent: Sequence[str]) -> dict[str, list[int]]:
        """Return the marked options with their steps in ascending order.

        Step 0 means the whole plan.
        """
        names = [option.value for option in self.options]
        marked: dict[str, set[int]] = {}
        for mark in sent:
            option, _, step = mark.rpartition(":")
            is_number = step.isascii() and step.isdigit()
            if option not in names or not is_number or int(step) > self.steps:
                raise FormError(f"{self.title}: {mark!r} is not an error type with a step")
            marked.setdefault(option, set()).add(int(step))
        return {option: sorted(marked[option]) for option in names if option in marked}


@dataclass(frozen=True)
class Words(_Question):
    """Write a text.

    Attributes:
        initial: Initial text.
        candidates: Suggested texts.
        rows: Height of the text box in lines. With more than two, line breaks are kept and blank
            lines dropped.
    """

    KIND: ClassVar[str] = "words"

    initial: str = ""
    candidates: tuple[str, ...] = ()
    rows: int = 2

    def read(self, sent: Sequence[str]) -> str:
        """Return the text with normalized whitespace, without control characters."""
        written = strip_controls(sent[0], keep_lines=True) if len(sent) == 1 else ""
        lines = [" ".join(line.split()) for line in written.split("\n")]
        separator = "\n" if self.rows > 2 else " "
        text = separator.join(line for line in lines if line)
        if not text or len(text) > LONGEST:
            raise FormError(f"{self.title}: write a text of at most {LONGEST} characters")
        return text


@dataclass(frozen=True)
class Moment(_Question):
    """Choose a time in the clip above, frame by frame.

    Attributes:
        times: Possible times, seconds in the video, ascending.
        initial: One of the times.
        start: Start of the clip, seconds in the video.
        step: Seconds between two frames of the clip.
    """

    KIND: ClassVar[str] = "moment"

    times: tuple[float, ...]
    initial: float
    start: float
    step: float

    def read(self, sent: Sequence[str]) -> float:
        """Return the nearest of the possible times."""
        moment = _read_seconds(sent)
        first = self.times[0]
        last = self.times[-1]
        if not first - self.step <= moment <= last + self.step:
            raise FormError(f"{self.title}: expected a time from {first:.6f} to {last:.6f} seconds")
        return min(self.times, key=lambda time: abs(time - moment))

    @property
    def clip_times(self) -> tuple[float, ...]:
        """The possible times, in seconds of a clip that ends at the last one.

        Each is the end of one more frame. All frames of a clip are equally long.
        """
        return tuple(round(count * self.step, 6) for count in range(1, len(self.times) + 1))

    def from_clip_time(self, sent: Sequence[str]) -> float:
        """Return the possible time that is nearest to a time of the clip, as in `clip_times`."""
        moment = _read_seconds(sent)
        first = self.clip_times[0]
        last = self.clip_times[-1]
        if not first - self.step / 2 <= moment <= last + self.step / 2:
            entered = ", ".join(sent) or "none"
            raise FormError(
                f"{self.title}: expected a time from {first:.3f} to {last:.3f} seconds of the "
                f"clip; found {entered}"
            )
        count = max(1, min(len(self.times), round(moment / self.step)))
        return self.times[count - 1]


def _read_seconds(sent: Sequence[str]) -> float:
    """Return the number that was sent; NaN for anything else."""
    try:
        (seconds,) = (float(text) for text in sent)
    except ValueError:
        return math.nan
    return seconds


Field = Choice | Marks | Words | Moment


@dataclass(frozen=True)
class Form:
    """The form of an item for one person."""

    parts: tuple[FormPart, ...]
    fields: tuple[Field, ...]

    @property
    def media(self) -> tuple[Media, ...]:
        """The media in display order. Requests use the index."""
        return tuple(part.media for part in self.parts if isinstance(part, Picture))


def applies(field: Field, values: Mapping[str, Any]) -> bool:
    """Return whether a field applies, given the values of the fields before it."""
    return field.applies is None or values.get(field.applies[0]) in field.applies[1]


def read_values(form: Form, sent: Mapping[str, Sequence[str]]) -> Values:
    """Read the values of a submitted form. Fields that do not apply are dropped.

    Raises:
        FormError: A value is missing or invalid. Names the field.
    """
    values: Values = {}
    for field in form.fields:
        if applies(field, values):
            values[field.name] = field.read(sent.get(field.name, ()))
    return values


def check_values(form: Form, values: Values, where: str) -> None:
    """Check that stored values fit a form.

    Args:
        where: File and record, for messages.

    Raises:
        LmmsEgoplanError: The form has no such field, or the field does not accept the value.
    """
    fields = {field.name: field for field in form.fields}
    for name, value in values.items():
        if name not in fields:
            raise LmmsEgoplanError(f"{where}, {name}: no such field; there are {', '.join(fields)}")
        if not _accepts(fields[name], value):
            raise LmmsEgoplanError(
                f"{where}, {name}: the field {fields[name].title!r} does not accept {quoted(value)}"
            )


def _accepts(field: Field, value: Any) -> bool:
    """Return whether a field would read this value from a browser."""
    try:
        return field.read(_as_browser_sends(value)) == value
    except (FormError, TypeError):
        return False


def _as_browser_sends(value: Any) -> list[str]:
    """Return the texts that a browser would send for a value."""
    if not isinstance(value, dict):
        return [str(value)]
    texts = []
    for option, steps in value.items():
        texts += [f"{option}:{step}" for step in steps]
    return texts


def with_allowed_options(form: Form, limits: Mapping[str, Sequence[str]]) -> Form:
    """Return a form with only the options that a person may use.

    Fields that are absent in `limits` keep all.
    """
    fields = []
    for field in form.fields:
        if isinstance(field, Choice) and field.name in limits:
            options = tuple(
                option for option in field.options if option.value in limits[field.name]
            )
            field = replace(field, options=options)
        fields.append(field)
    return replace(form, fields=tuple(fields))


def majority(form: Form, labels: Sequence[Values]) -> Values:
    """Combine several people's labels of one item.

    - `Choice`: the option that more than half of the people who were asked chose; otherwise the
      field is absent.
    - `Marks`: the options that more than half marked, with the steps that any of them marked.
    - Texts and times: the most frequent value; the first one in a tie.
    """
    values: Values = {}
    for field in form.fields:
        choices = [label[field.name] for label in labels if field.name in label]
        if isinstance(field, Marks):
            values[field.name] = _majority_of_marks(field, choices)
        elif choices:
            value, count = Counter(choices).most_common(1)[0]
            if not isinstance(field, Choice) or 2 * count > len(choices):
                values[field.name] = value
    return values


def _majority_of_marks(
    field: Marks, labels: Sequence[Mapping[str, Sequence[int]]]
) -> dict[str, list[int]]:
    """Return the options that more than half marked, with the steps that any of them marked."""
    majority_marks = {}
    for option in field.options:
        marks = [label[option.value] for label in labels if option.value in label]
        if 2 * len(marks) > len(labels):
            majority_marks[option.value] = sorted(set().union(*marks))
    return majority_marks
