"""A plan carried out on an activity's problem, step by step, as far as its actions and names are understood."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lmms_egoplan.benchmarks.actplan.bddl import Problem, literals_of
from lmms_egoplan.benchmarks.actplan.goal_check.steps import STATES, Name, Names, Step, is_floor
from lmms_egoplan.benchmarks.actplan.goal_check.world import PLACES, World, degree

# Words of taps, which bring water when opened or switched on; and types of basins, where things then get wet.
_TAPS = ("faucet", "tap", "water", "sink", "shower")
_BASINS = ("sink.", "shower.", "bathtub.")


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

    def __init__(self, problem: Problem) -> None:
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
        return sum(round(degree(self._problem, formula, world), 6) for formula in self._problem.conditions)

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


def _usual_relations(problem: Problem) -> dict[str, set[str]]:
    """Return which of ``ontop`` and ``inside`` a problem uses with a type; plans are less exact there."""
    usual: dict[str, set[str]] = {}
    for formula in (*problem.init, *problem.goal):
        for atom, _, bound in literals_of(formula):
            if atom.predicate in ("ontop", "inside") and len(atom.arguments) == 2:
                kind = {**problem.types, **bound}.get(atom.arguments[1], "")
                usual.setdefault(kind, set()).add(atom.predicate)
    return usual
