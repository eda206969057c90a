"""Find each question's degree of overlap with training data, by video and time, and by text."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import NearestNeighbors

from lmms_egoplan.benchmarks.egoplan.wording import normalised
from lmms_egoplan.overlap.training_files import Item
from lmms_egoplan.report.overlap import DEGREES

AFTER = 5.0
"""An action with the answer's text, up to this many seconds after the time shown, is the answer. Chosen here."""
SIMILAR = 0.9
"""Smallest similarity of near-duplicate texts. Chosen here."""
_SHOWN, _COPY, _OTHER_TIME, _NO_TIME, _CLEAN, _ = range(len(DEGREES))


def audit(questions: Sequence[Item], items: Sequence[Item]) -> Iterator[dict[str, object]]:
    """Match questions with training data, and yield a row for each question.

    ``training`` is the position of one item with this degree, ``text`` that of the most similar text.

    >>> question = Item("p01_13", (1.0, 3.0), "open tap", "wash cup open tap", "115")
    >>> item = Item("p01_13", (2.0, 9.0), "rinse cup", "Wash the cup: open tap.", "train.csv, 7")
    >>> (row,) = audit([question], [item])
    >>> row["degree"], row["training"], row["similarity"]
    ('time or answer in training', 'train.csv, 7', 1.0)
    """
    in_order = sorted(items, key=lambda item: item.video)
    by_video = {video: [*group] for video, group in groupby(in_order, lambda item: item.video)}
    positions = {normalised(item.text): item.where for item in items} | {"": ""}
    nearest = similar_texts([question.text for question in questions], [*positions])
    for question, (similarity, text) in zip(questions, nearest, strict=True):
        pairs = [(_degree(question, item), item.where) for item in by_video.get(question.video, ())]
        pairs += [(_COPY, positions[text])] * (similarity >= SIMILAR) + [(_CLEAN, "")]
        degree, position = min(pairs)
        row = {"sample_id": question.where, "degree": DEGREES[degree], "training": position, "similarity": similarity}
        yield row | {"text": positions[text] if similarity else ""}


def _degree(question: Item, item: Item) -> int:
    """Return the degree of overlap with an item of the same video."""
    if not (question.span and item.span):
        return _NO_TIME
    after = AFTER if normalised(item.action) == normalised(question.action) else 0
    is_shown = item.span[0] < question.span[1] + after and item.span[1] > question.span[0]
    return _SHOWN if is_shown else _OTHER_TIME


def similar_texts(texts: Sequence[str], training: Sequence[str]) -> list[tuple[float, str]]:
    """Return the most similar training text of each text, after their cosine similarity with three digits.

    Vectors are TF-IDF weights of four characters. Case, punctuation and articles are ignored.

    >>> similar_texts(["Open the tap."], ["cut bread", "open tap"])
    [(1.0, 'open tap')]
    """
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 4), preprocessor=normalised)
    weights = vectorizer.fit_transform([*training, *texts])
    nearest = NearestNeighbors(n_neighbors=1, metric="cosine").fit(weights[: len(training)])
    distances, indices = nearest.kneighbors(weights[len(training) :])
    similarities = (1 - distances[:, 0]).round(3).tolist()
    return [(similarity, training[index]) for similarity, index in zip(similarities, indices[:, 0], strict=True)]
