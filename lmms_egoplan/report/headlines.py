"""The main score of a task for the summary, with its protocol."""

import hashlib
from collections.abc import Iterator, Sequence
from textwrap import shorten

from lmms_egoplan.ranking.chat_templates import NO_TEMPLATE, NOT_APPLIED
from lmms_egoplan.report import document
from lmms_egoplan.report.comparability import has_same_protocol
from lmms_egoplan.report.scores import NONE, ScoredTask
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.stats.intervals import why_no_interval
from lmms_egoplan.stats.means import Mean

# Conditions whose names stay plural before a value: "frames 8", but "judge gpt-4o".
_COUNTED = ("frames", "new tokens", "prompts among the model arguments")
# Conditions that a protocol has in another form: the task's name and `ScoredTask.plain_text`.
_UNNAMED = ("tasks", "chat templates")
# Longest value of a condition in a protocol, such as a system instruction.
_LONGEST = 80
_DIGEST_SHOWN = 8


def headline_of(task: ScoredTask, spec: Spec) -> document.Headline:
    """Return the main score of a task for the summary."""
    main = task.main
    return document.Headline(
        run=task.run.name,
        benchmark=spec.title,
        task=task.task,
        metric=spec.metric,
        value=main.value,
        decimals=spec.decimals,
        interval=main.interval,
        questions=main.questions,
        coverage=task.coverage,
        truncated=task.truncated,
        truncated_of=task.truncated_of,
        no_interval="" if main.value is None else why_no_interval_of(main, spec.clusters),
        apart=task.objections,
        is_demo=task.is_demo,
        checkpoint=task.run.checkpoint,
        remarks=("The model has no chat template.",) if task.chat_template == NO_TEMPLATE else (),
    )


def protocols_of(tasks: Sequence[ScoredTask]) -> list[str]:
    """Return the protocol of each task in a few words; equal for tasks with the same protocol.

    A task that does not know a setting of its protocol, or needed no judge, has the protocol of
    those that do, if they have only one.
    """
    words = {id(task): (task.task, *_protocol(task)) for task in tasks}
    groups: list[list[ScoredTask]] = []
    for task in sorted(tasks, key=lambda task: -len(words[id(task)])):
        fitting = [
            group for group in groups if all(has_same_protocol(other, task) for other in group)
        ]
        equal = [group for group in fitting if words[id(group[0])] == words[id(task)]]
        if equal or len(fitting) == 1:
            (equal or fitting)[0].append(task)
        else:
            groups.append([task])
    texts: dict[int, str] = {}
    for group in groups:
        text = ", ".join(words[id(group[0])])
        texts |= {id(task): text for task in group}
    return [texts[id(task)] for task in tasks]


def _protocol(task: ScoredTask) -> Iterator[str]:
    """Yield version, judge and the other conditions that must be equal in comparable runs."""
    if task.task_run.version:
        yield f"version {task.task_run.version}"
    if task.chat_template == NOT_APPLIED:
        yield task.plain_text
    for name, value in (task.conditions | task.settings).items():
        if name not in _UNNAMED and value not in (None, "", NONE):
            noun = name if name in _COUNTED else name.removesuffix("s")
            text = shorten(value, _LONGEST, placeholder=" \u2026")
            if text != value:
                digest = hashlib.sha256(value.encode()).hexdigest()
                text += f" (digest {digest[:_DIGEST_SHOWN]})"
            yield f"{noun} {text}"


def why_no_interval_of(mean: Mean, clusters: str) -> str:
    """Return why a mean has no interval; "" if it has one.

    Args:
        mean: The mean.
        clusters: See `Spec.clusters`.
    """
    if mean.interval:
        return ""
    if mean.drawn is not None:
        return why_no_interval(mean.drawn, "questions")
    return why_no_interval(mean.clusters, clusters)
