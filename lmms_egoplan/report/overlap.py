"""Read audits of training data, and compare scores on clean and on overlapping questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.report.run import member
from lmms_egoplan.report.scores import Answer, Mean, ScoredTask, mean_of
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, RESAMPLES, interval_of_sums
from lmms_egoplan.report.tables import Table, Value, read_columns, read_notes, table_of_runs
from lmms_egoplan.validation import Checked, read_as

DEGREES: tuple[str, ...] = tuple(module_yaml(__file__))
"""Degrees of overlap of a question with training data, most severe first."""

CLEAN = DEGREES[-2:]
"""Degrees of questions whose videos and texts are not in the training data. Chosen here."""

CSV, JSON = "overlap.csv", "overlap.json"
_TITLE = "Scores by overlap with training data"
note = read_notes(__file__, clean=" or ".join(CLEAN), fewest=FEWEST_CLUSTERS, resamples=RESAMPLES)
_COLUMNS = read_columns(__file__)["overlap"]


class Audit(Checked):
    """The overlap of a benchmark's questions with a model's training data.

    fingerprint: fingerprint of the benchmark's prepared data.
    questions: video and degree of overlap by question.
    """

    fingerprint: str
    questions: dict[str, list[str]]

    def degree(self, answer: Answer) -> str | None:
        """Return the degree of an answer's question; None if the audit does not contain the question."""
        video, degree = self.questions.get(answer.id, (None, None))
        return degree if answer.cluster in (None, video) else None


def read_audits(folders: Iterable[Path], tasks: Sequence[ScoredTask]) -> dict[str, Audit]:
    """Read the audits among folders of labels, by the name of the attribute that they add to questions.

    Raises:
        LmmsEgoplanError: an audit cannot be read, or a run has other data.
    """
    files = [folder / JSON for folder in folders if (folder / JSON).is_file()]
    names = [f"overlap with {file.parent.name if len(files) > 1 else 'training data'}" for file in files]
    audits = {name: read_as(Audit, str(file), read_json(file)) for name, file in zip(names, files, strict=True)}
    for (name, audit), task in product(audits.items(), tasks):
        if (data := member(task.task_run.config, "metadata", "data")) not in (None, audit.fingerprint):
            raise LmmsEgoplanError(
                f"{name}: fingerprint of the audited data: {audit.fingerprint}; of the data of {task.name}: {data}. "
                "Audit the data of the run, or omit the audit"
            )
    return audits


def not_audited(audits: Mapping[str, Audit], task: ScoredTask) -> Iterator[str]:
    """Yield the number of a task's questions that each audit does not contain, with an example."""
    for audit in audits.values():
        if ids := [x.id for x in (task.answers or {}).values() if audit.degree(x) is None]:
            yield note("not_audited", count=f"{len(ids):,}", example=ids[0])


def overlap_rows(audit: Audit, answers: Iterable[Answer], measure: str, scale: float) -> Iterator[dict[str, Value]]:
    """Yield a run's score on clean questions, on overlapping ones, and the first minus the second.

    The interval of the difference is from resamples of all videos, since both groups may have questions of a video. As
    for the two scores, there is none if a group has fewer than `FEWEST_CLUSTERS` videos.

    Args:
        answers: the run's answers.
        measure, scale: see `Spec`.
    """
    scored = [(x, audit.degree(x), scale * score) for x in answers if (score := x.scores[measure]) is not None]
    parts = [[pair for pair in scored if pair[1] and (pair[1] in CLEAN) is flag] for flag in (True, False)]
    means = [mean_of([x for x, *_ in part], measure, scale) for part in parts]
    for name, mean in zip(("clean", "overlapping"), means, strict=True):
        yield {"part": name, "questions": mean.questions, **mean.cells("score")}
    if None not in [mean.value for mean in means]:
        sums = [np.outer([flag == 0, flag], [score, 1]) for flag, part in enumerate(parts) for *_, score in part]
        clusters = [str(x.cluster) for part in parts for x, *_ in part]
        interval = interval_of_sums(np.array(sums), clusters, difference) if all(x.interval for x in means) else None
        yield {
            "part": "clean minus overlapping",
            **Mean(float(difference(np.sum(sums, axis=0))), interval).cells("score"),
        }


def difference(sums: np.ndarray) -> np.ndarray:
    """Return the mean of the first group minus that of the second, from sums of scores and numbers of questions.

    >>> difference(np.array([[30, 40], [10, 20]])).item()  # 30 of 40 right, and 10 of 20
    0.25
    """
    return np.subtract(*np.moveaxis(sums[..., 0] / sums[..., 1], -1, 0))


def overlap_table(name: str, audits: Mapping[str, Audit], tasks: Iterable[ScoredTask], *of: Any) -> Table | None:
    """Return the table of all runs; None without audits. `of` are the last arguments of `overlap_rows`."""
    rows: list[dict[str, Value]] = []
    for (audit_name, audit), task in product(audits.items(), tasks):
        base = {"run": task.run.name, "task": task.task, "audit": audit_name}
        rows += [{**base, **row} for row in overlap_rows(audit, (task.answers or {}).values(), *of)]
    return table_of_runs(f"{name}_overlap", _TITLE, _COLUMNS, rows, [note("overlap")]) if rows else None
