"""Show labels by people and judges.

They are rows next to Tables 3 and 5 to 7, and types of errors next to Fig. 6 and Table 8.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import Field

from lmms_egoplan.benchmarks.actplan.instances import SETTINGS, parse_id
from lmms_egoplan.benchmarks.actplan.metrics import by_group, length_bin
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, PLANS
from lmms_egoplan.benchmarks.actplan.reply import official_steps, one_per_line, parsed_steps
from lmms_egoplan.report.actplan.answers import GROUPS, INSTANCES, Plan, Planned
from lmms_egoplan.report.actplan.error_judge import JUDGED_ERRORS, Errors, JudgedPlan, agreements
from lmms_egoplan.report.charts import looks_of
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.plots import draw_bars, draw_lines, spoken
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.tables import Value
from lmms_egoplan.stats.intervals import score_interval
from lmms_egoplan.stats.means import Mean
from lmms_egoplan.text import counted, join_list
from lmms_egoplan.validation import AnyText, Checked, Text

PEOPLE_BY_LENGTH_NOTE = (
    "Like Fig. 5 of the paper: share of the plans that people called correct, by the length of the "
    "first gold plan in steps, with 95 % intervals over the activities. Bins are "
    "this project's, since the paper's are not legible. Plans made without images are excluded."
)
_BY_PEOPLE = " (people)"


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
    def key(self) -> Hashable:
        """Values that identify the plan among those of all folders."""
        return self.id, self.model, self.images, self.candidate

    @property
    def length(self) -> str:
        """Bin of gold plan 1's length, as in `length_bin`; ``unknown`` without gold plans."""
        if not self.references:
            return length_bin(None)
        lines = one_per_line(self.references[0]).splitlines()
        return length_bin(sum(bool(line.strip()) for line in lines) or None)

    @property
    def setting(self) -> str | None:
        """One of `SETTINGS`; None if the id does not contain it."""
        instance = parse_id(self.id)
        return None if instance is None else instance.setting


@dataclass(frozen=True, slots=True)
class ModelPlans:
    """Plans of one model, labelled by people; all of them with images, or all without."""

    model: str
    plans: tuple[LabelledPlan, ...]

    @property
    def has_images(self) -> bool:
        """True if the model saw images."""
        return all(plan.images for plan in self.plans)


def read_plans_by_model(folders: Sequence[Path]) -> list[ModelPlans]:
    """Read the plans that people labelled, by model; plans with and without images are separate.

    Raises:
        LmmsEgoplanError: A file cannot be read or has another format, or two folders have the same
            plan. The error names the line.
    """
    plans_by_model: dict[tuple[str, bool], list[LabelledPlan]] = {}
    for plan in read_labels(folders, PLANS, LabelledPlan):
        plans_by_model.setdefault((plan.model, plan.images), []).append(plan)
    return [ModelPlans(model, tuple(plans)) for (model, _), plans in plans_by_model.items()]


def table3_rows(people: Sequence[ModelPlans]) -> Iterator[dict[str, Value]]:
    """Yield correctness and commonsense by setting, in percent, for plans made with images."""
    official = sum(INSTANCES.values())
    for labelled in people:
        if not labelled.has_images:
            continue
        count = len(labelled.plans)
        row: dict[str, Value] = {"model": f"{labelled.model}{_BY_PEOPLE}", "plans": count}
        row["apart"] = "" if count >= official else f"{counted(count, 'plans')} of {official:,}"
        for setting in SETTINGS:
            row |= _percents(_of_setting(labelled.plans, setting), f"{setting}_")
        row |= _percents(labelled.plans, "total_")
        yield row


def ablation_rows(people: Sequence[ModelPlans], number: int) -> Iterator[dict[str, Value]]:
    """Yield rows of Table 6 or 7, with and without images.

    Only models with labelled plans without images have rows.
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
                plans = _of_setting(labelled.plans, setting)
                row[f"{setting}_avg_len"] = _length(plans)
                row |= _percents(plans, f"{setting}_")
        yield row


def table5_rows(
    people: Sequence[ModelPlans], planned: Sequence[Planned]
) -> Iterator[dict[str, Value]]:
    """Yield the agreement of each run's classifier with people, on identical plans."""
    from sklearn.metrics import matthews_corrcoef

    labels: dict[tuple[str, tuple[str, ...]], bool] = {}
    for labelled in people:
        for plan in labelled.plans:
            labels[plan.id, tuple(official_steps(plan.candidate))] = plan.correct
    for run in planned:
        human_labels: list[bool] = []
        verdicts: list[bool] = []
        equal_gold: list[bool] = []
        for answer in (run.answers or {}).values():
            score = answer.record.score
            label = labels.get((answer.id, tuple(score.official)))
            if score.bleurt is not None and label is not None:
                human_labels.append(label)
                verdicts.append(score.bleurt)
                equal_gold.append(_equals_gold(answer.record))
        if not human_labels:
            continue
        mcc = None
        if len(set(human_labels)) > 1 and len(set(verdicts)) > 1:
            mcc = float(matthews_corrcoef(human_labels, verdicts))
        share_correct = fmean(human_labels)
        encoder = encoder_of(run) or "unknown encoder"
        yield {
            "model": f"{encoder}: {run.task_run.metrics.get('bleurt_model')}",
            "vlm": run.name,
            "mcc": mcc,
            "all_acc": _percent_equal(human_labels, verdicts),
            "majority_acc": 100 * max(share_correct, 1 - share_correct),
            "equal_acc": _percent_equal(human_labels, equal_gold),
            "plans": len(human_labels),
            "apart": "other plans than the published ones",
        }


def _percent_equal(labels: Sequence[bool], verdicts: Sequence[bool]) -> float:
    """Return the share of verdicts that equal the labels, in percent."""
    return 100 * fmean(a == b for a, b in zip(labels, verdicts, strict=True))


def _equals_gold(plan: Plan) -> bool:
    """Return True if a plan has the lines of one of its gold plans."""
    return bool(plan.score.official) and plan.score.official in plan.golds


def encoder_of(run: Planned) -> str | None:
    """Name the encoder of a run's classifier; None if unknown."""
    answers = (run.answers or {}).values()
    names = {answer.record.score.classifier_name for answer in answers}
    return join_list(sorted(name for name in names if name is not None)) or None


def people_by_length(people: Sequence[ModelPlans]) -> dict[str, dict[str, Mean]]:
    """Return `correct_by_length` of the plans made with images."""
    rows: list[dict[str, Any]] = []
    for labelled in people:
        if not labelled.has_images:
            continue
        for plan in labelled.plans:
            rows.append(
                {
                    "model": f"{labelled.model} (people)",
                    "length": plan.length,
                    "id": plan.id,
                    "correct": plan.correct,
                }
            )
    return correct_by_length(rows)


def correct_by_length(plans: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mean]]:
    """Return the share of plans that people call correct, in percent (Fig. 5).

    The shares are by model and bin of `length_bin`. Intervals are those of scores, over the
    activities.

    Args:
        plans: Each with ``model``, ``length`` (a bin), ``id`` (of the instance) and ``correct``
            (people's verdict).

    >>> name = "Rs_int/making_tea/0/sample_0"
    >>> plan = {"model": "mine", "length": "1-10", "id": name, "correct": True}
    >>> means = correct_by_length([plan, plan | {"length": "51+"}, plan | {"correct": False}])
    >>> means["mine"]["1-10"].value
    50.0
    """
    means: dict[str, dict[str, Mean]] = {}
    for model, members in by_group(plans, "model").items():
        bins = by_group(members, "length")
        means[model] = {length: _correct(bins[length]) for length in bins}
    return means


def _correct(plans: Sequence[Mapping[str, Any]]) -> Mean:
    """Return the share of correct plans, with an interval over the activities."""
    values = [100.0 * plan["correct"] for plan in plans]
    clusters: list[str] = []
    for plan in plans:
        instance = parse_id(plan["id"])
        clusters.append(plan["id"] if instance is None else instance.activity)
    interval = score_interval(values, clusters, top=100)
    return Mean(fmean(values), interval, len(values), len(set(clusters)))


def length_figure(
    means: Mapping[str, Mapping[str, Mean]], models: Sequence[str] = ()
) -> Figure | None:
    """Draw correctness by people by length, as in Fig. 5; None without verdicts.

    Args:
        means: The means by length of each model.
        models: Names of all runs of the report.
    """
    if not means:
        return None
    lengths: list[str] = []
    for length in GROUPS["length"]:
        if any(length in bins for bins in means.values()):
            lengths.append(length)
    series: dict[str, list[Mean]] = {}
    for model, bins in means.items():
        series[model] = [bins.get(length, Mean()) for length in lengths]
    looks = looks_of({model: model.removesuffix(_BY_PEOPLE) for model in series}, models)
    draw = partial(
        draw_lines,
        lengths,
        series,
        looks,
        "correct by people, %",
        "steps of the first gold plan",
        100,
    )
    return Figure(
        "actplan_people_by_length",
        "Correctness by length, judged by people",
        PEOPLE_BY_LENGTH_NOTE,
        draw,
        spoken(lengths, series, 1),
    )


def _of_setting(plans: Sequence[LabelledPlan], setting: str) -> list[LabelledPlan]:
    return [plan for plan in plans if plan.setting == setting]


def _percents(plans: Sequence[LabelledPlan], prefix: str = "") -> dict[str, Value]:
    """Return the shares of people's verdicts, in percent; None without plans."""
    if not plans:
        return {f"{prefix}correctness": None, f"{prefix}commonsense": None}
    return {
        f"{prefix}correctness": 100 * fmean(plan.correct for plan in plans),
        f"{prefix}commonsense": 100 * fmean(plan.commonsense for plan in plans),
    }


def _length(plans: Sequence[LabelledPlan]) -> Value:
    """Return the mean number of steps; None without plans."""
    if not plans:
        return None
    return fmean(len(parsed_steps(plan.candidate)) for plan in plans)


# Short labels for the figure's axis, where the titles do not fit.
_SHORT = ("missing actions", "object", "event", "form", "extra tools", "image")


@dataclass(frozen=True)
class Marked:
    """One model's plans with the types of errors that people or a judge marked.

    name: Name of the model and of the annotator.
    model: Name of the model.
    plans: ID, text and marks of each plan.
    unmarked: Number of plans without a usable reply from the judge.
    """

    name: str
    model: str
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
    return read_labels(folders, JUDGED_ERRORS, JudgedPlan)


def marked_by(people: Sequence[ModelPlans], judged: Sequence[JudgedPlan]) -> list[Marked]:
    """Return the errors that people marked in each model's plans, then those of each judge."""
    marked: list[Marked] = []
    for labelled in people:
        name = _name_of(labelled.model, has_images=labelled.has_images)
        plans = tuple((plan.id, plan.candidate, plan.errors) for plan in labelled.plans)
        marked.append(Marked(f"{name}, people", labelled.model, plans))
    plans_by_judge: dict[tuple[str, bool, str], list[JudgedPlan]] = {}
    for plan in judged:
        key = (plan.model, plan.images, plan.judge_name)
        plans_by_judge.setdefault(key, []).append(plan)
    for (model, has_images, judge), judged_plans in plans_by_judge.items():
        plans = tuple(
            (plan.id, plan.candidate, plan.judge) for plan in judged_plans if plan.judge is not None
        )
        name = _name_of(model, has_images=has_images)
        num_unmarked = len(judged_plans) - len(plans)
        marked.append(Marked(f"{name}, judge {judge}", model, plans, num_unmarked))
    return marked


def _name_of(model: str, *, has_images: bool) -> str:
    return model if has_images else f"{model} (w/o images)"


def error_rows(marked: Sequence[Marked]) -> Iterator[Mapping[str, Any]]:
    """Yield types of errors by model (Fig. 6), each with an example (Table 8)."""
    for key, title in ERRORS.items():
        for model in marked:
            row = {
                "error": title,
                "model": model.name,
                "plans": len(model.plans),
                "unmarked": model.unmarked,
                "count": model.count(key),
                "share": model.share(key),
            }
            example = next(_examples(key, model), None)
            if example is not None:
                row["example"], row["steps"] = example
            yield row


def agreement_rows(judged: Sequence[JudgedPlan]) -> Iterator[dict[str, Any]]:
    """Yield the agreement of judges and people by type, on plans that both marked."""
    for judge in dict.fromkeys(plan.judge_name for plan in judged):
        of_judge = [plan for plan in judged if plan.judge_name == judge]
        for key, (people, by_judge, both, agreement) in agreements(of_judge).items():
            # Plans that both mark, and plans that neither marks.
            equal = agreement.questions - people - by_judge + 2 * both
            row = {
                "judge": judge,
                "error": ERRORS[key],
                "plans": agreement.questions,
                "people": people,
                "by_judge": by_judge,
                "both": both,
                "equal": 100 * equal / agreement.questions,
            }
            kappa = agreement.kappa_unweighted
            if kappa is not None:
                row |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high}
            yield row


def errors_figure(marked: Sequence[Marked], models: Sequence[str]) -> Figure | None:
    """Draw the shares of all errors by type, as in Fig. 6; None without errors.

    Args:
        marked: The errors by model and annotator.
        models: Names of all runs of the report.
    """
    shares: dict[str, list[float | None]] = {}
    model_of: dict[str, str | None] = {}
    for model in marked:
        if model.total:
            name = f"{model.name}: n = {counted(model.total, 'errors')}"
            shares[name] = [model.share(key) for key in ERRORS]
            model_of[name] = model.model
    if not shares:
        return None
    means = {name: [Mean(share) for share in shares[name]] for name in shares}
    draw = partial(draw_bars, _SHORT, shares, looks_of(model_of, models), "of all errors, %")
    return Figure(
        "actplan_errors",
        "Types of errors",
        "Like Fig. 6 of the paper, whose numbers are not printed: share of all errors by type, in "
        "plans marked by people or a judge. A type counts once per plan. The table has the "
        "numbers.",
        draw,
        spoken(_SHORT, means, 1),
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
