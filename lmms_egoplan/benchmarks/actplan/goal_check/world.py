"""The objects of an activity while a plan is carried out: where each is, its states, and what is held."""

from collections.abc import Iterable

from lmms_egoplan.benchmarks.actplan.bddl.check import PREDICATES, is_known
from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Problem

Fact = tuple[str, ...]
PLACES = frozenset(name for name, predicate in PREDICATES.items() if predicate.place) - {"inroom"}
"""The predicates of where a thing is, which change as it is taken."""
SUPPORTS = frozenset({"inside", "ontop", "onfloor"})
"""Those that tell what carries a thing."""
_BOTH_WAYS = ("nextto", "touching")


class World:
    """Facts as BDDL's predicates with their objects, which actions change; what is no fact does not hold.

    facts: (predicate, object, ...).
    held: what the agent holds, in the order in which it was taken.
    """

    def __init__(self, facts: Iterable[Fact] = (), held: Iterable[str] = ()) -> None:
        self.facts = set(facts)
        self.held = list(held)

    @classmethod
    def of(cls, problem: Problem) -> "World":
        """At the start: what the initial facts assert, as far as their predicates exist, with so many objects."""
        return cls(
            (fact.predicate, *fact.arguments) for fact in problem.init if isinstance(fact, Atom) and is_known(fact)
        )

    def copy(self) -> "World":
        """A world that changes apart from this one."""
        return World(self.facts, self.held)

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Whether a predicate holds.

        ``nextto`` and ``touching`` hold both ways; what is on something touches it; what is in something in a third
        is in the third, too.
        """
        if (predicate, *arguments) in self.facts:
            return True
        if predicate in _BOTH_WAYS and (predicate, *arguments[::-1]) in self.facts:
            return True
        if predicate == "touching":
            return any(("ontop", *pair) in self.facts for pair in (arguments, arguments[::-1]))
        return predicate == "inside" and arguments[1] in self._around({arguments[0]}, frozenset({"inside"}))

    def places(self, thing: str) -> set[str]:
        """A thing, and all that it is in, on, under or next to, and so on."""
        return {thing} | self._around({thing}, PLACES)

    def supports(self, thing: str) -> set[tuple[str, str]]:
        """What carries a thing, each with its predicate."""
        return {(fact[0], fact[2]) for fact in self.facts if fact[0] in SUPPORTS and fact[1] == thing}

    def carriers(self, thing: str) -> set[str]:
        """Return all that a thing is in or on, directly or not."""
        return self._around({thing}, SUPPORTS)

    def take(self, thing: str) -> None:
        """The agent takes a thing; what is in it or on it comes along."""
        self._lift(thing)
        if thing not in self.held:
            self.held.append(thing)

    def put(self, thing: str, *relations: tuple[str, str]) -> None:
        """A thing is no longer held or where it was, but stands in relations of `PLACES` to others."""
        self._lift(thing)
        self.held = [other for other in self.held if other != thing]
        self.facts |= {(relation, thing, other) for relation, other in relations}

    def set_state(self, state: str, thing: str, value: bool) -> None:
        """A thing has a state, or does not."""
        (self.facts.add if value else self.facts.discard)((state, thing))

    def _lift(self, thing: str) -> None:
        self.facts = {
            fact
            for fact in self.facts
            if fact[0] not in PLACES or not (fact[1] == thing or (fact[0] in _BOTH_WAYS and fact[2] == thing))
        }

    def _around(self, inner: set[str], predicates: frozenset[str]) -> set[str]:
        around: set[str] = set()
        while inner:
            facts = [fact for fact in self.facts if fact[0] in predicates]
            beside = {fact[1] for fact in facts if fact[0] in _BOTH_WAYS and fact[2] in inner}
            inner = ({fact[2] for fact in facts if fact[1] in inner} | beside) - around
            around |= inner
        return around
