"""Seeded instances in ActPlan's format, and synthetic plans for them."""

import random
from pathlib import Path

from benchmarks.actplan.release import (
    instance_ids,
    plan,
    task_description,
    variant,
    write_release,
)
from lmms_egoplan.benchmarks.actplan.instances import activity_type
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.actplan.reply.calls import form_validity
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore
from report.answers import Answers


def actplan_docs(count):
    """Return instances of all settings and types; every tenth has no gold plan 2."""
    chance, rows = random.Random(0), []
    for number, instance in enumerate(instance_ids(count)):
        steps = plan(chance, 3 + 7 * number % 58)
        second = [] if number % 10 == 9 else variant(chance, steps)
        rows.append((instance, steps, second))
    rows.sort(key=lambda row: row[0])
    settings = [instance.setting for instance, _, _ in rows]
    return [
        {
            "id": str(instance),
            "scene": instance.scene,
            "activity": instance.activity,
            "setting": instance.setting,
            "activity_type": activity_type(instance.activity),
            "task_description": task_description(instance),
            "gold_plan_1": first,
            "gold_plan_2": second,
            "split_size": count,
            "question_set": "official",
            "setting_size": settings.count(instance.setting),
        }
        for instance, first, second in rows
    ]


def actplan_answers(count, skill, seed=0, bleurt=None, truncated=0.1):
    """Return gold plans 1 in which each step is kept with probability `skill`, and else omitted or
    put into words.

    bleurt: Probability that the classifier calls a plan correct; None without one.
    """
    chance, docs, responses = random.Random(seed), actplan_docs(count), []
    for doc in docs:
        draws = (
            (step, chance.random() < skill, chance.random() < 0.5) for step in doc["gold_plan_1"]
        )
        steps = [
            step if keep else "have a look around" for step, keep, drop in draws if keep or not drop
        ]
        golds = (doc["gold_plan_1"], doc["gold_plan_2"])
        lengths = [_lcs(steps, gold) if gold else None for gold in golds]
        score = PlanScore(
            id=doc["id"],
            official=steps,
            parsed=steps,
            reference_lengths=[len(gold) or None for gold in golds],
            lcs_each=lengths,
            lcs_parsed_each=lengths,
            form_validity=float(form_validity(steps)) if steps else None,
            truncated=chance.random() < truncated,
            bleurt=None if bleurt is None else chance.random() < bleurt,
            bleurt_probability=None if bleurt is None else 0.5,
            bleurt_truncated=None if bleurt is None else False,
            encoder="all-MiniLM-L6-v2",
            classifier=None if bleurt is None else "classifier",
            classifier_name=None if bleurt is None else "all-MiniLM-L6-v2 (6 layers of 384)",
        )
        responses.append([score.to_text()])
    return Answers(docs, responses)


def _lcs(first, second):
    above = [0] * (len(second) + 1)
    for step in first:
        row = [0]
        for column, other in enumerate(second):
            row.append(above[column] + 1 if step == other else max(above[column + 1], row[-1]))
        above = row
    return above[-1]


def prepare(folder: Path, count: int) -> None:
    """Prepare `count` instances in `folder`, to which ``LMMS_EGOPLAN_DATA`` must be set."""
    prepare_actplan(write_release(folder / "media" / "actplan", count))
