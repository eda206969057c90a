"""Goal conditions in a world: which hold, which can be told at all, and how far the others are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from lmms_egoplan.benchmarks.actplan.bddl.check import is_known
from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Compound, Formula, Problem, literals_of
from lmms_egoplan.benchmarks.actplan.goal_check.world import World

Bound = Mapping[str, str]
_NONE: Bound = MappingProxyType({})
_OF_ALL, _PAIRED = ("and", "forall"), ("forpairs", "fornpairs")


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
        and is_known(atom)
        and types.issuperset(bound.values())
        and all(name in names or name in bound or name in dict(condition.bound) for name in atom.arguments)
        for atom, _, bound in literals_of(condition.formula)
    )


def holds(problem: Problem, formula: Formula, world: World, bound: Bound = _NONE) -> bool:
    """Whether a condition holds, as BDDL's implementation has it.

    `Compound` says what each form means.

    Args:
        bound: the objects of the variables around it.
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


def degree(problem: Problem, formula: Formula, world: World, bound: Bound = _NONE) -> float:
    """How far a condition is reached, in [0, 1], 1 where it holds: it tells apart worlds in which it does not.

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


def _pairs(problem: Problem, formula: Compound, world: World, bound: Bound) -> tuple[tuple[int, int], int]:
    """How many objects of either type have a partner, and how many should."""
    names = [variable.name for variable in formula.variables]
    firsts, seconds = (problem.of_type(variable.type) for variable in formula.variables)
    pairs = [
        pair
        for pair in product(firsts, seconds)
        if pair[0] != pair[1]
        and holds(problem, formula.parts[0], world, {**bound, **dict(zip(names, pair, strict=True))})
    ]
    wanted = min(len(firsts), len(seconds)) if formula.number is None else formula.number
    return (len({first for first, _ in pairs}), len({second for _, second in pairs})), wanted
