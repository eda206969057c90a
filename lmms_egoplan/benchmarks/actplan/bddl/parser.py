"""BDDL's grammar: a file of an activity read into a `Problem`, or one error that names the line."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Compound, Formula, Object, Problem, Variable
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_text
from lmms_egoplan.validation import shown

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
