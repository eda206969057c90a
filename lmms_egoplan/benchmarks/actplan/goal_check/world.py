"""An activity while a plan is carried out: where each object is, its states, and which goal conditions hold."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Protocol

from lmms_egoplan.benchmarks.actplan.bddl import PREDICATES, Atom, Compound, Formula, Problem, is_known, literals_of

Fact = tuple[str, ...]
"""A predicate and its objects."""
Bound = Mapping[str, str]
"""The objects of variables."""

PLACES = frozenset(name for name, predicate in PREDICATES.items() if predicate.place) - {"inroom"}
"""The predicates of places, which change as a thing is taken."""
SUPPORTS = frozenset({"inside", "ontop", "onfloor"})
"""The places that carry a thing."""
_BOTH_WAYS = ("nextto", "touching")
_NONE: Bound = MappingProxyType({})
_OF_ALL, _PAIRED = ("and", "forall"), ("forpairs", "fornpairs")


class World:
    """Facts as BDDL's predicates with their objects, which actions change; anything else does not hold.

    facts: (predicate, object, ...).
    held: What the agent holds, in the order in which it was taken.
    """

    def __init__(self, facts: Iterable[Fact] = (), held: Iterable[str] = ()) -> None:
        self.facts = set(facts)
        self.held = list(held)

    @classmethod
    def of(cls, problem: Problem) -> "World":
        """Make the world at the start: the initial facts whose predicates exist, with so many objects."""
        return cls(
            (fact.predicate, *fact.arguments) for fact in problem.init if isinstance(fact, Atom) and is_known(fact)
        )

    def copy(self) -> "World":
        """Return an independent copy."""
        return World(self.facts, self.held)

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Check whether a predicate holds.

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
        """Return a thing, and all that it is in, on, under or next to, directly or not."""
        return {thing} | self._around({thing}, PLACES)

    def supports(self, thing: str) -> set[tuple[str, str]]:
        """Return what carries a thing, each with its predicate."""
        return {(fact[0], fact[2]) for fact in self.facts if fact[0] in SUPPORTS and fact[1] == thing}

    def carriers(self, thing: str) -> set[str]:
        """Return all that a thing is in or on, directly or not."""
        return self._around({thing}, SUPPORTS)

    def take(self, thing: str) -> None:
        """Let the agent take a thing, with what is in it or on it."""
        self._lift(thing)
        if thing not in self.held:
            self.held.append(thing)

    def put(self, thing: str, *relations: tuple[str, str]) -> None:
        """Move a thing from the hand, or from its place, into relations of `PLACES` to others."""
        self._lift(thing)
        self.held = [other for other in self.held if other != thing]
        self.facts |= {(relation, thing, other) for relation, other in relations}

    def set_states(self, thing: str, states: Mapping[str, bool]) -> None:
        """Give a thing states, or take them away."""
        for state, value in states.items():
            (self.facts.add if value else self.facts.discard)((state, thing))

    def _lift(self, thing: str) -> None:
        self.facts = {
            fact
            for fact in self.facts
            if fact[0] not in PLACES or not (fact[1] == thing or (fact[0] in _BOTH_WAYS and fact[2] == thing))
        }

    def _around(self, inner: set[str], predicates: frozenset[str]) -> set[str]:
        around: set[str] = set()
        facts = [fact for fact in self.facts if fact[0] in predicates]
        while inner:
            neighbours = {fact[1] for fact in facts if fact[0] in _BOTH_WAYS and fact[2] in inner}
            inner = ({fact[2] for fact in facts if fact[1] in inner} | neighbours) - around
            around |= inner
        return around


class _Facts(Protocol):
    """Anything that knows which facts hold, such as a `World`."""

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Check whether a predicate holds."""


@dataclass(frozen=True)
class Condition:
    """A condition of objects: a part of the goal's outermost ``and``, with objects for the variables of ``forall``.

    bound: The objects of these variables.
    """

    formula: Formula
    bound: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        text = str(self.formula)
        for name, thing in self.bound:
            text = text.replace(f"?{name} ", f"?{thing} ").replace(f"?{name})", f"?{thing})")
        return text


def grounded(problem: Problem) -> list[Condition]:
    """Return the goal's conditions, each once, in order; ``and`` and ``forall`` are split, all others stay whole.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
    >>> text = '''(define (problem tea_0) (:domain igibson)
    ...     (:objects cup.n.01_1 cup.n.01_2 - cup.n.01 box.n.01_1 - box.n.01)
    ...     (:init) (:goal (and (open ?box.n.01_1) (forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1)))))'''
    >>> [str(condition) for condition in grounded(parse_problem(text, "problem0.bddl"))]
    ['(open ?box.n.01_1)', '(inside ?cup.n.01_1 ?box.n.01_1)', '(inside ?cup.n.01_2 ?box.n.01_1)']
    """
    conditions = (part for formula in problem.goal for part in _ground(problem, formula, {}))
    return list(dict.fromkeys(conditions))


def is_checkable(problem: Problem, condition: Condition, reachable: frozenset[str]) -> bool:
    """Check whether a condition can be checked: all names are declared, and all types have objects.

    Args:
        reachable: The predicates that understood actions, or the problem's initial facts, decide.
    """
    names = {thing.name for thing in problem.objects} | {name for name, _ in condition.bound}
    types = {thing.type for thing in problem.objects}
    return all(
        atom.predicate in reachable
        and is_known(atom)
        and types.issuperset(bound.values())
        and names.union(bound).issuperset(atom.arguments)
        for atom, _, bound in literals_of(condition.formula)
    )


def holds(problem: Problem, formula: Formula, world: _Facts, bound: Bound = _NONE) -> bool:
    """Check whether a condition holds, as in BDDL's implementation; `Compound` defines each form.

    Args:
        bound: The objects of the variables around the condition.
    """
    if isinstance(formula, Atom):
        return world.holds(formula.predicate, tuple(bound.get(name, name) for name in formula.arguments))
    if formula.op in _PAIRED:
        with_partner, wanted = _pairs(problem, formula, world, bound)
        return all(count >= wanted for count in with_partner)
    of_each = (holds(problem, part, world, inner) for part, inner in _parts(problem, formula, bound))
    if formula.op in ("not", "imply"):
        return not next(of_each) or any(of_each)
    if formula.op == "forn":
        return sum(of_each) == formula.number
    return all(of_each) if formula.op in _OF_ALL else any(of_each)


def degree(problem: Problem, formula: Formula, world: _Facts, bound: Bound = _NONE) -> float:
    """Return how far a condition is reached, in [0, 1], 1 if it holds: this orders worlds in which it does not.

    The mean over the parts of ``and`` and ``forall``, the largest of those of ``or`` and ``exists``.
    """
    if isinstance(formula, Atom) or formula.op in ("not", "imply"):
        return float(holds(problem, formula, world, bound))
    if formula.op in _PAIRED:
        with_partner, wanted = _pairs(problem, formula, world, bound)
        return min(1.0, sum(min(count, wanted) for count in with_partner) / (2 * wanted)) if wanted else 1.0
    degrees = [degree(problem, part, world, inner) for part, inner in _parts(problem, formula, bound)]
    if formula.op == "forn":
        return max(0.0, 1 - abs(degrees.count(1.0) - formula.number) / max(formula.number, 1))
    if formula.op in _OF_ALL:
        return sum(degrees) / len(degrees) if degrees else 1.0
    return max(degrees, default=0.0)


def _ground(problem: Problem, formula: Formula, bound: Bound) -> Iterator[Condition]:
    if formula.op in _OF_ALL:
        for part, inner in _parts(problem, formula, bound):
            yield from _ground(problem, part, inner)
    else:
        used = {name for atom, _, _ in literals_of(formula) for name in atom.arguments}
        yield Condition(formula, tuple((name, thing) for name, thing in bound.items() if name in used))


def _parts(problem: Problem, formula: Formula, bound: Bound) -> list[tuple[Formula, Bound]]:
    """Return the parts, each with the objects of its variables; once for each object that a quantifier ranges over."""
    if not formula.variables:
        return [(part, bound) for part in formula.parts]
    (variable,) = formula.variables
    return [(formula.parts[0], {**bound, variable.name: name}) for name in problem.of_type(variable.type)]


def _pairs(problem: Problem, formula: Compound, world: _Facts, bound: Bound) -> tuple[tuple[int, int], int]:
    """Count the objects of either type that have a partner, and those that should."""
    names = [variable.name for variable in formula.variables]
    firsts, seconds = (problem.of_type(variable.type) for variable in formula.variables)
    pairs = [
        pair
        for pair in product(firsts, seconds)
        if pair[0] != pair[1]
        and holds(problem, formula.parts[0], world, {**bound, **dict(zip(names, pair, strict=True))})
    ]
    wanted = formula.number if formula.op == "fornpairs" else min(len(firsts), len(seconds))
    return (len({first for first, _ in pairs}), len({second for _, second in pairs})), wanted
