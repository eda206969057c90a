"""Whether an activity can be done at all: a start and a goal without contradictions, and a plan that leads to the goal."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import combinations, product

from lmms_egoplan.benchmarks.actplan.bddl.check import problems_in
from lmms_egoplan.benchmarks.actplan.bddl.problems import (
    And,
    Atom,
    Exists,
    ForAll,
    Formula,
    Imply,
    Not,
    Or,
    Problem,
    literals_of,
    parts_of,
)
from lmms_egoplan.benchmarks.actplan.goal_check.actions import STATES
from lmms_egoplan.benchmarks.actplan.goal_check.executor import Executor
from lmms_egoplan.benchmarks.actplan.goal_check.goals import Bound, bindings, degree, grounded, holds
from lmms_egoplan.benchmarks.actplan.goal_check.world import PLACES, SUPPORTS, Fact, World

# Worlds that the search for a plan looks at. The released problems need 1,000 at most.
_MOST_WORLDS = 20_000


def flaws_in(problem: Problem) -> list[str]:
    """List what is wrong with a problem: `problems_in`, contradictions, and a goal that holds at the start.

    Contradictions are looked for among the initial facts, and among the facts that every way to the goal needs.
    """
    if flaws := problems_in(problem):
        return flaws
    start = [literal for fact in problem.init for literal in _required(problem, fact, True, {})]
    goal = [literal for formula in problem.goal for literal in _required(problem, formula, True, {})]
    flaws = [f"initial facts: {clash}" for clash in _clashes(start)] + [f"goal: {clash}" for clash in _clashes(goal)]
    if all(holds(problem, formula, World.of(problem)) for formula in problem.goal):
        flaws.append("the goal holds at the start; nothing is left to do")
    return flaws


def unreached(problem: Problem) -> list[str]:
    """Search for a plan of the executor's actions that reaches the goal.

    The search takes each action after which more of the goal holds, and never goes back.

    Returns:
        The goal conditions that the search did not reach; none if it found a plan. A plan may exist all the same.
    """
    executor, conditions = Executor(problem), grounded(problem)
    world = executor.world

    def reached(world: World) -> float:
        return sum(degree(problem, each.formula, world, dict(each.bound)) for each in conditions)

    atoms = dict.fromkeys(_atoms(problem))
    best, waiting, seen = reached(world), deque([world]), {frozenset(world.facts)}
    while best < len(conditions) - 1e-9 and waiting and len(seen) < _MOST_WORLDS:
        current = waiting.popleft()
        for after in (after for atom in atoms for after in _flipped(executor, current, atom)):
            if (facts := frozenset(after.facts)) in seen:
                continue
            seen.add(facts)
            waiting.append(after)
            if (value := reached(after)) > best + 1e-9:
                world, best, waiting = after, value, deque([after])
                break
    return [str(each) for each in conditions if not holds(problem, each.formula, world, dict(each.bound))]


def _required(problem: Problem, formula: Formula, asked: bool, bound: Bound) -> Iterator[tuple[Fact, bool]]:
    """The facts that must hold, or must not, wherever a formula holds (or, if it is not asked for, does not)."""
    if isinstance(formula, Atom):
        yield (formula.predicate, *(bound.get(name, name) for name in formula.arguments)), asked
    elif isinstance(formula, Not):
        yield from _required(problem, formula.part, not asked, bound)
    elif isinstance(formula, And if asked else Or) or (isinstance(formula, Or | And) and len(formula.parts) == 1):
        for part in formula.parts:
            yield from _required(problem, part, asked, bound)
    elif isinstance(formula, Imply) and not asked:
        yield from _required(problem, formula.premise, True, bound)
        yield from _required(problem, formula.conclusion, False, bound)
    elif isinstance(formula, ForAll if asked else Exists):
        for inner in bindings(problem, formula, bound):
            yield from _required(problem, formula.body, asked, inner)


def _clashes(literals: Iterable[tuple[Fact, bool]]) -> Iterator[str]:
    """What facts contradict: themselves, or one another."""
    facts: dict[bool, list[Fact]] = {True: [], False: []}
    for fact, asked in dict.fromkeys(literals):
        facts[asked].append(fact)
    world = World(facts[True])
    yield from (f"{_text(fact)} and (not {_text(fact)})" for fact in facts[False] if world.holds(fact[0], fact[1:]))
    for fact in facts[True]:
        if len(fact) == 3 and (fact[1] == fact[2] or (fact[0] in SUPPORTS and fact[1] in world.carriers(fact[2]))):
            yield f"{_text(fact)}: {fact[1]} is in or on itself" if fact[0] in SUPPORTS else f"{_text(fact)}: one thing"
        if fact[0] == "under" and (fact[2] in world.carriers(fact[1]) or ("under", *fact[:0:-1]) in world.facts):
            yield f"{_text(fact)}: {fact[1]} is in, on or above {fact[2]}, too"
    for one, other in combinations(facts[True], 2):
        if one[1] == other[1] and one[2:] != other[2:] and _apart(world, one, other):
            yield f"{_text(one)} and {_text(other)}: {one[1]} is in two places"


def _apart(world: World, one: Fact, other: Fact) -> bool:
    if one[0] == other[0] == "inroom":
        return True
    is_carried = {one[0], other[0]} <= SUPPORTS
    return is_carried and one[2] not in world.carriers(other[2]) and other[2] not in world.carriers(one[2])


def _atoms(problem: Problem) -> Iterator[Fact]:
    for formula in problem.goal:
        for atom, _, bound in literals_of(formula):
            of_each = (problem.of_type(bound[name]) if name in bound else [name] for name in atom.arguments)
            yield from ((atom.predicate, *things) for things in product(*of_each))


def _flipped(executor: Executor, world: World, fact: Fact) -> Iterator[World]:
    """The worlds after one action that makes a fact true or, where it holds, false."""
    predicate, thing, *others = fact
    value = not world.holds(predicate, (thing, *others))
    for states in STATES.values():
        if states.get(predicate) is value:
            after = world.copy()
            for state, of_state in states.items():
                after.set_state(state, thing, of_state)
            yield after
    if predicate in PLACES and not value:
        after = world.copy()
        after.take(thing)
        yield after
    elif predicate in PLACES:
        # A step may name a second place, as place_on_top(table, next_to(cup)) does.
        kept = {fact[::2] for fact in world.facts if fact[0] in PLACES - SUPPORTS and fact[1] == thing}
        for more in (set(), kept):
            after = world.copy()
            after.put(thing, *executor.relations(after, predicate, others[0]), *more)
            yield after


def _text(fact: Fact) -> str:
    return str(Atom(fact[0], fact[1:]))
