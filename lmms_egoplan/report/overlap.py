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
note = read_notes(__file__, clean=" or ".join(CLEAN), fewest=FEWEST_CLUSTERS, resamples=RESAMPLES)
_COLUMNS = read_columns(__file__)["overlap"]


class Audit(Checked):
    """The overlap of a benchmark's questions with a model's training data.

    fingerprint: fingerprint of the benchmark's prepared data.
    degrees: degree of overlap by video and question.
    """

    fingerprint: str
    degrees: dict[str, dict[str, str]]

    def degree(self, answer: Answer) -> str | None:
        """Return the degree of an answer's question; None if the audit does not contain the question."""
        return self.degrees.get(str(answer.cluster), {}).get(answer.id)


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


def overlap_row(audit: Audit, answers: Iterable[Answer], measure: str, scale: float) -> dict[str, Value]:
    """Return a run's scores on clean and on overlapping questions, and clean minus overlapping.

    The interval of the difference is from resamples of all videos, since both groups may have questions of a video. As
    for the two scores, there is none if a group has fewer than `FEWEST_CLUSTERS` videos.

    Args:
        answers: the run's answers.
        measure, scale: see `Spec`.
    """
    degrees = [(audit.degree(x), x) for x in answers]
    groups = [[x for degree, x in degrees if degree and (degree in CLEAN) is flag] for flag in (True, False)]
    clean, rest = (mean_of(group, measure, scale) for group in groups)
    row: dict[str, Value] = {"clean_n": clean.questions, "overlapping_n": rest.questions}
    row |= clean.cells("clean", "clean_") | rest.cells("overlapping", "overlapping_")
    if clean.interval and rest.interval:
        scored = [(x, flag) for flag, group in enumerate(groups) for x in group if x.scores[measure] is not None]
        sums = np.zeros((len(scored), 2, 2))
        for of_answer, (x, flag) in zip(sums, scored, strict=True):
            of_answer[flag] = scale * (x.scores[measure] or 0), 1
        interval = interval_of_sums(sums, [str(x.cluster) for x, _ in scored], _difference)
        row |= Mean(float(_difference(sums.sum(0))), interval).cells("difference")
    return row | {"not_audited": sum(degree is None for degree, _ in degrees)}


def _difference(sums: np.ndarray) -> np.ndarray:
    return np.subtract(*np.moveaxis(sums[..., 0] / sums[..., 1], -1, 0))


def overlap_table(name: str, audits: Mapping[str, Audit], tasks: Iterable[ScoredTask], *of: Any) -> Table | None:
    """Return the table of all runs, with the benchmark's name and further arguments of `overlap_row`."""
    rows = [
        {"run": task.run.name, "task": task.task, "audit": attribute, **overlap_row(audit, task.answers.values(), *of)}
        for attribute, audit in audits.items()
        for task in tasks
        if task.answers
    ]
    title = "Scores by overlap with training data"
    return table_of_runs(f"{name}_overlap", title, _COLUMNS, rows, [note("overlap")]) if rows else None
