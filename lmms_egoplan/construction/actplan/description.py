"""Check an English description of an activity against its problem (sec. 3.2).

It must name every object and goal condition.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

from lmms_egoplan.construction.actplan.bddl import Formula, Problem, literals_of
from lmms_egoplan.construction.actplan.type_names import lemma_of, names_of_type, singulars
from lmms_egoplan.paths import module_yaml

_DATA: dict[str, Any] = module_yaml(__file__)
# Descriptions do not name the agent (the release's prompts address the reader).
_AGENT = "agent"
_WORDS = {group: frozenset(words) for group, words in _DATA["words"].items()}
_NUMERALS = {word: number for number, word in enumerate(_DATA["numerals"])}
# End of a sentence, and the most words of a sentence; anything longer is a list of words. The
# release's longest sentence has 71 words.
_END = re.compile(r"[.!?;](?=\s|$)|\n")
_LONGEST = 80
# Most words between a noun and its article or numeral.
_BEFORE = 16


@dataclass(frozen=True)
class _Span:
    """The position of a type's name in a sentence.

    Attributes:
        start: Index of its first word.
        end: Index after its last word.
        is_plural: True if the name is in the plural.
    """

    start: int
    end: int
    is_plural: bool


@dataclass(frozen=True)
class _Sentence:
    """The words of a sentence, and the positions of each type's names in it."""

    words: list[str]
    positions: dict[str, list[_Span]]


@dataclass(frozen=True)
class _Count:
    """The number of a type's objects that a condition is about, and of all its objects."""

    number: int
    total: int


@dataclass(frozen=True)
class _Literal:
    """An atom of the goal.

    Attributes:
        atom: The atom.
        asked: True if the goal asks for it, False if it asks for its negation.
        counts: The counts of its types. Atoms that differ only in their objects are counted
            together.
    """

    atom: Formula
    asked: bool
    counts: dict[str, _Count]


@dataclass(frozen=True)
class Unnamed:
    """Objects and conditions that a text does not name.

    objects: Types of objects, such as ``countertop.n.01``, in the problem's order. Excluded are
        types whose only facts are the room and the agent's location: no other initial fact and no
        goal condition mentions them.
    conditions: Facts that the goal requires or excludes, such as ``(not (dusty ?car.n.01_1))``, in
        the goal's order; each with its missing parts.
    """

    objects: tuple[str, ...]
    conditions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.objects or self.conditions)


def unnamed(problem: Problem, text: str) -> Unnamed:
    """Find the objects and goal conditions that a text does not name.

    A type is named if the text contains all its words, its last word, or a synonym from
    `names_of_type`, in singular or plural. Examples for ``electric_refrigerator.n.01``:
    "electric refrigerator", "refrigerators". A condition is named if one sentence contains its
    types, the numbers of their objects, and a word for its predicate. If the text contains a list
    of words instead of a sentence, no condition is named. The check cannot detect that a sentence
    applies a predicate to the wrong one of its objects.

    Args:
        problem: The activity.
        text: The text without the instruction, whose words might name a type or a predicate by
            chance.

    >>> from lmms_egoplan.construction.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson)"
    ...     "(:objects cup.n.01_1 - cup.n.01 table.n.02_1 - table.n.02)"
    ...     "(:init (dusty cup.n.01_1))"
    ...     "(:goal (and (ontop ?cup.n.01_1 ?table.n.02_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> unnamed(problem, "The cup is dusty. Wipe the cup and put it on the desk.")
    Unnamed(objects=('table.n.02',), conditions=('(ontop ?cup.n.01_1 ?table.n.02_1): table',))
    """
    types = dict.fromkeys(obj.type for obj in problem.objects if lemma_of(obj.type) != _AGENT)
    sentences = [_read_sentence(sentence, types) for sentence in _END.split(text.lower())]
    involved = _involved(problem)
    objects = []
    for type_name in types:
        is_named = any(sentence.positions[type_name] for sentence in sentences)
        if not is_named and type_name in involved:
            objects.append(type_name)
    if any(_is_list(sentence.words) for sentence in sentences):
        sentences = [_Sentence(words=[], positions={})]
    conditions: list[str] = []
    for literal in _literals(problem):
        missing = min((_missing(literal, sentence) for sentence in sentences), key=len)
        if missing:
            condition = str(literal.atom) if literal.asked else f"(not {literal.atom})"
            conditions.append(f"{condition}: {', '.join(missing)}")
    return Unnamed(objects=tuple(objects), conditions=tuple(dict.fromkeys(conditions)))


def _read_sentence(text: str, types: Iterable[str]) -> _Sentence:
    words = re.findall("[a-z]+|[0-9]+|,", text)
    positions = {type_name: _positions(type_name, words) for type_name in types}
    return _Sentence(words, positions)


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


def _literals(problem: Problem) -> list[_Literal]:
    """Return the atoms of the goal."""
    types = {obj.name: obj.type for obj in problem.objects if lemma_of(obj.type) != _AGENT}
    # For atoms of the same form, by the names of their arguments: type, and number of its objects.
    groups: dict[tuple[Any, ...], dict[str, tuple[str, int]]] = {}
    atoms = []
    for condition in problem.conditions:
        sizes = _sizes(problem, condition)
        for atom, asked, bound in literals_of(condition):
            type_by_name = {**types, **bound}
            argument_types = tuple(type_by_name.get(name) for name in atom.arguments)
            group = groups.setdefault((atom.op, asked, argument_types), {})
            for name in atom.arguments:
                if name in type_by_name:
                    group[name] = (type_by_name[name], sizes.get(name, 1))
            atoms.append((atom, asked, group))
    # The groups are complete only now.
    return [_Literal(atom, asked, _counts(problem, group.values())) for atom, asked, group in atoms]


def _counts(problem: Problem, arguments: Iterable[tuple[str, int]]) -> dict[str, _Count]:
    """Add the numbers of objects of each type.

    Args:
        problem: The activity.
        arguments: Type and number of objects for each argument.
    """
    numbers: dict[str, int] = {}
    for type_name, number in arguments:
        if number > 0:
            numbers[type_name] = numbers.get(type_name, 0) + number
    counts = {}
    for type_name, number in numbers.items():
        counts[type_name] = _Count(number, total=len(problem.of_type(type_name)))
    return counts


def _sizes(problem: Problem, formula: Formula) -> dict[str, int]:
    """Return the number of objects that each variable of a condition refers to."""
    if formula.op == "exists":
        size = 1
    elif formula.number:
        size = formula.number
    else:
        totals = [len(problem.of_type(variable.type)) for variable in formula.variables]
        size = min(totals, default=0)
    sizes = {variable.name: size for variable in formula.variables}
    for part in formula.parts:
        sizes |= _sizes(problem, part)
    return sizes


def _missing(literal: _Literal, sentence: _Sentence) -> list[str]:
    """List the parts of a condition that a sentence lacks.

    These are names of types, their numbers, and the predicate.
    """
    missing = []
    for type_name, count in literal.counts.items():
        lemma = lemma_of(type_name)
        spans = sentence.positions.get(type_name)
        if not spans:
            missing.append(lemma)
        elif not any(_is_numbered(sentence.words, span, count) for span in spans):
            missing.append(f"number of {lemma} ({count.number})")
    predicate = literal.atom.op
    if not _is_stated(predicate, _words_outside_names(sentence), asked=literal.asked):
        missing.append(predicate if literal.asked else f"not {predicate}")
    return missing


def _words_outside_names(sentence: _Sentence) -> list[str]:
    """Return the words that may be predicates. Words in names are not, as in "scrub brush"."""
    name_indices: set[int] = set()
    for spans in sentence.positions.values():
        for span in spans:
            name_indices.update(range(span.start, span.end))
    return [word for index, word in enumerate(sentence.words) if index not in name_indices]


def _is_stated(predicate: str, words: Sequence[str], *, asked: bool) -> bool:
    """Return True if words state a predicate.

    For a negated condition, they may state its contrary or a negation.
    """
    vocabulary = _DATA["predicates"].get(predicate, {"asked": [predicate]})
    patterns = vocabulary["asked"]
    indices = [index for index, word in enumerate(words) if _matches_any(patterns, word)]
    if asked:
        return any(not _is_negated(words, index) for index in indices)
    contrary = set(vocabulary.get("contrary", ())) - set(patterns)
    if indices:
        contrary |= _WORDS["negations"]
    return any(_matches_any(contrary, word) for word in words)


def _is_negated(words: Sequence[str], index: int) -> bool:
    """Return True if one of the two words before a word negates it."""
    two_before = words[max(0, index - 2) : index]
    return not _WORDS["not"].isdisjoint(two_before)


def _matches_any(patterns: Iterable[str], word: str) -> bool:
    return any(_matches(pattern, word) for pattern in patterns)


def _is_numbered(words: Sequence[str], noun: _Span, count: _Count) -> bool:
    """Return True if the words around a noun state the number of its objects.

    A numeral before the noun must be that number, unless a word such as "each" applies it to
    several objects. Without a numeral, a plural means several. A singular needs an article, which
    may belong to the list that contains the noun.
    """
    start = max(0, noun.start - _BEFORE)
    nearest_first = words[start : noun.start][::-1]
    before = _until(_WORDS["breaks"], nearest_first)
    after = words[noun.end : noun.end + 1]
    around = {*before, *after}
    is_spread = not _WORDS["spread"].isdisjoint(words)
    numerals = _numerals(_until(_WORDS["joints"], before))
    if numerals:
        return is_spread or count.number in numerals
    is_labelled = not _WORDS["labels"].isdisjoint(around)
    is_followed_by_number = "".join(after).strip("0").isdecimal()
    if is_labelled or is_followed_by_number:
        return True
    if _WORDS["articles"].isdisjoint(around):
        return False
    if noun.is_plural:
        return count.number > 1 or count.total == 1
    is_all = not _WORDS["all"].isdisjoint(around)
    return count.number == 1 or is_spread or is_all


def _until(stops: Collection[str], words: Iterable[str]) -> list[str]:
    """Return the words before the first one of `stops`."""
    return list(takewhile(lambda word: word not in stops, words))


def _numerals(words: Iterable[str]) -> set[int]:
    """Return the numbers among words, in digits or spelled out."""
    numerals = set()
    for word in words:
        if word.isdecimal():
            numerals.add(int(word))
        elif word in _NUMERALS:
            numerals.add(_NUMERALS[word])
    return numerals


def _is_list(words: Sequence[str]) -> bool:
    """Return True for a list of words instead of a sentence.

    Its length and the words after articles decide.
    """
    if len(words) > _LONGEST:
        return True
    # The end of the sentence is "".
    pairs = pairwise([*words, ""])
    after_articles = [after for word, after in pairs if word in ("the", "a", "an")]
    return not _WORDS["no_nouns"].isdisjoint(after_articles)


def _matches(pattern: str, word: str) -> bool:
    if pattern.endswith("*"):
        return word.startswith(pattern[:-1])
    return word == pattern or pattern in singulars(word)


def _matches_all(patterns: Sequence[str], words: Sequence[str]) -> bool:
    if len(patterns) != len(words):
        return False
    return all(_matches(pattern, word) for pattern, word in zip(patterns, words, strict=True))


def _positions(type_name: str, words: Sequence[str]) -> list[_Span]:
    """Return the positions of a type's name in a sentence.

    The name may also be its last word, or all its words joined into one.
    """
    names = names_of_type(type_name)
    joined_name = lemma_of(type_name).replace("_", "")
    spans = []
    for start in range(len(words)):
        for name in names:
            end = start + len(name)
            if _matches_all(name, words[start:end]):
                is_plural = words[end - 1] != name[-1]
                spans.append(_Span(start, end, is_plural))
        joined_pair = "".join(words[start : start + 2])
        if _matches(joined_name, joined_pair):
            spans.append(_Span(start, start + 2, is_plural=joined_pair != joined_name))
    return spans
