"""Read audits of training data: each question's degree of overlap."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member, read_json
from lmms_egoplan.report.scores import ScoredTask
from lmms_egoplan.validation import Checked, read_as

DEGREES = (
    "time or answer in training",
    "near-duplicate text in training",
    "same video, other times",
    "same video, times unknown",
    "clean",
    "not in the audit",
)
"""Degrees of overlap of a question with training data, most severe first.

The last one is that of questions that an audit does not contain.
"""

CSV = "overlap.csv"
JSON = "overlap.json"


class Audit(Checked):
    """The overlap of a benchmark's questions with a model's training data.

    fingerprint: fingerprint of the benchmark's prepared data.
    questions: degree of overlap by video and question, separated by a space.
    """

    fingerprint: str
    questions: dict[str, str]


def read_audits(
    folders: Iterable[Path], tasks: Sequence[ScoredTask]
) -> Iterator[tuple[str, Audit]]:
    """Yield the audits among folders of labels.

    Each comes after the name of the attribute that it adds to questions.

    Raises:
        LmmsEgoplanError: an audit cannot be read, or a run has other data.
    """
    for file in (folder / JSON for folder in folders if (folder / JSON).is_file()):
        audit = read_as(Audit, str(file), read_json(file))
        for task in tasks:
            data = member(task.task_run.config, "metadata", "data")
            if data not in (
                None,
                audit.fingerprint,
            ):
                raise LmmsEgoplanError(
                    f"{file}: of data {audit.fingerprint}; {task.name} has {data}: audit its data"
                )
        yield f"overlap with {file.parent}", audit
