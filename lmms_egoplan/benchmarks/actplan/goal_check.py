"""The goal check: a plan carried out on its activity's BDDL problem, and the goal conditions that it reaches.

A diagnostic of this project, not the paper's: there, "the activity plans ... can not be directly evaluated in the
simulator" (sec. 4.1), and people say whether "the entire plan can achieve the final activity goal". How far the check
agrees with them is printed by ``lmms-egoplan evaluate actplan-goal-check``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, StrictInt

from lmms_egoplan.benchmarks.actplan import bddl
from lmms_egoplan.benchmarks.actplan.instances import check_folder, problem_path
from lmms_egoplan.benchmarks.actplan.plans import LabelledInstance
from lmms_egoplan.benchmarks.actplan.reply import one_per_line, parsed_steps
from lmms_egoplan.benchmarks.actplan.steps import STATES, Name, Names, Step, is_floor, read_step
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track

Fact = tuple[str, ...]
"""A predicate and its objects."""
PLACES = frozenset(name for name, predicate in bddl.PREDICATES.items() if predicate.place) - {"inroom"}
"""The predicates of places, which change as a thing is taken."""
SUPPORTS = frozenset({"inside", "ontop", "onfloor"})
"""The places that carry a thing."""
_BOTH_WAYS = ("nextto", "touching")
REACHABLE = SUPPORTS | {"under"} | {state for states in STATES.values() for state in states}
"""The predicates that understood actions decide.

``nextto`` and ``touching`` are not among them: the main actions (sec. 3.1) put things on and in others, and do not say
how near these then are. ``burnt`` is not: no action burns.
"""
_Count = Annotated[StrictInt, Field(ge=0)]
# Words of taps, which bring water when opened or switched on; and types of basins, where things then get wet.
_TAPS = ("faucet", "tap", "water", "sink", "shower")
_BASINS = ("sink.", "shower.", "bathtub.")


@dataclass(frozen=True)
class GoalCheck:
    """What a plan reaches.

    reached, missed: Goal conditions of objects (`grounded`) that hold at the plan's end, and that do not.
    unchecked: Conditions that cannot be checked: no action decides their predicates, or names are not declared.
    steps: Number of the plan's steps.
    understood: Number of steps whose action is known.
    names: Number of names in the understood steps that do something.
    named: Number of these names that fit an object or a room of the problem.
    """

    reached: tuple[str, ...]
    missed: tuple[str, ...]
    unchecked: tuple[str, ...]
    steps: _Count
    understood: _Count
    names: _Count
    named: _Count

    @property
    def share(self) -> float | None:
        """Share of the checkable conditions that are reached, in [0, 1].

        None without such a condition, without a step that is understood, and if no name fits the problem.
        """
        checked = len(self.reached) + len(self.missed)
        return len(self.reached) / checked if checked and self.understood and self.named else None

    @property
    def coverage(self) -> float:
        """Share of all conditions that `share` is over, in [0, 1]."""
        checked = len(self.reached) + len(self.missed)
        return 0.0 if self.share is None else checked / (checked + len(self.unchecked))


def check_goal(problem: bddl.Problem, steps: Sequence[str]) -> GoalCheck:
    """Carry out a plan from the initial facts on.

    Args:
        steps: As `reply.parsed_steps` finds them.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01 box.n.01_1 - box.n.01)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (and (inside ?cup.n.01_1 ?box.n.01_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> check = check_goal(problem, ["walk_to(cup)", "grab(cup)", "walk_to(box)", "place_inside(box, cup)"])
    >>> check.share, check.missed
    (0.5, ('(not (dusty ?cup.n.01_1))',))
    """
    executor = Executor(problem)
    understood = [step for text in steps if (step := read_step(text)) is not None]
    names = [name for step in understood if step.effect != "nothing" for name in map(Name.of, step.names)]
    for step in understood:
        executor.do(step)
    conditions = bddl.grounded(problem)
    checkable = [condition for condition in conditions if bddl.is_checkable(problem, condition, REACHABLE)]
    reached = [condition for condition in checkable if bddl.holds(problem, condition, executor.world.holds)]
    return GoalCheck(
        reached=tuple(map(str, reached)),
        missed=tuple(str(condition) for condition in checkable if condition not in reached),
        unchecked=tuple(str(condition) for condition in conditions if condition not in checkable),
        steps=len(steps),
        understood=len(understood),
        names=len(names),
        named=sum(map(executor.fits, names)),
    )


@dataclass(frozen=True)
class CheckedPlan:
    """A plan that people have judged, with its goal check.

    setting: ``normal`` or ``counterfactual``.
    correct: What people said (sec. 4.1).
    check: None if the folder has no readable problem for the activity.
    """

    setting: str
    correct: bool
    check: GoalCheck | None


def check_labelled(instances: Sequence[LabelledInstance], folder: Path) -> tuple[list[CheckedPlan], list[str]]:
    """Check labelled plans on their activities' problems.

    Args:
        folder: Has problems in one of `instances.LAYOUTS`.

    Returns:
        The plans in their order, and what is wrong with missing or damaged problems, each once.

    Raises:
        LmmsEgoplanError: The folder has no problem at all, or none of these activities'.
    """
    check_folder(folder)
    problems: dict[Path, bddl.Problem | None] = {}
    wrong: list[str] = []
    checked: list[CheckedPlan] = []
    for instance in track(instances, "Checking plans"):
        path = problem_path(folder, instance.id)
        if path is None:
            wrong.append(f"{instance.id.activity}: no problem{instance.id.description}.bddl in {folder}")
        elif path not in problems:
            try:
                problems[path] = bddl.read_problem(path)
            except LmmsEgoplanError as error:
                problems[path] = None
                wrong.append(str(error))
        problem = problems[path] if path else None
        for plan in instance.plans:
            check = check_goal(problem, parsed_steps(one_per_line(plan.text))) if problem else None
            checked.append(CheckedPlan(instance.id.setting, plan.correct, check))
    if all(plan.check is None for plan in checked):
        raise LmmsEgoplanError(f"{folder}: no problem in it for any of the plans; the first: {wrong[0]}")
    return checked, list(dict.fromkeys(wrong))


def agreement(plans: Sequence[CheckedPlan]) -> dict[str, float | None]:
    """Compare checks with people; "correct by the check" are plans that reach all checkable conditions.

    Returns:
        ``plans``: all; ``checked``: those with a value (`GoalCheck.share`), which the following are over. ``correct``:
        share that people call correct; ``reached``: share that the check does. ``accuracy`` of the check's verdict.
        ``mcc``: Matthews' correlation of the two; None if people say the same of all plans. ``auc`` of the share of
        conditions reached, as a score; None as ``mcc``. ``always_wrong``: the accuracy of calling every plan wrong; of
        calling it right, ``correct``. ``condition_coverage``: checkable conditions, of all conditions of all plans with
        a problem. ``step_coverage``: understood steps, of all steps of these plans. ``name_coverage``: names that fit
        the problem, of all names in the understood steps of these plans. Figures over nothing are None.

    >>> right = GoalCheck(("(open ?box.n.01_1)",), (), (), 1, 1, 1, 1)
    >>> wrong = GoalCheck((), ("(open ?box.n.01_1)",), (), 1, 1, 1, 1)
    >>> figures = agreement([CheckedPlan("normal", True, right), CheckedPlan("normal", False, wrong)])
    >>> figures["accuracy"], figures["auc"], figures["always_wrong"]
    (1.0, 1.0, 0.5)
    """
    from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

    checks = [plan.check for plan in plans if plan.check is not None]
    checkable = sum(len(check.reached + check.missed) for check in checks)
    scored = [(plan.correct, check.share) for plan in plans if (check := plan.check) and check.share is not None]
    labels, shares = [label for label, _ in scored], [share for _, share in scored]
    verdicts = [share == 1 for share in shares]
    correct = _share(sum(labels), len(labels))
    has_both = len(set(labels)) > 1
    return {
        "plans": len(plans),
        "checked": len(scored),
        "correct": correct,
        "reached": _share(sum(verdicts), len(verdicts)),
        "accuracy": float(accuracy_score(labels, verdicts)) if scored else None,
        "mcc": float(matthews_corrcoef(labels, verdicts)) if has_both else None,
        "auc": float(roc_auc_score(labels, shares)) if has_both else None,
        "always_wrong": None if correct is None else 1 - correct,
        "condition_coverage": _share(checkable, checkable + sum(len(check.unchecked) for check in checks)),
        "step_coverage": _share(sum(check.understood for check in checks), sum(check.steps for check in checks)),
        "name_coverage": _share(sum(check.named for check in checks), sum(check.names for check in checks)),
    }


class World:
    """Facts as BDDL's predicates with their objects, which actions change; anything else does not hold.

    facts: (predicate, object, ...).
    held: What the agent holds, in the order in which it was taken.
    """

    def __init__(self, facts: Iterable[Fact] = (), held: Iterable[str] = ()) -> None:
        self.facts = set(facts)
        self.held = list(held)

    @classmethod
    def of(cls, problem: bddl.Problem) -> "World":
        """Make the world at the start: the initial facts whose predicates exist, with so many objects."""
        return cls((fact.op, *fact.arguments) for fact in problem.init if bddl.is_known(fact))

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


class _Meant(NamedTuple):
    """The things that a name may mean: one of them, or every one."""

    things: list[str]
    every: bool = False


class Executor:
    """Carries out steps in a world.

    The agent is where it has walked to: at the things named, and at what these are in, on or next to. It takes and
    puts down only what is there, or what it holds; from its first step until it walks, and after walking to a place
    that is not among the problem's, everything is within reach. A step out of reach changes nothing (Table 8 names the
    missing walk as an error).

    If a name fits several objects, a plan gets the benefit of the doubt: a thing is taken that was not taken before,
    and a target is the one after which the goal is nearest.
    """

    def __init__(self, problem: bddl.Problem) -> None:
        self.world = World.of(problem)
        self._problem = problem
        self._start = World.of(problem)
        self._names = Names(problem)
        self._usual = _usual_relations(problem)
        self._here: set[str] | None = None
        self._walked_to: list[str] = []
        self._taken: set[str] = set()
        self._numbered: dict[Name, str] = {}
        self._water_runs = False

    def do(self, step: Step) -> None:
        """Carry out one step."""
        names = [Name.of(name) for name in step.names]
        if step.effect == "walk" and names:
            self._walk(names[0])
        elif step.effect == "take":
            self._take(names)
        elif step.effect in PLACES:
            self._put(step.effect, names)
        else:
            self._change(STATES[step.effect], names)

    def fits(self, name: Name) -> bool:
        """Check whether a name fits an object of the problem, or a room."""
        words = name.words or name.place
        return bool(self._candidates(Name(words)) or self._names.rooms_in(words))

    def relations(self, world: World, relation: str, where: str) -> list[tuple[str, str]]:
        """Return a put thing's relations: next to or under another, it is also on that one's support, or the floor."""
        if is_floor(where):
            return [("onfloor", where)]
        if relation in ("ontop", "inside", "onfloor"):
            usual = self._usual.get(self._names.types[where], set())
            relation = "ontop" if relation == "onfloor" else relation
            return [(relation if relation in usual or len(usual) != 1 else next(iter(usual)), where)]
        support = world.supports(where) if relation != "under" else set()
        room = self._names.room_of(where)
        floors = self._names.floors({room} if room else set())[:1]
        return [(relation, where), *(sorted(support) or [("onfloor", floor) for floor in floors])]

    def goal_reached(self, world: World) -> float:
        """Return how much of the goal holds in a world: the sum of `degree` over its conditions."""
        return sum(round(bddl.degree(self._problem, formula, world.holds), 6) for formula in self._problem.conditions)

    def _walk(self, name: Name) -> None:
        self._walked_to = self._meant(name.thing_or_place).things
        rooms = self._names.rooms_in((*name.words, *name.place))
        self._here = set().union(*map(self.world.places, self._walked_to)) or None
        if rooms and all(map(is_floor, self._walked_to)):
            self._here = rooms | (self._here or set())

    def _take(self, names: Sequence[Name]) -> None:
        for name in names:
            for thing in self._handled(name):
                if self._reaches(thing):
                    self._here = None if self._here is None else self._here | self.world.places(thing)
                    self.world.take(thing)
                    self._taken.add(thing)

    def _put(self, relation: str, names: Sequence[Name]) -> None:
        if not names:
            return
        things, target = self._split(relation, names)
        second_places = [name for name in names[1:] if not name.words and name.relation in PLACES]
        options = self._walked_to
        if target is not None:
            options = self._meant(target.thing_or_place).things
            # As in floor_next_to_sink and under_table; a place after other words identifies the thing.
            if target.relation in PLACES and "floor" in target.words:
                second_places.append(target)
            elif target.relation in PLACES and not target.words:
                relation = target.relation
        more = [
            (name.relation, other)
            for name in second_places
            for other in self._meant(Name(name.place, name.number)).things[:1]
        ]
        for thing in things:
            self._put_one(thing, relation, [option for option in options if option != thing], more)

    def _split(self, relation: str, names: Sequence[Name]) -> tuple[list[str], Name | None]:
        """Return what is put, and where; None for where the agent is.

        Plans name either first: what is held is put. If a single name is not held, what was taken last is put there.
        """
        first, *others = names
        if relation == "onfloor":
            return self._handled(first), Name(("floor",))
        if not others:
            return (self._handled(first), None) if self._holds(first) else (self.world.held[-1:], first)
        if self._holds(first) and not any(map(self._holds, others)):
            return self._handled(first), others[0]
        return [thing for name in others for thing in self._handled(name)], first

    def _put_one(self, thing: str, relation: str, options: Sequence[str], more: Sequence[tuple[str, str]]) -> None:
        within_reach = [option for option in options if is_floor(option) or self._reaches(option)]
        if not self._reaches(thing) or (options and not within_reach):
            return
        self._do_nearest(
            within_reach, lambda world, option: world.put(thing, *self.relations(world, relation, option), *more)
        )
        if not options and thing in self.world.held:
            self.world.put(thing, *more)
        if self._water_runs and any(other.startswith(_BASINS) for _, other in self.world.supports(thing)):
            self.world.set_states(thing, {"soaked": True})

    def _change(self, states: Mapping[str, bool], names: Sequence[Name]) -> None:
        for name in names if states else ():
            if set(states) & {"open", "toggled_on"} and any(word in _TAPS for word in (*name.words, *name.place)):
                self._turn_water(on=any(states.values()))
            things, every = self._meant(name, movable=len(name.words) > 1)
            lacking = [
                thing
                for thing in things
                if self._reaches(thing)
                and any(self.world.holds(state, (thing,)) != value for state, value in states.items())
            ]
            if every:
                for thing in lacking:
                    self.world.set_states(thing, states)
            else:
                self._do_nearest(lacking, lambda world, thing: world.set_states(thing, states))

    def _turn_water(self, *, on: bool) -> None:
        """Turn water on or off; it wets what is in a basin, and what the agent holds at one."""
        self._water_runs = on
        if on:
            at_basin = any(place.startswith(_BASINS) for place in self._here or ())
            wet = {fact[1] for fact in self.world.facts if fact[0] in PLACES and fact[2].startswith(_BASINS)}
            for thing in {*wet, *(self.world.held if at_basin else ())}:
                self.world.set_states(thing, {"soaked": True})

    def _do_nearest(self, options: Sequence[str], act: Callable[[World, str], None]) -> None:
        """Act on the first option after which the goal is nearest."""
        worlds = []
        for option in options:
            worlds.append(self.world.copy())
            act(worlds[-1], option)
        if worlds:
            self.world = max(worlds, key=self.goal_reached) if len(worlds) > 1 else worlds[0]

    def _reaches(self, thing: str) -> bool:
        places = self.world.places(thing)
        return self._here is None or bool(
            (places | self._rooms_of(thing)) & self._here or places & set(self.world.held)
        )

    def _rooms_of(self, thing: str) -> set[str]:
        return {room for place in self.world.places(thing) if (room := self._names.room_of(place))}

    def _holds(self, name: Name) -> bool:
        return bool(set(self._candidates(name, movable=True)) & set(self.world.held))

    def _handled(self, name: Name) -> list[str]:
        """Return the things meant by the name of what is taken or put."""
        things, every = self._meant(name, movable=True)
        if every or len(things) < 2:
            return things
        fresh = [thing for thing in things if thing not in self._taken]
        return ([thing for thing in fresh if self._reaches(thing)] or fresh or things)[:1]

    def _candidates(self, name: Name, *, movable: bool = False) -> list[str]:
        """Return the objects that fit a name's words and the states among them."""
        things = self._names.matching(name.words, movable=movable)
        rooms = self._names.rooms_in((*name.words, *name.place))
        if (not things and rooms) or any(map(is_floor, things)):
            here = {room for place in self._here or () if (room := self._names.room_of(place))}
            return self._names.floors(rooms or here)
        for state in name.states:
            things = [thing for thing in things if self._start.holds(state, (thing,))] or things
        return things

    def _meant(self, name: Name, *, movable: bool = False) -> _Meant:
        """Return what a name may mean here and now."""
        things = self._candidates(name, movable=movable)
        if len(things) < 2:
            return _Meant(things)
        # As in book_on_shelf, and in sock_sofa.
        others = self._names.matching(name.words) + self._names.matching(name.words[:1])
        places = self._names.matching(name.place) or [other for other in others if other not in things]
        there = [thing for thing in things if not self.world.places(thing).isdisjoint(places)] or things
        if rooms := self._names.rooms_in((*name.words, *name.place)):
            there = [thing for thing in there if rooms & self._rooms_of(thing)] or there
        if name.number is not None:
            return _Meant([self._numbered_thing(name, things, there)])
        if self._names.is_plural(name.words):
            return _Meant(there, every=True)
        held = [thing for thing in self.world.held if thing in things]
        return _Meant(held[-1:] or [thing for thing in self._walked_to if thing in there] or there)

    def _numbered_thing(self, name: Name, things: Sequence[str], there: Sequence[str]) -> str:
        """Return the same thing for the same words, number and place throughout a plan."""
        known = [
            thing
            for other, thing in self._numbered.items()
            if thing in things and (other.words, other.number) == (name.words, name.number)
            if other.place == name.place or not name.place
        ]
        if known:
            return known[-1]
        number, used = name.number or 0, set(self._numbered.values())
        ordered = [*there[number - 1 : number], *there, *things] if number else [*there, *things]
        thing = next((thing for thing in ordered if thing not in used), ordered[0])
        self._numbered[name] = thing
        return thing


def _usual_relations(problem: bddl.Problem) -> dict[str, set[str]]:
    """Return which of ``ontop`` and ``inside`` a problem uses with a type; plans are less exact there."""
    usual: dict[str, set[str]] = {}
    for formula in (*problem.init, *problem.goal):
        for atom, _, bound in bddl.literals_of(formula):
            if atom.op in ("ontop", "inside") and len(atom.arguments) == 2:
                kind = {**problem.types, **bound}.get(atom.arguments[1], "")
                usual.setdefault(kind, set()).add(atom.op)
    return usual


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
