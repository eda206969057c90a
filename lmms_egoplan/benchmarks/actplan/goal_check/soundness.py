"""Whether an activity can be done: a start and a goal without contradictions, and a plan that leads to the goal."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import combinations, product

from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Not, Problem, literals_of
from lmms_egoplan.benchmarks.actplan.goal_check.actions import STATES
from lmms_egoplan.benchmarks.actplan.goal_check.executor import Executor
from lmms_egoplan.benchmarks.actplan.goal_check.goals import Condition, degree, grounded, holds
from lmms_egoplan.benchmarks.actplan.goal_check.world import PLACES, SUPPORTS, Fact, World

# Worlds that the search for a plan looks at.
_MOST_WORLDS = 3_000


def contradictions(problem: Problem) -> list[str]:
    """List what contradicts itself among the initial facts, or among the goal's conditions, or in both together.

    Only conditions that are facts, or negated facts, are compared. A goal that holds at the start counts, too.

    Args:
        problem: one without `check.problems_in`.
    """
    conditions = grounded(problem)
    facts = {"initial facts": [Condition(fact) for fact in problem.init], "goal": conditions}
    found = [f"{name}: {clash}" for name, of_name in facts.items() for clash in _clashes(_literals(of_name))]
    if all(holds(problem, each.formula, World.of(problem), dict(each.bound)) for each in conditions):
        found.append("goal: it holds at the start")
    return found


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


def _literals(conditions: Iterable[Condition]) -> Iterator[tuple[Fact, bool]]:
    """Yield the conditions that are facts or negated facts; whether the fact is asked for."""
    for condition in conditions:
        asked = not isinstance(condition.formula, Not)
        atom = condition.formula if asked else condition.formula.part
        if isinstance(atom, Atom):
            bound = dict(condition.bound)
            yield (atom.predicate, *(bound.get(name, name) for name in atom.arguments)), asked


def _clashes(literals: Iterable[tuple[Fact, bool]]) -> Iterator[str]:
    """Yield the facts that contradict themselves or others."""
    literals = list(dict.fromkeys(literals))
    facts = [fact for fact, asked in literals if asked]
    world = World(facts)
    for fact, asked in literals:
        predicate, thing, *others = fact
        if not asked and world.holds(predicate, fact[1:]):
            yield f"{_text(fact)} and (not {_text(fact)})"
        is_loop = predicate in SUPPORTS and thing in world.carriers(*others)
        if asked and (thing in others or is_loop or (predicate == "under" and _is_above(world, *fact[1:]))):
            yield f"{_text(fact)}: {thing} would be in, on or under itself"
    for one, other in combinations(facts, 2):
        if one[1] == other[1] and one[2:] != other[2:] and _is_apart(world, one, other):
            yield f"{_text(one)} and {_text(other)}: {one[1]} would be in two places"


def _is_above(world: World, thing: str, other: str) -> bool:
    return other in world.carriers(thing) or world.holds("under", (other, thing))


def _is_apart(world: World, one: Fact, other: Fact) -> bool:
    """Tell whether two facts of a thing put it in different places, neither of which is in or on the other."""
    if one[0] in SUPPORTS and other[0] in SUPPORTS:
        return one[2] not in world.carriers(other[2]) and other[2] not in world.carriers(one[2])
    return one[0] == other[0] == "inroom"


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
