"""A plan's step: its action, and the objects of an activity that the names in its parentheses may mean."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.actplan.bddl import PREDICATES, Atom, Problem
from lmms_egoplan.benchmarks.actplan.reply_lines import ascii_form
from lmms_egoplan.paths import yaml_beside

_DATA: Mapping[str, Mapping[str, Any]] = yaml_beside(__file__)
_EFFECTS, _TYPES = _DATA["effects"], _DATA["types"]
STATES: Mapping[str, Mapping[str, bool]] = {effect: fields.get("states", {}) for effect, fields in _EFFECTS.items()}
"""By effect, the states that the things named then have (true) or no longer have."""
_EFFECT_OF = {word: effect for effect, fields in _EFFECTS.items() for word in fields["words"]}

_CALL = re.compile(r"[\s*`]*([^\W\d_][\w\\ /-]*?)[*`]*[ ]?\((.*)", re.DOTALL)
_BETWEEN = re.compile(r",|\band\b")


@dataclass(frozen=True)
class Step:
    """A step that is understood.

    effect: a key of ``steps.yaml``.
    names: what it is done with, as written.
    """

    effect: str
    names: tuple[str, ...]


def read_step(step: str) -> Step | None:
    """Read a step of the form ``action(object, ...)``; None where it has no such form, or another action.

    >>> read_step("switch-on(lamp)"), read_step("sing(song)")
    (Step(effect='switch_on', names=('lamp',)), None)
    """
    call = _CALL.fullmatch(ascii_form(step))
    if call is None:
        return None
    action = re.sub(r"[\\\s/_-]+", "_", call[1].strip().lower()).strip("_")
    effect = _EFFECT_OF.get(action)
    # A call inside, as in place_on_top(floor, next_to(toilet)), is a name that tells a place.
    names = (name.strip(" )") for name in _BETWEEN.split(call[2].replace("(", "_")))
    return None if effect is None else Step(effect, tuple(name for name in names if re.search(r"[^\W_]", name)))


# Endings of the plural and what they stand for.
_PLURALS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))
# Where the thing's own name ends and its place begins, with the predicate that this tells of the two.
_RELATIONS = {
    "on": "ontop", "ontop": "ontop", "in": "inside", "inside": "inside", "near": "nextto", "next": "nextto",
    "beside": "nextto", "under": "under", "underneath": "under", "touching": "touching", "from": "", "with": "",
    "for": "", "to": "", "at": "", "by": "", "using": "", "until": "",
}  # fmt: skip
_STATES = frozenset(name for name, predicate in PREDICATES.items() if len(predicate.arguments) == 1)


@dataclass(frozen=True)
class Name:
    """A name, taken apart.

    words: of the thing itself, in small letters; none where the name begins with a place.
    number: that it bears, a letter at its end being one, too; None without.
    place: words of where the thing is.
    relation: its predicate to that place; "" where none is told.
    """

    words: tuple[str, ...]
    number: int | None = None
    place: tuple[str, ...] = ()
    relation: str = ""

    @classmethod
    def of(cls, text: str) -> "Name":
        """Take a name apart.

        >>> Name.of("book_on_shelf_2")
        Name(words=('book',), number=2, place=('shelf',), relation='ontop')
        >>> Name.of("plywood_B")
        Name(words=('plywood',), number=2, place=(), relation='')
        """
        parts = re.findall(r"[a-z]+|[0-9]{1,4}", text.lower())
        numbers = [int(part) for part in parts if part.isdecimal()]
        words = [part for part in parts if part.isalpha()]
        if len(words) > 1 and len(words[-1]) == 1:
            numbers.append(ord(words.pop()) - ord("a") + 1)
        cut = next((index for index, word in enumerate(words) if word in _RELATIONS), len(words))
        return cls(
            words=tuple(words[:cut]),
            number=numbers[0] if numbers else None,
            place=tuple(word for word in words[cut:] if word not in _RELATIONS),
            relation=_RELATIONS[words[cut]] if cut < len(words) else "",
        )

    @property
    def states(self) -> tuple[str, ...]:
        """States that it names, as in ``dusty_shoe``."""
        return tuple(word for word in self.words if word in _STATES)


class Names:
    """The objects of a problem by words."""

    def __init__(self, problem: Problem) -> None:
        self._types = {thing.name: thing.type for thing in problem.objects}
        self._rooms = {
            fact.arguments[0]: fact.arguments[1]
            for fact in problem.init
            if isinstance(fact, Atom) and fact.predicate == "inroom" and len(fact.arguments) == 2
        }

    def type_of(self, thing: str) -> str:
        """The type of an object."""
        return self._types[thing]

    def room_of(self, thing: str) -> str | None:
        """The room that an object belongs to; None for things that can be moved."""
        return self._rooms.get(thing)

    def rooms_in(self, words: Sequence[str]) -> set[str]:
        """The rooms that words name."""
        return {room for room in self._rooms.values() if room.replace("_", " ") in " ".join(words)}

    def floors(self, rooms: set[str]) -> list[str]:
        """The floors of rooms; all where there is none of these."""
        floors = [name for name in self._types if is_floor(name)]
        return [name for name in floors if self.room_of(name) in rooms] or floors

    def matching(self, words: Sequence[str], movable: bool = False) -> list[str]:
        """The objects of the type that words name best, in the problem's order.

        The most words of a type count, then the last. Objects in a room that is named, too, come before others.

        Args:
            movable: whether types of things that can be moved come before others, as in ``sock_sofa``.
        """
        forms = [singulars(word) | {word} for word in words]
        ranks = {kind: _rank(names, forms) for kind, names in self._names.items()}
        if movable and any(rank for kind, rank in ranks.items() if kind not in self._fixtures):
            ranks = {kind: rank for kind, rank in ranks.items() if kind not in self._fixtures}
        best = max(ranks.values(), default=None)
        things = [name for name, kind in self._types.items() if best and ranks.get(kind) == best]
        rooms = self.rooms_in(words)
        return [name for name in things if self.room_of(name) in rooms] or things

    def is_plural(self, words: Sequence[str]) -> bool:
        """Whether the last word is in the plural, and no type's own."""
        return bool(words and singulars(words[-1])) and not any(
            words[-1] in own for names in self._names.values() for own in names
        )

    @cached_property
    def _fixtures(self) -> set[str]:
        return {kind for name, kind in self._types.items() if name in self._rooms}

    @cached_property
    def _names(self) -> dict[str, list[tuple[str, ...]]]:
        return {kind: names_of_type(kind) for kind in self._types.values() if not kind.startswith("agent.")}


def is_floor(thing: str) -> bool:
    """Whether an object is a floor."""
    return thing.startswith("floor.")


def _rank(names: Sequence[tuple[str, ...]], forms: Sequence[set[str]]) -> tuple[int, ...]:
    """How many words of a type stand together, and where the last such place is; () where none does."""
    return max(
        (
            (len(own), start)
            for own in names
            for start in range(len(forms) - len(own) + 1)
            if all(word in form for word, form in zip(own, forms[start:], strict=False))
        ),
        default=(),
    )


def names_of_type(kind: str) -> list[tuple[str, ...]]:
    """The words of a type, its last word alone, and the everyday words of ``steps.yaml``.

    >>> names_of_type("gym_shoe.n.01")
    [('gym', 'shoe'), ('shoe',), ('sneaker',)]
    """
    own = tuple(lemma_of(kind).split("_"))
    names = [own, own[-1:], *(tuple(other.split()) for other in _TYPES.get(lemma_of(kind), []))]
    return list(dict.fromkeys(names))


def lemma_of(kind: str) -> str:
    """A synset's lemma."""
    return kind.partition(".")[0]


def singulars(word: str) -> set[str]:
    """What an English word may be the plural of; nothing for one without an ending of plurals."""
    return {word.removesuffix(end) + single for end, single in _PLURALS if word.endswith(end)}
