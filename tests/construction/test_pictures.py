import random

import pytest

from lmms_egoplan.construction.pictures import Hashes


@pytest.mark.parametrize("count", [0, 1, 3000])
def test_like_hashes_are_found_among_all(count):
    chance = random.Random(count)
    numbers = [chance.getrandbits(64) for _ in range(count)]
    hashes = Hashes()
    for number in numbers:
        hashes.add(f"{number:016x}")
    for _ in range(50):
        query = chance.getrandbits(64)
        if numbers:  # change up to 12 bits of a known hash
            query = chance.choice(numbers)
            for bit in chance.sample(range(64), chance.randrange(13)):
                query ^= 1 << bit
        expected = any((query ^ number).bit_count() <= 10 for number in numbers)
        assert hashes.has_like(f"{query:016x}", most_bits=10) is expected
