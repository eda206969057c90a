"""Execute a plan on its activity's BDDL problem, and check which goal conditions it reaches.

This diagnostic is the project's, not the paper's. In the paper, "the activity plans ... can not be
directly evaluated in the simulator" (sec. 4.1), and people say whether "the entire plan can achieve
the final activity goal". ``lmms-egoplan evaluate actplan-goal-check`` measures how far the check
agrees with them.
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
"""A predicate, followed by its objects."""
PLACES = frozenset(name for name, predicate in bddl.PREDICATES.items() if predicate.place) - {
    "inroom"
}
"""Predicates that say where an object is; taking the object ends them."""
SUPPORTS = frozenset({"inside", "ontop", "onfloor"})
"""Predicates of `PLACES` whose second object carries the first."""
_BOTH_WAYS = ("nextto", "touching")
REACHABLE = SUPPORTS | {"under"} | {state for states in STATES.values() for state in states}
"""The predicates that understood actions decide.

``nextto`` and ``touching`` are excluded: the main actions (sec. 3.1) put objects in or on others,
and do not say how near they are to anything else. ``burnt`` is excluded because no action burns an
object.
"""
_Count = Annotated[StrictInt, Field(ge=0)]
# Words for taps, whose water runs when they are opened or switched on, and types of basins, where
# objects get wet.
_TAPS = ("faucet", "tap", "water", "sink", "shower")
_BASINS = ("sink.", "shower.", "bathtub.")


@dataclass(frozen=True)
class GoalCheck:
    """The goal conditions that a plan reaches.

    reached: Grounded goal conditions (`grounded`) that hold at the end of the plan.
    missed: Those that do not hold.
    unchecked: Conditions that cannot be checked (`is_checkable`).
    steps: Number of the plan's steps.
    understood: Number of steps whose action is known.
    names: Number of names in the understood steps that have an effect.
    named: Number of these names that match an object or a room of the problem.
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

        None if there is no checkable condition, no understood step, or no name that matches the
        problem.
        """
        checked = len(self.reached) + len(self.missed)
        if not (checked and self.understood and self.named):
            return None
        return len(self.reached) / checked

    @property
    def coverage(self) -> float:
        """Share of all conditions that were checked, in [0, 1]; 0 if `share` is None."""
        if self.share is None:
            return 0.0
        checked = len(self.reached) + len(self.missed)
        return checked / (checked + len(self.unchecked))


def check_goal(problem: bddl.Problem, steps: Sequence[str]) -> GoalCheck:
    """Execute a plan, starting from the problem's initial facts.

    Args:
        problem: The activity.
        steps: The plan's steps, from `reply.parsed_steps`.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson)"
    ...     "(:objects cup.n.01_1 - cup.n.01 box.n.01_1 - box.n.01) (:init (dusty cup.n.01_1))"
    ...     "(:goal (and (inside ?cup.n.01_1 ?box.n.01_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> plan = ["walk_to(cup)", "grab(cup)", "walk_to(box)", "place_inside(box, cup)"]
    >>> check = check_goal(problem, plan)
    >>> check.share, check.missed
    (0.5, ('(not (dusty ?cup.n.01_1))',))
    """
    executor = Executor(problem)
    understood = [step for step in map(read_step, steps) if step is not None]
    names: list[Name] = []
    for step in understood:
        executor.do(step)
        if step.effect != "nothing":
            names += map(Name.parse, step.names)
    conditions = bddl.grounded(problem)
    checkable = [
        condition for condition in conditions if bddl.is_checkable(problem, condition, REACHABLE)
    ]
    reached = [
        condition for condition in checkable if bddl.holds(problem, condition, executor.world.holds)
    ]
    return GoalCheck(
        reached=tuple(map(str, reached)),
        missed=tuple(str(condition) for condition in checkable if condition not in reached),
        unchecked=tuple(str(condition) for condition in conditions if condition not in checkable),
        steps=len(steps),
        understood=len(understood),
        names=len(names),
        named=sum(map(executor.fits, names)),
    )


class CheckedPlan(NamedTuple):
    """A plan with its human verdict and its goal check.

    setting: ``normal`` or ``counterfactual``.
    correct: The human verdict (sec. 4.1).
    check: The goal check; None if the folder has no readable problem for the activity.
    """

    setting: str
    correct: bool
    check: GoalCheck | None


def check_labelled(
    instances: Sequence[LabelledInstance], folder: Path
) -> tuple[list[CheckedPlan], list[str]]:
    """Check labelled plans on the problems of their activities.

    Args:
        instances: Instances with labelled plans.
        folder: Folder with problems in one of `instances.LAYOUTS`.

    Returns:
        The plans in order, and the distinct reasons why problems are missing or damaged.

    Raises:
        LmmsEgoplanError: The folder contains no problem, or no problem of these activities.
    """
    check_folder(folder)
    problems: dict[Path, bddl.Problem | None] = {}
    reasons: list[str] = []
    checked: list[CheckedPlan] = []
    for instance in track(instances, "Checking plans"):
        problem = None
        path = problem_path(folder, instance.id)
        if path is None:
            reasons.append(
                f"{instance.id.activity}: no problem{instance.id.description}.bddl in {folder}"
            )
        else:
            if path not in problems:
                try:
                    problems[path] = bddl.read_problem(path)
                except LmmsEgoplanError as error:
                    problems[path] = None
                    reasons.append(str(error))
            problem = problems[path]
        for plan in instance.plans:
            check = None
            if problem is not None:
                check = check_goal(problem, parsed_steps(one_per_line(plan.text)))
            checked.append(CheckedPlan(instance.id.setting, plan.correct, check))
    if all(plan.check is None for plan in checked):
        raise LmmsEgoplanError(
            f"{folder}: contains no usable problem for any of the plans. First reason: {reasons[0]}"
        )
    return checked, list(dict.fromkeys(reasons))


def agreement(plans: Sequence[CheckedPlan]) -> dict[str, float | None]:
    """Compare goal checks with human verdicts.

    The check calls a plan correct if it reaches all checkable conditions.

    Returns:
        Figures by name; None where a figure has no data.

        - ``plans``: number of all plans
        - ``checked``: number of plans with a value (`GoalCheck.share`); the next six figures are
          over these plans
        - ``correct``: share that people call correct, which is also the accuracy of calling every
          plan correct
        - ``reached``: share that the check calls correct
        - ``accuracy``: accuracy of the check's verdicts
        - ``mcc``: Matthews correlation of check and people; None if people gave all plans the same
          verdict
        - ``auc``: AUC of the share of conditions reached, used as a score; None if ``mcc`` is
        - ``always_wrong``: accuracy of calling every plan wrong
        - ``condition_coverage``: share of checkable conditions among all conditions, over all plans
          with a problem
        - ``step_coverage``: share of understood steps among all steps of these plans
        - ``name_coverage``: share of names that match the problem among the names in understood
          steps of these plans

    >>> right = GoalCheck(("(open ?box.n.01_1)",), (), (), 1, 1, 1, 1)
    >>> wrong = GoalCheck((), ("(open ?box.n.01_1)",), (), 1, 1, 1, 1)
    >>> plans = [CheckedPlan("normal", True, right), CheckedPlan("normal", False, wrong)]
    >>> figures = agreement(plans)
    >>> figures["accuracy"], figures["auc"], figures["always_wrong"]
    (1.0, 1.0, 0.5)
    """
    from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

    checks = [plan.check for plan in plans if plan.check is not None]
    checkable = sum(len(check.reached + check.missed) for check in checks)
    labels: list[bool] = []
    shares: list[float] = []
    for plan in plans:
        if plan.check is not None and plan.check.share is not None:
            labels.append(plan.correct)
            shares.append(plan.check.share)
    verdicts = [share == 1 for share in shares]
    correct = _share(sum(labels), len(labels))
    has_both = len(set(labels)) > 1
    return {
        "plans": len(plans),
        "checked": len(shares),
        "correct": correct,
        "reached": _share(sum(verdicts), len(verdicts)),
        "accuracy": float(accuracy_score(labels, verdicts)) if labels else None,
        "mcc": float(matthews_corrcoef(labels, verdicts)) if has_both else None,
        "auc": float(roc_auc_score(labels, shares)) if has_both else None,
        "always_wrong": None if correct is None else 1 - correct,
        "condition_coverage": _share(
            checkable, checkable + sum(len(check.unchecked) for check in checks)
        ),
        "step_coverage": _share(
            sum(check.understood for check in checks), sum(check.steps for check in checks)
        ),
        "name_coverage": _share(
            sum(check.named for check in checks), sum(check.names for check in checks)
        ),
    }


class World:
    """The facts that hold, which actions change; every other fact is false.

    facts: Tuples (predicate, object, ...).
    held: The objects in the agent's hands, in the order in which it took them.
    """

    def __init__(self, facts: Iterable[Fact] = (), held: Iterable[str] = ()) -> None:
        self.facts = set(facts)
        self.held = list(held)

    @classmethod
    def initial(cls, problem: bddl.Problem) -> "World":
        """Create the world before a plan, from the problem's initial facts.

        Facts are ignored if their predicate does not exist or has another number of objects.
        """
        return cls((fact.op, *fact.arguments) for fact in problem.init if bddl.is_known(fact))

    def copy(self) -> "World":
        """Return an independent copy."""
        return World(self.facts, self.held)

    def holds(self, predicate: str, arguments: tuple[str, ...]) -> bool:
        """Return True if a predicate holds.

        ``nextto`` and ``touching`` are symmetric. An object on top of another touches it.
        ``inside`` is transitive.
        """
        if (predicate, *arguments) in self.facts:
            return True
        if predicate in _BOTH_WAYS and (predicate, *arguments[::-1]) in self.facts:
            return True
        if predicate == "touching":
            return any(("ontop", *pair) in self.facts for pair in (arguments, arguments[::-1]))
        if predicate == "inside":
            return arguments[1] in self._around({arguments[0]}, frozenset({"inside"}))
        return False

    def locations(self, thing: str) -> set[str]:
        """Return an object and everything that it is in, on, under or next to, even indirectly."""
        return {thing} | self._around({thing}, PLACES)

    def supports(self, thing: str) -> set[tuple[str, str]]:
        """Return what carries an object directly, as pairs (predicate, support)."""
        return {
            (fact[0], fact[2]) for fact in self.facts if fact[0] in SUPPORTS and fact[1] == thing
        }

    def carriers(self, thing: str) -> set[str]:
        """Return everything that an object is in or on, directly or indirectly."""
        return self._around({thing}, SUPPORTS)

    def take(self, thing: str) -> None:
        """Let the agent take an object, together with everything in it or on it."""
        self._lift(thing)
        if thing not in self.held:
            self.held.append(thing)

    def put(self, thing: str, *relations: tuple[str, str]) -> None:
        """Move an object from the agent's hand or from its place.

        Args:
            relations: Its new relations: predicates of `PLACES`, each with another object.
        """
        self._lift(thing)
        self.held = [item for item in self.held if item != thing]
        self.facts |= {(relation, thing, other) for relation, other in relations}

    def set_states(self, thing: str, states: Mapping[str, bool]) -> None:
        """Set or clear states of an object."""
        for state, value in states.items():
            if value:
                self.facts.add((state, thing))
            else:
                self.facts.discard((state, thing))

    def _lift(self, thing: str) -> None:
        """Remove the facts that say where an object is."""
        self.facts = {fact for fact in self.facts if not _is_place_of(fact, thing)}

    def _around(self, inner: set[str], predicates: frozenset[str]) -> set[str]:
        """Return everything that objects reach through predicates, directly or indirectly."""
        around: set[str] = set()
        facts = [fact for fact in self.facts if fact[0] in predicates]
        while inner:
            neighbours = {fact[1] for fact in facts if fact[0] in _BOTH_WAYS and fact[2] in inner}
            inner = ({fact[2] for fact in facts if fact[1] in inner} | neighbours) - around
            around |= inner
        return around


def _is_place_of(fact: Fact, thing: str) -> bool:
    """Return True if a fact says where an object is."""
    predicate = fact[0]
    if predicate not in PLACES:
        return False
    return fact[1] == thing or (predicate in _BOTH_WAYS and fact[2] == thing)


class _Meaning(NamedTuple):
    """The objects that a name may mean: one of them, or all if `every` is True."""

    things: list[str]
    every: bool = False


class Executor:
    """Executes steps in a world.

    The agent is at the objects that it walked to, and at everything that these are in, on or next
    to. It can take and put down only what is there or in its hands. Everything is within reach
    until the first walk, and after a walk to a place that the problem does not have. A step out of
    reach changes nothing (Table 8 names the missing walk as an error).

    If a name matches several objects, the plan gets the benefit of the doubt. The agent takes an
    object that it has not taken before, and chooses the target that brings the goal nearest.
    """

    def __init__(self, problem: bddl.Problem) -> None:
        self.world = World.initial(problem)
        self._problem = problem
        self._start = World.initial(problem)
        self._names = Names(problem)
        self._usual = _usual_relations(problem)
        self._here: set[str] | None = None
        self._walked_to: list[str] = []
        self._taken: set[str] = set()
        self._numbered: dict[Name, str] = {}
        self._water_runs = False

    def do(self, step: Step) -> None:
        """Execute one step."""
        names = [Name.parse(name) for name in step.names]
        if step.effect == "walk" and names:
            self._walk(names[0])
        elif step.effect == "take":
            self._take(names)
        elif step.effect in PLACES:
            self._put(step.effect, names)
        else:
            self._change(STATES.get(step.effect, {}), names)

    def fits(self, name: Name) -> bool:
        """Return True if a name matches an object or a room of the problem."""
        words = name.words or name.place
        return bool(self._candidates(Name(words)) or self._names.rooms_in(words))

    def relations(self, world: World, relation: str, where: str) -> list[tuple[str, str]]:
        """Return the relations of an object that is put somewhere.

        An object next to another is also on that one's support, or on the floor if there is no
        support. An object under another is also on the floor.
        """
        if is_floor(where):
            return [("onfloor", where)]
        if relation in ("ontop", "inside", "onfloor"):
            if relation == "onfloor":
                relation = "ontop"
            usual = self._usual.get(self._names.types[where], set())
            if relation not in usual and len(usual) == 1:
                (relation,) = usual
            return [(relation, where)]
        supports = sorted(world.supports(where)) if relation != "under" else []
        if not supports:
            room = self._names.room_of(where)
            floors = self._names.floors({room} if room else set())
            supports = [("onfloor", floor) for floor in floors[:1]]
        return [(relation, where), *supports]

    def goal_reached(self, world: World) -> float:
        """Return how much of the goal holds in a world: the sum of `degree` over its conditions."""
        return sum(
            round(bddl.degree(self._problem, formula, world.holds), 6)
            for formula in self._problem.conditions
        )

    def _walk(self, name: Name) -> None:
        self._walked_to = self._resolve(name.thing_or_place).things
        rooms = self._names.rooms_in((*name.words, *name.place))
        self._here = set().union(*map(self.world.locations, self._walked_to)) or None
        if rooms and all(map(is_floor, self._walked_to)):
            self._here = rooms | (self._here or set())

    def _take(self, names: Sequence[Name]) -> None:
        for name in names:
            for thing in self._handled(name):
                if self._reaches(thing):
                    if self._here is not None:
                        self._here = self._here | self.world.locations(thing)
                    self.world.take(thing)
                    self._taken.add(thing)

    def _put(self, relation: str, names: Sequence[Name]) -> None:
        if not names:
            return
        things, target = self._split(relation, names)
        second_places = [name for name in names[1:] if not name.words and name.relation in PLACES]
        options = self._walked_to
        if target is not None:
            options = self._resolve(target.thing_or_place).things
            # Examples: floor_next_to_sink, under_table. After other words, as in box_under_table, a
            # place only says which object is the target.
            if target.relation in PLACES and "floor" in target.words:
                second_places.append(target)
            elif target.relation in PLACES and not target.words:
                relation = target.relation
        nearby: list[tuple[str, str]] = []
        for name in second_places:
            supports = self._resolve(Name(name.place, name.number)).things
            nearby += [(name.relation, support) for support in supports[:1]]
        for thing in things:
            targets = [option for option in options if option != thing]
            self._put_one(thing, relation, targets, nearby)

    def _split(self, relation: str, names: Sequence[Name]) -> tuple[list[str], Name | None]:
        """Return the objects to put, and the target; None means the agent's location.

        Plans name either one first; the one that the agent holds is the object to put. A single
        name that is not held is the target, and the object taken last is put there.
        """
        first, *later_names = names
        if relation == "onfloor":
            return self._handled(first), Name(("floor",))
        if not later_names:
            if self._holds(first):
                return self._handled(first), None
            return self.world.held[-1:], first
        if self._holds(first) and not any(map(self._holds, later_names)):
            return self._handled(first), later_names[0]
        return [thing for name in later_names for thing in self._handled(name)], first

    def _put_one(
        self, thing: str, relation: str, options: Sequence[str], nearby: Sequence[tuple[str, str]]
    ) -> None:
        within_reach = [option for option in options if is_floor(option) or self._reaches(option)]
        if not self._reaches(thing) or (options and not within_reach):
            return

        def put(world: World, option: str) -> None:
            world.put(thing, *self.relations(world, relation, option), *nearby)

        self._do_nearest(within_reach, put)
        if not options and thing in self.world.held:
            self.world.put(thing, *nearby)
        supports = [support for _, support in self.world.supports(thing)]
        if self._water_runs and any(support.startswith(_BASINS) for support in supports):
            self.world.set_states(thing, {"soaked": True})

    def _change(self, states: Mapping[str, bool], names: Sequence[Name]) -> None:
        """Change states of the objects within reach that names mean.

        One object of each name changes, or all if the name is plural. Opening or switching a tap
        also turns its water on or off, even out of reach.
        """
        if not states:
            return
        is_switch = "open" in states or "toggled_on" in states
        for name in names:
            words = (*name.words, *name.place)
            if is_switch and any(word in _TAPS for word in words):
                self._turn_water(on=any(states.values()))
            things, means_all = self._resolve(name, movable=len(name.words) > 1)
            targets = [
                thing for thing in things if self._reaches(thing) and self._differs(thing, states)
            ]
            if means_all:
                for thing in targets:
                    self.world.set_states(thing, states)
            else:
                self._do_nearest(targets, lambda world, thing: world.set_states(thing, states))

    def _differs(self, thing: str, states: Mapping[str, bool]) -> bool:
        """Return True if an object does not have all of the states."""
        return any(self.world.holds(state, (thing,)) != value for state, value in states.items())

    def _turn_water(self, *, on: bool) -> None:
        """Turn water on or off.

        Water wets everything in a basin, and what the agent holds at a basin.
        """
        self._water_runs = on
        if not on:
            return
        wet = {
            fact[1]
            for fact in self.world.facts
            if fact[0] in PLACES and fact[2].startswith(_BASINS)
        }
        if any(location.startswith(_BASINS) for location in self._here or ()):
            wet |= set(self.world.held)
        for thing in wet:
            self.world.set_states(thing, {"soaked": True})

    def _do_nearest(self, options: Sequence[str], act: Callable[[World, str], None]) -> None:
        """Act on the option that brings the goal nearest; the first one in a tie."""
        worlds = []
        for option in options:
            worlds.append(self.world.copy())
            act(worlds[-1], option)
        if worlds:
            self.world = max(worlds, key=self.goal_reached) if len(worlds) > 1 else worlds[0]

    def _reaches(self, thing: str) -> bool:
        """Return True if an object is where the agent is, or in its hands."""
        if self._here is None:
            return True
        locations = self.world.locations(thing)
        if locations & set(self.world.held):
            return True
        return bool((locations | self._rooms_of(thing)) & self._here)

    def _rooms_of(self, thing: str) -> set[str]:
        """Return the rooms in which an object is."""
        return self._rooms_at(self.world.locations(thing))

    def _rooms_at(self, locations: Iterable[str]) -> set[str]:
        rooms = map(self._names.room_of, locations)
        return {room for room in rooms if room}

    def _holds(self, name: Name) -> bool:
        return bool(set(self._candidates(name, movable=True)) & set(self.world.held))

    def _handled(self, name: Name) -> list[str]:
        """Return the objects to take or put that a name means."""
        things, every = self._resolve(name, movable=True)
        if every or len(things) < 2:
            return things
        fresh = [thing for thing in things if thing not in self._taken]
        return ([thing for thing in fresh if self._reaches(thing)] or fresh or things)[:1]

    def _candidates(self, name: Name, *, movable: bool = False) -> list[str]:
        """Return the objects that match a name's words, including the states among them."""
        things = self._names.matching(name.words, movable=movable)
        rooms = self._names.rooms_in((*name.words, *name.place))
        if (not things and rooms) or any(map(is_floor, things)):
            return self._names.floors(rooms or self._rooms_at(self._here or ()))
        for state in name.states:
            things = [thing for thing in things if self._start.holds(state, (thing,))] or things
        return things

    def _resolve(self, name: Name, *, movable: bool = False) -> _Meaning:
        """Return the objects that a name may mean in the current world."""
        things = self._candidates(name, movable=movable)
        if len(things) < 2:
            return _Meaning(things)
        nearby = self._nearby(name, things)
        if name.number is not None:
            return _Meaning([self._numbered_thing(name, things, nearby)])
        if self._names.is_plural(name.words):
            return _Meaning(nearby, every=True)
        held = [thing for thing in self.world.held if thing in things]
        if held:
            return _Meaning(held[-1:])
        return _Meaning([thing for thing in self._walked_to if thing in nearby] or nearby)

    def _nearby(self, name: Name, things: list[str]) -> list[str]:
        """Return those objects that are where a name says; all if none is.

        Examples are book_on_shelf and sock_sofa.
        """
        surroundings = self._names.matching(name.place)
        if not surroundings:
            all_matches = self._names.matching(name.words) + self._names.matching(name.words[:1])
            surroundings = [match for match in all_matches if match not in things]
        nearby = [
            thing for thing in things if not self.world.locations(thing).isdisjoint(surroundings)
        ]
        nearby = nearby or things
        rooms = self._names.rooms_in((*name.words, *name.place))
        if rooms:
            nearby = [thing for thing in nearby if rooms & self._rooms_of(thing)] or nearby
        return nearby

    def _numbered_thing(self, name: Name, things: Sequence[str], nearby: Sequence[str]) -> str:
        """Return the same object for the same words, number and place throughout a plan."""
        for earlier, thing in reversed(self._numbered.items()):
            is_same = (earlier.words, earlier.number) == (name.words, name.number)
            if is_same and thing in things and name.place in ((), earlier.place):
                return thing
        number = name.number or 0
        candidates = [*nearby, *things]
        if number:
            # The name's number counts the objects nearby, if there are so many.
            candidates = [*nearby[number - 1 : number], *candidates]
        used = set(self._numbered.values())
        thing = next((thing for thing in candidates if thing not in used), candidates[0])
        self._numbered[name] = thing
        return thing


def _usual_relations(problem: bddl.Problem) -> dict[str, set[str]]:
    """Return, by type, which of ``ontop`` and ``inside`` the problem uses.

    Plans often confuse the two.
    """
    usual: dict[str, set[str]] = {}
    for formula in (*problem.init, *problem.goal):
        for atom, _, bound in bddl.literals_of(formula):
            if atom.op in ("ontop", "inside") and len(atom.arguments) == 2:
                types = {**problem.types, **bound}
                usual.setdefault(types.get(atom.arguments[1], ""), set()).add(atom.op)
    return usual


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
