"""What is wrong with an activity's problem: undeclared names, predicates that do not exist, facts that BDDL refuses."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Formula, Problem, literals_of
from lmms_egoplan.paths import yaml_beside

_DATA: Mapping[str, Any] = yaml_beside(__file__)


@dataclass(frozen=True)
class Predicate:
    """A predicate that the simulator can model.

    arguments: what each is, ``object`` or ``room``.
    place: whether it tells where an object is.
    """

    arguments: tuple[str, ...]
    place: bool = False


PREDICATES = {
    name: Predicate(tuple(fields["arguments"]), fields.get("place", False))
    for name, fields in _DATA["predicates"].items()
}
"""All predicates by name; ``check.yaml`` names their source."""


def predicates_text() -> str:
    """The predicates that exist, with their arguments."""
    return ", ".join(f"({name} {' '.join(known.arguments)})" for name, known in PREDICATES.items())


def problems_in(problem: Problem) -> list[str]:
    """What is wrong with a problem, a line for each; with the line in the file where that is known.

    Objects are declared once and called ``<type>_<number>``; predicates are among `PREDICATES` and have their
    arguments; these are objects or bound variables, and rooms where a predicate asks for one; types have objects; the
    initial facts negate no place; there is an agent; the goal is one condition.

    >>> from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem
    >>> problems_in(
    ...     parse_problem(
    ...         "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01 agent.n.01_1 - agent.n.01)"
    ...         "(:init (dusty cup.n.01_1)) (:goal (perished ?cup.n.01_1)))",
    ...         "problem0.bddl",
    ...     )
    ... )[0]
    "line 1: (perished ?cup.n.01_1): iGibson 2 has no state perished, though BDDL's domain file names it (appendix A)"
    """
    problems = [
        f"object {name} is declared {count} times"
        for name, count in Counter(thing.name for thing in problem.objects).items()
        if count > 1
    ]
    problems += [
        f"object {thing.name} is declared of type {thing.type}; expected a name {thing.type}_<number>"
        for thing in problem.objects
        if thing.name.rpartition("_")[0] != thing.type or not thing.name.rpartition("_")[2].isdecimal()
    ]
    names, types = {thing.name for thing in problem.objects}, {thing.type for thing in problem.objects}
    for fact in problem.init:
        problems += _check(fact, names, types)
        problems += [
            f"{_where(atom)}: an initial fact cannot say where an object is not"
            for atom, asked, _ in literals_of(fact)
            if not asked and atom.predicate in PREDICATES and PREDICATES[atom.predicate].place
        ]
    if not any(thing.type.startswith("agent.") for thing in problem.objects):
        problems.append("no agent is declared under :objects; add agent.n.01_1 - agent.n.01")
    if len(problem.goal) != 1:
        problems.append(f"the goal has {len(problem.goal)} conditions side by side; expected one, as (and ...)")
    for condition in problem.goal:
        problems += _check(condition, names, types)
    return list(dict.fromkeys(problems))


def is_known(atom: Atom) -> bool:
    """Tell whether an atom's predicate exists, and has so many arguments."""
    predicate = PREDICATES.get(atom.predicate)
    return predicate is not None and len(predicate.arguments) == len(atom.arguments)


def _check(formula: Formula, names: set[str], types: set[str]) -> list[str]:
    """Return what is wrong with a condition; `names` are those of objects and of the variables around it."""
    if isinstance(formula, Atom):
        return _check_atom(formula, names)
    problems = [
        f"{variable}: no object is declared of type {variable.type}"
        for variable in formula.variables
        if variable.type not in types
    ]
    names = names | {variable.name for variable in formula.variables}
    return problems + [problem for part in formula.parts for problem in _check(part, names, types)]


def _check_atom(atom: Atom, names: set[str]) -> list[str]:
    predicate = PREDICATES.get(atom.predicate)
    if predicate is None:
        if atom.predicate in _DATA["without_state"]:
            why = f"iGibson 2 has no state {atom.predicate}, though BDDL's domain file names it (appendix A)"
        else:
            why = f"no predicate {atom.predicate}; expected one of {', '.join(PREDICATES)}"
        return [f"{_where(atom)}: {why}"]
    if len(atom.arguments) != len(predicate.arguments):
        return [f"{_where(atom)}: expected {len(predicate.arguments)} arguments, found {len(atom.arguments)}"]
    return [
        f"{_where(atom)}: {name} is not declared under :objects"
        for name, kind in zip(atom.arguments, predicate.arguments, strict=True)
        if kind == "object" and name not in names
    ]


def _where(atom: Atom) -> str:
    return f"line {atom.line}: {atom}" if atom.line else str(atom)
