"""Goal conditions in a world: which hold, which can be told at all, and how far the others are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Protocol

from lmms_egoplan.benchmarks.actplan.bddl.check import PREDICATES
from lmms_egoplan.benchmarks.actplan.bddl.problems import (
    And,
    Atom,
    Exists,
    ForAll,
    Formula,
    ForN,
    ForPairs,
    Imply,
    Not,
    Or,
    Problem,
    literals_of,
)

Bound = Mapping[str, str]
_NONE: Bound = MappingProxyType({})


class Facts(Protocol):
    """What a world tells."""

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Whether a predicate holds of objects."""


@dataclass(frozen=True)
class Condition:
    """A goal condition of objects: a part of the goal's outermost ``and`` with what ``forall`` ranges over put in.

    bound: the objects of the variables that have been put in.
    """

    formula: Formula
    bound: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        text = str(self.formula)
        for name, thing in self.bound:
            text = text.replace(f"?{name} ", f"?{thing} ").replace(f"?{name})", f"?{thing})")
        return text


def grounded(problem: Problem) -> list[Condition]:
    """The goal's conditions, each once, in their order; ``and`` and ``forall`` are taken apart, all others stay whole.

    >>> from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem
    >>> text = '''(define (problem tea_0) (:domain igibson)
    ...     (:objects cup.n.01_1 cup.n.01_2 - cup.n.01 box.n.01_1 - box.n.01)
    ...     (:init) (:goal (and (open ?box.n.01_1) (forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1)))))'''
    >>> [str(condition) for condition in grounded(parse_problem(text, "problem0.bddl"))]
    ['(open ?box.n.01_1)', '(inside ?cup.n.01_1 ?box.n.01_1)', '(inside ?cup.n.01_2 ?box.n.01_1)']
    """
    conditions = (part for formula in problem.goal for part in _ground(problem, formula, {}))
    return list(dict.fromkeys(conditions))


def is_checkable(problem: Problem, condition: Condition, reachable: frozenset[str]) -> bool:
    """Whether it can be told if a condition holds: predicates `reachable`, names declared, objects of all types there.

    Args:
        reachable: the predicates that understood actions, or the problem's initial facts, decide.
    """
    names = {thing.name for thing in problem.objects}
    types = {thing.type for thing in problem.objects}
    return all(
        atom.predicate in reachable
        and atom.predicate in PREDICATES
        and len(atom.arguments) == len(PREDICATES[atom.predicate].arguments)
        and types.issuperset(bound.values())
        and all(name in names or name in bound or name in dict(condition.bound) for name in atom.arguments)
        for atom, _, bound in literals_of(condition.formula)
    )


def holds(problem: Problem, formula: Formula, facts: Facts, bound: Bound = _NONE) -> bool:
    """Whether a condition holds, as BDDL's implementation has it.

    ``forn``: of exactly so many. ``forpairs``: see `ForPairs`.

    Args:
        bound: the objects of the variables around it.
    """
    if isinstance(formula, Atom):
        return facts.holds(formula.predicate, tuple(bound.get(name, name) for name in formula.arguments))
    if isinstance(formula, Not):
        return not holds(problem, formula.part, facts, bound)
    if isinstance(formula, And):
        return all(holds(problem, part, facts, bound) for part in formula.parts)
    if isinstance(formula, Or):
        return any(holds(problem, part, facts, bound) for part in formula.parts)
    if isinstance(formula, Imply):
        return not holds(problem, formula.premise, facts, bound) or holds(problem, formula.conclusion, facts, bound)
    if isinstance(formula, ForPairs):
        with_partner, wanted = _pairs(problem, formula, facts, bound)
        return all(count >= wanted for count in with_partner)
    of_each = [holds(problem, formula.body, facts, inner) for inner in _bindings(problem, formula, bound)]
    if isinstance(formula, ForN):
        return sum(of_each) == formula.number
    return all(of_each) if isinstance(formula, ForAll) else any(of_each)


def degree(problem: Problem, formula: Formula, facts: Facts, bound: Bound = _NONE) -> float:
    """How far a condition is reached, in [0, 1], 1 where it holds: it tells apart worlds in which it does not.

    The mean over the parts of ``and`` and ``forall``, the largest of those of ``or`` and ``exists``.
    """
    if isinstance(formula, (Atom, Not, Imply)):
        return float(holds(problem, formula, facts, bound))
    if isinstance(formula, ForPairs):
        with_partner, wanted = _pairs(problem, formula, facts, bound)
        return min(1.0, sum(min(count, wanted) for count in with_partner) / (2 * wanted)) if wanted else 1.0
    if isinstance(formula, (And, Or)):
        parts = [degree(problem, part, facts, bound) for part in formula.parts]
    else:
        parts = [degree(problem, formula.body, facts, inner) for inner in _bindings(problem, formula, bound)]
    if isinstance(formula, ForN):
        return max(0.0, 1 - abs(parts.count(1.0) - formula.number) / max(formula.number, 1))
    if isinstance(formula, (Or, Exists)):
        return max(parts, default=0.0)
    return sum(parts) / len(parts) if parts else 1.0


def _ground(problem: Problem, formula: Formula, bound: Bound) -> Iterator[Condition]:
    if isinstance(formula, And):
        for part in formula.parts:
            yield from _ground(problem, part, bound)
    elif isinstance(formula, ForAll):
        for inner in _bindings(problem, formula, bound):
            yield from _ground(problem, formula.body, inner)
    else:
        used = {name for atom, _, _ in literals_of(formula) for name in atom.arguments}
        yield Condition(formula, tuple((name, thing) for name, thing in bound.items() if name in used))


def _bindings(problem: Problem, formula: ForAll | Exists | ForN, bound: Bound) -> list[Bound]:
    return [{**bound, formula.variable.name: name} for name in problem.of_type(formula.variable.type)]


def _pairs(problem: Problem, formula: ForPairs, facts: Facts, bound: Bound) -> tuple[tuple[int, int], int]:
    """How many objects of either type have a partner, and how many should."""
    firsts, seconds = (problem.of_type(variable.type) for variable in (formula.first, formula.second))
    pairs = [
        (first, second)
        for first, second in product(firsts, seconds)
        if first != second
        and holds(problem, formula.body, facts, {**bound, formula.first.name: first, formula.second.name: second})
    ]
    wanted = min(len(firsts), len(seconds)) if formula.number is None else formula.number
    return (len({first for first, _ in pairs}), len({second for _, second in pairs})), wanted
