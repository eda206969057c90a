"""Instances of the gallery, with the plans of the runs."""

from collections.abc import Iterator, Sequence

from lmms_egoplan.benchmarks.actplan.activities import parse_id
from lmms_egoplan.benchmarks.actplan.report.answers import read_planned
from lmms_egoplan.benchmarks.actplan.report.plans import Plan
from lmms_egoplan.benchmarks.actplan.report.prepared_rows import prepared_instances
from lmms_egoplan.report.document import Item, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run


def items(runs: Sequence[Run]) -> list[Item]:
    """The instances with the plans of the runs with samples.

    Raises:
        LmmsEgoplanError: as for `section`.
    """
    planned = [run for run in read_planned(runs) if run.plans]
    prepared, _ = prepared_instances()
    found, uses = [], {}
    for key in dict.fromkeys(key for run in planned for key in run.plans):
        said = {run.name: run.plans[key] for run in planned if key in run.plans}
        first = next(iter(said.values()))
        instance = first.score.id
        uses[instance] = uses.get(instance, 0) + 1
        logged = next((plan.doc for plan in said.values() if plan.doc), {}).get("task_description")
        text, images = prepared.get(key, (logged or f"{instance}: the task description is not at hand", None))
        place = parse_id(instance)
        saw_images = any(not run.is_text_only for run in planned if key in run.plans)
        found.append(
            Item(
                key=f"actplan/{instance}" + (f" ({uses[instance]})" if uses[instance] > 1 else ""),
                benchmark="actplan",
                question=text.strip(),
                facts={
                    "setting": first.setting,
                    "activity type": first.activity_type,
                    "activity": first.activity,
                    **({"scene": place.scene} if place else {}),
                },
                references={
                    f"Gold plan {number}": "\n".join(steps) for number, steps in enumerate(first.golds, 1) if steps
                },
                images=images if saw_images else None,
                answers={name: _shown(plan) for name, plan in said.items()},
            )
        )
    return found


def _shown(plan: Plan) -> ShownAnswer:
    """Without a classifier, a plan is right that is gold plan 1, and wrong that has no step of it."""
    score, values = plan.score, plan.values
    norm = values["lcs_norm"]
    verdict: Verdict = "unscored"
    if score.bleurt is not None:
        verdict = "right" if score.bleurt else "wrong"
    elif norm is not None:
        verdict = "right" if norm == 1 else "wrong" if norm == 0 else "partly"
    text = "\n".join(score.official) or "(nothing)"
    if score.parsed != score.official:
        text += f"\n\nRead as {len(score.parsed)} steps:\n" + "\n".join(score.parsed)
    return ShownAnswer(verdict=verdict, text=text, rating="; ".join(_told(plan)))


def _told(plan: Plan) -> Iterator[str]:
    score, values = plan.score, plan.values
    for number, measure in enumerate(("lcs_norm", "lcs_norm_gold_2"), 1):
        if values[measure] is not None:
            yield f"normalised LCS with gold plan {number} {values[measure]:.3f} of 1"
    if score.parsed != score.official and values["lcs_norm_parsed"] is not None:
        yield f"parsed {values['lcs_norm_parsed']:.3f}"
    if score.form_validity is not None:
        yield f"form validity {score.form_validity:.2f}"
    if score.bleurt is not None:
        sure = "" if score.bleurt_probability is None else f" ({score.bleurt_probability:.2f})"
        yield f"{'correct' if score.bleurt else 'wrong'} by the classifier{sure}"
    if score.truncated:
        yield "cut off"
