"""Interpret a plan's step: its action, and the objects of an activity that its names may mean."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from lmms_egoplan.benchmarks.actplan.bddl import PREDICATES, Problem
from lmms_egoplan.benchmarks.actplan.reply.calls import ascii_form
from lmms_egoplan.paths import module_yaml

_DATA = module_yaml(__file__)
# Words of actions by effect, and everyday words of types.
_ACTIONS: Mapping[str, Sequence[str]] = _DATA["actions"]
_TYPES: Mapping[str, Sequence[str]] = _DATA["types"]
_EFFECTS = {word: effect for effect, words in _ACTIONS.items() for word in words}

STATES: Mapping[str, Mapping[str, bool]] = {
    "open": {"open": True},
    "close": {"open": False},
    "switch_on": {"toggled_on": True},
    "switch_off": {"toggled_on": False},
    "clean": {"dusty": False, "stained": False},
    "rinse": {"dusty": False, "stained": False, "soaked": True},
    "soak": {"soaked": True},
    "dry": {"soaked": False},
    "slice": {"sliced": True},
    "cook": {"cooked": True},
    "freeze": {"frozen": True},
    "thaw": {"frozen": False},
}
"""By effect, the states that the named objects have afterwards (True) or no longer have (False).

Effects that change no state are absent.
"""
# Words that separate an object's name from its place, with the predicate that relates the two; ""
# for no predicate.
_RELATIONS = {
    "on": "ontop",
    "ontop": "ontop",
    "in": "inside",
    "inside": "inside",
    "near": "nextto",
    "next": "nextto",
    "beside": "nextto",
    "under": "under",
    "underneath": "under",
    "touching": "touching",
    "from": "",
    "with": "",
    "for": "",
    "to": "",
    "at": "",
    "by": "",
    "using": "",
    "until": "",
}
_STATES = frozenset(name for name, predicate in PREDICATES.items() if len(predicate.arguments) == 1)


@dataclass(frozen=True, slots=True)
class Step:
    """A step whose action is known.

    effect: A key of ``actions`` in ``steps.yaml``.
    names: The step's objects, as written.
    """

    effect: str
    names: tuple[str, ...]


_CALL = re.compile(
    r"""
    [\s*`]*
    (?P<action> [^\W\d_] [\w\\ /-]*? )
    [*`]* [ ]?
    \( (?P<names> .* )
    """,
    re.VERBOSE | re.DOTALL,
)
_BETWEEN_NAMES = re.compile(r",|\band\b")


def read_step(step: str) -> Step | None:
    """Read a step of the form ``action(object, ...)``; None for another form or an unknown action.

    >>> read_step("switch-on(lamp)"), read_step("sing(song)")
    (Step(effect='switch_on', names=('lamp',)), None)
    """
    call = _CALL.fullmatch(ascii_form(step))
    if call is None:
        return None
    action = re.sub(r"[\\\s/_-]+", "_", call["action"].strip().lower()).strip("_")
    effect = _EFFECTS.get(action)
    if effect is None:
        return None
    # A nested call names a place, as in place_on_top(floor, next_to(toilet)).
    names = _BETWEEN_NAMES.split(call["names"].replace("(", "_"))
    return Step(effect, tuple(name.strip(" )") for name in names if re.search(r"[^\W_]", name)))


@dataclass(frozen=True, slots=True)
class Name:
    """The name of an object, split into parts.

    words: The words of the object, in lower case; empty if the name begins with a place.
    number: The name's number, or the position in the alphabet of a final letter; None without
    either.
    place: The words of the object's place.
    relation: The predicate that relates the object to its place; "" if unknown.
    """

    words: tuple[str, ...]
    number: int | None = None
    place: tuple[str, ...] = ()
    relation: str = ""

    @classmethod
    def parse(cls, text: str) -> "Name":
        """Split a name.

        >>> Name.parse("book_on_shelf_2")
        Name(words=('book',), number=2, place=('shelf',), relation='ontop')
        >>> Name.parse("plywood_B")
        Name(words=('plywood',), number=2, place=(), relation='')
        """
        parts = re.findall(r"[a-z]+|[0-9]{1,4}", text.lower())
        numbers = [int(part) for part in parts if part.isdecimal()]
        words = [part for part in parts if part.isalpha()]
        if len(words) > 1 and len(words[-1]) == 1:
            # plywood_B is the second plywood.
            numbers.append(ord(words.pop()) - ord("a") + 1)
        cut = 0
        while cut < len(words) and words[cut] not in _RELATIONS:
            cut += 1
        return cls(
            words=tuple(words[:cut]),
            number=numbers[0] if numbers else None,
            place=tuple(word for word in words[cut:] if word not in _RELATIONS),
            relation=_RELATIONS[words[cut]] if cut < len(words) else "",
        )

    @property
    def thing_or_place(self) -> "Name":
        """The name itself, or the name of its place if it begins with a place."""
        return self if self.words else Name(self.place, self.number)

    @property
    def states(self) -> tuple[str, ...]:
        """The words that are states, as in ``dusty_shoe``."""
        return tuple(word for word in self.words if word in _STATES)


class Names:
    """The objects of a problem, found by the words of a name.

    types: Each object's type by its name.
    """

    def __init__(self, problem: Problem) -> None:
        self.types = problem.types
        self._rooms = {
            fact.arguments[0]: fact.arguments[1]
            for fact in problem.init
            if fact.op == "inroom" and len(fact.arguments) == 2
        }

    def room_of(self, thing: str) -> str | None:
        """Return the room of an object; None for movable objects."""
        return self._rooms.get(thing)

    def rooms_in(self, words: Sequence[str]) -> set[str]:
        """Return the rooms that words name."""
        return {room for room in self._rooms.values() if room.replace("_", " ") in " ".join(words)}

    def floors(self, rooms: set[str]) -> list[str]:
        """Return the floors of rooms; all floors if these rooms have none."""
        floors = [name for name in self.types if is_floor(name)]
        return [name for name in floors if self.room_of(name) in rooms] or floors

    def matching(self, words: Sequence[str], *, movable: bool = False) -> list[str]:
        """Return the objects of the best matching type, in the problem's order.

        The type with the most matching words wins; in a tie, the one whose match starts last. If
        the words also name a room, only objects in that room are returned, if there are any.

        Args:
            words: Words in lower case.
            movable: True to prefer types of movable objects, as in ``sock_sofa``.
        """
        forms = [singulars(word) | {word} for word in words]
        ranks = {kind: _rank(names, forms) for kind, names in self._names.items()}
        if movable:
            movable_ranks = {
                kind: rank for kind, rank in ranks.items() if kind not in self._fixtures
            }
            if any(movable_ranks.values()):
                ranks = movable_ranks
        best = max(ranks.values(), default=())
        if not best:
            return []
        things = [name for name, kind in self.types.items() if ranks.get(kind) == best]
        rooms = self.rooms_in(words)
        return [name for name in things if self.room_of(name) in rooms] or things

    def is_plural(self, words: Sequence[str]) -> bool:
        """Return True if the last word is a plural, and not part of a type's name."""
        if not words or not singulars(words[-1]):
            return False
        names_of_all_types = chain.from_iterable(self._names.values())
        return not any(words[-1] in name for name in names_of_all_types)

    @cached_property
    def _fixtures(self) -> set[str]:
        return {kind for name, kind in self.types.items() if name in self._rooms}

    @cached_property
    def _names(self) -> dict[str, list[tuple[str, ...]]]:
        return {
            kind: names_of_type(kind)
            for kind in self.types.values()
            if not kind.startswith("agent.")
        }


def is_floor(thing: str) -> bool:
    """Return True if an object is a floor."""
    return thing.startswith("floor.")


def names_of_type(kind: str) -> list[tuple[str, ...]]:
    """Return the words of a type, its last word alone, and its everyday words in ``steps.yaml``.

    >>> names_of_type("gym_shoe.n.01")
    [('gym', 'shoe'), ('shoe',), ('sneaker',)]
    """
    lemma = lemma_of(kind)
    words = tuple(lemma.split("_"))
    everyday_names = [tuple(name.split()) for name in _TYPES.get(lemma, ())]
    return list(dict.fromkeys([words, words[-1:], *everyday_names]))


def lemma_of(kind: str) -> str:
    """Return a synset's lemma."""
    return kind.partition(".")[0]


# Plural endings and their singulars.
_PLURALS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))


def singulars(word: str) -> set[str]:
    """Return the possible singulars of an English word; none without a plural ending."""
    return {word.removesuffix(end) + single for end, single in _PLURALS if word.endswith(end)}


def _rank(names: Sequence[tuple[str, ...]], forms: Sequence[set[str]]) -> tuple[int, ...]:
    """Return how well a type's names match the words of a name; () without a match.

    The rank is the length of the longest name that the words contain, and its last start.

    Args:
        names: The names of a type, as words.
        forms: The forms of each word, such as its singulars.
    """
    ranks: list[tuple[int, ...]] = []
    for words in names:
        for start in range(len(forms) - len(words) + 1):
            if all(word in form for word, form in zip(words, forms[start:], strict=False)):
                ranks.append((len(words), start))
    return max(ranks, default=())
