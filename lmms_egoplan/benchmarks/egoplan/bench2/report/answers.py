"""What runs answered to EgoPlan-Bench2's questions, and their accuracies."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lmms_egoplan.benchmarks.egoplan.bench2 import splits
from lmms_egoplan.benchmarks.egoplan.bench2.metrics import DOMAIN_METRIC
from lmms_egoplan.benchmarks.egoplan.report.answers import ChoiceSeries, read_choice
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import read_tasks

MAIN_TASK = "egoplan_bench2"
OFFICIAL = splits.OFFICIAL[splits.SPLIT]

# The files in ``tasks/shared`` that score a choice.
_RANKING = "egoplan_bench2_ranking"
_FILES = (_RANKING, "egoplan_bench2_replies")

_answer = partial(read_choice, id_of=str, domain_metrics=DOMAIN_METRIC)


@dataclass(frozen=True)
class Series(ChoiceSeries):
    """One task of a run; `Choice.domain` is one of the paper's four."""

    RANKING = _RANKING
    OFFICIAL = OFFICIAL


def read_series(runs: Sequence[Run]) -> list[Series]:
    """The tasks of this benchmark, run by run, ``egoplan_bench2`` first.

    Raises:
        LmmsEgoplanError: see `read_answers`.
    """
    series = [Series(*task) for task in read_tasks(runs, _FILES, MAIN_TASK, _answer)]
    order = [run.name for run in runs]
    return sorted(series, key=lambda task: (order.index(task.run.name), task.task != MAIN_TASK))
