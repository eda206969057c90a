"""Measure the search for near-duplicate texts.

python perf/overlap.py --texts 50000       # time of 3,355 questions against so many training texts
"""

import argparse
import random
import resource
import time

from lmms_egoplan.overlap.matching import similar_texts


def measure_texts(count: int) -> None:
    """Time the search for near-duplicates among texts of about 60 characters."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeioubcdfghklmnprst", k=chance.randint(2, 9))) for _ in range(3000)]
    weights = [1 / rank for rank in range(1, 3001)]

    def make(number: int) -> list[str]:
        return [" ".join(chance.choices(words, weights, k=11)) for _ in range(number)]

    questions, training = make(3355), make(count)
    started = time.monotonic()
    count_of_results = len(list(similar_texts(questions, training)))
    seconds, peak = time.monotonic() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{count_of_results:,} questions, {count:,} training texts: {seconds:.1f} s, peak {peak:.1f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=50_000, help="number of training texts")
    measure_texts(parser.parse_args().texts)


if __name__ == "__main__":
    main()
