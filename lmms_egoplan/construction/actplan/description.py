"""Check that an English description of an activity names every object (sec. 3.2)."""

import re
from collections.abc import Mapping, Sequence

from lmms_egoplan.construction.actplan.bddl import Problem, literals_of
from lmms_egoplan.construction.actplan.type_names import lemma_of, names_of_type, singulars

# Descriptions do not name the agent (the release's prompts address the reader).
_AGENT = "agent"
# A name does not extend over the end of a sentence.
_END = re.compile(r"[.!?;](?=\s|$)|\n")
_WORD = re.compile(r"[a-z]+|[0-9]+|,")


def unnamed_objects(problem: Problem, text: str) -> list[str]:
    """Find the types of objects that a text does not name.

    A type is named if the text contains all its words, its last word, or a synonym from
    `names_of_type`, in singular or plural. Examples for ``electric_refrigerator.n.01``:
    "electric refrigerator", "refrigerators".

    Args:
        problem: The activity.
        text: The text without the instruction, whose words might name a type by chance.

    Returns:
        Types, such as ``countertop.n.01``, in the problem's order. Excluded are types whose only
        facts are the room and the agent's location: no other initial fact and no goal condition
        mentions them.

    >>> from lmms_egoplan.construction.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson)"
    ...     "(:objects cup.n.01_1 - cup.n.01 table.n.02_1 - table.n.02)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (ontop ?cup.n.01_1 ?table.n.02_1)))",
    ...     "problem0.bddl",
    ... )
    >>> unnamed_objects(problem, "The cup is dusty. Put the cup on the desk.")
    ['table.n.02']
    """
    sentences = [_WORD.findall(sentence) for sentence in _END.split(text.lower())]
    involved = _involved(problem)
    types = dict.fromkeys(obj.type for obj in problem.objects if lemma_of(obj.type) != _AGENT)
    unnamed = []
    for type_name in types:
        is_named = any(_is_named(type_name, words) for words in sentences)
        if type_name in involved and not is_named:
            unnamed.append(type_name)
    return unnamed


def _involved(problem: Problem) -> set[str]:
    """Return the types in the goal, or in an initial fact about neither room nor agent."""
    involved: set[str] = set()
    for fact in problem.init:
        for atom, _, _ in literals_of(fact):
            has_agent = any(lemma_of(name) == _AGENT for name in atom.arguments)
            if atom.op != "inroom" and not has_agent:
                involved |= _types_of(atom.arguments, problem.types)
    for formula in problem.goal:
        for atom, _, bound in literals_of(formula):
            types = {**problem.types, **bound}
            involved |= _types_of(atom.arguments, types)
    return involved


def _types_of(names: Sequence[str], types: Mapping[str, str]) -> set[str]:
    return {types[name] for name in names if name in types}


def _is_named(type_name: str, words: Sequence[str]) -> bool:
    """Return True if a sentence contains one of a type's names.

    The words of a name may also be joined into one, or one of them be split in two.
    """
    names = names_of_type(type_name)
    joined_name = lemma_of(type_name).replace("_", "")
    for start in range(len(words)):
        for name in names:
            if _matches_all(name, words[start : start + len(name)]):
                return True
        if _matches(joined_name, "".join(words[start : start + 2])):
            return True
    return False


def _matches_all(names: Sequence[str], words: Sequence[str]) -> bool:
    if len(names) != len(words):
        return False
    return all(_matches(name, word) for name, word in zip(names, words, strict=True))


def _matches(name: str, word: str) -> bool:
    return word == name or name in singulars(word)
