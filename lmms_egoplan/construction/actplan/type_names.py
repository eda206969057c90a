"""Name the types of an activity's objects in everyday words."""

# Everyday words for types whose synset has a rarer word, by the synset's lemma.
_EVERYDAY_NAMES = {
    "apparel": ("clothing", "clothes"),
    "ashcan": ("trash can", "garbage can", "trashcan", "bin"),
    "beverage": ("drink",),
    "caldron": ("cauldron",),
    "carpet_sweeper": ("vacuum", "sweeper"),
    "catsup": ("ketchup",),
    "facsimile": ("fax",),
    "gym_shoe": ("sneaker",),
    "hardback": ("hardback book", "hardcover"),
    "plaything": ("toy",),
    "pop": ("soda", "aluminum can"),
    "pot_plant": ("potted plant", "houseplant", "plant"),
    "vacuum": ("vacuum cleaner",),
}
# Plural endings and their singulars.
_PLURALS = (("s", ""), ("es", ""), ("ies", "y"), ("ves", "f"), ("ves", "fe"))


def names_of_type(object_type: str) -> list[tuple[str, ...]]:
    """Return the words of a type, its last word alone, and its everyday names.

    >>> names_of_type("gym_shoe.n.01")
    [('gym', 'shoe'), ('shoe',), ('sneaker',)]
    """
    lemma = lemma_of(object_type)
    words = tuple(lemma.split("_"))
    everyday_names = [tuple(name.split()) for name in _EVERYDAY_NAMES.get(lemma, ())]
    return list(dict.fromkeys([words, words[-1:], *everyday_names]))


def lemma_of(object_type: str) -> str:
    """Return a synset's lemma."""
    return object_type.partition(".")[0]


def singulars(word: str) -> set[str]:
    """Return the possible singulars of an English word; none without a plural ending."""
    return {word.removesuffix(end) + single for end, single in _PLURALS if word.endswith(end)}
