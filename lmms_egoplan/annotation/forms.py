"""What an annotator is shown of an item and asked about it, and the values that a browser sends back."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from lmms_egoplan.annotation.clips import Media
from lmms_egoplan.errors import LmmsEgoplanError

LONGEST = 4000
"""Characters of a text that an annotator writes."""

Values = dict[str, Any]
"""By the name of a field, what was chosen; fields that do not apply are absent."""


class FormError(LmmsEgoplanError):
    """What a browser sent does not fit the form."""


@dataclass(frozen=True)
class Prose:
    """A text."""

    title: str
    text: str


@dataclass(frozen=True)
class Steps:
    """Texts with numbers from 1."""

    title: str
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """An image."""

    title: str
    media: Media


@dataclass(frozen=True)
class Film:
    """A clip with controls."""

    title: str
    media: Media


Shown = Prose | Steps | Picture | Film


@dataclass(frozen=True)
class Option:
    """One of a field's values with its text."""

    value: str
    text: str


@dataclass(frozen=True)
class _Asked:
    """What all fields share.

    applies: another field's name and values; the field is asked only if that one has one of these.
    """

    name: str
    title: str
    _: KW_ONLY
    help: str = ""
    applies: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Choice(_Asked):
    """One of several options.

    initial: the one that is chosen at first; "" for none.
    """

    options: tuple[Option, ...]
    initial: str = ""

    def read(self, sent: Sequence[str]) -> str:
        """Return the option that was chosen."""
        if len(sent) != 1 or sent[0] not in [option.value for option in self.options]:
            raise FormError(f"{self.title}: choose one")
        return sent[0]


@dataclass(frozen=True)
class Marks(_Asked):
    """For each option, the steps that it concerns; an option may concern the whole, step 0.

    steps: how many there are.
    """

    options: tuple[Option, ...]
    steps: int

    def read(self, sent: Sequence[str]) -> dict[str, list[int]]:
        """Return the steps of each marked option, increasing; step 0 means the whole plan."""
        known = [option.value for option in self.options]
        marked: dict[str, set[int]] = {}
        for mark in sent:
            option, _, step = mark.rpartition(":")
            if option not in known or not step.isascii() or not step.isdigit() or int(step) > self.steps:
                raise FormError(f"{self.title}: {mark!r} is no error type with a step")
            marked.setdefault(option, set()).add(int(step))
        return {option: sorted(marked[option]) for option in known if option in marked}


@dataclass(frozen=True)
class Words(_Asked):
    """A text to write.

    initial: what stands there at first.
    candidates: texts that stand beside it.
    rows: lines of its box; in a box of several, line breaks count, and blank lines do not.
    """

    initial: str = ""
    candidates: tuple[str, ...] = ()
    rows: int = 2

    def read(self, sent: Sequence[str]) -> str:
        """Return the text, without superfluous blanks."""
        lines = sent[0].splitlines() if len(sent) == 1 else []
        words = [" ".join(line.split()) for line in lines]
        text = ("\n" if self.rows > 2 else " ").join(filter(None, words))
        if not text or len(text) > LONGEST:
            raise FormError(f"{self.title}: write a text of at most {LONGEST} characters")
        return text


@dataclass(frozen=True)
class Moment(_Asked):
    """A time of the clip above, to be moved frame by frame.

    times: what it may be, seconds in the video, increasing.
    initial: one of them.
    start: seconds in the video at which the clip begins.
    step: seconds from one frame of the clip to the next.
    """

    times: tuple[float, ...]
    initial: float
    start: float
    step: float

    def read(self, sent: Sequence[str]) -> float:
        """Return the nearest of the times."""
        try:
            (moment,) = (float(text) for text in sent)
        except ValueError:
            moment = math.nan
        first, last = self.times[0], self.times[-1]
        if not first - self.step <= moment <= last + self.step:
            raise FormError(f"{self.title}: expected seconds from {first:.6f} to {last:.6f}")
        return min(self.times, key=lambda time: abs(time - moment))


Field = Choice | Marks | Words | Moment


@dataclass(frozen=True)
class Form:
    """An item as one person sees it."""

    shown: tuple[Shown, ...]
    fields: tuple[Field, ...]

    @property
    def media(self) -> tuple[Media, ...]:
        """The media in the order in which they are shown; a request names one by its place."""
        return tuple(part.media for part in self.shown if isinstance(part, Picture | Film))


def applies(field: Field, values: Mapping[str, Any]) -> bool:
    """Tell if a field is asked, given the values of the fields before it."""
    return field.applies is None or values.get(field.applies[0]) in field.applies[1]


def read_values(form: Form, sent: Mapping[str, Sequence[str]]) -> Values:
    """Read the values of a form that was sent; fields that do not apply are dropped.

    Raises:
        FormError: a value is missing or none that the form offers; names the field.
    """
    values: Values = {}
    for field in form.fields:
        if applies(field, values):
            values[field.name] = field.read(sent.get(field.name, ()))
    return values


def majority(form: Form, labels: Sequence[Values]) -> Values:
    """Combine several people's labels of one item.

    An option of `Choice` needs more than half of the people who were asked, else the field is absent. An option of
    `Marks` needs more than half, too, and has the steps that any of them marked. Of texts and times, the most frequent
    one is taken, in a tie the first.
    """
    values: Values = {}
    for field in form.fields:
        choices = [label[field.name] for label in labels if field.name in label]
        if isinstance(field, Marks):
            marking = {option.value: [marks for marks in choices if option.value in marks] for option in field.options}
            values[field.name] = {
                option: sorted({step for marks in marked for step in marks[option]})
                for option, marked in marking.items()
                if 2 * len(marked) > len(choices)
            }
        elif choices:
            value, count = Counter(choices).most_common(1)[0]
            if not isinstance(field, Choice) or 2 * count > len(choices):
                values[field.name] = value
    return values
