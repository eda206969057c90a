"""Check that an activity is valid: its start and its goal have no contradictions."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from lmms_egoplan.construction.actplan.bddl import (
    PREDICATES,
    Formula,
    Problem,
    grounded,
    holds,
    is_known,
    literals_of,
)

Fact = tuple[str, ...]
"""A predicate, followed by its objects."""

# States in the release's domain_igibson.bddl that the simulator does not have (appendix A: "The
# simulator can not model states of cookie as 'going bad' but state of 'burnt'").
_WITHOUT_STATE = ("broken", "perished", "screwed", "timeset")
# Predicates whose second object carries the first.
_SUPPORTS = frozenset({"inside", "ontop", "onfloor"})
_SYMMETRIC = ("nextto", "touching")


def problems_in(problem: Problem) -> list[str]:
    """List the flaws of a problem, with the line in the file if it is known.

    Requirements:

    - Objects are declared once, with names ``<type>_<number>``. Quantified types have objects.
      There is an agent.
    - Predicates are in `PREDICATES` and have the right number of arguments. Arguments are objects
      or bound variables, or rooms where the predicate requires a room.
    - The initial facts negate no place. The goal is one condition.

    >>> from lmms_egoplan.construction.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson)"
    ...     "(:objects cup.n.01_1 - cup.n.01 agent.n.01_1 - agent.n.01)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (perished ?cup.n.01_1)))",
    ...     "problem0.bddl",
    ... )
    >>> problems_in(problem)[0][:71]
    'line 1: (perished ?cup.n.01_1): iGibson 2 has no state perished, though'
    """
    declared = Counter(obj.name for obj in problem.objects)
    problems = [
        f"object {name} is declared {count} times" for name, count in declared.items() if count > 1
    ]
    for obj in problem.objects:
        type_, _, number = obj.name.rpartition("_")
        if type_ != obj.type or not number.isdecimal():
            problems.append(
                f"object {obj.name} has the type {obj.type}; expected a name {obj.type}_<number>"
            )
    names = {obj.name for obj in problem.objects}
    types = {obj.type for obj in problem.objects}
    for fact in problem.init:
        problems += _check(fact, names, types)
        problems += [
            f"{_where(atom)}: an initial fact cannot say where an object is not"
            for atom, asked, _ in literals_of(fact)
            if not asked and atom.op in PREDICATES and PREDICATES[atom.op].place
        ]
    if not any(obj.type.startswith("agent.") for obj in problem.objects):
        problems.append("no agent is declared under :objects; add agent.n.01_1 - agent.n.01")
    if len(problem.goal) != 1:
        problems.append(f"the goal has {len(problem.goal)} conditions; combine them as (and ...)")
    for condition in problem.goal:
        problems += _check(condition, names, types)
    return list(dict.fromkeys(problems))


def flaws_in(problem: Problem) -> list[str]:
    """List the flaws of a problem.

    They are `problems_in`; if there are none, contradictions and a goal that holds at the start.

    Contradictions are sought among the initial facts, and among goal conditions that are facts or
    negated facts.

    >>> from lmms_egoplan.construction.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson)"
    ...     "(:objects jar.n.01_1 - jar.n.01 agent.n.01_1 - agent.n.01)"
    ...     "(:init (open jar.n.01_1)) (:goal (inside ?jar.n.01_1 ?jar.n.01_1)))",
    ...     "problem0.bddl",
    ... )
    >>> flaws_in(problem)
    ['goal: (inside ?jar.n.01_1 ?jar.n.01_1): jar.n.01_1 would be in, on, under or next to itself']
    """
    flaws = problems_in(problem)
    if flaws:
        return flaws
    goal = grounded(problem)
    flaws = [f"initial facts: {clash}" for clash in _clashes(problem.init)]
    flaws += [f"goal: {clash}" for clash in _clashes(goal)]
    if all(holds(problem, condition, _World.initial(problem).holds) for condition in goal):
        flaws.append("goal: already holds at the start")
    return flaws


@dataclass(frozen=True)
class _World:
    """The facts that hold; every other fact is false."""

    facts: frozenset[Fact]

    @classmethod
    def initial(cls, problem: Problem) -> "_World":
        """Create the world of a problem's initial facts."""
        return cls(frozenset((fact.op, *fact.arguments) for fact in problem.init if is_known(fact)))

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Return True if a predicate holds.

        ``nextto`` and ``touching`` are symmetric. An object on top of another touches it.
        ``inside`` is transitive.
        """
        if (predicate, *arguments) in self.facts:
            return True
        if predicate in _SYMMETRIC and (predicate, *arguments[::-1]) in self.facts:
            return True
        if predicate == "touching":
            return any(("ontop", *pair) in self.facts for pair in (arguments, arguments[::-1]))
        if predicate == "inside":
            return arguments[1] in self._outer(arguments[0], frozenset({"inside"}))
        return False

    def carriers(self, thing: str) -> set[str]:
        """Return everything that an object is in or on, directly or indirectly."""
        return self._outer(thing, _SUPPORTS)

    def _outer(self, thing: str, predicates: frozenset[str]) -> set[str]:
        """Return what an object reaches through predicates, directly or indirectly."""
        facts = [fact for fact in self.facts if fact[0] in predicates]
        outer: set[str] = set()
        inner = {thing}
        while inner:
            inner = {fact[2] for fact in facts if fact[1] in inner} - outer
            outer |= inner
        return outer


def _clashes(conditions: Iterable[Formula]) -> Iterator[str]:
    """Yield facts that contradict themselves or each other; other conditions are skipped."""
    literals: dict[tuple[Fact, bool], str] = {}
    for condition in conditions:
        asked = condition.op != "not"
        atom = condition if asked else condition.parts[0]
        if atom.is_atom:
            literals[(atom.op, *atom.arguments), asked] = str(atom)
    facts = {fact: text for (fact, asked), text in literals.items() if asked}
    world = _World(frozenset(facts))
    for (fact, asked), text in literals.items():
        if not asked and world.holds(fact[0], fact[1:]):
            yield f"{text} and (not {text})"
        if asked and (
            fact[1] in fact[2:] or (fact[0] in _SUPPORTS and fact[1] in world.carriers(fact[2]))
        ):
            yield f"{text}: {fact[1]} would be in, on, under or next to itself"
    for first, second in combinations((fact for fact in facts if len(fact) == 3), 2):
        if first[1] == second[1] and _exclude_each_other(world, first, second):
            yield f"{facts[first]} and {facts[second]}: {first[1]} cannot be in both places"


def _exclude_each_other(world: _World, first: Fact, second: Fact) -> bool:
    """Return True if an object cannot be in both places.

    This is so if neither place is in or on the other.
    """
    predicates = {first[0], second[0]}
    if first[2] == second[2]:
        return "under" in predicates and not predicates.isdisjoint(_SUPPORTS)
    is_nested = first[2] in world.carriers(second[2]) or second[2] in world.carriers(first[2])
    return predicates == {"inroom"} or (predicates <= _SUPPORTS and not is_nested)


def _check(formula: Formula, names: set[str], types: set[str]) -> list[str]:
    """List the flaws of a condition.

    `names` are the declared objects and the variables bound around it.
    """
    if formula.is_atom:
        return _check_atom(formula, names)
    problems = [
        f"{variable}: no object of type {variable.type} is declared"
        for variable in formula.variables
        if variable.type not in types
    ]
    names = names | {variable.name for variable in formula.variables}
    return problems + [problem for part in formula.parts for problem in _check(part, names, types)]


def _check_atom(atom: Formula, names: set[str]) -> list[str]:
    predicate = PREDICATES.get(atom.op)
    if predicate is None:
        if atom.op in _WITHOUT_STATE:
            why = (
                f"iGibson 2 has no state {atom.op}, though BDDL's domain file names it (appendix A)"
            )
        else:
            why = f"no predicate {atom.op}; expected one of {', '.join(PREDICATES)}"
        return [f"{_where(atom)}: {why}"]
    if len(atom.arguments) != len(predicate.arguments):
        return [
            (
                f"{_where(atom)}: expected {len(predicate.arguments)} arguments, found "
                f"{len(atom.arguments)}"
            )
        ]
    return [
        f"{_where(atom)}: {name} is not declared under :objects"
        for name, kind in zip(atom.arguments, predicate.arguments, strict=True)
        if kind == "object" and name not in names
    ]


def _where(atom: Formula) -> str:
    return f"line {atom.line}: {atom}" if atom.line else str(atom)
