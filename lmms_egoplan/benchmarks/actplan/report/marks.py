"""Show labels by people and judges: rows next to Tables 3 and 5 to 7, types of errors next to Fig.
6 and Table 8.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import Field

from lmms_egoplan.benchmarks.actplan.error_judge import (
    JUDGED_ERRORS,
    Errors,
    JudgedPlan,
    agreements,
)
from lmms_egoplan.benchmarks.actplan.instances import SETTINGS, parse_id
from lmms_egoplan.benchmarks.actplan.metrics import by_group, length_bin
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, PLANS, VERDICTS
from lmms_egoplan.benchmarks.actplan.reply import official_steps, one_per_line, parsed_steps
from lmms_egoplan.benchmarks.actplan.report.answers import GROUPS, INSTANCES, Plan, Planned
from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.scores import Mean
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS, score_interval
from lmms_egoplan.report.tables import Value, counted, read_notes
from lmms_egoplan.text import join_list
from lmms_egoplan.validation import AnyText, Checked, Text


class LabelledPlan(Checked):
    """A plan with human labels.

    images: True if the model saw images.
    references: Gold plans 1, 2, ...; empty if the export does not have them.
    errors: Affected steps by type of error.
    """

    id: Text
    model: Text
    candidate: AnyText
    correct: bool
    commonsense: bool
    images: bool = True
    references: list[AnyText] = Field(default_factory=list)
    errors: dict[str, list[int]]

    @property
    def length(self) -> str:
        """Bin of gold plan 1's length, as in `length_bin`; ``unknown`` without gold plans."""
        steps = [
            step
            for plan in self.references[:1]
            for step in one_per_line(plan).splitlines()
            if step.strip()
        ]
        return length_bin(len(steps) or None)

    @property
    def setting(self) -> str | None:
        """One of `SETTINGS`; None if the id does not contain it."""
        instance = parse_id(self.id)
        return None if instance is None else instance.setting


class Labelled(NamedTuple):
    """One model's labelled plans."""

    model: str
    plans: tuple[LabelledPlan, ...]

    @property
    def has_images(self) -> bool:
        """True if the model saw images."""
        return all(plan.images for plan in self.plans)


def read_labelled(folders: Sequence[Path]) -> list[Labelled]:
    """Read the labelled plans of every model; plans with and without images are separate.

    Raises:
        LmmsEgoplanError: A file cannot be read or has another format, or two folders have the same
            plan. The error names the line.
    """
    plans_by_model: dict[tuple[str, bool], list[LabelledPlan]] = {}
    for plan in read_labels(folders, PLANS, LabelledPlan, ("id", "model", "images", "candidate")):
        plans_by_model.setdefault((plan.model, plan.images), []).append(plan)
    return [Labelled(model, tuple(plans)) for (model, _), plans in plans_by_model.items()]


def table3_rows(people: Sequence[Labelled]) -> Iterator[dict[str, Value]]:
    """Yield correctness and commonsense by setting, in percent, for plans made with images."""
    for labelled in people:
        if labelled.has_images:
            parts = {
                setting: [p for p in labelled.plans if p.setting == setting] for setting in SETTINGS
            }
            parts["total"] = list(labelled.plans)
            row: dict[str, Value] = {
                "model": f"{labelled.model} (people)",
                "plans": len(labelled.plans),
            }
            count, official = len(labelled.plans), sum(INSTANCES.values())
            row["apart"] = "" if count >= official else f"{counted(count, 'plans')} of {official:,}"
            for part, plans in parts.items():
                row |= {f"{part}_{title}": value for title, value in _percents(plans).items()}
            yield row


def ablation_rows(people: Sequence[Labelled], number: int) -> Iterator[dict[str, Value]]:
    """Yield rows of Table 6 or 7, with and without images, for models with labelled plans without
    images.
    """
    text_only_models = {labelled.model for labelled in people if not labelled.has_images}
    for labelled in people:
        if labelled.model not in text_only_models:
            continue
        mark = "w" if labelled.has_images else "w/o"
        row: dict[str, Any] = {
            "plans": len(labelled.plans),
            "apart": "other plans than the published ones",
        }
        if number == 6:
            row |= {
                "model": f"{labelled.model} ({mark}, people)",
                "avg_len": _length(labelled.plans),
            }
            row |= _percents(labelled.plans)
        else:
            row["model"] = f"{labelled.model}, {mark} image, people"
            for setting in SETTINGS:
                plans = [plan for plan in labelled.plans if plan.setting == setting]
                row[f"{setting}_avg_len"] = _length(plans)
                row |= {f"{setting}_{title}": value for title, value in _percents(plans).items()}
        yield row


def table5_rows(
    people: Sequence[Labelled], planned: Sequence[Planned]
) -> Iterator[dict[str, Value]]:
    """Yield the agreement of each run's classifier with people, on identical plans."""
    from sklearn.metrics import matthews_corrcoef

    labels = {
        (plan.id, tuple(official_steps(plan.candidate))): plan.correct
        for labelled in people
        for plan in labelled.plans
    }
    for run in planned:
        plans = [
            (labels[key], answer.record.score.bleurt, _equals_gold(answer.record))
            for answer in (run.answers or {}).values()
            if answer.record.score.bleurt is not None
            and (key := (answer.id, tuple(answer.record.score.official))) in labels
        ]
        if plans:
            human_labels, verdicts, equal = zip(*plans, strict=True)
            is_defined = len({*human_labels}) > 1 and len({*verdicts}) > 1
            yield {
                "model": (
                    f"{encoder_of(run) or 'unknown encoder'}: "
                    f"{run.task_run.metrics.get('bleurt_model')}"
                ),
                "vlm": run.name,
                "mcc": float(matthews_corrcoef(human_labels, verdicts)) if is_defined else None,
                "all_acc": 100 * fmean(a == b for a, b in zip(human_labels, verdicts, strict=True)),
                "majority_acc": 100 * max(fmean(human_labels), 1 - fmean(human_labels)),
                "equal_acc": 100 * fmean(a == b for a, b in zip(human_labels, equal, strict=True)),
                "plans": len(plans),
                "apart": "other plans than the published ones",
            }


def _equals_gold(plan: Plan) -> bool:
    """Return whether a plan has the lines of one of its gold plans."""
    return bool(plan.score.official) and plan.score.official in plan.golds


def encoder_of(run: Planned) -> str | None:
    """Name the encoder of a run's classifier; None if unknown."""
    return (
        join_list(
            sorted({x.record.score.classifier_name for x in (run.answers or {}).values()} - {None})
        )
        or None
    )


def people_by_length(people: Sequence[Labelled]) -> dict[str, dict[str, Mean]]:
    """Return `correct_by_length` of the plans made with images."""
    with_images = [
        (labelled.model, plan)
        for labelled in people
        if labelled.has_images
        for plan in labelled.plans
    ]
    return correct_by_length(
        [
            {"model": f"{name} (people)", "length": x.length, "id": x.id, "correct": x.correct}
            for name, x in with_images
        ]
    )


def correct_by_length(plans: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mean]]:
    """Return the share of plans that people call correct, in per cent, by model and bin of
    `length_bin` (Fig. 5).

    Intervals are those of scores, over the activities.

    Args:
        plans: Each with ``model``, ``length`` (a bin), ``id`` (of the instance) and ``correct``
            (people's verdict).

    >>> plan = {"model": "mine", "length": "1-10", "id": "Rs_int/making_tea/0/sample_0", "correct": True}
    >>> correct_by_length([plan, plan | {"length": "51+"}, plan | {"correct": False}])["mine"]["1-10"].value
    50.0
    """
    groups = {
        model: by_group(members, "length") for model, members in by_group(plans, "model").items()
    }
    return {
        model: {length: _correct(bins[length]) for length in bins} for model, bins in groups.items()
    }


def _correct(plans: Sequence[Mapping[str, Any]]) -> Mean:
    values = [100.0 * plan["correct"] for plan in plans]
    ids = [(parse_id(plan["id"]), plan["id"]) for plan in plans]
    clusters = [name if instance is None else instance.activity for instance, name in ids]
    return Mean(
        fmean(values), score_interval(values, clusters, top=100), len(values), len(set(clusters))
    )


def length_figure(means: Mapping[str, Mapping[str, Mean]]) -> Figure | None:
    """Draw correctness by people by length, as in Fig. 5; None without verdicts."""
    lengths = [
        length for length in GROUPS["length"] if any(length in bins for bins in means.values())
    ]
    series = {
        model: [bins.get(length, Mean()) for length in lengths] for model, bins in means.items()
    }
    draw = partial(
        draw_lines, lengths, series, "correct by people, %", "steps of the first gold plan", 100
    )
    title, caption = "Correctness by length, judged by people", note("people_length")
    return (
        Figure("actplan_people_by_length", title, caption, draw, spoken(lengths, series, 1))
        if means
        else None
    )


def _percents(plans: Sequence[LabelledPlan]) -> dict[str, Value]:
    titles = dict(zip(VERDICTS, ("correctness", "commonsense"), strict=True))
    return {
        title: 100 * fmean(getattr(p, name) for p in plans) if plans else None
        for name, title in titles.items()
    }


def _length(plans: Sequence[LabelledPlan]) -> Value:
    return fmean(len(parsed_steps(plan.candidate)) for plan in plans) if plans else None


note = read_notes(
    __file__,
    instances=sum(INSTANCES.values()),
    min_items=MIN_ITEMS,
    fewest_clusters=FEWEST_CLUSTERS,
    **INSTANCES,
)
# Short labels for the figure's axis, where the titles do not fit.
_SHORT = ("missing actions", "object", "event", "form", "extra tools", "image")


@dataclass(frozen=True)
class Marked:
    """One model's plans with the types of errors that people or a judge marked.

    name: Name of the model and of the annotator.
    plans: ID, text and marks of each plan.
    unmarked: Number of plans without a usable reply from the judge.
    """

    name: str
    plans: tuple[tuple[str, str, Errors], ...]
    unmarked: int = 0

    @property
    def total(self) -> int:
        """Number of errors; each type counts once per plan."""
        return sum(len(marks) for _, _, marks in self.plans)

    def count(self, key: str) -> int:
        """Return the number of plans with a type of error."""
        return sum(key in marks for _, _, marks in self.plans)

    def share(self, key: str) -> float | None:
        """Return a type's share of all errors, in percent, as in Fig. 6; None without errors."""
        return 100 * self.count(key) / self.total if self.total else None


def read_judgements(folders: Sequence[Path]) -> list[JudgedPlan]:
    """Read the plans that a judge marked, from all folders that contain some.

    Raises:
        LmmsEgoplanError: A file cannot be read or has another format, or two folders have the same
            plan by the same judge. The error names the line.
    """
    return read_labels(
        folders, JUDGED_ERRORS, JudgedPlan, ("id", "model", "candidate", "judge_name")
    )


def marked_by(people: Sequence[Labelled], judged: Sequence[JudgedPlan]) -> list[Marked]:
    """Return the errors that people marked in each model's plans, then those that each judge
    marked.
    """
    marked = []
    for labelled in people:
        name = labelled.model if labelled.has_images else f"{labelled.model} (w/o images)"
        plans = tuple((plan.id, plan.candidate, plan.errors) for plan in labelled.plans)
        marked.append(Marked(f"{name}, people", plans))
    for model, images, judge in dict.fromkeys(
        (plan.model, plan.images, plan.judge_name) for plan in judged
    ):
        of_judge = [
            plan
            for plan in judged
            if (plan.model, plan.images, plan.judge_name) == (model, images, judge)
        ]
        plans = tuple(
            (plan.id, plan.candidate, plan.judge) for plan in of_judge if plan.judge is not None
        )
        name = f"{model}{'' if images else ' (w/o images)'}, judge {judge}"
        marked.append(Marked(name, plans, len(of_judge) - len(plans)))
    return marked


def error_rows(marked: Sequence[Marked]) -> Iterator[Mapping[str, Any]]:
    """Yield types of errors by model (Fig. 6), each with an example (Table 8)."""
    for (key, title), model in product(ERRORS.items(), marked):
        row = {
            "error": title,
            "model": model.name,
            "plans": len(model.plans),
            "unmarked": model.unmarked,
        }
        row |= {"count": model.count(key), "share": model.share(key)}
        yield row | dict(zip(("example", "steps"), next(_examples(key, model), ()), strict=False))


def agreement_rows(judged: Sequence[JudgedPlan]) -> Iterator[dict[str, Any]]:
    """Yield the agreement of judges and people by type, on plans that both marked."""
    for judge in dict.fromkeys(plan.judge_name for plan in judged):
        of_judge = [plan for plan in judged if plan.judge_name == judge]
        for key, (people, by_judge, both, agreement) in agreements(of_judge).items():
            same = agreement.questions - people - by_judge + 2 * both
            row = {
                "judge": judge,
                "error": ERRORS[key],
                "plans": agreement.questions,
                "people": people,
            }
            row |= {"by_judge": by_judge, "both": both, "equal": 100 * same / agreement.questions}
            if (kappa := agreement.kappa_unweighted) is not None:
                row |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high}
            yield row


def errors_figure(marked: Sequence[Marked]) -> Figure | None:
    """Draw the shares of all errors by type, as in Fig. 6; None without errors."""
    means = {
        model.name: [Mean(model.share(key)) for key in ERRORS] for model in marked if model.total
    }
    if not means:
        return None
    top = max(mean.value or 0 for bars in means.values() for mean in bars)
    draw = partial(draw_bars, _SHORT, means, "of all errors, %", min(100, 1.15 * top))
    return Figure(
        "actplan_errors", "Types of errors", note("errors_caption"), draw, spoken(_SHORT, means, 1)
    )


def _examples(key: str, marked: Marked) -> Iterator[tuple[str, str]]:
    """Yield the activity and the affected steps of each plan with a type of error."""
    for name, text, marks in marked.plans:
        if key in marks:
            lines = official_steps(text)
            steps = [lines[step - 1] for step in marks[key] if 0 < step <= len(lines)]
            instance = parse_id(name)
            activity = name if instance is None else instance.activity.replace("_", " ")
            yield activity, "; ".join(steps) or "the whole plan"
