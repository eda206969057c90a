"""Types of errors in plans, marked by people and by judges: beside Fig. 6 and Table 8, and how far the two agree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lmms_egoplan.benchmarks.actplan.activities import parse_id
from lmms_egoplan.benchmarks.actplan.error_judge import JUDGED_ERRORS, Errors, JudgedPlan, agreements, read_judged
from lmms_egoplan.benchmarks.actplan.labels import ERRORS
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.report.answers import INSTANCES
from lmms_egoplan.benchmarks.actplan.report.people import Judged
from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.report.charts import draw_bars, spoken
from lmms_egoplan.report.document import Figure, Table, table_of_runs
from lmms_egoplan.report.labelled import check_once
from lmms_egoplan.report.notes import read_columns, read_notes
from lmms_egoplan.report.scored import Mean

_note = read_notes(__file__, instances=sum(INSTANCES.values()), min_items=MIN_ITEMS, **INSTANCES)
_COLUMNS = read_columns(__file__)
# For the figure's axis, which has no room for the titles.
_SHORT = ("missing actions", "object", "event", "form", "extra tools", "image")


@dataclass(frozen=True)
class Marked:
    """One model's plans with the types of errors that people, or a judge, marked.

    name: of the model, and of who marked.
    plans: id, text and marks of each.
    unmarked: plans of which the judge gave no usable reply.
    """

    name: str
    plans: tuple[tuple[str, str, Errors], ...]
    unmarked: int = 0

    @property
    def total(self) -> int:
        """Errors of all types, each counted once a plan."""
        return sum(len(marks) for _, _, marks in self.plans)

    def count(self, key: str) -> int:
        """Plans that have a type."""
        return sum(key in marks for _, _, marks in self.plans)

    def share(self, key: str) -> float | None:
        """Of all errors, in percent, as in Fig. 6; None without errors."""
        return 100 * self.count(key) / self.total if self.total else None


def read_folders(folders: Sequence[Path]) -> list[JudgedPlan]:
    """The plans that a judge marked, of the folders that have some.

    Raises:
        LmmsEgoplanError: a file cannot be read or holds something else, or two folders have the same plan of the same
            judge; names the line.
    """
    judged: list[JudgedPlan] = []
    folder_of: dict[tuple[str, ...], Path] = {}
    for folder in folders:
        if (path := folder / JUDGED_ERRORS).is_file():
            for plan in read_judged(path):
                first = folder_of.setdefault((plan.id, plan.model, plan.candidate, plan.judge_name), folder)
                check_once(str(path), f"{plan.id} of {plan.model}", folder, first)
                judged.append(plan)
    return judged


def marked_by(people: Sequence[Judged], judged: Sequence[JudgedPlan]) -> list[Marked]:
    """What people marked of each model's plans, then what each judge did."""
    found = []
    for of_model in people:
        name = of_model.model if of_model.has_images else f"{of_model.model} (w/o images)"
        plans = tuple((plan.id, plan.candidate, plan.errors) for plan in of_model.plans)
        found.append(Marked(f"{name}, people", plans))
    for model, images, judge in dict.fromkeys((plan.model, plan.images, plan.judge_name) for plan in judged):
        own = [plan for plan in judged if (plan.model, plan.images, plan.judge_name) == (model, images, judge)]
        plans = tuple((plan.id, plan.candidate, plan.judge) for plan in own if plan.judge is not None)
        name = f"{model}{'' if images else ' (w/o images)'}, judge {judge}"
        found.append(Marked(name, plans, len(own) - len(plans)))
    return found


def errors_table(marked: Sequence[Marked]) -> Table | None:
    """Types of errors by model (Fig. 6), each with an example (Table 8); None without marks."""
    if not marked:
        return None
    rows = [_row(key, title, one) for key, title in ERRORS.items() for one in marked]
    return table_of_runs(
        "actplan_errors", "Types of errors", _COLUMNS["errors"], rows, (_note("errors"), _note("marked"))
    )


def agreement_table(judged: Sequence[JudgedPlan]) -> Table | None:
    """How far judges and people agree, by type; None where no plan was marked by both."""
    rows: list[dict[str, Any]] = []
    for judge in dict.fromkeys(plan.judge_name for plan in judged):
        own = [plan for plan in judged if plan.judge_name == judge]
        for key, (people, by_judge, both, found) in agreements(own).items():
            same = found.questions - people - by_judge + 2 * both
            row = {"judge": judge, "error": ERRORS[key], "plans": found.questions, "people": people}
            row |= {"by_judge": by_judge, "both": both, "equal": 100 * same / found.questions}
            if (kappa := found.kappa_unweighted) is not None:
                row |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high}
            rows.append(row)
    if not rows:
        return None
    title = "Types of errors: judges and people"
    return table_of_runs("actplan_errors_agreement", title, _COLUMNS["errors_agreement"], rows, (_note("kappa"),))


def errors_figure(marked: Sequence[Marked]) -> Figure | None:
    """Shares of all errors by type, as Fig. 6; None without errors."""
    means = {one.name: [Mean(one.share(key)) for key in ERRORS] for one in marked if one.total}
    if not means:
        return None
    top = max(mean.value or 0 for of_one in means.values() for mean in of_one)
    draw = partial(draw_bars, _SHORT, means, "of all errors, %", min(100, 1.15 * top))
    return Figure("actplan_errors", "Types of errors", _note("errors_caption"), draw, spoken(_SHORT, means, 1))


def _row(key: str, title: str, marked: Marked) -> Mapping[str, Any]:
    row = {"error": title, "model": marked.name, "plans": len(marked.plans), "unmarked": marked.unmarked}
    row |= {"count": marked.count(key), "share": marked.share(key)}
    return row | dict(zip(("example", "steps"), next(_examples(key, marked), ()), strict=False))


def _examples(key: str, marked: Marked) -> Iterator[tuple[str, str]]:
    """The activities of plans with a type, and the steps concerned."""
    for name, text, marks in marked.plans:
        if key in marks:
            lines = official_steps(text)
            steps = [lines[step - 1] for step in marks[key] if 0 < step <= len(lines)]
            place = parse_id(name)
            activity = name if place is None else place.activity.replace("_", " ")
            yield activity, "; ".join(steps) or "the whole plan"
