"""What people said of plans, as ``annotate export`` wrote it: rows beside Tables 3 and 5 to 7."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from lmms_egoplan.benchmarks.actplan.activities import SETTINGS, parse_id
from lmms_egoplan.benchmarks.actplan.labels import PLANS, VERDICTS
from lmms_egoplan.benchmarks.actplan.reply import official_steps, parsed_steps
from lmms_egoplan.benchmarks.actplan.report.answers import INSTANCES, Planned
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.report.document import Value
from lmms_egoplan.report.labelled import check_once
from lmms_egoplan.report.numbers import counted
from lmms_egoplan.validation import AnyText, Checked, Text, read_as


class LabelledPlan(Checked):
    """A plan with what people said.

    images: whether its model was shown images.
    errors: by type, the steps concerned.
    """

    id: Text
    model: Text
    candidate: AnyText
    correct: bool
    commonsense: bool
    images: bool = True
    errors: dict[str, list[int]]

    @property
    def setting(self) -> str | None:
        """One of `SETTINGS`; None where the id does not tell."""
        place = parse_id(self.id)
        return None if place is None else place.setting


@dataclass(frozen=True)
class Judged:
    """One model's labelled plans."""

    model: str
    plans: tuple[LabelledPlan, ...]

    @property
    def has_images(self) -> bool:
        return all(plan.images for plan in self.plans)


def read_judged(folders: Sequence[Path]) -> list[Judged]:
    """The labelled plans of every model, with and without images apart.

    Raises:
        LmmsEgoplanError: a file cannot be read or holds something else, or two folders have the same plan; names the
            line.
    """
    found: dict[tuple[str, bool], list[LabelledPlan]] = {}
    folder_of: dict[tuple[str, str, bool, str], Path] = {}
    for folder in folders:
        if (folder / PLANS).is_file():
            for where, line in read_lines(folder / PLANS):
                plan = read_as(LabelledPlan, where, parse_record(where, line))
                first = folder_of.setdefault((plan.id, plan.model, plan.images, plan.candidate), folder)
                check_once(where, f"{plan.id} of {plan.model}", folder, first)
                found.setdefault((plan.model, plan.images), []).append(plan)
    return [Judged(model, tuple(plans)) for (model, _), plans in found.items()]


def table3_rows(judged: Sequence[Judged]) -> Iterator[dict[str, Value]]:
    """Correctness and commonsense by setting, in percent, of plans made with images."""
    for of_model in judged:
        if of_model.has_images:
            parts = {setting: [p for p in of_model.plans if p.setting == setting] for setting in SETTINGS}
            parts["total"] = list(of_model.plans)
            row: dict[str, Value] = {"model": f"{of_model.model} (people)", "plans": len(of_model.plans)}
            count, official = len(of_model.plans), sum(INSTANCES.values())
            row["apart"] = "" if count >= official else f"{counted(count, 'plans')} of {official:,}"
            for part, plans in parts.items():
                row |= {f"{part}_{title}": value for title, value in _percents(plans).items()}
            yield row


def ablation_rows(judged: Sequence[Judged], number: int) -> Iterator[dict[str, Value]]:
    """Tables 6 and 7: with and without images, of models that people labelled without."""
    without = {of_model.model for of_model in judged if not of_model.has_images}
    for of_model in judged:
        if of_model.model not in without:
            continue
        mark = "w" if of_model.has_images else "w/o"
        row: dict[str, Any] = {"plans": len(of_model.plans), "apart": "other plans than the published ones"}
        if number == 6:
            row |= {"model": f"{of_model.model} ({mark}, people)", "avg_len": _length(of_model.plans)}
            row |= _percents(of_model.plans)
        else:
            row["model"] = f"{of_model.model}, {mark} image, people"
            for setting in SETTINGS:
                plans = [plan for plan in of_model.plans if plan.setting == setting]
                row[f"{setting}_avg_len"] = _length(plans)
                row |= {f"{setting}_{title}": value for title, value in _percents(plans).items()}
        yield row


def table5_rows(judged: Sequence[Judged], planned: Sequence[Planned]) -> Iterator[dict[str, Value]]:
    """How far a run's classifier agrees with people, on plans that are the same."""
    from sklearn.metrics import matthews_corrcoef

    labels = {
        (plan.id, tuple(official_steps(plan.candidate))): plan.correct for of_model in judged for plan in of_model.plans
    }
    for run in planned:
        pairs = [
            (labels[key], answer.record.score.bleurt)
            for answer in (run.answers or {}).values()
            if answer.record.score.bleurt is not None
            and (key := (answer.id, tuple(answer.record.score.official))) in labels
        ]
        if pairs:
            said, verdicts = zip(*pairs, strict=True)
            is_defined = len({*said}) > 1 and len({*verdicts}) > 1
            yield {
                "model": str(run.task_run.metrics.get("bleurt_model")),
                "vlm": run.name,
                "mcc": float(matthews_corrcoef(said, verdicts)) if is_defined else None,
                "all_acc": 100 * fmean(a == b for a, b in pairs),
                "plans": len(pairs),
                "apart": "other plans than the published ones",
            }


def _percents(plans: Sequence[LabelledPlan]) -> dict[str, Value]:
    titles = dict(zip(VERDICTS, ("correctness", "commonsense"), strict=True))
    return {title: 100 * fmean(getattr(p, name) for p in plans) if plans else None for name, title in titles.items()}


def _length(plans: Sequence[LabelledPlan]) -> Value:
    return fmean(len(parsed_steps(plan.candidate)) for plan in plans) if plans else None
