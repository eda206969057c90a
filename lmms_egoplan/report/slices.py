"""Split the main score by the attributes of questions and by people's labels."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.headlines import why_no_interval_of
from lmms_egoplan.report.overlap import DEGREES
from lmms_egoplan.report.scores import Answer, ScoredTask
from lmms_egoplan.stats.means import Mean

# Attributes with more groups, such as activities, have no slice. The gallery's search covers them.
_MOST_GROUPS = 24


def slices_of(report: BenchmarkReport[Any]) -> Iterator[document.Slice]:
    """Split the main score by each attribute of the questions and by people's labels."""

    def facts_of(_task: ScoredTask, answer: Answer) -> Mapping[str, str]:
        facts: Mapping[str, str] = report.questions[answer.key]["facts"]
        return facts

    facts: dict[str, None] = {}
    for question in report.questions.values():
        facts |= dict.fromkeys(question["facts"])
    for attribute in facts:
        yield from _slice(report, attribute, facts_of)
    labels: dict[str, None] = {}
    for task in report.main_tasks():
        for answer in (task.answers or {}).values():
            labels |= dict.fromkeys(report.labels(task, answer))
    for attribute in labels:
        for part in _slice(report, attribute, report.labels):
            yield replace(part, is_fact=False)


def _slice(
    report: BenchmarkReport[Any],
    attribute: str,
    groups_of: Callable[[Any, Answer], Mapping[str, str]],
) -> Iterator[document.Slice]:
    """Split the main score by an attribute, unless it has one or too many groups.

    Args:
        report: the benchmark's report.
        attribute: the attribute.
        groups_of: returns the groups of an answer by attribute.
    """
    members: dict[str, dict[document.AnswerKey, list[Answer]]] = {}
    for task in report.main_tasks():
        for answer in (task.answers or {}).values():
            group = groups_of(task, answer).get(attribute)
            if group is not None:
                by_task = members.setdefault(group, {})
                by_task.setdefault((task.run.name, task.task), []).append(answer)
    is_audit = bool(members.keys() & {*DEGREES})
    if not is_audit and not 2 <= len(members) <= _MOST_GROUPS:
        return
    groups = []
    for name in sorted(members, key=_sort_key(report.SPEC.group_order.get(attribute, DEGREES))):
        for (run, task_name), answers in members[name].items():
            of_run = group_of(name, run, report.mean_over(answers), report.SPEC.clusters)
            groups.append(replace(of_run, task=task_name))
    yield document.Slice(attribute, tuple(groups))


def group_of(name: str, run: str, mean: Mean, clusters: str) -> document.Group:
    """Return a run's mean over a group of questions."""
    why = why_no_interval_of(mean, clusters)
    return document.Group(name, run, mean.value, mean.interval, why, mean.questions or 0)


def _sort_key(
    group_order: Sequence[str],
) -> Callable[[str], tuple[int, list[tuple[int, int, str]]]]:
    """Return a function from a group of an attribute to its key for sorting.

    Args:
        group_order: The groups that come first.
    """
    order = [*group_order]

    def key(group: str) -> tuple[int, list[tuple[int, int, str]]]:
        return order.index(group) if group in order else len(order), _natural(group)

    return key


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a sort key that orders the numbers in names by value."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part.casefold()) for part in parts]
