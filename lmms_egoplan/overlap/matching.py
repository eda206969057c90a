"""Find each question's degree of overlap with training data, by video and time, and by text."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from lmms_egoplan.construction.egoplan.narrations import normalised
from lmms_egoplan.overlap.training_files import Item
from lmms_egoplan.progress import track
from lmms_egoplan.report.overlap import DEGREES

COLUMNS = ["sample_id", "video_id", "degree", "seconds", "share", "answer", "training", "similarity", "text"]
AFTER = 5.0
"""An action with the answer's text, up to this many seconds after the time shown, is the answer. Chosen here."""
SIMILAR = 0.9
"""Smallest similarity of near-duplicate texts. Chosen here."""
# Shorter overlaps, in seconds, are due to rounding.
_ROUNDING = 1e-6
_NO_TIME, _NONE = (0.0, 1.0), Item("", None, "", "", "")
_KITCHEN = re.compile(r"^p\d\d(?=_)")


def audit(questions: Sequence[Item], items: Sequence[Item], *, with_texts: bool = True) -> list[dict[str, Any]]:
    """Match questions with training data, and return a row for each question.

    ``seconds`` is the part of the time shown that training spans cover, and ``share`` its share of the time shown.
    ``training`` is the position of one item with this degree, ``text`` that of the most similar text.

    >>> question = Item("p01_13", (1.0, 3.0), "open tap", "wash cup open tap", "115")
    >>> rows = audit([question], [Item("p01_13", (2.0, 9.0), "rinse cup", "Wash the cup: open tap.", "train.csv, 7")])
    >>> rows[0]["degree"], rows[0]["seconds"], rows[0]["share"], rows[0]["similarity"], rows[0]["training"]
    ('time or answer in training', 1.0, 0.5, 1.0, 'train.csv, 7')
    """
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        for group in (item.video, *_KITCHEN.findall(item.video)):
            groups[group].append(item)
    texts = [*{text: item for item in items if with_texts and (text := normalised(item.text))}.values()]
    nearest = [*similar_texts([question.text for question in questions], [item.text for item in texts])]
    rows = []
    for question, (similarity, index) in zip(track(questions, "Questions"), nearest, strict=True):
        (start, stop), of_video, answer = question.span or _NO_TIME, groups[question.video], normalised(question.action)
        pieces = [(max(start, x.span[0]), min(stop, x.span[1]), x) for x in of_video if x.span]
        hits = [piece for piece in sorted(pieces) if piece[1] - piece[0] > _ROUNDING]
        answers = [
            x for x in pieces if x[0] < stop + AFTER and x[1] == stop and normalised(x[2].action) == answer != ""
        ]
        seconds, end = 0.0, start
        for first, last, _ in hits:
            seconds, end = seconds + max(0.0, last - max(first, end)), max(end, last)
        copies = [texts[index]] if similarity >= SIMILAR else []
        kitchens = [item for group in _KITCHEN.findall(question.video) for item in groups[group]]
        evidence = [[x[2] for x in hits + answers], copies, [x[2] for x in pieces], of_video, kitchens, [_NONE]]
        degree, (item, *_) = next(pair for pair in zip(DEGREES, evidence, strict=True) if pair[1])
        numbers = round(seconds, 3), round(seconds / (stop - start), 4), bool(answers)
        similar = round(similarity, 3), texts[index].where if similarity else ""
        values = (question.where, question.video, degree, *numbers, item.where, *similar)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def similar_texts(texts: Sequence[str], training: Sequence[str]) -> Iterator[tuple[float, int]]:
    """Yield the cosine similarity of each text to the most similar training text, and that text's index.

    Vectors are TF-IDF weights of four characters. Case, punctuation and articles are ignored.

    >>> [(similarity, index)] = similar_texts(["Open the tap."], ["cut bread", "open tap"])
    >>> round(similarity, 3), index
    (1.0, 1)
    """
    if not training:
        yield from [(0.0, 0)] * len(texts)
        return
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(4, 4), preprocessor=normalised, dtype=np.float32)
    weights = vectorizer.fit([*training, *texts]).transform(training).T.tocsr()
    for block in track(np.array_split(np.array(texts, dtype=object), len(texts) // 256 + 1), "Texts"):
        products = vectorizer.transform(block) @ weights
        yield from zip(products.max(axis=1).toarray()[:, 0].tolist(), products.argmax(axis=1).A1.tolist(), strict=True)
