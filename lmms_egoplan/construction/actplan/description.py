"""Check an English description of an activity against its problem (sec. 3.2).

It must name every object and goal condition.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, TypeAlias

from lmms_egoplan.benchmarks.actplan.bddl import Formula, Problem, literals_of
from lmms_egoplan.benchmarks.actplan.steps import lemma_of, names_of_type, singulars
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


class _Sentence(NamedTuple):
    """The words of a sentence, and the positions of each type's names in it."""

    words: list[str]
    positions: dict[str, list["_Span"]]


class _Span(NamedTuple):
    """The position of a type's name in a sentence.

    Index of the first word, index after the last, and its number.
    """

    start: int
    end: int
    is_plural: bool


_Positions: TypeAlias = Sequence[_Span]


class Unnamed(NamedTuple):
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
        return any(map(len, self))


def unnamed(problem: Problem, text: str) -> Unnamed:
    """Find the objects and goal conditions that a text does not name.

    A type is named if the text contains all its words, its last word, or a synonym from
    ``description.yaml``, in singular or plural. Examples for ``electric_refrigerator.n.01``:
    "electric refrigerator", "refrigerators". A condition is named if one sentence contains its
    types, the numbers of their objects, and a word for its predicate. If the text contains a list
    of words instead of a sentence, no condition is named. The check cannot detect that a sentence
    applies a predicate to the wrong one of its objects.

    Args:
        problem: The activity.
        text: The text without the instruction, whose words might name a type or a predicate by
            chance.

    >>> from lmms_egoplan.benchmarks.actplan.bddl import parse_problem
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
    sentences = []
    for sentence in _END.split(text.lower()):
        words = re.findall("[a-z]+|[0-9]+|,", sentence)
        sentences.append(
            _Sentence(words, {type_: list(_positions(type_, words)) for type_ in types})
        )
    involved = _involved(problem)
    objects = []
    for type_ in types:
        is_named = any(sentence.positions[type_] for sentence in sentences)
        if not is_named and type_ in involved:
            objects.append(type_)
    if any(_is_list(sentence.words) for sentence in sentences):
        sentences = [_Sentence([], {})]
    conditions: dict[str, None] = {}
    for atom, asked, numbers in _literals(problem):
        missing = min(
            (
                _missing(atom, numbers, sentence.words, sentence.positions, asked=asked)
                for sentence in sentences
            ),
            key=len,
        )
        if missing:
            condition = str(atom) if asked else f"(not {atom})"
            conditions[f"{condition}: {', '.join(missing)}"] = None
    return Unnamed(tuple(objects), tuple(conditions))


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
            involved |= _types_of(atom.arguments, {**problem.types, **bound})
    return involved


def _types_of(names: Sequence[str], types: Mapping[str, str]) -> set[str]:
    return {types[name] for name in names if name in types}


def _literals(problem: Problem) -> Iterator[tuple[Formula, bool, dict[str, tuple[int, int]]]]:
    """Yield each atom of the goal.

    Also yield True if the goal asks for it, and the number and total of its objects by type.

    Atoms that differ only in their objects are counted together.
    """
    types = {obj.name: obj.type for obj in problem.objects if lemma_of(obj.type) != _AGENT}
    groups: dict[tuple[Any, ...], dict[str, tuple[str, int]]] = defaultdict(dict)
    atoms = []
    for condition in problem.conditions:
        counts = _counts(problem, condition)
        for atom, asked, bound in literals_of(condition):
            kinds = types | dict(bound)
            group = groups[atom.op, asked, tuple(map(kinds.get, atom.arguments))]
            group.update(
                (name, (kinds[name], counts.get(name, 1)))
                for name in atom.arguments
                if name in kinds
            )
            atoms.append((atom, asked, group))
    for atom, asked, group in atoms:
        numbers = Counter(kind for kind, count in group.values() for _ in range(count))
        yield (
            atom,
            asked,
            {kind: (number, len(problem.of_type(kind))) for kind, number in numbers.items()},
        )


def _counts(problem: Problem, formula: Formula) -> dict[str, int]:
    """Return the number of objects that each variable of a condition refers to."""
    totals = (len(problem.of_type(variable.type)) for variable in formula.variables)
    number = 1 if formula.op == "exists" else formula.number or min(totals, default=0)
    counts = {variable.name: number for variable in formula.variables}
    return counts | {
        name: inner for part in formula.parts for name, inner in _counts(problem, part).items()
    }


def _missing(
    atom: Formula,
    numbers: Mapping[str, tuple[int, int]],
    words: Sequence[str],
    positions: Mapping[str, _Positions],
    *,
    asked: bool,
) -> list[str]:
    """List the parts of a condition that a sentence lacks.

    These are names of types, their numbers, and the predicate.
    """
    missing = []
    for kind, (number, total) in numbers.items():
        if not any(
            _is_numbered(words, position, number, total) for position in positions.get(kind, ())
        ):
            missing.append(
                f"number of {lemma_of(kind)} ({number})" if positions.get(kind) else lemma_of(kind)
            )
    # Words in objects' names are not predicates, as in "scrub brush".
    name_indices = {
        at for spans in positions.values() for span in spans for at in range(span.start, span.end)
    }
    other_words = [word for at, word in enumerate(words) if at not in name_indices]
    if not _is_stated(atom.op, other_words, asked=asked):
        missing.append(atom.op if asked else f"not {atom.op}")
    return missing


def _is_stated(predicate: str, words: Sequence[str], *, asked: bool) -> bool:
    """Return True if words state a predicate.

    For a negated condition, they may state its contrary or a negation.
    """
    vocabulary = _DATA["predicates"].get(predicate, {"asked": [predicate]})
    hits = [at for at, word in enumerate(words) if _matches_any(vocabulary["asked"], word)]
    if asked:
        return any(_WORDS["not"].isdisjoint(words[max(0, at - 2) : at]) for at in hits)
    contrary = set(vocabulary.get("contrary", ())) - set(vocabulary["asked"])
    if hits:
        contrary |= _WORDS["negations"]
    return any(_matches_any(contrary, word) for word in words)


def _matches_any(patterns: Iterable[str], word: str) -> bool:
    return any(_matches(pattern, word) for pattern in patterns)


def _is_numbered(words: Sequence[str], noun: _Span, number: int, total: int) -> bool:
    """Return True if the words around a noun state the number of its objects, `number` of `total`.

    A numeral before the noun must be that number, unless a word such as "each" applies it to
    several objects. Without a numeral, a plural means several. A singular needs an article, which
    may belong to the list that contains the noun.
    """
    start = max(0, noun.start - _BEFORE)
    before = list(
        takewhile(lambda word: word not in _WORDS["breaks"], words[start : noun.start][::-1])
    )
    adjacent = takewhile(lambda word: word not in _WORDS["joints"], before)
    numerals = {int(word) if word.isdecimal() else _NUMERALS.get(word) for word in adjacent} - {
        None
    }
    after = words[noun.end : noun.end + 1]
    around = {*before, *after}
    is_spread = not _WORDS["spread"].isdisjoint(words)
    if numerals:
        return number in numerals or is_spread
    if not _WORDS["labels"].isdisjoint(around) or "".join(after).strip("0").isdecimal():
        return True
    is_all = not _WORDS["all"].isdisjoint(around)
    fits = total == 1 or number > 1 if noun.is_plural else number == 1 or is_spread or is_all
    return fits and not _WORDS["articles"].isdisjoint(around)


def _is_list(words: Sequence[str]) -> bool:
    """Return True for a list of words instead of a sentence.

    Its length and the words after articles decide.
    """
    following = {after for word, after in pairwise([*words, ""]) if word in ("the", "a", "an")}
    return len(words) > _LONGEST or not following.isdisjoint(_WORDS["no_nouns"])


def _matches(pattern: str, word: str) -> bool:
    return (
        word.startswith(pattern[:-1])
        if pattern.endswith("*")
        else pattern in singulars(word) | {word}
    )


def _positions(kind: str, words: Sequence[str]) -> Iterator[_Span]:
    """Yield the positions of a type's name in a sentence.

    The name may also be its last word, or all its words joined into one.
    """
    joined = lemma_of(kind).replace("_", "")
    for start in range(len(words)):
        for parts in names_of_type(kind):
            span = words[start : start + len(parts)]
            if len(span) == len(parts) and all(map(_matches, parts, span)):
                yield _Span(start, start + len(parts), span[-1] != parts[-1])
        pair = "".join(words[start : start + 2])
        if _matches(joined, pair):
            yield _Span(start, start + 2, pair != joined)
