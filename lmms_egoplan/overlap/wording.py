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
from itertools import chain, combinations, dropwhile, islice, product

from nltk.stem.snowball import SnowballStemmer

from lmms_egoplan.paths import module_yaml

_WORDS = module_yaml(__file__)
_IGNORED = frozenset(_WORDS["ignored"])
_LEADING = frozenset(_WORDS["leading"])
_BASE_FORMS = {form: base for base, forms in _WORDS["forms"].items() for form in forms}
_STEM = SnowballStemmer("english").stem
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
    plain = re.sub(r"['\u2019]s\b", "", unicodedata.normalize("NFKC", text).casefold())
    content = [word for word in re.findall(r"[^\W_]+", plain) if word not in _IGNORED]
    return tuple(dropwhile(_LEADING.__contains__, content)) or tuple(content)


@cache
def stem(word: str) -> str:
    """Return the stem that a word shares with its inflected forms.

    >>> stem("putting"), stem("took"), stem("knives"), stem("into")
    ('put', 'take', 'knife', 'in')
    """
    return str(_STEM(_BASE_FORMS.get(word, word)))


@cache
def uninflected(word: str) -> str:
    """Return a word without its ending. A stem may be another word: that of "cuting" is "cute".

    >>> uninflected("cuting"), uninflected("dishes"), uninflected("clearing")
    ('cut', 'dish', 'clear')
    """
    match = _INFLECTED.fullmatch(word)
    return match[1] if match and len(match[1]) > 2 else word


def _stems_of_pair(first: str, second: str) -> frozenset[str]:
    return frozenset((stem(uninflected(first)), stem(uninflected(second))))


_DIFFERENT = {_stems_of_pair(*pair) for pair in _WORDS["different"]}


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
    short, long = sorted((first, second), key=len)
    if len(short) == len(long):
        return _is_replaced_or_swapped(first, second)
    if len(short) + 1 == len(long):
        return _is_lengthened(short, long)
    return False


def _is_replaced_or_swapped(first: str, second: str) -> bool:
    """Compare two words of the same length."""
    length = len(first)
    letters = enumerate(zip(first, second, strict=True))
    positions = [index for index, (one, other) in letters if one != other]
    if len(positions) == 1:
        return length >= SHORTEST_REPLACED and 0 < positions[0] < length - 1
    are_neighbours = len(positions) == 2 and positions[1] - positions[0] == 1
    if not are_neighbours or sorted(first) != sorted(second) or length < SHORTEST_SWAPPED:
        return False
    return frozenset((stem(first), stem(second))) not in _DIFFERENT


def _is_lengthened(short: str, long: str) -> bool:
    """Compare a word with one that has one letter more."""
    for index in range(1, len(long)):
        if long[:index] + long[index + 1 :] == short:
            if long[index] in (long[index - 1], *long[index + 1 : index + 2]):
                return len(long) >= SHORTEST_DOUBLED
            return len(long) >= SHORTEST_LENGTHENED and index < len(long) - 1
    return False


class Vocabulary:
    """The words of some texts, for finding their equals among words of other texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._stems: dict[str, set[str]] = defaultdict(set)  # by stem, and by word without ending
        self._similar: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._readings: dict[str, tuple[str, ...]] = {}
        for word in set(chain.from_iterable(map(words, texts))):
            plain = uninflected(word)
            for key in (stem(word), plain):
                self._stems[key].add(stem(word))
            for bucket in _buckets(plain):
                self._similar[bucket].add(word)

    def stems_of(self, word: str) -> tuple[str, ...]:
        """Return the stems of the vocabulary's words that a word is equal to."""
        if word not in self._readings:
            plain = uninflected(word)
            stems = self._stems.get(stem(word), set()) | self._stems.get(plain, set())
            similar: set[str] = set()
            for bucket in _buckets(plain):
                similar |= self._similar.get(bucket, set())
            stems |= {stem(other) for other in similar if is_misspelling(plain, uninflected(other))}
            self._readings[word] = tuple(sorted(stems))
        return self._readings[word]

    def read(self, text_words: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield each way to write words with the vocabulary's stems.

        There is usually one, and none if a word has no equal.
        """
        yield from islice(product(*map(self.stems_of, text_words)), _MOST_READINGS)


def _buckets(word: str) -> Iterator[tuple[str, ...]]:
    """Yield keys of a word. Misspellings have at least one key in common."""
    if len(word) >= SHORTEST_SWAPPED and word.isalpha():
        yield tuple(sorted(word))
        for length in (len(word) - 1, len(word)):
            yield word[0], word[-1], str(length)


def is_moved(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True if two sequences are equal, or become so if one run of words moves.

    >>> is_moved(("turn", "on", "stove"), ("turn", "stove", "on"))
    True
    >>> is_moved(("put", "cup", "on", "plate"), ("put", "plate", "on", "cup"))
    False
    """
    first = tuple(first)
    second = tuple(second)
    if len(first) != len(second) or sorted(first) != sorted(second):
        return False
    if first == second:
        return True
    for start, middle, stop in combinations(range(len(first) + 1), 3):
        moved = first[:start] + first[middle:stop] + first[start:middle] + first[stop:]
        if moved == second:
            return True
    return False


def same_text(first: str, second: str) -> bool:
    """Return True if two texts are the same goal or action. An empty text equals no other one.

    >>> same_text("Turn the stove on.", "turning on stove")
    True
    >>> same_text("turn on stove", "turn off stove")
    False
    """
    reference = tuple(map(stem, words(first)))
    if not reference:
        return False
    readings = Vocabulary([first]).read(words(second))
    return any(is_moved(reading, reference) for reading in readings)
