"""EgoIntent's steps for the gallery."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, TITLES
from lmms_egoplan.benchmarks.egointent.report.answers import Step, graded_runs
from lmms_egoplan.benchmarks.egointent.report.prepared_rows import frames, prepared_steps
from lmms_egoplan.benchmarks.egointent.scoring import GradedStep
from lmms_egoplan.report.document import Item, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run

# Of a step's three ratings, the mean from which the gallery calls it right, and below which it calls it wrong.
RIGHT, WRONG = 75, 25


def items(runs: Sequence[Run]) -> list[Item]:
    """The steps with what the runs with samples answered.

    Raises:
        LmmsEgoplanError: as for `section`.
    """
    graded = [run for run in graded_runs(runs) if run.steps]
    prepared, _ = prepared_steps()
    found, uses = [], {}
    for key in dict.fromkeys(key for run in graded for key in run.steps):
        step_id, _ = key
        said = {run.name: run.steps[key] for run in graded if key in run.steps}
        first = next(iter(said.values()))
        doc = prepared.get(key) or next((step.doc for step in said.values() if step.doc), None)
        uses[step_id] = uses.get(step_id, 0) + 1
        found.append(
            Item(
                key=f"egointent/{step_id}" + (f" ({uses[step_id]})" if uses[step_id] > 1 else ""),
                benchmark="egointent",
                question=_question(first, doc),
                facts={
                    "category" if first.is_goalstep else "scenario": first.group,
                    "environment": first.environment,
                    "references": "unverified" if first.unverified else "verified",
                },
                references={TITLES[field]: doc[field] for field in FIELDS} if doc else {},
                images=frames(doc, max(step.graded.frames_shown for step in said.values())),
                answers={name: _shown(step.graded) for name, step in said.items()},
            )
        )
    return found


def _question(step: Step, doc: Mapping[str, Any] | None) -> str:
    when = f", {doc['start_sec']:.2f} to {doc['end_sec']:.2f} s" if doc else ""
    return f"Step {step.graded.step_id} (video {step.video_id}{when}): what is done, why, and what comes next?"


def _shown(step: GradedStep) -> ShownAnswer:
    ratings = step.ratings.values()
    mean = None if None in ratings else fmean(ratings)
    verdict: Verdict = "unscored"
    if mean is not None:
        verdict = "right" if mean >= RIGHT else "wrong" if mean < WRONG else "partly"
    told = [f"{mean:.1f} of 100" if mean is not None else "not judged"]
    told += ["cut off"] * bool(step.truncated) + ["suspect"] * bool(step.suspect)
    judgements = [f"{TITLES[field]}: {text}" for field, text in step.judgements.items() if text]
    return ShownAnswer(
        verdict=verdict,
        text="\n".join(_said(step, field) for field in FIELDS),
        rating="; ".join(told),
        judgement="\n".join(judgements) or None,
    )


def _said(step: GradedStep, field: str) -> str:
    rating = step.ratings[field]
    told = f"not judged: {step.errors[field]}" if rating is None else f"{rating:g}"
    return f"{TITLES[field]}: {step.fields.get(field, 'missing')} [{told}]"
