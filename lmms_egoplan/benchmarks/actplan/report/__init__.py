"""ActPlan-1K's part of reports: plans by setting, length and type of activity, and plan by plan."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import PurePath
from typing import Any

from lmms_egoplan.benchmarks.actplan.error_judge import JudgedPlan
from lmms_egoplan.benchmarks.actplan.instances import parse_id
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, VERDICTS
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.report.answers import GROUPS, MEASURES, Planned, answer_of, key_of
from lmms_egoplan.benchmarks.actplan.report.marks import (
    Labelled,
    LabelledPlan,
    errors_figure,
    marked_by,
    read_judgements,
    read_labelled,
)
from lmms_egoplan.benchmarks.actplan.report.tables import DECIMALS, all_tables, note
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.report.benchmark import BenchmarkReport, read_prepared, with_images
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.compact_tables import Cell, compact_table, name_of, number, score_notes, scored, share_cell
from lmms_egoplan.report.document import Figure, Images, Reference, ShownAnswer, Table, Verdict
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key, differing, read_tasks

_ENCODER = "all-minilm-l6-v2"
# Of the compact table, against gold plan 1.
_SCORES = ("lcs_norm", "lcs", "lcs_norm_parsed", "lcs_parsed", "form_validity", "plan_length")


class ActPlanReport(BenchmarkReport[Planned]):
    """ActPlan-1K's part of a report."""

    NAME = "actplan"
    TITLE = "ActPlan-1K"
    LEAD = note("lead")
    METRIC = "lcs_norm"
    DECIMALS = DECIMALS
    UNIT = ""
    TOP = 1
    CLUSTERS = "activities"

    def read(self, runs: Sequence[Run]) -> list[Planned]:
        """Read the tasks of all runs."""
        return list(read_tasks(Planned, runs, ["actplan"], "actplan", answer_of))

    def reference(self) -> Reference:
        """Return the best normalised LCS of Table 4."""
        return reference_of(load_table("actplan", "table4"), "norm_lcs", note("caveat"))

    def labels(self, task: Planned, answer: Answer) -> Mapping[str, str]:
        """People's verdicts on the same plan, and the types of errors that they marked."""
        plan = self._labelled.get((answer.id, tuple(answer.record.score.official), not task.is_text_only))
        if plan is None:
            return {}
        said = {name: getattr(plan, name) for name in VERDICTS}
        said |= {title[0].lower() + title[1:]: key in plan.errors for key, title in ERRORS.items()}
        return {f"people: {name}": "yes" if holds else "no" for name, holds in said.items()}

    @cached_property
    def _labelled(self) -> dict[tuple[str, tuple[str, ...], bool], LabelledPlan]:
        return {
            (plan.id, tuple(official_steps(plan.candidate)), plan.images): plan
            for judged in self._marks[0]
            for plan in judged.plans
        }

    def tables(self) -> Iterator[Table | None]:
        """Beside the paper's, all scores, breakdowns, and run against run."""
        return all_tables(self.tasks, *self._marks)

    def figures(self) -> Iterator[Figure | None]:
        """Scores by group, where a run has them; types of errors, where somebody has marked them."""
        for key, title, caption, by, measure in (
            ("by_setting", "Normal and counterfactual", "lcs_caption", "setting", "lcs_norm"),
            ("by_length", "Normalised LCS by length", "lcs_caption", "length", "lcs_norm"),
            ("correct_by_length", "Correctness by length", "correct_caption", "length", "bleurt_correct"),
            ("by_activity_type", "Types of activity", "lcs_caption", "activity_type", "lcs_norm"),
        ):
            yield self._figure(f"actplan_{key}", title, note(caption), by, measure)
        yield errors_figure(marked_by(*self._marks))

    @cached_property
    def _marks(self) -> tuple[list[Labelled], list[JudgedPlan]]:
        """What people said of plans, and the types of errors that judges marked."""
        return read_labelled(self.labelled()), read_judgements(self.labelled())

    def _figure(self, key: str, title: str, caption: str, by: str, measure: str) -> Figure | None:
        means = {run.name: {group: run.of(by, group, measure) for group in GROUPS[by]} for run in self.tasks}
        groups = [group for group in GROUPS[by] if any(of_run[group].value is not None for of_run in means.values())]
        known = {name: [of_run[group] for group in groups] for name, of_run in means.items()}
        shown = {name: of_run for name, of_run in known.items() if any(mean.value is not None for mean in of_run)}
        label = "share correct by classifier" if measure == "bleurt_correct" else "normalised LCS, 0 to 1"
        draw = partial(draw_bars, groups, shown, label, 1, decimals=2)
        if by == "length":
            draw = partial(draw_lines, groups, shown, label, "steps of gold plan 1", 1)
        return Figure(key, title, caption, draw, spoken(groups, shown, 2)) if shown else None

    def compact_table(self) -> Table:
        """Longest common subsequences with gold plan 1, and what the plans are like."""
        notes = (note("lcs"), *score_notes(self.tasks))
        return compact_table("actplan_compact", "ActPlan-1K: plans", self.tasks, _measures, notes)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """As prepared; lm-eval alone logs the task description, and nobody the images."""
        first = answers[0]
        logged = next((answer.doc for answer in answers if answer.doc), {}).get("task_description")
        text, images = self._prepared[0].get(key, (logged or f"{first.id}: the task description is not at hand", None))
        instance = parse_id(first.id)
        saw_images = any(not run.is_text_only for run in self.tasks if key in (run.answers or ()))
        golds = enumerate(first.record.golds, 1)
        return {
            "question": text.strip(),
            "facts": {
                "setting": first.groups["setting"],
                "activity type": first.groups["activity_type"],
                "activity": first.cluster,
                "length of gold plan 1": first.groups["length"],
                **({"scene": instance.scene} if instance else {}),
            },
            "references": {f"Gold plan {number}": "\n".join(steps) for number, steps in golds if steps},
            "images": images if saw_images else None,
        }

    def shown(self, answer: Answer) -> ShownAnswer:
        """Without a classifier, a plan is right that is gold plan 1, and wrong that has no step of it."""
        score, norm = answer.record.score, answer.scores["lcs_norm"]
        verdict: Verdict = "unscored"
        if score.bleurt is not None:
            verdict = "right" if score.bleurt else "wrong"
        elif norm is not None:
            verdict = "right" if norm == 1 else "wrong" if norm == 0 else "partly"
        text = "\n".join(score.official) or "(nothing)"
        if score.parsed != score.official:
            text += f"\n\nRead as {len(score.parsed)} steps:\n" + "\n".join(score.parsed)
        return ShownAnswer(verdict, text, rating="; ".join(_told(answer)))

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, tuple[str, Images]], str | None]:
        """Task description and images of the prepared instances, and why there are none."""
        return read_prepared(_read_rows)

    def flaws(self, task: Planned) -> Iterator[str]:
        """Of instances, answers and samples."""
        asked, prepared = task.number("num_plans"), task.number("split_size")
        if task.number("lcs_norm") is None:
            yield note("no_lcs")
        if asked is not None and prepared and asked < prepared:
            yield note("not_all", plans=asked, share=asked / prepared)
        if prepared and prepared != task.official:
            yield note("other_instances", prepared=prepared, official=task.official)
        if unparsed := task.number("unparsed"):
            yield note("without_steps", share=unparsed)
        if cut := task.number("bleurt_truncated"):
            yield note("cut", share=cut)
        if task.answers is None:
            yield note("no_samples")

    def gaps(self) -> Iterator[str]:
        """Of encoders, classifiers and the prepared data."""
        yield from _scorers(self.tasks)
        prepared, problem = self._prepared
        if problem:
            yield note("not_prepared", problem=problem)
        elif other := self.asked - prepared.keys():
            yield note("others_prepared", count=len(other), example=min(other)[0])


def _scorers(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield remarks on encoders and classifiers."""
    encoders = {run.name: run.task_run.metrics.get("encoder") or "" for run in planned}
    unlike = [name for name in encoders.values() if _ENCODER not in name.lower().replace("_", "-")]
    others = sorted({_last_part(name): name for name in sorted(unlike, reverse=True)}.values())
    if others:
        yield note("encoders", others=", ".join(name or "an unnamed encoder" for name in others))
    if told := differing(encoders, _last_part):
        yield note("different_encoders", told=told)
    without = [run.name for run in planned if run.number("bleurt_correct") is None]
    if without:
        yield note("no_classifier", runs=", ".join(without))
    metrics = {run.name: run.task_run.metrics for run in planned if run.name not in without}
    if told := differing({name: str(of_run.get("bleurt_model")) for name, of_run in metrics.items()}, _last_part):
        yield note("different_classifiers", told=told)


def _last_part(path: str) -> str:
    return PurePath(path).name


def _measures(planned: Sequence[Planned]) -> dict[str, Cell]:
    has_classifier = any(run.number("bleurt_correct") is not None for run in planned)
    shares = (*(["bleurt_correct"] if has_classifier else []), "empty", "unparsed", "truncated")

    def score(measure: str) -> Cell:
        def cell(run: Planned) -> str:
            mean = run.means[measure]
            is_counted = mean.questions is not None
            return scored(mean.value, DECIMALS, run.covered(mean)) if is_counted else number(mean.value, DECIMALS)

        return cell

    return {
        **{MEASURES[measure]: score(measure) for measure in _SCORES},
        **{MEASURES[measure]: share_cell(measure) for measure in shares},
        "Plans": lambda run: f"{number(run.number('num_plans'))} of {number(run.official)}",
        "Sentence encoder": lambda run: name_of(run.text("encoder")),
        **({"Classifier": lambda run: name_of(run.text("bleurt_model"))} if has_classifier else {}),
    }


def _told(answer: Answer) -> Iterator[str]:
    score, values = answer.record.score, answer.scores
    for plan, measure in enumerate(("lcs_norm", "lcs_norm_gold_2"), 1):
        if values[measure] is not None:
            yield f"normalised LCS with gold plan {plan} {values[measure]:.3f} of 1"
    if score.parsed != score.official and values["lcs_norm_parsed"] is not None:
        yield f"parsed {values['lcs_norm_parsed']:.3f}"
    if score.form_validity is not None:
        yield f"form validity {score.form_validity:.2f}"
    if score.goal is not None and score.goal.share is not None:
        checked, left_out = len(score.goal.reached + score.goal.missed), len(score.goal.unchecked)
        names = "" if score.goal.names is None else f", {score.goal.named} of {score.goal.names} names understood"
        reached = f"{len(score.goal.reached)} of {checked} goal conditions"
        yield reached + f", {left_out} not checkable" * bool(left_out) + names
    if score.bleurt is not None:
        sure = "" if score.bleurt_probability is None else f" ({score.bleurt_probability:.2f})"
        yield f"{'correct' if score.bleurt else 'wrong'} by the classifier{sure}"
    if score.truncated:
        yield "cut off"


def _read_rows() -> dict[Key, tuple[str, Images]]:
    rows = with_images(ACTPLAN.load(SPLIT), "images")
    return {
        key_of(row["id"], row["gold_plan_1"], row["gold_plan_2"]): (row["task_description"], images)
        for row, images in rows
    }
