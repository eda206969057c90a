"""Every pair of runs, and of a model's tasks, on the same questions."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from lmms_egoplan.benchmarks.egoplan.report.answers import Key
from lmms_egoplan.benchmarks.egoplan.report.series import DECIMALS, MAIN_TASK, Series
from lmms_egoplan.report.comparisons import comparisons
from lmms_egoplan.report.document import Table


def pairs(series: Sequence[Series]) -> Iterator[Table | None]:
    """Runs in the same task, and tasks of the same model."""
    scores = {
        each.name: {_text(key): answered.score for key, answered in each.answers.items()}
        for each in series
        if each.answers
    }
    logged = [each for each in series if each.answers]
    by_model = attrgetter("model")
    clusters = {
        _text(key): answered.video_id
        for each in logged
        for key, answered in each.answers.items()
        if answered.video_id is not None
    }
    for task in dict.fromkeys(each.task_run.task for each in logged):
        names = [each.name for each in logged if each.task_run.task == task]
        key = "egoplan_comparisons" + ("" if task == MAIN_TASK else "_" + re.sub(r"\W+", "_", task))
        chosen = {name: scores[name] for name in names}
        yield comparisons(chosen, clusters, key, f"Every pair of runs: {task}", DECIMALS, 100, "videos")
    for number, (model, own) in enumerate(groupby(sorted(logged, key=by_model), by_model), 1):
        of_model = list(own)
        if any(each.is_main for each in of_model) and len({each.task_run.task for each in of_model}) > 1:
            title = f"Every pair of tasks: {model.rstrip('/').rpartition('/')[2]}"
            chosen = {each.name: scores[each.name] for each in of_model}
            yield comparisons(chosen, clusters, f"egoplan_tasks_{number}", title, DECIMALS, 100, "videos")


def _text(key: Key) -> str:
    return " ".join(map(str, key))
