"""Read and write activities in BDDL: their objects, facts and goal (sec. 3.2).

BDDL is the Behavior Domain Definition Language: Srivastava et al. (2021),
https://github.com/StanfordVL/bddl.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.validation import quoted

Bound = Mapping[str, str]
"""The object, or the type, of each variable."""
Facts = Callable[[str, tuple[str, ...]], bool]
"""Returns True if a predicate holds for the objects."""
_NONE: Bound = MappingProxyType({})
# Operators that hold if all of their parts hold, and those over pairs of objects.
_OF_ALL = ("and", "forall")
_PAIRED = ("forpairs", "fornpairs")

_SECTIONS = (":domain", ":objects", ":init", ":goal")
_SECTION_FORMS = ", ".join(f"({name} ...)" for name in _SECTIONS)
# The deepest condition in the release has 7 levels.
_DEEPEST = 50
_TOKEN = re.compile(
    r"""
    ;[^\n]*         # a comment
    | [()]
    | [^\s();]+     # a word
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Predicate:
    """A predicate that the simulator can model.

    arguments: The kind of each argument, ``object`` or ``room``.
    place: True if the predicate says where an object is. BDDL's initial facts never negate such a
    predicate.
    """

    arguments: tuple[str, ...]
    place: bool = False


_OF_AN_OBJECT = Predicate(("object",))
_OF_A_PLACE = Predicate(("object", "object"), place=True)
PREDICATES = {
    "inside": _OF_A_PLACE,
    "ontop": _OF_A_PLACE,
    "onfloor": _OF_A_PLACE,
    "nextto": _OF_A_PLACE,
    "under": _OF_A_PLACE,
    "touching": _OF_A_PLACE,
    "inroom": Predicate(("object", "room"), place=True),
    "burnt": _OF_AN_OBJECT,
    "cooked": _OF_AN_OBJECT,
    "dusty": _OF_AN_OBJECT,
    "frozen": _OF_AN_OBJECT,
    "open": _OF_AN_OBJECT,
    "sliced": _OF_AN_OBJECT,
    "soaked": _OF_AN_OBJECT,
    "stained": _OF_AN_OBJECT,
    "toggled_on": _OF_AN_OBJECT,
}
"""The predicates that a problem of the domain igibson may use.

They are the states of iGibson 2 (Li et al. 2021, "Object states") under their BDDL names.
ActPlan-1K's activities are loaded in iGibson 2 (sec. 3.2). The 153 released problems use all of
them, except ``touching`` in initial facts.
"""


@dataclass(frozen=True)
class _Operator:
    """The form of a condition that combines others.

    form: The form as text.
    has_number: True if a number comes first.
    variables: Number of variables after it.
    parts: Number of conditions at the end; None for one or more.
    """

    form: str
    has_number: bool = False
    variables: int = 0
    parts: int | None = 1


_OPERATORS = {
    "and": _Operator("(and CONDITION ...)", parts=None),
    "or": _Operator("(or CONDITION ...)", parts=None),
    "not": _Operator("(not CONDITION)"),
    "imply": _Operator("(imply CONDITION CONDITION)", parts=2),
    "forall": _Operator("(forall (?NAME - TYPE) CONDITION)", variables=1),
    "exists": _Operator("(exists (?NAME - TYPE) CONDITION)", variables=1),
    "forn": _Operator("(forn (NUMBER) (?NAME - TYPE) CONDITION)", has_number=True, variables=1),
    "forpairs": _Operator("(forpairs (?NAME - TYPE) (?NAME - TYPE) CONDITION)", variables=2),
    "fornpairs": _Operator(
        "(fornpairs (NUMBER) (?NAME - TYPE) (?NAME - TYPE) CONDITION)",
        has_number=True,
        variables=2,
    ),
}


@dataclass(frozen=True)
class Object:
    """An object and its type, a WordNet synset: ``cookie.n.01_1`` has the type ``cookie.n.01``."""

    name: str
    type: str


class Variable(Object):
    """A quantifier's variable, which ranges over the objects of a type; the name has no ``?``."""

    def __str__(self) -> str:
        return f"(?{self.name} - {self.type})"


@dataclass(frozen=True)
class Formula:
    """A condition: an atom, or a combination of conditions.

    op: The predicate of an atom, whose arguments are objects or bound variables; or one of these
    operators:

        - ``and``: all parts hold (at least one part). ``or``: one part holds. ``not``: the part
          does not hold.
        - ``imply``: if the first part holds, the second does.
        - ``forall``, ``exists``, ``forn``: the part holds for all objects of the variable's type,
          for at least one, or for exactly `number`.
        - ``forpairs``: the part holds for pairs of objects, one of each variable's type. Of both
          types, at least n objects have a partner, where n is the number of objects of the smaller
          type. ``fornpairs``: n is `number`. An object may have several partners, as in BDDL's
          implementation, but is never its own partner.
    parts: The combined conditions.
    variables: The variables that a quantifier binds.
    number: The number in ``forn`` and ``fornpairs``.
    arguments: An atom's names, without the ``?`` that BDDL's goals write before objects and
    variables.
    line: An atom's line in its file, from 1; 0 if it was not read from a file. Ignored in
    comparisons.
    """

    op: str
    parts: tuple["Formula", ...] = ()
    variables: tuple[Variable, ...] = ()
    number: int = 0
    arguments: tuple[str, ...] = ()
    line: int = field(default=0, compare=False, repr=False)

    @property
    def is_atom(self) -> bool:
        """True for a predicate, False for an operator."""
        return self.op not in _OPERATORS

    def __str__(self) -> str:
        words = [self.op]
        if not self.is_atom and _OPERATORS[self.op].has_number:
            words.append(f"({self.number})")
        words += map(str, self.variables)
        words += [f"?{name}" for name in self.arguments]
        words += map(str, self.parts)
        return f"({' '.join(words)})"


@dataclass(frozen=True)
class Problem:
    """An activity.

    name: Name such as ``making_tea_0``.
    domain: Name of the domain that defines the predicates; ``igibson``.
    objects: The declared objects.
    init: Initial facts and negated facts about objects.
    goal: Formulas that must all hold at the end. BDDL has one formula here; a few released files
    have several.
    """

    name: str
    domain: str
    objects: tuple[Object, ...]
    init: tuple[Formula, ...]
    goal: tuple[Formula, ...]

    def of_type(self, type_name: str) -> list[str]:
        """Return the names of a type's objects, in order."""
        return [obj.name for obj in self.objects if obj.type == type_name]

    @property
    def types(self) -> dict[str, str]:
        """Each object's type by its name."""
        return {obj.name: obj.type for obj in self.objects}

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The goal's conditions: the parts of its outermost ``and``."""
        conditions: list[Formula] = []
        for formula in self.goal:
            if formula.op == "and":
                conditions += formula.parts
            else:
                conditions.append(formula)
        return tuple(conditions)

    def __str__(self) -> str:
        """Format the problem as BDDL, with one line per object, fact and condition.

        `parse_problem` reads it back.
        """
        goal = [str(formula) for formula in self.goal]
        if len(self.goal) == 1 and self.goal[0].op == "and":
            goal = ["(and", *(f"    {part}" for part in self.goal[0].parts), ")"]
        sections = {
            "objects": [f"{obj.name} - {obj.type}" for obj in self.objects],
            "init": [str(fact).replace("?", "") for fact in self.init],
            "goal": goal,
        }
        lines = [f"(define (problem {self.name})", f"    (:domain {self.domain})"]
        for title, section in sections.items():
            lines.append(f"    (:{title}")
            lines += [f"        {line}" for line in section]
            lines.append("    )")
        lines.append(")\n")
        return "\n".join(lines)


def predicates_text() -> str:
    """List the predicates with their arguments."""
    return ", ".join(
        f"({name} {' '.join(predicate.arguments)})" for name, predicate in PREDICATES.items()
    )


def is_known(atom: Formula) -> bool:
    """Check that an atom's predicate exists and has the right number of arguments."""
    predicate = PREDICATES.get(atom.op)
    return predicate is not None and len(predicate.arguments) == len(atom.arguments)


def literals_of(
    formula: Formula, *, asked: bool = True, bound: Bound = _NONE
) -> Iterator[tuple[Formula, bool, Bound]]:
    """Yield the atoms of a condition, in order.

    Yields:
        Each atom, True if the condition asks for it or False if it asks for its negation, and the
        types of the variables bound around it.
    """
    bound = {**bound, **{variable.name: variable.type for variable in formula.variables}}
    if formula.is_atom:
        yield formula, asked, bound
    for index, part in enumerate(formula.parts):
        is_negated = formula.op == "not" or (formula.op == "imply" and index == 0)
        yield from literals_of(part, asked=asked != is_negated, bound=bound)


def read_problem(path: Path) -> Problem:
    """Read an activity's file.

    Raises:
        LmmsEgoplanError: The file cannot be read, or is not valid BDDL.
    """
    return parse_problem(read_text(path), str(path))


def parse_problem(text: str, where: str) -> Problem:
    """Parse an activity.

    As in BDDL's implementation, comments (``;``) are ignored and letters become lower case.
    Undeclared names and unknown predicates are accepted.

    Args:
        text: The activity in BDDL.
        where: Name of the file.

    Raises:
        LmmsEgoplanError: The text is not valid BDDL; the error names the line, the expected form
            and the actual text.

    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01) "
    ...     "(:init (dusty cup.n.01_1)) (:goal (not (dusty ?cup.n.01_1))))",
    ...     "problem0.bddl",
    ... )
    >>> problem.objects[0].type, str(problem.goal[0])
    ('cup.n.01', '(not (dusty ?cup.n.01_1))')
    """
    return _Reader(where).problem(text)


def grounded(problem: Problem) -> list[Formula]:
    """Return the goal's conditions in order, with each ``forall`` expanded.

    A ``forall`` becomes one condition per object. Each part of ``and`` and ``forall`` is a separate
    condition, without duplicates. Other operators are not split.

    >>> text = '''(define (problem tea_0) (:domain igibson)
    ...     (:objects cup.n.01_1 cup.n.01_2 - cup.n.01 box.n.01_1 - box.n.01)
    ...     (:init) (:goal (and (open ?box.n.01_1)
    ...         (forall (?cup.n.01 - cup.n.01) (inside ?cup.n.01 ?box.n.01_1)))))'''
    >>> [str(condition) for condition in grounded(parse_problem(text, "problem0.bddl"))]
    ['(open ?box.n.01_1)', '(inside ?cup.n.01_1 ?box.n.01_1)', '(inside ?cup.n.01_2 ?box.n.01_1)']
    """
    conditions = (part for formula in problem.goal for part in _ground(problem, formula, {}))
    return [_substitute(formula, dict(bound)) for formula, bound in dict.fromkeys(conditions)]


def holds(problem: Problem, formula: Formula, facts: Facts, bound: Bound = _NONE) -> bool:
    """Return True if a condition holds, as in BDDL's implementation.

    `Formula` defines each operator.

    Args:
        bound: Objects of the variables bound around the condition.
    """
    if formula.is_atom:
        return facts(formula.op, tuple(bound.get(name, name) for name in formula.arguments))
    if formula.op in _PAIRED:
        with_partner, required = _pairs(problem, formula, facts, bound)
        return all(count >= required for count in with_partner)
    results = (
        holds(problem, part, facts, inner) for part, inner in _parts(problem, formula, bound)
    )
    if formula.op in ("not", "imply"):
        # The first part does not hold, or the second one, if there is one, does.
        return not next(results) or any(results)
    if formula.op == "forn":
        return sum(results) == formula.number
    return all(results) if formula.op in _OF_ALL else any(results)


def _ground(
    problem: Problem, formula: Formula, bound: Bound
) -> Iterator[tuple[Formula, tuple[tuple[str, str], ...]]]:
    """Yield conditions, each with the objects of its variables."""
    if formula.op in _OF_ALL:
        for part, inner in _parts(problem, formula, bound):
            yield from _ground(problem, part, inner)
    else:
        used = {name for atom, _, _ in literals_of(formula) for name in atom.arguments}
        yield formula, tuple((name, obj) for name, obj in bound.items() if name in used)


def _substitute(formula: Formula, bound: Bound) -> Formula:
    """Replace free variables of a formula by objects."""
    own_variables = {variable.name for variable in formula.variables}
    free = {name: obj for name, obj in bound.items() if name not in own_variables}
    return replace(
        formula,
        parts=tuple(_substitute(part, free) for part in formula.parts),
        arguments=tuple(bound.get(name, name) for name in formula.arguments),
    )


def _parts(problem: Problem, formula: Formula, bound: Bound) -> list[tuple[Formula, Bound]]:
    """Return the parts, each with the objects of its variables.

    A quantifier's part is returned once per object.
    """
    if not formula.variables:
        return [(part, bound) for part in formula.parts]
    (variable,) = formula.variables
    return [
        (formula.parts[0], {**bound, variable.name: name})
        for name in problem.of_type(variable.type)
    ]


def _pairs(
    problem: Problem, formula: Formula, facts: Facts, bound: Bound
) -> tuple[tuple[int, int], int]:
    """Return how many objects of each type have a partner, and how many must have one."""
    first, second = formula.variables
    first_objects = problem.of_type(first.type)
    second_objects = problem.of_type(second.type)
    firsts: set[str] = set()
    seconds: set[str] = set()
    for left, right in product(first_objects, second_objects):
        objects = {**bound, first.name: left, second.name: right}
        if left != right and holds(problem, formula.parts[0], facts, objects):
            firsts.add(left)
            seconds.add(right)
    if formula.op == "fornpairs":
        required = formula.number
    else:
        required = min(len(first_objects), len(second_objects))
    return (len(firsts), len(seconds)), required


@dataclass(frozen=True)
class _Node:
    """A word or a parenthesised list, with its line number from 1."""

    line: int
    word: str = ""
    items: tuple["_Node", ...] = ()

    @property
    def head(self) -> str:
        return self.items[0].word if self.items else ""

    def __str__(self) -> str:
        return self.word or f"({' '.join(map(str, self.items))})"


class _Reader:
    """Reads the text of a problem; errors name the file and the line."""

    def __init__(self, where: str) -> None:
        self._where = where

    def problem(self, text: str) -> Problem:
        define = self._tree(text)
        if define.head != "define" or len(define.items) < 2:
            self._fail(define, "(define (problem NAME) ...)")
        heading, *section_nodes = define.items[1:]
        name = self._read_name(heading, "problem")
        sections: dict[str, _Node] = {}
        for section in section_nodes:
            if section.head in sections:
                self._fail(section, f"one of {_SECTION_FORMS}, each once")
            if section.head not in _SECTIONS:
                self._fail(section, f"one of {_SECTION_FORMS}")
            sections[section.head] = section
        for section_name in _SECTIONS:
            if section_name not in sections:
                self._fail(define, f"a section ({section_name} ...)")
        goal = sections[":goal"]
        if len(goal.items) < 2:
            self._fail(goal, "(:goal CONDITION)")
        return Problem(
            name=name,
            domain=self._read_name(sections[":domain"], ":domain"),
            objects=self._objects(sections[":objects"]),
            init=tuple(self._fact(node) for node in sections[":init"].items[1:]),
            goal=tuple(self._condition(node) for node in goal.items[1:]),
        )

    def _read_name(self, node: _Node, head: str) -> str:
        if node.head != head or len(node.items) != 2:
            self._fail(node, f"({head} NAME)")
        return self._word(node.items[1], f"the {head.removeprefix(':')}'s name")

    def _tree(self, text: str) -> _Node:
        """Return the single list in the text."""
        # The open lists, outermost first, each with its first line.
        lists: list[tuple[int, list[_Node]]] = [(0, [])]
        line = 1
        position = 0
        for token in _TOKEN.finditer(text):
            line += text.count("\n", position, token.start())
            position = token.start()
            word = token[0].lower()
            if word.startswith(";"):
                continue
            if word == "(":
                lists.append((line, []))
                if len(lists) > _DEEPEST:
                    self._refuse(line, f"at most {_DEEPEST} nested parentheses")
            elif word != ")":
                lists[-1][1].append(_Node(line, word))
            elif len(lists) == 1:
                self._refuse(line, "no ')' here, since no '(' is open")
            else:
                start, items = lists.pop()
                lists[-1][1].append(_Node(start, items=tuple(items)))
        if len(lists) > 1:
            self._refuse(lists[-1][0], "a ')' for the '(' on this line, found the end of the file")
        if len(lists[0][1]) != 1:
            node = lists[0][1][1] if lists[0][1] else _Node(line, "nothing")
            self._fail(node, "one (define ...) in the file")
        return lists[0][1][0]

    def _objects(self, section: _Node) -> tuple[Object, ...]:
        objects: list[Object] = []
        untyped_names: list[str] = []
        nodes = iter(section.items[1:])
        for node in nodes:
            if self._word(node, "an object's name") != "-":
                untyped_names.append(node.word)
                continue
            type_node = next(nodes, None)
            if type_node is None or not untyped_names:
                self._fail(node, "names, '-' and their type")
            type_name = self._word(type_node, "a type")
            objects += [Object(name, type_name) for name in untyped_names]
            untyped_names = []
        if untyped_names:
            self._fail(section.items[-1], "'-' and a type after the objects' names")
        return tuple(objects)

    def _fact(self, node: _Node) -> Formula:
        fact = self._condition(node)
        inner = fact.parts[0] if fact.op == "not" else fact
        if not inner.is_atom:
            self._fail(node, "a fact, or (not FACT)")
        return fact

    def _condition(self, node: _Node) -> Formula:
        head = node.head
        if not head:
            forms = ", ".join(operator.form for operator in _OPERATORS.values())
            self._fail(node, f"(PREDICATE NAME ...) or {forms}")
        if head not in _OPERATORS:
            names = (self._word(item, "a name").removeprefix("?") for item in node.items[1:])
            return Formula(head, arguments=tuple(names), line=node.line)
        return self._combination(node, _OPERATORS[head])

    def _combination(self, node: _Node, operator: _Operator) -> Formula:
        """Read a condition that combines others: a number, variables and parts."""
        items = list(node.items[1:])
        first_variable = 1 if operator.has_number else 0
        first_part = first_variable + operator.variables
        if not items:
            self._fail(node, operator.form)
        if operator.parts is not None and len(items) != first_part + operator.parts:
            self._fail(node, operator.form)
        return Formula(
            node.head,
            number=self._number(items[0]) if operator.has_number else 0,
            variables=tuple(self._variable(item) for item in items[first_variable:first_part]),
            parts=tuple(self._condition(item) for item in items[first_part:]),
        )

    def _variable(self, node: _Node) -> Variable:
        words = re.fullmatch(r"\(\?([^ ()]+) - ([^ ()]+)\)", str(node))
        if words is None:
            self._fail(node, "(?NAME - TYPE)")
        return Variable(words[1], words[2])

    def _number(self, node: _Node) -> int:
        number = re.fullmatch(r"\(([0-9]{1,4})\)", str(node))
        if number is None:
            self._fail(node, "(NUMBER)")
        return int(number[1])

    def _word(self, node: _Node, expected: str) -> str:
        if node.word in ("", "?"):
            self._fail(node, expected)
        return node.word

    def _fail(self, node: _Node, expected: str) -> NoReturn:
        self._refuse(node.line, f"{expected}, found {quoted(str(node))}")

    def _refuse(self, line: int, expected: str) -> NoReturn:
        raise LmmsEgoplanError(f"{self._where}:{line}: expected {expected}")
