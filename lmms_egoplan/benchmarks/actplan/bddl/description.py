"""Whether an English description of an activity names every object and goal condition of its problem (sec. 3.2)."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from lmms_egoplan.benchmarks.actplan.bddl.problems import Atom, Problem, literals_of
from lmms_egoplan.paths import yaml_beside

_DATA: dict[str, Any] = yaml_beside(__file__)
# Who acts is not told (the release's prompts address the reader).
_AGENT = "agent"
# Endings of the plural and what they stand for.
_PLURALS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))


@dataclass(frozen=True)
class Unnamed:
    """What a text does not name.

    objects: types of objects, as ``countertop.n.01``, in the problem's order; without the scenery.
    scenery: those of them that are only said to be in a room, or to be where the agent is: no other initial fact and no
        goal condition has them. A text without these is complete: `bool` does not see them.
    conditions: facts that the goal asks for or excludes, as ``(not (dusty ?car.n.01_1))``, in the goal's order; each
        tells what of it is absent.
    """

    objects: tuple[str, ...]
    scenery: tuple[str, ...]
    conditions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.objects or self.conditions)


def unnamed(problem: Problem, text: str) -> Unnamed:
    """The objects and goal conditions that a text does not name.

    A type counts as named where its words stand in the text, or the last of them, in singular or plural
    (``electric_refrigerator.n.01``: "electric refrigerator", "refrigerators"), or a word that ``description.yaml`` has
    for it. A condition counts as named where the types of its objects are, and a word for its predicate stands anywhere
    in the text. So the check finds what was left out; it does not find a condition told wrongly, nor a wrong number.

    Args:
        text: whole, with the instruction; that one is no matter, but for words that happen to be a type's.

    >>> from lmms_egoplan.benchmarks.actplan.bddl.parser import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01 table.n.02_1 - table.n.02)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (and (ontop ?cup.n.01_1 ?table.n.02_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> unnamed(problem, "The cups are dusty. Put them on the desk.")
    Unnamed(objects=('table.n.02',), scenery=(), conditions=('(ontop ?cup.n.01_1 ?table.n.02_1): table',))
    """
    words = re.findall(r"[a-z]+", text.lower())
    forms = [singulars(word) | {word} for word in words]
    kinds = dict.fromkeys(thing.type for thing in problem.objects if _name(thing.type) != _AGENT)
    named = {kind for kind in kinds if _is_named(_name(kind), words, forms)}
    types = {thing.name: thing.type for thing in problem.objects}
    conditions = dict.fromkeys(
        f"{atom if asked else f'(not {atom})'}: {', '.join(absent)}"
        for goal in problem.goal
        for atom, asked, bound in literals_of(goal)
        if (absent := _absent(atom, asked, {**types, **bound}, named, words, forms))
    )
    involved = _involved(problem)
    absent = [kind for kind in kinds if kind not in named]
    return Unnamed(
        tuple(kind for kind in absent if kind in involved),
        tuple(kind for kind in absent if kind not in involved),
        tuple(conditions),
    )


def _involved(problem: Problem) -> set[str]:
    """The types that an initial fact or the goal says more of than the room, or that the agent is there."""
    types = {thing.name: thing.type for thing in problem.objects}
    facts = [atom for fact in problem.init for atom, _, _ in literals_of(fact) if atom.predicate != "inroom"]
    names = {
        name for atom in facts if not any(_name(part) == _AGENT for part in atom.arguments) for name in atom.arguments
    }
    goal = [(atom, bound) for formula in problem.goal for atom, _, bound in literals_of(formula)]
    wanted = {{**types, **bound}.get(name, "") for atom, bound in goal for name in atom.arguments}
    return wanted | {types[name] for name in names & types.keys()}


def _absent(
    atom: Atom,
    asked: bool,
    types: dict[str, str],
    named: Collection[str],
    words: Sequence[str],
    forms: Sequence[set[str]],
) -> list[str]:
    """What a text lacks of a condition: names of types, and of the predicate."""
    kinds = dict.fromkeys(types[name] for name in atom.arguments if name in types)
    absent = [_name(kind) for kind in kinds if kind not in named and _name(kind) != _AGENT]
    vocabulary = _DATA["predicates"].get(atom.predicate, {"asked": [atom.predicate]})
    wanted = vocabulary["asked"] if asked else vocabulary.get("contrary", vocabulary["asked"])
    is_told = any(_matches(pattern, word, form) for pattern in wanted for word, form in zip(words, forms, strict=True))
    return absent if is_told else [*absent, atom.predicate if asked else f"not {atom.predicate}"]


def _matches(pattern: str, word: str, forms: set[str]) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in forms


def _is_named(name: str, words: Sequence[str], forms: Sequence[set[str]]) -> bool:
    """Whether one of a type's names, its last word, or all its words as one, stands in a text."""
    joined = {word + last for word, after in zip(words, forms[1:], strict=False) for last in after}
    return name.replace("_", "") in joined or any(
        all(word in form for word, form in zip(parts, forms[start:], strict=False))
        for parts in names_of_type(name)
        for start in range(len(forms) - len(parts) + 1)
    )


def names_of_type(kind: str) -> list[tuple[str, ...]]:
    """The words of a type, its last word alone, and the everyday words of ``description.yaml``.

    >>> names_of_type("gym_shoe.n.01")
    [('gym', 'shoe'), ('shoe',), ('sneaker',)]
    """
    own = tuple(_name(kind).split("_"))
    names = [own, own[-1:], *(tuple(other.split()) for other in _DATA["types"].get(_name(kind), []))]
    return list(dict.fromkeys(names))


def _name(kind: str) -> str:
    """A synset's lemma."""
    return kind.partition(".")[0]


def singulars(word: str) -> set[str]:
    """What an English word may be the plural of; nothing for one without an ending of plurals."""
    return {word.removesuffix(end) + single for end, single in _PLURALS if word.endswith(end)}
