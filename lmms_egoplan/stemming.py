"""Reduce English words to their stems."""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path


@cache
def snowball_stem(word: str) -> str:
    """Return the stem of an English word by the Snowball stemmer.

    >>> snowball_stem("shelves"), snowball_stem("putting")
    ('shelv', 'put')
    """
    return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    # Without a home folder, nltk cannot be imported, although the stemmer reads and writes no file.
    try:
        Path.home()
    except RuntimeError:
        os.environ["HOME"] = os.sep
        try:
            return _load()
        finally:
            del os.environ["HOME"]
    return _load()


def _load() -> Callable[[str], str]:
    from nltk.stem.snowball import SnowballStemmer

    return SnowballStemmer("english").stem
