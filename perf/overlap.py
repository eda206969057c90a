"""Measure the search for near-duplicate texts.

python perf/overlap.py --texts 50000       # time of 3,355 questions against so many training texts
python perf/overlap.py --words             # words of published annotations that are taken for
misspellings of others
"""

import argparse
import random
import resource
import time
from itertools import combinations
from pathlib import Path

from lmms_egoplan.overlap.matching import near_duplicates
from lmms_egoplan.overlap.training_files import Item
from lmms_egoplan.overlap.wording import is_misspelling, stem, uninflected
from lmms_egoplan.overlap.wording import words as split_words


def measure_texts(count: int) -> None:
    """Time the search for near-duplicates among actions of 2 to 7 words, half of them answers to
    questions.
    """
    chance = random.Random(0)
    words = [
        "".join(chance.choices("aeioubcdfghklmnprst", k=chance.randint(2, 9))) for _ in range(3000)
    ]
    weights = [1 / rank for rank in range(1, 3001)]

    def phrase(most: int) -> str:
        return " ".join(chance.choices(words, weights, k=chance.randint(2, most)))

    goals = [phrase(6) for _ in range(2407)]
    actions = [phrase(5) for _ in range(2538)]
    questions = [
        Item("", None, chance.choice(goals), chance.choice(actions), f"{number}")
        for number in range(3355)
    ]
    copies = chance.choices(questions, k=count)
    training = [Item("", None, item.goal, item.action, "copy") for item in copies[: count // 4]]
    training += [
        Item("", None, phrase(6), item.action, "goal") for item in copies[count // 4 : count // 2]
    ]
    training += [
        Item("", None, item.goal, phrase(7), "action")
        for item in copies[count // 2 : 3 * count // 4]
    ]
    long = (
        f"{phrase(40)} in order to {item.goal}? {phrase(20)}" for item in copies[3 * count // 4 :]
    )
    training += [Item("", None, "", chance.choice(actions), "asked", question) for question in long]
    started = time.monotonic()
    found = sum(map(bool, near_duplicates(questions, training)))
    seconds, peak = (
        time.monotonic() - started,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )
    print(
        f"{len(questions):,} questions, {count:,} training texts, {found:,} copies: "
        f"{seconds:.1f} s, {peak:.1f} GiB"
    )


def list_misspellings() -> None:
    """Print the pairs of different words in the published annotations of ``../shared/data`` that
    count as equal.
    """
    data = Path(__file__).parents[2] / "shared" / "data"
    texts = [path.read_text() for path in data.glob("egothink/*/annotations.json")]
    texts += [(data / "epic-kitchens-100" / "EPIC_100_validation.csv").read_text()]
    texts += [(data / "ego4d-goalstep" / "goalstep_valid_public.json").read_text()]
    texts += [(data / "actplan" / "plans_train_val.jsonl").read_text()]
    words = sorted(
        {word for text in texts for word in split_words(text) if word.isalpha() and word.isascii()}
    )
    pairs = [
        (word, other)
        for word, other in combinations(words, 2)
        if stem(word) != stem(other) and is_misspelling(uninflected(word), uninflected(other))
    ]
    print(
        f"{len(words):,} words, {len(pairs):,} pairs:",
        *(" ".join(pair) for pair in pairs),
        sep="\n",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=50_000, help="number of training texts")
    parser.add_argument("--words", action="store_true", help="list words taken for misspellings")
    arguments = parser.parse_args()
    if arguments.words:
        list_misspellings()
    else:
        measure_texts(arguments.texts)


if __name__ == "__main__":
    main()
