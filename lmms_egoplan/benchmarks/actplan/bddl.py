"""Activities in BDDL, the Behavior Domain Definition Language (sec. 3.2)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NoReturn, TypeAlias

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.paths import yaml_beside
from lmms_egoplan.validation import shown


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


@dataclass(frozen=True)
class Predicate:
    """A predicate that the simulator can model.

    arguments: what each is, ``object`` or ``room``.
    place: whether it tells where an object is.
    """

    arguments: tuple[str, ...]
    place: bool = False


PREDICATES = {
    name: Predicate(tuple(fields["arguments"]), fields.get("place", False))
    for name, fields in yaml_beside(__file__).items()
}
"""All predicates by name; ``bddl.yaml`` names their source."""


def predicates_text() -> str:
    """The predicates that exist, with their arguments."""
    return ", ".join(f"({name} {' '.join(known.arguments)})" for name, known in PREDICATES.items())


def is_known(atom: Atom) -> bool:
    """Tell whether an atom's predicate exists, and has so many arguments."""
    predicate = PREDICATES.get(atom.predicate)
    return predicate is not None and len(predicate.arguments) == len(atom.arguments)


SECTIONS = (":domain", ":objects", ":init", ":goal")
# The deepest condition of the release has 7.
_DEEPEST = 50
_TOKEN = re.compile(r";[^\n]*|[()]|[^\s();]+")
_FORMS = {
    "and": "(and CONDITION ...)",
    "or": "(or CONDITION ...)",
    "not": "(not CONDITION)",
    "imply": "(imply CONDITION CONDITION)",
    "forall": "(forall (?NAME - TYPE) CONDITION)",
    "exists": "(exists (?NAME - TYPE) CONDITION)",
    "forn": "(forn (NUMBER) (?NAME - TYPE) CONDITION)",
    "forpairs": "(forpairs (?NAME - TYPE) (?NAME - TYPE) CONDITION)",
    "fornpairs": "(fornpairs (NUMBER) (?NAME - TYPE) (?NAME - TYPE) CONDITION)",
}


@dataclass(frozen=True)
class _Node:
    """A word, or a list in parentheses, with its line from 1."""

    line: int
    word: str = ""
    items: tuple["_Node", ...] = ()

    @property
    def head(self) -> str:
        return self.items[0].word if self.items else ""

    def __str__(self) -> str:
        return self.word or f"({' '.join(map(str, self.items))})"


def parse_problem(text: str, where: str) -> Problem:
    """Read an activity; comments (``;``) are passed over, and letters are made small, as in BDDL's implementation.

    Whether its names are declared and its predicates exist is asked by `check.problems_in`.

    Args:
        where: names the file.

    Raises:
        LmmsEgoplanError: it is not of BDDL's form; names the line, what was expected and what was found.

    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01) (:init (dusty cup.n.01_1)) "
    ...     "(:goal (not (dusty ?cup.n.01_1))))",
    ...     "problem0.bddl",
    ... )
    >>> problem.objects[0].type, str(problem.goal[0])
    ('cup.n.01', '(not (dusty ?cup.n.01_1))')
    """
    return _Reader(where).problem(text)


def read_problem(path: str | Path) -> Problem:
    """As `parse_problem`, of a file.

    Raises:
        LmmsEgoplanError: it cannot be read, or is not of BDDL's form.
    """
    return parse_problem(read_text(Path(path)), str(path))


class _Reader:
    def __init__(self, where: str) -> None:
        self._where = where

    def problem(self, text: str) -> Problem:
        define = self._tree(text)
        if define.head != "define" or len(define.items) < 2:
            self._fail(define, "(define (problem NAME) ...)")
        heading, *others = define.items[1:]
        name = self._named(heading, "problem")
        sections: dict[str, _Node] = {}
        for section in others:
            if section.head not in SECTIONS or section.head in sections:
                once = ", each once" if section.head in sections else ""
                self._fail(section, f"one of ({'), ('.join(f'{name} ...' for name in SECTIONS)}){once}")
            sections[section.head] = section
        if absent := [name for name in SECTIONS if name not in sections]:
            self._fail(define, f"a section ({absent[0]} ...)")
        goal = sections[":goal"]
        if len(goal.items) < 2:
            self._fail(goal, "(:goal CONDITION)")
        return Problem(
            name=name,
            domain=self._named(sections[":domain"], ":domain"),
            objects=self._objects(sections[":objects"]),
            init=tuple(self._fact(node) for node in sections[":init"].items[1:]),
            goal=tuple(self._condition(node) for node in goal.items[1:]),
        )

    def _named(self, node: _Node, head: str) -> str:
        if node.head != head or len(node.items) != 2:
            self._fail(node, f"({head} NAME)")
        return self._word(node.items[1], f"the {head.removeprefix(':')}'s name")

    def _tree(self, text: str) -> _Node:
        """The one list that the text is."""
        lists: list[tuple[int, list[_Node]]] = [(0, [])]
        line, position = 1, 0
        for token in _TOKEN.finditer(text):
            line += text.count("\n", position, token.start())
            position = token.start()
            word = token[0].lower()
            if word.startswith(";"):
                continue
            if word == "(":
                lists.append((line, []))
                if len(lists) > _DEEPEST:
                    self._refuse(line, f"at most {_DEEPEST} parentheses in one another")
            elif word != ")":
                lists[-1][1].append(_Node(line, word))
            elif len(lists) == 1:
                self._refuse(line, "no ')' here: none is open")
            else:
                start, items = lists.pop()
                lists[-1][1].append(_Node(start, items=tuple(items)))
        if len(lists) > 1:
            self._refuse(lists[-1][0], "a ')' for the '(' of this line, found the end")
        if len(lists[0][1]) != 1:
            found = lists[0][1][1] if lists[0][1] else _Node(line, "nothing")
            self._fail(found, "one (define ...) in the file")
        return lists[0][1][0]

    def _objects(self, section: _Node) -> tuple[Object, ...]:
        objects: list[Object] = []
        waiting: list[str] = []
        nodes = iter(section.items[1:])
        for node in nodes:
            if self._word(node, "an object's name") != "-":
                waiting.append(node.word)
                continue
            kind = next(nodes, None)
            if kind is None or not waiting:
                self._fail(node, "names, '-' and their type")
            objects += [Object(name, self._word(kind, "a type")) for name in waiting]
            waiting = []
        if waiting:
            self._fail(section.items[-1], "'-' and a type after the objects' names")
        return tuple(objects)

    def _fact(self, node: _Node) -> Formula:
        fact = self._condition(node)
        inner = fact.parts[0] if fact.op == "not" else fact
        if not isinstance(inner, Atom):
            self._fail(node, "a fact, or (not FACT)")
        return fact

    def _condition(self, node: _Node) -> Formula:
        head, items = node.head, node.items[1:]
        if not head:
            self._fail(node, f"(PREDICATE NAME ...) or {', '.join(_FORMS.values())}")
        if head not in _FORMS:
            names = (self._word(item, "a name").removeprefix("?") for item in items)
            return Atom(head, tuple(names), node.line)
        form = _FORMS[head]
        numbers, variables, parts = map(form.count, ("NUMBER", "?NAME", "CONDITION"))
        first_part = numbers + variables
        if not items or ("..." not in form and len(items) != first_part + parts):
            self._fail(node, form)
        return Compound(
            head,
            number=self._number(items[0]) if numbers else None,
            variables=tuple(map(self._variable, items[numbers:first_part])),
            parts=tuple(map(self._condition, items[first_part:])),
        )

    def _variable(self, node: _Node) -> Variable:
        words = [item.word for item in node.items]
        if len(words) != 3 or words[1] != "-" or not words[0].startswith("?") or not all(words) or words[0] == "?":
            self._fail(node, "(?NAME - TYPE)")
        return Variable(words[0].removeprefix("?"), words[2])

    def _number(self, node: _Node) -> int:
        words = [item.word for item in node.items]
        if len(words) != 1 or not re.fullmatch("[0-9]{1,4}", words[0]):
            self._fail(node, "(NUMBER)")
        return int(words[0])

    def _word(self, node: _Node, what: str) -> str:
        if node.word in ("", "?"):
            self._fail(node, what)
        return node.word

    def _fail(self, node: _Node, what: str) -> NoReturn:
        self._refuse(node.line, f"{what}, found {shown(str(node))}")

    def _refuse(self, line: int, what: str) -> NoReturn:
        raise LmmsEgoplanError(f"{self._where}:{line}: expected {what}")
