"""Activities in BDDL, the Behavior Domain Definition Language (sec. 3.2): objects, facts and goal, read and written.

BDDL: Srivastava et al. (2021), https://github.com/StanfordVL/bddl.
"""

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

_SECTIONS = (":domain", ":objects", ":init", ":goal")
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
class Predicate:
    """A predicate that the simulator can model.

    arguments: ``object`` or ``room`` for each.
    place: Whether it is a place of an object.
    """

    arguments: tuple[str, ...]
    place: bool = False


PREDICATES = {
    name: Predicate(tuple(fields["arguments"]), fields.get("place", False))
    for name, fields in yaml_beside(__file__).items()
}
"""All predicates by name; ``bddl.yaml`` names their source."""


@dataclass(frozen=True)
class Object:
    """An object and its type, a WordNet synset: ``cookie.n.01_1`` of ``cookie.n.01``."""

    name: str
    type: str


@dataclass(frozen=True)
class Variable:
    """A quantifier's variable, over the objects of a type; its name is without the ``?``."""

    name: str
    type: str

    def __str__(self) -> str:
        return f"(?{self.name} - {self.type})"


@dataclass(frozen=True)
class Atom:
    """A predicate of objects or bound variables.

    arguments: Names, without the ``?`` that BDDL's goals write before both kinds.
    line: Line in the file that it was read from, from 1; 0 elsewhere. Not part of its value.
    op, parts, variables, number: As in a `Compound`.
    """

    op: ClassVar[str] = "atom"
    parts: ClassVar[tuple["Formula", ...]] = ()
    variables: ClassVar[tuple[Variable, ...]] = ()
    number: ClassVar[int] = 0

    predicate: str
    arguments: tuple[str, ...]
    line: int = field(default=0, compare=False, repr=False)

    def __str__(self) -> str:
        return f"({' '.join((self.predicate, *(f'?{name}' for name in self.arguments)))})"


@dataclass(frozen=True)
class Compound:
    """A condition made of others.

    op: BDDL's word. ``and``: all parts hold, at least one. ``or``: one part holds. ``not``: the part does not hold.
        ``imply``: the second part holds if the first does. ``forall``, ``exists``, ``forn``: the part holds for all
        objects of the variable's type, for one, for exactly `number`. ``forpairs``: objects of two types go together,
        the part holding for a first and a second one. As many of both types have a partner as there are of the rarer
        type, or, in ``fornpairs``, as `number` says. A partner may have several, as in BDDL's implementation. No object
        is its own.
    number: In ``forn`` and ``fornpairs``.
    """

    op: str
    parts: tuple["Formula", ...]
    variables: tuple[Variable, ...] = ()
    number: int = 0

    def __str__(self) -> str:
        number = [f"({self.number})"] if "NUMBER" in _FORMS[self.op] else []
        return f"({' '.join(map(str, (self.op, *number, *self.variables, *self.parts)))})"


Formula: TypeAlias = Atom | Compound
"""A condition."""


@dataclass(frozen=True)
class Problem:
    """An activity.

    name: Such as ``making_tea_0``.
    domain: Name of the domain with its predicates; ``igibson``.
    init: Facts, and negated facts, about objects.
    goal: What must hold at the end. BDDL has one formula here; a few released files have several, all of which must.
    """

    name: str
    domain: str
    objects: tuple[Object, ...]
    init: tuple[Formula, ...]
    goal: tuple[Formula, ...]

    def of_type(self, kind: str) -> list[str]:
        """Return the names of a type's objects, in order."""
        return [thing.name for thing in self.objects if thing.type == kind]

    @property
    def types(self) -> dict[str, str]:
        """The objects' types by name."""
        return {thing.name: thing.type for thing in self.objects}

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The goal's conditions: the parts of its outermost ``and``."""
        return tuple(part for formula in self.goal for part in (formula.parts if formula.op == "and" else [formula]))

    def __str__(self) -> str:
        """Write the problem in BDDL, which `parse_problem` reads back; a line for each object, fact and condition."""
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


def predicates_text() -> str:
    """List the predicates with their arguments."""
    return ", ".join(f"({name} {' '.join(known.arguments)})" for name, known in PREDICATES.items())


def is_known(atom: Atom) -> bool:
    """Check that an atom's predicate exists and has so many arguments."""
    predicate = PREDICATES.get(atom.predicate)
    return predicate is not None and len(predicate.arguments) == len(atom.arguments)


def literals_of(
    formula: Formula, *, asked: bool = True, bound: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[Atom, bool, Mapping[str, str]]]:
    """Yield the atoms of a condition, in order.

    Yields:
        Each atom, whether it is asked for rather than its contrary, and the types of the variables bound around it.
    """
    bound = {**bound, **{variable.name: variable.type for variable in formula.variables}}
    if isinstance(formula, Atom):
        yield formula, asked, bound
    for index, part in enumerate(formula.parts):
        is_contrary = formula.op == "not" or (formula.op == "imply" and index == 0)
        yield from literals_of(part, asked=asked != is_contrary, bound=bound)


def read_problem(path: Path) -> Problem:
    """Read an activity's file.

    Raises:
        LmmsEgoplanError: The file cannot be read, or does not have BDDL's form.
    """
    return parse_problem(read_text(path), str(path))


def parse_problem(text: str, where: str) -> Problem:
    """Parse an activity; comments (``;``) are ignored, and letters become lower case, as in BDDL's implementation.

    Names need not be declared, and predicates need not exist.

    Args:
        where: Name of the file.

    Raises:
        LmmsEgoplanError: The text does not have BDDL's form; names the line, what was expected and what was found.

    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01) (:init (dusty cup.n.01_1)) "
    ...     "(:goal (not (dusty ?cup.n.01_1))))",
    ...     "problem0.bddl",
    ... )
    >>> problem.objects[0].type, str(problem.goal[0])
    ('cup.n.01', '(not (dusty ?cup.n.01_1))')
    """
    return _Reader(where).problem(text)


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
            if section.head not in _SECTIONS or section.head in sections:
                once = ", each once" if section.head in sections else ""
                self._fail(section, f"one of ({'), ('.join(f'{name} ...' for name in _SECTIONS)}){once}")
            sections[section.head] = section
        if absent := [name for name in _SECTIONS if name not in sections]:
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
        """Return the one list that the text is."""
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
            number=self._number(items[0]) if numbers else 0,
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
