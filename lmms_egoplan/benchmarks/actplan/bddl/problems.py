"""An activity in BDDL: its objects, the facts that hold at its start, and its goal; written as BDDL by `str`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class Object:
    """An object and its type, a WordNet synset: ``cookie.n.01_1`` of ``cookie.n.01``."""

    name: str
    type: str


@dataclass(frozen=True)
class Variable:
    """What a quantifier binds, over the objects of a type; its name is without the ``?``."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"(?{self.name} - {self.type})"


@dataclass(frozen=True)
class Atom:
    """A predicate of objects or bound variables.

    arguments: names, without the ``?`` that BDDL's goals write before both kinds.
    line: where it stands in the file it was read from, from 1; 0 elsewhere. No part of its value.
    op, parts, variables, number: as of a `Compound`.
    """

    op: ClassVar[str] = "atom"
    parts: ClassVar[tuple["Formula", ...]] = ()
    variables: ClassVar[tuple[Variable, ...]] = ()
    number: ClassVar[int | None] = None

    predicate: str
    arguments: tuple[str, ...]
    line: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"({' '.join((self.predicate, *(f'?{name}' for name in self.arguments)))})"


@dataclass(frozen=True)
class Compound:
    """A condition made of others.

    op: BDDL's word. ``and``: all parts hold, at least one. ``or``: one part holds. ``not``: the part does not hold.
        ``imply``: the second part holds if the first does. ``forall``, ``exists``, ``forn``: the part holds of all
        objects of the variable's type, of one, of exactly `number`. ``forpairs``: objects of two types go together, the
        part holding of a first and a second one. As many of both types have a partner as there are of the rarer type,
        or, in ``fornpairs``, as `number` says. A partner may have several, as in BDDL's implementation. No object is
        its own.
    """

    op: str
    parts: tuple["Formula", ...]
    variables: tuple[Variable, ...] = ()
    number: int | None = None

    def __str__(self) -> str:
        number = () if self.number is None else (f"({self.number})",)
        return f"({' '.join(map(str, (self.op, *number, *self.variables, *self.parts)))})"


Formula: TypeAlias = Atom | Compound
"""A condition."""


@dataclass(frozen=True)
class Problem:
    """An activity.

    name: as ``making_tea_0``.
    domain: whose predicates it uses; ``igibson``.
    init: facts, and facts negated, of objects.
    goal: what must hold at the end. BDDL has one formula here; a few released files have several, all of which must.
    """

    name: str
    domain: str
    objects: tuple[Object, ...]
    init: tuple[Formula, ...]
    goal: tuple[Formula, ...]

    def of_type(self, kind: str) -> list[str]:
        """The names of a type's objects, in their order."""
        return [thing.name for thing in self.objects if thing.type == kind]

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The goal's conditions: what its outermost ``and`` joins."""
        return tuple(part for formula in self.goal for part in (formula.parts if formula.op == "and" else [formula]))

    def __str__(self) -> str:
        """The problem in BDDL, which `parser.parse_problem` reads back; a line for each object, fact and condition."""
        goal = [str(formula) for formula in self.goal]
        if len(self.goal) == 1 and self.goal[0].op == "and":
            goal = ["(and", *(f"    {part}" for part in self.goal[0].parts), ")"]
        sections = {
            "objects": [f"{thing.name} - {thing.type}" for thing in self.objects],
            "init": [str(fact).replace("?", "") for fact in self.init],
            "goal": goal,
        }
        lines = [f"(define (problem {self.name})", f"    (:domain {self.domain})"]
        for title, section in sections.items():
            lines += [f"    (:{title}", *(f"        {line}" for line in section), "    )"]
        return "\n".join([*lines, ")", ""])


def literals_of(
    formula: Formula, asked: bool = True, bound: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Atom, bool, Mapping[str, str]]]:
    """The atoms of a condition in their order.

    Yields:
        Each atom, whether it is asked for rather than its contrary, and the types of the variables bound around it.
    """
    bound = {**bound, **{variable.name: variable.type for variable in formula.variables}}
    if isinstance(formula, Atom):
        yield formula, asked, bound
    for index, part in enumerate(formula.parts):
        turned = formula.op == "not" or (formula.op == "imply" and index == 0)
        yield from literals_of(part, asked != turned, bound)
