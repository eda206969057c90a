"""Write the dataset that the tasks load."""

from hashlib import sha256
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.splits import TOY
from lmms_egoplan.benchmarks.toy.records import read_image, read_records
from lmms_egoplan.coverage import set_of
from lmms_egoplan.storage import fingerprint, records_digest, table


def prepare_toy(folder: Path) -> dict[str, Any]:
    """Check all questions and pictures, write the split, and return its summary.

    Args:
        folder: Folder with ``questions.jsonl`` and the pictures that it names.

    Raises:
        LmmsEgoplanError: A record or a picture is invalid. Nothing is written.
    """
    from datasets import Image, List, Value

    records = read_records(folder)
    images = [read_image(folder, record) for record in records]
    size = len(records)
    digest = records_digest(records)
    question_set = set_of(
        has_counts=size == TOY.official["test"], digest=digest, published=TOY.digests["test"]
    )
    rows: list[dict[str, Any]] = []
    for record, image in zip(records, images, strict=True):
        row = record.model_dump(include={"id", "question", "answer"})
        row |= {"split_size": size, "question_set": question_set}
        row |= {"choices": sorted([record.answer, record.wrong]), "image": {"bytes": image}}
        rows.append(row)
    return TOY.save(
        "test",
        table(rows, choices=List(Value("string")), image=Image()),
        source=str(folder.resolve()),
        split_size=size,
        questions=size,
        question_set=question_set,
        fingerprint=fingerprint([digest, *(sha256(image).hexdigest() for image in images)]),
        missing=[],
    )
