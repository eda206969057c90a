"""Collect a benchmark's questions and answers for the gallery."""

import hashlib
from dataclasses import replace
from typing import Any

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.scores import Answer, ScoredTask


def gallery_items(report: BenchmarkReport[Any]) -> list[document.Item]:
    """Return the questions for the gallery, with the logged answers."""
    items: list[document.Item] = []
    uses: dict[str, int] = {}
    tasks: dict[document.AnswerKey, ScoredTask] = {}
    for task in report.tasks:
        tasks[task.run.name, task.task] = task
    task_names = _task_names(report)
    for key in report.question_order(report.answers):
        answers = report.answers[key]
        name = next(iter(answers.values())).id
        uses[name] = uses.get(name, 0) + 1
        suffix = f" ({uses[name]})" if uses[name] > 1 else ""
        video = None
        if report.SPEC.clusters == "videos":
            video = next((answer.cluster for answer in answers.values() if answer.cluster), None)
        item = document.Item(
            f"{report.SPEC.name}/{name}{suffix}", report.SPEC.name, **report.questions[key]
        )
        identity = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
        shown_answers = {
            answer_key: _shown_answer(report, tasks[answer_key], answer)
            for answer_key, answer in answers.items()
        }
        items.append(
            replace(item, answers=shown_answers, video=video, identity=identity, tasks=task_names)
        )
    return items


def _task_names(report: BenchmarkReport[Any]) -> tuple[str, ...]:
    """Return the names of the benchmark's tasks: the main task, other own tasks, conditions."""

    def position(task: ScoredTask) -> tuple[bool, bool]:
        is_main = task.name == task.run.name
        return not is_main, task.shortcut is not None

    return tuple(dict.fromkeys(task.task for task in sorted(report.tasks, key=position)))


def _shown_answer(
    report: BenchmarkReport[Any], task: ScoredTask, answer: Answer
) -> document.ShownAnswer:
    """Convert an answer for the gallery, with what the harness logged and people's rating."""
    return replace(
        report.gallery_answer(answer),
        prompt=answer.prompt,
        tokens=answer.tokens,
        task=answer.task,
        people=report.peoples_rating(task, answer),
        is_demo=task.is_demo,
    )
