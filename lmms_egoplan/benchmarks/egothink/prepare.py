"""Write the twelve datasets that the tasks load, and compare their counts with Table 4."""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.benchmarks.egothink.marks import marked_records
from lmms_egoplan.benchmarks.egothink.records import (
    HUB_DATASET,
    Record,
    check_records,
    read_folder,
    read_hub,
)
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.coverage import set_of
from lmms_egoplan.progress import track
from lmms_egoplan.storage import compare_counts, fingerprint, table

if TYPE_CHECKING:
    from datasets import Dataset

HUB = "hub"
_HUB_NAME = f"the dataset {HUB_DATASET}"
# In words. The release was revised after the paper, and its mean lengths differ from Table 4 by up
# to 0.14.
LENGTH_TOLERANCE = 0.2
FORMATS = ("yes or no", "what", "other")
# Appendix A: "such as: what, which, where, when, why, and how". Without "who", situated has a type
# fewer than Table 4.
INTERROGATIVES = ("what", "which", "where", "when", "why", "how", "who", "whom", "whose")


def prepare_egothink(source: str | Path, marks: Path | None = None) -> list[dict[str, Any]]:
    """Check all questions and images, and write the twelve dimensions to the data root.

    Args:
        source: ``"hub"`` for the dataset `HUB_DATASET`, or a folder; see `read_folder`.
        marks: Folder with masks or boxes of the images; see `marked_records`. The questions whose
            image has marks are also written with their marked image, to the split
            ``<dimension>_marked``. Without this argument, or for a dimension without marks, an
            earlier such split is kept, but refused if the dimension has other data now.

    Returns:
        The summaries in the order of `DIMENSIONS`, then those of the splits with marks. Each is
        also stored with its split and contains:

        - ``benchmark``, ``split`` (the dimension), ``prepared`` (UTC, ISO 8601) and ``source``;
        - ``split_size`` and ``questions``, which are equal unless images lack marks;
        - ``question_set``, see `set_of`, and ``records_digest``, see the function of that name;
        - ``fingerprint``, which changes with any text or image;
        - ``missing``, always empty;
        - ``made_from``: name and fingerprint of the dimension from which a split with marks was
          made;
        - ``counts``, the countable rows of Table 4: ``instances``, ``question_words`` and
          ``answer_words`` (mean lengths in whitespace-separated words, two decimals) and
          ``question_types`` (see `question_type`). Each row has ``prepared``, ``paper`` and
          ``matches``. Counts match if equal, lengths within `LENGTH_TOLERANCE`.

    Raises:
        LmmsEgoplanError: The data are invalid. Nothing is written.
        OSError: A split cannot be written. Earlier splits are complete.
    """
    drafts = read_hub() if source == HUB else read_folder(Path(source))
    records = check_records(track(drafts, "Checking questions and images"))
    name = _HUB_NAME if source == HUB else str(Path(source).resolve())
    marked = marked_records(records, marks) if marks else []
    by_dimension = _by_dimension(records)
    summaries: list[dict[str, Any]] = []
    for suffix, chosen in (("", by_dimension), ("_marked", _by_dimension(marked))):
        for dimension in DIMENSIONS:
            if chosen[dimension.name]:
                summary = _write(
                    dimension, chosen[dimension.name], name, suffix, by_dimension[dimension.name]
                )
                summaries.append(summary)
    return summaries


def _by_dimension(records: Sequence[Record]) -> dict[str, list[Record]]:
    by_dimension: dict[str, list[Record]] = {dimension.name: [] for dimension in DIMENSIONS}
    for record in records:
        by_dimension[record.dimension].append(record)
    return by_dimension


def records_digest(records: Sequence[Record]) -> str:
    """Return the digest of a dimension's records, without the images.

    It covers ids, names of images, questions and answers.
    """
    return fingerprint(
        [record.id, record.image_name, record.question, record.answer] for record in records
    )


def _write(
    dimension: Dimension,
    records: Sequence[Record],
    source: str,
    suffix: str,
    file: Sequence[Record],
) -> dict[str, Any]:
    """Write a split with some of a file's records."""
    size = len(file)
    digest = records_digest(file)
    published = EGOTHINK.digests[dimension.name]
    # The digests are the repository's. Nobody has compared the hub's records with them.
    is_unknown = source == _HUB_NAME and digest != published
    question_set = set_of(
        has_counts=size == dimension.instances,
        digest=digest,
        published=None if is_unknown else published,
    )
    of_file = {"split_size": size, "question_set": question_set}
    origin = {"made_from": [dimension.name, EGOTHINK.fingerprint(dimension.name)]} if suffix else {}
    return EGOTHINK.save(
        dimension.name + suffix,
        _dataset(records, of_file | ({"without_partner": size - len(records)} if suffix else {})),
        source=source,
        **of_file,
        records_digest=digest,
        questions=len(records),
        fingerprint=fingerprint(
            [record.id, record.question, record.answer, sha256(record.image).hexdigest()]
            for record in records
        ),
        missing=[],
        counts=compare_with_table_4(
            dimension, [(record.question, record.answer) for record in records]
        ),
        **origin,
    )


def compare_with_table_4(
    dimension: Dimension, texts: Sequence[tuple[str, str]], **counts: int | None
) -> dict[str, dict[str, Any]]:
    """Count a dimension's rows of Table 4, next to the paper's.

    Args:
        texts: Question and answer of each record.
        counts: Further rows by name; None if unknown.

    Returns:
        For each row ``prepared``, ``paper`` and ``matches``, see `prepare_egothink`.

    >>> from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME
    >>> texts = [("Where am I?", "kitchen"), ("What room is it?", "a bar")]
    >>> rows = compare_with_table_4(BY_NAME["location"], texts)
    >>> rows["question_words"], rows["question_types"]["prepared"]
    ({'prepared': 3.5, 'paper': 6.96, 'matches': False}, 2)
    """
    questions, answers = zip(*texts, strict=True)
    rows = {
        "instances": len(texts),
        "question_words": _mean_words(questions),
        "answer_words": _mean_words(answers),
        "question_types": len(set(map(question_type, questions))),
        **counts,
    }
    paper = {name: getattr(dimension, name) for name in rows}
    ranges = {
        name: (round(paper[name] - LENGTH_TOLERANCE, 2), round(paper[name] + LENGTH_TOLERANCE, 2))
        for name in ("question_words", "answer_words")
    }
    return compare_counts(rows, rows, "prepared", paper, ranges)


def question_type(question: str) -> str | None:
    """Return the first of `INTERROGATIVES` in a question.

    None, also a type, if there is none ("Am I ...?").

    The paper does not state its rule. This rule reproduces Table 4's TypeQ for ten dimensions of
    the release. Counting has one type more than in Table 4, and forecasting one fewer.
    """
    words = re.findall("[a-z]+", question.lower())
    return next((word for word in words if word in INTERROGATIVES), None)


def question_format(question: str, reference: str) -> str:
    """Return one of `FORMATS`, which Fig. 4 compares: ``yes or no``, ``what``, or ``other``.

    The rule is this project's. A yes-or-no question has no interrogative, and its reference begins
    with yes or no. In a what-question, the first interrogative is "what".

    >>> question_format("Am I holding chopsticks in my right hand?", "Yes.")
    'yes or no'
    >>> question_format("What am I holding in my right hand?", "Chopsticks.")
    'what'
    >>> question_format("Am I on the lawn or on the road?", "On the lawn.")
    'other'
    """
    interrogative = question_type(question)
    if interrogative == "what":
        return "what"
    if interrogative is None and re.match(r"(yes|no)\b", reference.strip().lower()):
        return "yes or no"
    return "other"


def _mean_words(texts: Sequence[str]) -> float:
    return round(fmean(len(text.split()) for text in texts), 2)


def _dataset(records: Sequence[Record], of_file: dict[str, Any]) -> "Dataset":
    from datasets import Image

    origin = ["origin"] if any(record.origin for record in records) else []
    columns = ["id", "dimension", "question", "answer", "image", *origin]
    rows: list[dict[str, Any]] = []
    for record in records:
        rows.append({name: getattr(record, name) for name in columns} | of_file)
    return table(rows, image=Image())
