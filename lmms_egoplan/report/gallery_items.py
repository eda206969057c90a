"""Collect a benchmark's questions and answers for the gallery."""

import hashlib
from dataclasses import replace
from typing import Any

from lmms_egoplan.report import document
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.scores import Answer


def gallery_items(report: BenchmarkReport[Any]) -> list[document.Item]:
    """Return the questions for the gallery, with the logged answers."""
    items: list[document.Item] = []
    uses: dict[str, int] = {}
    # Names in the gallery of the runs with meaningless scores.
    demo_runs = {task.gallery for task in report.tasks if task.is_demo}
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
            run: _shown_answer(report, answer, is_demo=run in demo_runs)
            for run, answer in answers.items()
        }
        items.append(replace(item, answers=shown_answers, video=video, identity=identity))
    return items


def _shown_answer(
    report: BenchmarkReport[Any], answer: Answer, *, is_demo: bool
) -> document.ShownAnswer:
    """Convert an answer for the gallery, with what the harness logged.

    Args:
        report: the benchmark's report.
        answer: the answer.
        is_demo: true if the run's scores are meaningless.
    """
    gallery_answer = report.gallery_answer(answer)
    rating = gallery_answer.rating
    if is_demo:
        rating = f"{document.DEMO}; {rating}" if rating else document.DEMO
    return replace(
        gallery_answer,
        prompt=answer.prompt,
        tokens=answer.tokens,
        task=answer.task,
        rating=rating or None,
    )
