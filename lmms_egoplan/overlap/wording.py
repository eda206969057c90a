"""Compare the words of goals and actions.

Two texts are equal if they differ only in how the same words are written.

All words count except those that ``wording.yaml`` lists as without content; "on", "off", "in" and
"out" count, so that opposite actions differ. Words are equal up to inflection and a misspelling
(`Vocabulary`). They have the same order, except that a run of words may have another place: "turn
the stove on" is "turn on the stove", but "put the cup on the plate" is not "put the plate on the
cup". No word has a weight, so that a result depends on two texts alone.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, islice, product

from lmms_egoplan.paths import module_yaml
from lmms_egoplan.stemming import snowball_stem

_WORDS = module_yaml(__file__)
_IGNORED = frozenset(_WORDS["ignored"])
_LEADING = frozenset(_WORDS["leading"])
_BASE_FORMS = {form: base for base, forms in _WORDS["forms"].items() for form in forms}
_INFLECTED = re.compile(
    r"""
    ([a-z]*?[aeiouy][a-z]*?)          # a word with a vowel
    (?:
        ing
        | ed
        | (?:(?<=[osxz])|(?<=[cs]h))es  # "potatoes", "dishes"
        | (?<!s)s                     # "cups", but not "glass"
    )
    """,
    re.VERBOSE,
)

# The fewest letters of words that a misspelling may separate. Chosen here. Shorter words often
# differ in one letter from other words, such as "plate" from "place" and "batter" from "butter".
# ``python perf/overlap.py --words`` lists the words of published annotations that are then taken
# for misspellings.
SHORTEST_SWAPPED = 4
"""Fewest letters of words that differ in two swapped letters."""
SHORTEST_DOUBLED = 5
"""Fewest letters of the longer of two words, if it has one letter twice."""
SHORTEST_LENGTHENED = 6
"""Fewest letters of the longer of two words, if it has another letter more."""
SHORTEST_REPLACED = 7
"""Fewest letters of words that differ in one letter."""
_MOST_READINGS = 64
_POSSESSIVE = re.compile(r"['\u2019]s\b")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n|,?\s+because\b", re.IGNORECASE)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text, without the reason that it states.

    >>> first_sentence("Open the tap. This is because of the cup.")
    'Open the tap'
    >>> first_sentence("open tap because water is needed")
    'open tap'
    """
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def words(text: str) -> tuple[str, ...]:
    """Return a text's words with content, in lower case and without what introduces an instruction.

    >>> words("The next action is to take the cups, and the chef's knife.")
    ('take', 'cups', 'chef', 'knife')
    """
    lower = unicodedata.normalize("NFKC", text).casefold()
    plain = _POSSESSIVE.sub("", lower)
    content = tuple(word for word in _WORD.findall(plain) if word not in _IGNORED)
    for index, word in enumerate(content):
        if word not in _LEADING:
            return content[index:]
    return content


@cache
def stem(word: str) -> str:
    """Return the stem that a word shares with its inflected forms.

    >>> stem("putting"), stem("took"), stem("knives"), stem("into")
    ('put', 'take', 'knife', 'in')
    """
    base_form = _BASE_FORMS.get(word, word)
    return snowball_stem(base_form)


@cache
def uninflected(word: str) -> str:
    """Return a word without its ending. A stem may be another word: that of "cuting" is "cute".

    >>> uninflected("cuting"), uninflected("dishes"), uninflected("clearing")
    ('cut', 'dish', 'clear')
    """
    match = _INFLECTED.fullmatch(word)
    if match is None:
        return word
    without_ending = match[1]
    if len(without_ending) < 3:
        return word
    return without_ending


def _stems_of_pair(pair: Sequence[str]) -> frozenset[str]:
    return frozenset(stem(uninflected(word)) for word in pair)


_PAIRS_OF_DIFFERENT_WORDS = {_stems_of_pair(pair) for pair in _WORDS["different"]}


def is_misspelling(first: str, second: str) -> bool:
    """Return True if one of two different words is probably a misspelling of the other.

    Two neighbouring letters are swapped, or one letter between the first and the last one is added,
    omitted or replaced. At the end, a letter may only be doubled. See `SHORTEST_SWAPPED` for the
    lengths. Words that ``wording.yaml`` lists as different, such as "form" and "from", are no
    misspellings.

    >>> is_misspelling("onion", "onoin"), is_misspelling("plate", "place")
    (True, False)
    >>> is_misspelling("spoon", "spon")
    True
    """
    if len(first) == len(second):
        return _is_replaced_or_swapped(first, second)
    if len(first) + 1 == len(second):
        return _is_lengthened(first, second)
    if len(second) + 1 == len(first):
        return _is_lengthened(second, first)
    return False


def _is_replaced_or_swapped(first: str, second: str) -> bool:
    """Return whether one inner letter is replaced, or two neighbouring letters are swapped.

    The words have the same length. Swapped pairs that are different words do not count.
    """
    length = len(first)
    letters = zip(first, second, strict=True)
    differing = [index for index, (one, other) in enumerate(letters) if one != other]
    if len(differing) == 1:
        is_inside = 0 < differing[0] < length - 1
        return is_inside and length >= SHORTEST_REPLACED
    if len(differing) != 2 or differing[1] - differing[0] != 1:
        return False
    if length < SHORTEST_SWAPPED or sorted(first) != sorted(second):
        return False
    return frozenset((stem(first), stem(second))) not in _PAIRS_OF_DIFFERENT_WORDS


def _is_lengthened(short: str, long: str) -> bool:
    """Compare a word with one that has one letter more."""
    for index in range(1, len(long)):
        shortened = long[:index] + long[index + 1 :]
        if shortened == short:
            return _may_be_added(long, index)
    return False


def _may_be_added(word: str, index: int) -> bool:
    """Return True if a letter of a word is probably there by mistake."""
    is_last = index == len(word) - 1
    letter = word[index]
    is_doubled = letter == word[index - 1] or (not is_last and letter == word[index + 1])
    if is_doubled:
        return len(word) >= SHORTEST_DOUBLED
    return len(word) >= SHORTEST_LENGTHENED and not is_last


class Vocabulary:
    """The words of some texts, for finding their equals among words of other texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._stems: dict[str, set[str]] = defaultdict(set)  # by stem, and by word without ending
        self._similar: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._readings: dict[str, tuple[str, ...]] = {}
        text_words: set[str] = set()
        for text in texts:
            text_words.update(words(text))
        for word in text_words:
            plain = uninflected(word)
            self._stems[stem(word)].add(stem(word))
            self._stems[plain].add(stem(word))
            for bucket in _buckets(plain):
                self._similar[bucket].add(word)

    def stems_of(self, word: str) -> tuple[str, ...]:
        """Return the stems of the vocabulary's words that a word is equal to."""
        if word not in self._readings:
            stems = self._stems_up_to_inflection(word) | self._stems_up_to_misspelling(word)
            self._readings[word] = tuple(sorted(stems))
        return self._readings[word]

    def _stems_up_to_inflection(self, word: str) -> set[str]:
        stems: set[str] = set()
        for key in (stem(word), uninflected(word)):
            stems |= self._stems.get(key, set())
        return stems

    def _stems_up_to_misspelling(self, word: str) -> set[str]:
        plain = uninflected(word)
        similar: set[str] = set()
        for bucket in _buckets(plain):
            similar |= self._similar.get(bucket, set())
        return {stem(other) for other in similar if is_misspelling(plain, uninflected(other))}

    def read(self, text_words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield each way to write words with the vocabulary's stems.

        There is usually one, and none if a word has no equal.
        """
        choices = [self.stems_of(word) for word in text_words]
        yield from islice(product(*choices), _MOST_READINGS)


def _buckets(word: str) -> Iterator[tuple[str, ...]]:
    """Yield keys of a word. Misspellings have at least one key in common."""
    if len(word) < SHORTEST_SWAPPED or not word.isalpha():
        return
    yield tuple(sorted(word))
    first = word[0]
    last = word[-1]
    yield first, last, str(len(word) - 1)
    yield first, last, str(len(word))


def is_equal_up_to_a_move(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if two sequences are equal, or become so if one run of words moves.

    >>> is_equal_up_to_a_move(("turn", "on", "stove"), ("turn", "stove", "on"))
    True
    >>> is_equal_up_to_a_move(("put", "cup", "on", "plate"), ("put", "plate", "on", "cup"))
    False
    """
    first = tuple(first)
    second = tuple(second)
    if len(first) != len(second) or sorted(first) != sorted(second):
        return False
    if first == second:
        return True
    for start, middle, stop in combinations(range(len(first) + 1), 3):
        before = first[:start]
        run = first[start:middle]
        passed = first[middle:stop]
        after = first[stop:]
        if before + passed + run + after == second:
            return True
    return False


def same_text(first: str, second: str) -> bool:
    """Return True if two texts are the same goal or action.

    A text without content words equals none, not even itself.

    >>> same_text("Turn the stove on.", "turning on stove")
    True
    >>> same_text("turn on stove", "turn off stove")
    False
    """
    reference = [stem(word) for word in words(first)]
    if not reference:
        return False
    readings = Vocabulary([first]).read(words(second))
    return any(is_equal_up_to_a_move(reading, reference) for reading in readings)
