"""Whether an activity can be done: a start and a goal without contradictions, and a plan that leads to the goal."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, product

from lmms_egoplan.benchmarks.actplan.bddl.check import problems_in
from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Problem, literals_of
from lmms_egoplan.benchmarks.actplan.goal_check.actions import STATES
from lmms_egoplan.benchmarks.actplan.goal_check.executor import Executor, set_states
from lmms_egoplan.benchmarks.actplan.goal_check.goals import Condition, grounded, holds
from lmms_egoplan.benchmarks.actplan.goal_check.world import PLACES, SUPPORTS, Fact, World

# Worlds that the search for a plan looks at.
_MOST_WORLDS = 3_000


def flaws_in(problem: Problem) -> list[str]:
    """List what is wrong with a problem: `problems_in`, else contradictions, and a goal that holds at the start.

    Contradictions are looked for among the initial facts, and among the goal's conditions that are facts or negated
    facts.

    >>> from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem
    >>> flaws_in(
    ...     parse_problem(
    ...         "(define (problem tea_0) (:domain igibson) (:objects jar.n.01_1 - jar.n.01 agent.n.01_1 - agent.n.01)"
    ...         "(:init (open jar.n.01_1)) (:goal (inside ?jar.n.01_1 ?jar.n.01_1)))",
    ...         "problem0.bddl",
    ...     )
    ... )
    ['goal: (inside ?jar.n.01_1 ?jar.n.01_1): jar.n.01_1 would be in, on, under or next to itself']
    """
    if flaws := problems_in(problem):
        return flaws
    goal = grounded(problem)
    flaws = [f"initial facts: {clash}" for clash in _clashes(map(Condition, problem.init))]
    flaws += [f"goal: {clash}" for clash in _clashes(goal)]
    if all(holds(problem, each.formula, World.of(problem), dict(each.bound)) for each in goal):
        flaws.append("goal: it holds at the start")
    return flaws


def unreached(problem: Problem) -> list[str]:
    """Search for a plan of the executor's actions that reaches the goal.

    The search changes one fact of the goal at a time. As soon as more of the goal holds, it continues from there.

    Returns:
        The goal's conditions that the search did not reach; none if it found a plan. A plan may exist all the same.
    """
    executor = Executor(problem)
    facts = dict.fromkeys(
        (atom.predicate, *things)
        for atom, _, bound in (literal for formula in problem.goal for literal in literals_of(formula))
        for things in product(*(problem.of_type(bound[name]) if name in bound else [name] for name in atom.arguments))
    )
    world, seen = executor.world, {frozenset(executor.world.facts)}
    best, waiting = executor.goal_reached(world), deque([world])
    while best < len(problem.conditions) and waiting and len(seen) < _MOST_WORLDS:
        start = waiting.popleft()
        for after in islice((after for fact in facts for after in _changed(executor, start, fact)), _MOST_WORLDS):
            if after.facts not in seen:
                seen.add(frozenset(after.facts))
                waiting.append(after)
                if (value := executor.goal_reached(after)) > best:
                    world, best, waiting = after, value, deque([after])
                    break
    return [str(formula) for formula in problem.conditions if not holds(problem, formula, world)]


def _clashes(conditions: Iterable[Condition]) -> Iterator[str]:
    """Yield the facts that contradict themselves or one another; other conditions are passed over."""
    literals: dict[tuple[Fact, bool], str] = {}
    for condition in conditions:
        asked = condition.formula.op != "not"
        if isinstance(atom := condition.formula if asked else condition.formula.parts[0], Atom):
            bound = dict(condition.bound)
            fact = (atom.predicate, *(bound.get(name, name) for name in atom.arguments))
            literals[fact, asked] = str(Atom(fact[0], fact[1:]))
    facts = {fact: text for (fact, asked), text in literals.items() if asked}
    world = World(facts)
    for (fact, asked), text in literals.items():
        if not asked and world.holds(fact[0], fact[1:]):
            yield f"{text} and (not {text})"
        if asked and (fact[1] in fact[2:] or (fact[0] in SUPPORTS and fact[1] in world.carriers(fact[2]))):
            yield f"{text}: {fact[1]} would be in, on, under or next to itself"
    for one, other in combinations((fact for fact in facts if len(fact) == 3), 2):
        if one[1] == other[1] and _is_apart(world, one, other):
            yield f"{facts[one]} and {facts[other]}: {one[1]} cannot be in both places"


def _is_apart(world: World, one: Fact, other: Fact) -> bool:
    """Check that two places of a thing exclude each other: neither is in or on the other."""
    predicates = {one[0], other[0]}
    if one[2] == other[2]:
        return "under" in predicates and not predicates.isdisjoint(SUPPORTS)
    is_nested = one[2] in world.carriers(other[2]) or other[2] in world.carriers(one[2])
    return predicates == {"inroom"} or (predicates <= SUPPORTS and not is_nested)


def _changed(executor: Executor, world: World, fact: Fact) -> Iterator[World]:
    """Yield the worlds after one action that makes a fact true or, if it holds, false."""
    predicate, thing, *others = fact
    value = not world.holds(predicate, fact[1:])
    near = {other[::2] for other in world.facts if other[0] in PLACES - SUPPORTS and other[1] == thing}
    # A step may name a second place, as place_on_top(table, next_to(cup)) does.
    for more in ((), near) if predicate in PLACES else ():
        after = world.copy()
        after.take(thing)
        if value:
            after.put(thing, *executor.relations(world, predicate, others[0]), *more)
        yield after
    for states in STATES.values():
        if states.get(predicate) is value:
            after = world.copy()
            set_states(after, thing, states)
            yield after
