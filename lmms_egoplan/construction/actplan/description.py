"""Check that an English description of an activity names every object and goal condition of its problem (sec. 3.2)."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, TypeAlias

from lmms_egoplan.benchmarks.actplan.bddl import Formula, Problem, literals_of
from lmms_egoplan.benchmarks.actplan.steps import lemma_of, names_of_type, singulars
from lmms_egoplan.paths import yaml_beside

_DATA: dict[str, Any] = yaml_beside(__file__)
# Who acts is not told (the release's prompts address the reader).
_AGENT = "agent"
_WORDS = {group: frozenset(words) for group, words in _DATA["words"].items()}
_NUMERALS = {word: number for number, word in enumerate(_DATA["numerals"])}
# A sentence's end. A longer sentence is a list of words; the longest released one has 71 words.
_END, _LONGEST = re.compile(r"[.!?;](?=\s|$)|\n"), 80
# How far before a noun its article or numeral is, in words.
_BEFORE = 16


class _Place(NamedTuple):
    """Where a sentence names a type: first word, word after the last, and whether in the plural."""

    start: int
    end: int
    is_plural: bool


_Places: TypeAlias = Sequence[_Place]


class Unnamed(NamedTuple):
    """What a text does not name.

    objects: types of objects, as ``countertop.n.01``, in the problem's order; without those that are only said to be in
        a room, or to be where the agent is: no other initial fact and no goal condition has them.
    conditions: facts that the goal asks for or excludes, as ``(not (dusty ?car.n.01_1))``, in the goal's order; each
        tells what of it is absent.
    """

    objects: tuple[str, ...]
    conditions: tuple[str, ...]

    def __bool__(self) -> bool:
        return any(map(len, self))


def unnamed(problem: Problem, text: str) -> Unnamed:
    """Find the objects and goal conditions that a text does not name.

    A type counts as named where its words stand in the text, or the last of them, in singular or plural
    (``electric_refrigerator.n.01``: "electric refrigerator", "refrigerators"), or a word that ``description.yaml`` has
    for it. A condition counts as named if one sentence has its types, how many of their objects it is about, and a word
    for its predicate. In a text with a list of words in place of a sentence, none does. The check does not find that a
    sentence mixes up which of its objects a predicate is about.

    Args:
        text: without the instruction, whose words may happen to name a type or a predicate.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
    >>> problem = parse_problem(
    ...     "(define (problem tea_0) (:domain igibson) (:objects cup.n.01_1 - cup.n.01 table.n.02_1 - table.n.02)"
    ...     "(:init (dusty cup.n.01_1)) (:goal (and (ontop ?cup.n.01_1 ?table.n.02_1) (not (dusty ?cup.n.01_1)))))",
    ...     "problem0.bddl",
    ... )
    >>> unnamed(problem, "The cup is dusty. Wipe the cup and put it on the desk.")
    Unnamed(objects=('table.n.02',), conditions=('(ontop ?cup.n.01_1 ?table.n.02_1): table',))
    """
    kinds = dict.fromkeys(thing.type for thing in problem.objects if lemma_of(thing.type) != _AGENT)
    parts = (re.findall("[a-z]+|[0-9]+|,", part) for part in _END.split(text.lower()))
    sentences = [(words, {kind: list(_places(kind, words)) for kind in kinds}) for words in parts]
    absent = [kind for kind in kinds if not any(places[kind] for _, places in sentences)]
    readable = [([], {})] if any(_is_list(words) for words, _ in sentences) else sentences
    conditions = dict.fromkeys(
        f"{atom if asked else f'(not {atom})'}: {', '.join(lacking)}"
        for atom, asked, numbers in _literals(problem)
        if (lacking := min((_lacking(atom, numbers, *sentence, asked=asked) for sentence in readable), key=len))
    )
    involved = _involved(problem)
    return Unnamed(tuple(kind for kind in absent if kind in involved), tuple(conditions))


def _involved(problem: Problem) -> set[str]:
    """Return the types that an initial fact or the goal says more of than the room, or that the agent is there."""
    types = problem.types
    facts = [atom for fact in problem.init for atom, _, _ in literals_of(fact) if atom.op != "inroom"]
    alone = [atom.arguments for atom in facts if not any(lemma_of(name) == _AGENT for name in atom.arguments)]
    wanted = (({**types, **bound}, atom) for formula in problem.goal for atom, _, bound in literals_of(formula))
    goal = {kinds[name] for kinds, atom in wanted for name in atom.arguments if name in kinds}
    return goal | {types[name] for names in alone for name in names if name in types}


def _literals(problem: Problem) -> Iterator[tuple[Formula, bool, dict[str, tuple[int, int]]]]:
    """Yield the goal's atoms, each with the types that it is about: how many objects of each, and of how many.

    Atoms that differ in their objects alone are about all of these.
    """
    types = {thing.name: thing.type for thing in problem.objects if lemma_of(thing.type) != _AGENT}
    groups: dict[tuple[Any, ...], dict[str, tuple[str, int]]] = defaultdict(dict)
    atoms = []
    for condition in problem.conditions:
        counts = _counts(problem, condition)
        for atom, asked, bound in literals_of(condition):
            kinds = types | dict(bound)
            group = groups[atom.op, asked, tuple(map(kinds.get, atom.arguments))]
            group.update((name, (kinds[name], counts.get(name, 1))) for name in atom.arguments if name in kinds)
            atoms.append((atom, asked, group))
    for atom, asked, group in atoms:
        numbers = Counter(kind for kind, count in group.values() for _ in range(count))
        yield atom, asked, {kind: (number, len(problem.of_type(kind))) for kind, number in numbers.items()}


def _counts(problem: Problem, formula: Formula) -> dict[str, int]:
    """Return how many objects each variable of a condition is about."""
    totals = (len(problem.of_type(variable.type)) for variable in formula.variables)
    number = 1 if formula.op == "exists" else formula.number or min(totals, default=0)
    own = {variable.name: number for variable in formula.variables}
    return own | {name: inner for part in formula.parts for name, inner in _counts(problem, part).items()}


def _lacking(
    atom: Formula,
    numbers: Mapping[str, tuple[int, int]],
    words: Sequence[str],
    places: Mapping[str, _Places],
    *,
    asked: bool,
) -> list[str]:
    """Return what a sentence lacks of a condition: names of types, their numbers, and the predicate."""
    lacking = []
    for kind, (number, total) in numbers.items():
        if not any(_is_numbered(words, place, number, total) for place in places.get(kind, ())):
            lacking.append(f"number of {lemma_of(kind)} ({number})" if places.get(kind) else lemma_of(kind))
    # Words of objects' names are not predicates, as in "scrub brush".
    named = {at for of_kind in places.values() for place in of_kind for at in range(place.start, place.end)}
    other_words = [word for at, word in enumerate(words) if at not in named]
    if not _is_stated(atom.op, other_words, asked=asked):
        lacking.append(atom.op if asked else f"not {atom.op}")
    return lacking


def _is_stated(predicate: str, words: Sequence[str], *, asked: bool) -> bool:
    """Check that words have a predicate; if its contrary is asked for, a word for that, or a negation too."""
    vocabulary = _DATA["predicates"].get(predicate, {"asked": [predicate]})
    own = [place for place, word in enumerate(words) if any(_matches(one, word) for one in vocabulary["asked"])]
    if asked:
        return any(_WORDS["not"].isdisjoint(words[max(0, place - 2) : place]) for place in own)
    contrary = {*vocabulary.get("contrary", ())} - {*vocabulary["asked"]} | (_WORDS["negations"] if own else set())
    return any(_matches(pattern, word) for pattern in contrary for word in words)


def _is_numbered(words: Sequence[str], place: _Place, number: int, total: int) -> bool:
    """Check that the words around a noun give the number of its things, `number` of `total`.

    A numeral before the noun must be that number, unless a word such as "each" spreads it. Without a numeral, a plural
    means several, and a singular needs an article, its own or that of the list that it is in.
    """
    start = max(0, place.start - _BEFORE)
    before = list(takewhile(lambda word: word not in _WORDS["breaks"], words[start : place.start][::-1]))
    own = takewhile(lambda word: word not in _WORDS["joints"], before)
    numerals = {int(word) if word.isdecimal() else _NUMERALS.get(word) for word in own} - {None}
    after = words[place.end : place.end + 1]
    around = {*before, *after}
    is_spread = not _WORDS["spread"].isdisjoint(words)
    if numerals:
        return number in numerals or is_spread
    if not _WORDS["labels"].isdisjoint(around) or "".join(after).strip("0").isdecimal():
        return True
    is_all = not _WORDS["all"].isdisjoint(around)
    fits = total == 1 or number > 1 if place.is_plural else number == 1 or is_spread or is_all
    return fits and not _WORDS["articles"].isdisjoint(around)


def _is_list(words: Sequence[str]) -> bool:
    """Distinguish a list of words from a sentence, by its length and by the words after its articles."""
    follow = {after for word, after in pairwise([*words, ""]) if word in ("the", "a", "an")}
    return len(words) > _LONGEST or not follow.isdisjoint(_WORDS["no_nouns"])


def _matches(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else pattern in singulars(word) | {word}


def _places(kind: str, words: Sequence[str]) -> Iterator[_Place]:
    """Yield the places of a type's name, of its last word, or of all its words as one."""
    joined = lemma_of(kind).replace("_", "")
    for start in range(len(words)):
        for parts in names_of_type(kind):
            found = words[start : start + len(parts)]
            if len(found) == len(parts) and all(map(_matches, parts, found)):
                yield _Place(start, start + len(parts), found[-1] != parts[-1])
        if _matches(joined, pair := "".join(words[start : start + 2])):
            yield _Place(start, start + 2, pair != joined)
