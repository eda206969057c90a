"""Collect the published main scores of a benchmark, from its paper and from the ledger."""

from collections.abc import Iterator, Sequence

from lmms_egoplan.report.document import Published
from lmms_egoplan.report.ledger import PublishedScore, read_ledger
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.spec import Spec


def published_scores(spec: Spec, tasks: Sequence[str]) -> tuple[Published, ...]:
    """Return the published main scores of a benchmark, best first.

    Args:
        spec: Facts about the benchmark.
        tasks: Names of the tasks with main scores. The paper's scores belong to the first one
            (`Spec.reference`).
    """
    if not tasks:
        return ()
    scores = [*_scores_of_paper(spec, tasks[0]), *_scores_of_ledger(spec, tasks)]
    return tuple(sorted(scores, key=lambda score: -score.value))


def _scores_of_paper(spec: Spec, task: str) -> Iterator[Published]:
    if spec.reference is None:
        return
    name, column = spec.reference
    table = load_table(spec.name, name)
    column = column or table.main
    for row, printed in zip(table.rows, table.printed, strict=True):
        value = row[column]
        if isinstance(value, float):
            yield Published((task,), printed[table.label], value, printed[column], table.source)


def _scores_of_ledger(spec: Spec, tasks: Sequence[str]) -> Iterator[Published]:
    """Yield the ledger's scores under each task whose protocol their source does not contradict."""
    if not spec.ledger_fields:
        return
    for score in read_ledger():
        benchmark, subset, _ = score.group
        is_main = benchmark == spec.name and spec.subsets.get(subset) == ""
        matching = tuple(task for task in tasks if is_main and _can_match(score, spec, task))
        if matching:
            cells = score.cells
            source = ", ".join(filter(None, (cells["source"], cells["table"], cells["date"])))
            stated = [f"{name}: {text}" for name, text in score.fields.items() if text]
            protocol = "; ".join((*stated, *score.marks))
            yield Published(
                matching, cells["model"], float(score.value), cells["score"], source, protocol
            )


def _can_match(score: PublishedScore, spec: Spec, task: str) -> bool:
    """Return true if no field that the source states differs from the task's."""
    if task not in spec.ledger_fields:
        return False
    for name, own in spec.ledger_fields[task].items():
        if score.fields.get(name) not in (None, "", own):
            return False
    return True
