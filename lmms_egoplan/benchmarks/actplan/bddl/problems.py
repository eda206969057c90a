"""An activity in BDDL: its objects, the facts that hold at its start, and its goal; written as BDDL by `str`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias


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
    """

    predicate: str
    arguments: tuple[str, ...]
    line: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"({' '.join((self.predicate, *(f'?{name}' for name in self.arguments)))})"


@dataclass(frozen=True)
class Not:
    """That a condition does not hold."""

    part: "Formula"

    def __str__(self) -> str:
        return f"(not {self.part})"


@dataclass(frozen=True)
class And:
    """That all conditions hold, at least one."""

    parts: tuple["Formula", ...]

    def __str__(self) -> str:
        return f"(and {' '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Or:
    """That one of the conditions holds."""

    parts: tuple["Formula", ...]

    def __str__(self) -> str:
        return f"(or {' '.join(map(str, self.parts))})"


@dataclass(frozen=True)
class Imply:
    """That the conclusion holds if the premise does."""

    premise: "Formula"
    conclusion: "Formula"

    def __str__(self) -> str:
        return f"(imply {self.premise} {self.conclusion})"


@dataclass(frozen=True)
class ForAll:
    """That the body holds of all objects of the variable's type."""

    variable: Variable
    body: "Formula"

    def __str__(self) -> str:
        return f"(forall {self.variable} {self.body})"


@dataclass(frozen=True)
class Exists:
    """That the body holds of an object of the variable's type."""

    variable: Variable
    body: "Formula"

    def __str__(self) -> str:
        return f"(exists {self.variable} {self.body})"


@dataclass(frozen=True)
class ForN:
    """That the body holds of exactly `number` objects of the variable's type."""

    number: int
    variable: Variable
    body: "Formula"

    def __str__(self) -> str:
        return f"(forn ({self.number}) {self.variable} {self.body})"


@dataclass(frozen=True)
class ForPairs:
    """That objects of two types go together, the body holding of a first and a second one.

    As many of both types have a partner as there are of the rarer type; or as `number` says (``fornpairs``). A partner
    may have several, as in BDDL's implementation. No object is its own.
    """

    first: Variable
    second: Variable
    body: "Formula"
    number: int | None = None

    def __str__(self) -> str:
        opening = "(forpairs" if self.number is None else f"(fornpairs ({self.number})"
        return f"{opening} {self.first} {self.second} {self.body})"


Formula: TypeAlias = Atom | Not | And | Or | Imply | ForAll | Exists | ForN | ForPairs
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
    init: tuple[Atom | Not, ...]
    goal: tuple[Formula, ...]

    def of_type(self, kind: str) -> list[str]:
        """The names of a type's objects, in their order."""
        return [thing.name for thing in self.objects if thing.type == kind]

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The goal's conditions: what its outermost ``and`` joins."""
        return tuple(
            part for formula in self.goal for part in (formula.parts if isinstance(formula, And) else [formula])
        )

    def __str__(self) -> str:
        """The problem in BDDL, which `parser.parse_problem` reads back; a line for each object, fact and condition."""
        goal = [str(formula) for formula in self.goal]
        if len(self.goal) == 1 and isinstance(self.goal[0], And):
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


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The conditions that a condition is made of; none of an atom."""
    if isinstance(formula, (And, Or)):
        return formula.parts
    if isinstance(formula, Not):
        return (formula.part,)
    if isinstance(formula, Imply):
        return (formula.premise, formula.conclusion)
    return () if isinstance(formula, Atom) else (formula.body,)


def variables_of(formula: Formula) -> tuple[Variable, ...]:
    """The variables that a condition itself binds."""
    if isinstance(formula, ForPairs):
        return (formula.first, formula.second)
    return (formula.variable,) if isinstance(formula, (ForAll, Exists, ForN)) else ()


def literals_of(
    formula: Formula, asked: bool = True, bound: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Atom, bool, Mapping[str, str]]]:
    """The atoms of a condition in their order.

    Yields:
        Each atom, whether it is asked for rather than its contrary, and the types of the variables bound around it.
    """
    bound = {**bound, **{variable.name: variable.type for variable in variables_of(formula)}}
    if isinstance(formula, Atom):
        yield formula, asked, bound
    for index, part in enumerate(parts_of(formula)):
        turned = isinstance(formula, Not) or (isinstance(formula, Imply) and index == 0)
        yield from literals_of(part, asked != turned, bound)
