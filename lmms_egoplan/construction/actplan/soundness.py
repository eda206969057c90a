"""Whether an activity can be done: a start and a goal without contradictions, and a plan that leads to the goal."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, product

from lmms_egoplan.benchmarks.actplan.bddl import PREDICATES, Formula, Problem, grounded, holds, literals_of
from lmms_egoplan.benchmarks.actplan.goal_check import PLACES, SUPPORTS, Executor, Fact, World
from lmms_egoplan.benchmarks.actplan.steps import STATES

# States in the release's domain_igibson.bddl that the simulator does not have (appendix A: "The simulator can not model
# states of cookie as 'going bad' but state of 'burnt'").
_WITHOUT_STATE = ("broken", "perished", "screwed", "timeset")
# Worlds that the search for a plan looks at.
_MOST_WORLDS = 3_000


def problems_in(problem: Problem) -> list[str]:
    """List what is wrong with a problem, with the line in the file if it is known.

    Objects are declared once and called ``<type>_<number>``; predicates are among `PREDICATES` and have their
    arguments; these are objects or bound variables, and rooms where a predicate asks for one; types have objects; the
    initial facts negate no place; there is an agent; the goal is one condition.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
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
            if not asked and atom.op in PREDICATES and PREDICATES[atom.op].place
        ]
    if not any(thing.type.startswith("agent.") for thing in problem.objects):
        problems.append("no agent is declared under :objects; add agent.n.01_1 - agent.n.01")
    if len(problem.goal) != 1:
        problems.append(f"the goal has {len(problem.goal)} conditions side by side; expected one, as (and ...)")
    for condition in problem.goal:
        problems += _check(condition, names, types)
    return list(dict.fromkeys(problems))


def flaws_in(problem: Problem) -> list[str]:
    """List what is wrong with a problem: `problems_in`, else contradictions, and a goal that holds at the start.

    Contradictions are looked for among the initial facts, and among the goal's conditions that are facts or negated
    facts.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
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
    flaws = [f"initial facts: {clash}" for clash in _clashes(problem.init)]
    flaws += [f"goal: {clash}" for clash in _clashes(goal)]
    if all(holds(problem, condition, World.of(problem).holds) for condition in goal):
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
        (atom.op, *things)
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
    return [str(formula) for formula in problem.conditions if not holds(problem, formula, world.holds)]


def _clashes(conditions: Iterable[Formula]) -> Iterator[str]:
    """Yield the facts that contradict themselves or one another; other conditions are passed over."""
    literals: dict[tuple[Fact, bool], str] = {}
    for condition in conditions:
        asked = condition.op != "not"
        if (atom := condition if asked else condition.parts[0]).is_atom:
            literals[(atom.op, *atom.arguments), asked] = str(atom)
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
            after.set_states(thing, states)
            yield after


def _check(formula: Formula, names: set[str], types: set[str]) -> list[str]:
    """Return what is wrong with a condition; `names` are those of objects and of the variables around it."""
    if formula.is_atom:
        return _check_atom(formula, names)
    problems = [
        f"{variable}: no object is declared of type {variable.type}"
        for variable in formula.variables
        if variable.type not in types
    ]
    names = names | {variable.name for variable in formula.variables}
    return problems + [problem for part in formula.parts for problem in _check(part, names, types)]


def _check_atom(atom: Formula, names: set[str]) -> list[str]:
    predicate = PREDICATES.get(atom.op)
    if predicate is None:
        if atom.op in _WITHOUT_STATE:
            why = f"iGibson 2 has no state {atom.op}, though BDDL's domain file names it (appendix A)"
        else:
            why = f"no predicate {atom.op}; expected one of {', '.join(PREDICATES)}"
        return [f"{_where(atom)}: {why}"]
    if len(atom.arguments) != len(predicate.arguments):
        return [f"{_where(atom)}: expected {len(predicate.arguments)} arguments, found {len(atom.arguments)}"]
    return [
        f"{_where(atom)}: {name} is not declared under :objects"
        for name, kind in zip(atom.arguments, predicate.arguments, strict=True)
        if kind == "object" and name not in names
    ]


def _where(atom: Formula) -> str:
    return f"line {atom.line}: {atom}" if atom.line else str(atom)
