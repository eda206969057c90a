"""ActPlan-1K's section of the report: scores by setting, length and activity type, and a gallery of
plans.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePath
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.actplan.bleurt import NO_CLASSIFIER
from lmms_egoplan.benchmarks.actplan.error_judge import JudgedPlan
from lmms_egoplan.benchmarks.actplan.instances import SETTINGS, parse_id
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, VERDICTS
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.actplan.report import marks
from lmms_egoplan.benchmarks.actplan.report.answers import (
    BY_SETTING,
    GROUPS,
    MEASURES,
    Planned,
    answer_of,
    key_of,
)
from lmms_egoplan.benchmarks.conditions import condition_figure, condition_table
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.report.benchmark import BenchmarkReport, read_prepared, read_spec, with_images
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.document import Figure, Images, Section, ShownAnswer, Verdict
from lmms_egoplan.report.published import OwnRow
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, Mean, differing, in_percent, read_tasks
from lmms_egoplan.report.statistics import interval_of_sums
from lmms_egoplan.report.tables import Table, Value, name_of, number, scored, share

note = marks.note
_ENCODER = "all-minilm-l6-v2"
# Scores in the compact table; without a remark, against gold plan 1.
_SCORES = (
    "lcs_norm",
    "lcs_norm_gold_2",
    "lcs_norm_best",
    "lcs",
    "lcs_norm_parsed",
    "lcs_parsed",
    "form_validity",
    "plan_length",
)
# The rows of a run in Table 4: end of the measures' names, end of the row's name, and gold plan.
_TABLE4_ROWS = (
    ("", "", "1"),
    ("_gold_2", ", gold plan 2", "2"),
    ("_best", ", better of the two", "the better of the two"),
)


class ActPlanReport(BenchmarkReport[Planned]):
    """ActPlan-1K's section of a report."""

    SPEC = read_spec(__file__, "actplan", note)

    def read(self, runs: Sequence[Run]) -> list[Planned]:
        """Read the tasks of all runs."""
        return list(read_tasks(Planned, runs, "actplan", "actplan", answer_of))

    def scores_section(self) -> Section:
        """Return the section for a terminal, which says if no classifier judged the plans."""
        section = super().scores_section()
        runs = [
            run.name
            for run in self.tasks
            if run.number("bleurt_correct") is None and not run.is_demo
        ]
        remark = [note("no_classifier", runs=", ".join(runs), off=NO_CLASSIFIER)] if runs else []
        return replace(section, finding=(*section.finding, *remark))

    def labels(self, task: Planned, answer: Answer) -> Mapping[str, str]:
        """Return the human verdicts on the same plan, and the types of errors that people marked."""
        plan = self._labelled.get(
            (answer.id, tuple(answer.record.score.official), not task.is_text_only)
        )
        if plan is None:
            return {}
        flags = {name: getattr(plan, name) for name in VERDICTS}
        flags |= {title[0].lower() + title[1:]: key in plan.errors for key, title in ERRORS.items()}
        return {f"people: {name}": "yes" if is_set else "no" for name, is_set in flags.items()}

    @cached_property
    def _labelled(self) -> dict[tuple[str, tuple[str, ...], bool], marks.LabelledPlan]:
        return {
            (plan.id, tuple(official_steps(plan.candidate)), plan.images): plan
            for judged in self._marks[0]
            for plan in judged.plans
        }

    def tables(self) -> Iterator[Table | None]:
        """Yield tables next to the paper's, all scores, breakdowns, and comparisons of runs."""
        people, judged = self._marks
        yield self._table4()
        yield self._table3(people)
        yield from self._ablation(people)
        yield self.published("table5", list(marks.table5_rows(people, self.tasks)))
        for key, rows in (
            ("errors", list(marks.error_rows(marks.marked_by(people, judged)))),
            ("errors_agreement", list(marks.agreement_rows(judged))),
        ):
            yield self.table(key, rows) if rows else None
        yield self._all_scores()
        yield condition_table(self)
        yield self._by_setting()
        yield self._by_group("length")
        yield self._people_by_length(people)
        yield self._by_group("activity_type")
        yield self.pairs(self.tasks)

    def _table4(self) -> Table:
        """Return the table of LCS with each gold plan, and with the better of the two."""
        rows: list[OwnRow] = []
        for run in self.tasks:
            for suffix, ending, gold_plan in _TABLE4_ROWS:
                steps, norm = (run.means[f"{measure}{suffix}"] for measure in ("lcs", "lcs_norm"))
                if run.is_text_only or norm.value is None or (run.part and suffix):
                    continue
                row: dict[str, Any] = {"model": f"{run.name}{ending}", "gold_plan": gold_plan}
                row |= {"encoder": run.task_run.metrics.get("encoder"), "apart": run.objections}
                row |= {"lcs": steps.value} | norm.cells("norm_lcs") if run.part is None else {}
                row |= {} if suffix else _norms_by_setting(run)
                rows.append(row | run.shares(norm))
        return self.published("table4", rows, main="norm_lcs")

    def _table3(self, people: Sequence[marks.Labelled]) -> Table:
        """Return the table of correctness, by the classifier and by people."""
        rows: list[OwnRow] = list(marks.table3_rows(people))
        for run in self.tasks:
            mean = run.means["bleurt_correct"]
            if run.is_text_only or mean.value is None:
                continue
            row: dict[str, Any] = {
                "model": run.name,
                "classifier": run.task_run.metrics.get("bleurt_model"),
            }
            row |= {"apart": run.objections} | _verdicts_by_setting(run)
            row |= mean.cells("total_classified", scale=100) if run.part is None else {}
            rows.append(row | run.shares(mean))
        return self.published("table3", rows, None if rows else ["classifier"])

    def _ablation(self, people: Sequence[marks.Labelled]) -> Iterator[Table]:
        """Yield Tables 6 and 7, without and with images, for runs that include the text-only task."""
        text_only_runs = {run.run.name for run in self.tasks if run.is_text_only}
        runs = [run for run in self.tasks if run.run.name in text_only_runs and run.part is None]
        table6: list[OwnRow] = []
        table7: list[OwnRow] = []
        for run in runs:
            base, norm = run.run.name if run.is_text_only else run.name, run.means["lcs_norm"]
            scores = {
                "norm_lcs": norm.value,
                "classified": in_percent(run.means["bleurt_correct"].value),
            }
            images = "w/o" if run.is_text_only else "w"
            length: dict[str, Any] = {"avg_len": run.number("plan_length"), "apart": run.objections}
            shares = run.shares(run.means["plan_length"])
            table6.append({"model": f"{base} ({images})"} | length | scores | shares)
            parts: dict[str, Any] = {"model": f"{base}, {images} image", "apart": run.objections}
            parts |= {
                f"{setting}_avg_len": run.of("setting", setting, "plan_length").value
                for setting in SETTINGS
            }
            table7.append(parts | _norms_by_setting(run) | _verdicts_by_setting(run) | shares)
        table6 += marks.ablation_rows(people, 6)
        table7 += marks.ablation_rows(people, 7)
        for key, rows in (("table6", table6), ("table7", table7)):
            yield self.published(key, rows, None if runs else ())

    def _all_scores(self) -> Table:
        """Return the table of every measure of every run."""
        rows = []
        for measure, title in MEASURES.items():
            for run in self.tasks:
                mean = run.means[measure]
                if mean.value is not None:
                    score = mean.cells("value") | {"activities": mean.clusters}
                    rows.append({"measure": title, "model": run.name} | score | run.shares(mean))
        has_goal = any(run.means["goal_conditions"].value is not None for run in self.tasks)
        notes = [name for name in self.SPEC.tables["scores"].notes if name != "goal" or has_goal]
        return self.table("scores", rows, notes=notes)

    def _by_setting(self) -> Table:
        """Return the table that compares normal and counterfactual activities."""
        rows = []
        for measure in BY_SETTING:
            for run in self.tasks:
                means = {setting: run.of("setting", setting, measure) for setting in SETTINGS}
                if any(mean.value is not None for mean in means.values()):
                    row: dict[str, Value] = {"measure": MEASURES[measure], "model": run.name}
                    for part, mean in (
                        means | {"difference": _difference(run, means, measure)}
                    ).items():
                        row |= mean.cells(part, f"{part}_") | {f"{part}_plans": mean.questions}
                    rows.append(row)
        return self.table("by_setting", rows)

    def _by_group(self, by: str) -> Table:
        """Return the table of LCS and the classifier's verdicts by group."""
        rows = []
        for group in GROUPS[by]:
            for run in self.tasks:
                if group in run.groups[by]:
                    norm, correct = (
                        run.of(by, group, "lcs_norm"),
                        run.of(by, group, "bleurt_correct"),
                    )
                    lcs = {
                        measure: run.of(by, group, measure).value
                        for measure in ("lcs", "lcs_norm_parsed")
                    }
                    row: dict[str, Value] = {
                        "group": group,
                        "model": run.name,
                        "plans": norm.questions,
                    }
                    row["verdicts"] = None if correct.value is None else correct.questions
                    row |= (
                        norm.cells("lcs_norm")
                        | lcs
                        | correct.cells("bleurt_correct", "correct_", scale=100)
                    )
                    rows.append(row)
        return self.table(f"by_{by}", rows)

    def _people_by_length(self, people: Sequence[marks.Labelled]) -> Table | None:
        """Return the table of people's verdicts by length; None without labels."""
        means = (
            (model, *pair)
            for model, bins in marks.people_by_length(people).items()
            for pair in bins.items()
        )
        rows = [
            {"group": x, "model": name, "plans": y.questions, **y.cells("correct")}
            for name, x, y in means
        ]
        return self.table("people_by_length", rows) if rows else None

    def figures(self) -> Iterator[Figure | None]:
        """Yield scores by group and types of errors; None for a figure without data."""
        for key, title, caption, by, measure in (
            ("by_setting", "Normal and counterfactual", "lcs_caption", "setting", "lcs_norm"),
            ("by_length", "Normalised LCS by length", "lcs_caption", "length", "lcs_norm"),
            (
                "correct_by_length",
                "Classifier's verdicts by length",
                "correct_caption",
                "length",
                "bleurt_correct",
            ),
            ("by_activity_type", "Types of activity", "lcs_caption", "activity_type", "lcs_norm"),
        ):
            yield self._figure(f"actplan_{key}", title, note(caption), by, measure)
        yield marks.length_figure(marks.people_by_length(self._marks[0]))
        yield marks.errors_figure(marks.marked_by(*self._marks))
        yield condition_figure(self)

    @cached_property
    def _marks(self) -> tuple[list[marks.Labelled], list[JudgedPlan]]:
        """Plans labelled by people, and plans whose errors a judge marked."""
        return marks.read_labelled(self.labelled()), marks.read_judgements(self.labelled())

    def _figure(self, key: str, title: str, caption: str, by: str, measure: str) -> Figure | None:
        means = {
            run.name: {group: run.of(by, group, measure) for group in GROUPS[by]}
            for run in self.tasks
        }
        groups = [
            group
            for group in GROUPS[by]
            if any(scores[group].value is not None for scores in means.values())
        ]
        series = {name: [scores[group] for group in groups] for name, scores in means.items()}
        series = {
            name: bars
            for name, bars in series.items()
            if any(mean.value is not None for mean in bars)
        }
        label = (
            "share correct by classifier"
            if measure == "bleurt_correct"
            else "normalised LCS, 0 to 1"
        )
        draw = partial(draw_bars, groups, series, label, 1, decimals=2)
        if by == "length":
            draw = partial(draw_lines, groups, series, label, "steps of gold plan 1", 1)
        return Figure(key, title, caption, draw, spoken(groups, series, 2)) if series else None

    def cells(self, task: Planned, block: Sequence[Planned], /) -> dict[str, str]:
        """Return the LCS with gold plan 1 and statistics of the plans, for the compact table."""
        has_classifier = any(run.number("bleurt_correct") is not None for run in block)
        shares = (*(["bleurt_correct"] if has_classifier else []), "empty", "unparsed")
        return {
            **{MEASURES[measure]: self._score(task, measure) for measure in _SCORES},
            **{MEASURES[measure]: share(task.number(measure)) for measure in shares},
            MEASURES["truncated"]: task.truncated_text,
            "Plans": f"{number(task.number('num_plans'))} of {number(task.official)}",
            "Sentence encoder": name_of(task.text("encoder")),
            **({"Classifier": name_of(task.text("bleurt_model"))} if has_classifier else {}),
        }

    def _score(self, task: Planned, measure: str) -> str:
        mean, decimals = task.logged_mean(measure), self.SPEC.decimals
        if mean.questions is None:
            return number(mean.value, decimals)
        return scored(mean.value, decimals, task.covered(mean))

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared instance.

        Only lm-eval logs the task description; no harness logs the images.
        """
        first = answers[0]
        logged = next((answer.doc for answer in answers if answer.doc), {}).get("task_description")
        text, images = self._prepared[0].get(
            key, (logged or f"{first.id}: task description not available", None)
        )
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
            "references": {
                f"Gold plan {number}": "\n".join(steps) for number, steps in golds if steps
            },
            "images": images if saw_images else None,
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return a plan with its verdict.

        Without a classifier, a plan is right if its normalised LCS is 1, and wrong if it is 0.
        """
        score, norm = answer.record.score, answer.scores["lcs_norm"]
        verdict: Verdict = "unscored"
        if score.bleurt is not None:
            verdict = "right" if score.bleurt else "wrong"
        elif norm is not None:
            verdict = "right" if norm == 1 else "wrong" if norm == 0 else "partly"
        text = "\n".join(score.official) or "(nothing)"
        if score.parsed != score.official:
            text += f"\n\nRead as {len(score.parsed)} steps:\n" + "\n".join(score.parsed)
        return ShownAnswer(verdict, text, rating="; ".join(_ratings(answer)))

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, tuple[str, Images]], str | None]:
        """Task descriptions and images of the prepared instances; and if they are missing, the
        reason.
        """
        return read_prepared(_read_rows)

    def flaws(self, task: Planned) -> Iterator[str]:
        """Yield remarks on a task's instances, answers and samples."""
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
        """Yield remarks on encoders, classifiers and the prepared data."""
        yield from _scorers(self.tasks)
        prepared, problem = self._prepared
        if problem:
            yield note("not_prepared", problem=problem)
        elif missing := self.answers.keys() - prepared.keys():
            yield note("not_in_prepared", count=len(missing), example=min(missing)[0])


def _scorers(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield remarks on encoders and classifiers."""
    encoders = {run.name: run.task_run.metrics.get("encoder") or "" for run in planned}
    unofficial = [
        name for name in encoders.values() if _ENCODER not in name.lower().replace("_", "-")
    ]
    if distinct := sorted(
        {_last_part(name): name for name in sorted(unofficial, reverse=True)}.values()
    ):
        yield note("encoders", names=", ".join(name or "an unnamed encoder" for name in distinct))
    if differences := differing(encoders, _last_part):
        yield note("different_encoders", differences=differences)
    classified = [run for run in planned if run.number("bleurt_correct") is not None]
    classifiers = {run.name: str(run.task_run.metrics.get("bleurt_model")) for run in classified}
    encoders = {
        run.name: marks.encoder_of(run) for run in classified
    }  # Default folders have the same name.
    if differences := differing(classifiers, _last_part) or differing(encoders):
        yield note("different_classifiers", differences=differences)


def _last_part(path: str) -> str:
    return PurePath(path).name


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    return {
        f"norm_lcs_{setting}": run.of("setting", setting, "lcs_norm").value for setting in SETTINGS
    }


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    means = {setting: run.of("setting", setting, "bleurt_correct") for setting in SETTINGS}
    return {f"{setting}_classified": in_percent(mean.value) for setting, mean in means.items()}


def _difference(run: Planned, means: dict[str, Mean], measure: str) -> Mean:
    normal, counterfactual = (mean.value for mean in means.values())
    if normal is None or counterfactual is None:
        return Mean()
    scored_answers = [
        answer for answer in (run.answers or {}).values() if answer.scores[measure] is not None
    ]
    in_setting = np.array(
        [[answer.groups["setting"] == setting for setting in SETTINGS] for answer in scored_answers]
    )
    in_setting = in_setting.reshape(-1, len(SETTINGS))
    scores = np.array([answer.scores[measure] for answer in scored_answers])
    rows = np.stack([in_setting * scores[:, None], in_setting], axis=-1)

    def difference(sums: np.ndarray) -> np.ndarray:
        """Return normal minus counterfactual; NaN if a resample has plans of one setting only."""
        total, count = np.moveaxis(sums, -1, 0)
        means = np.divide(total, count, out=np.full_like(total, math.nan), where=count > 0)
        return means[..., 0] - means[..., 1]

    interval = interval_of_sums(
        rows, [str(answer.cluster) for answer in scored_answers], difference
    )
    return Mean(normal - counterfactual, interval)


def _ratings(answer: Answer) -> Iterator[str]:
    score, values = answer.record.score, answer.scores
    for plan, measure in enumerate(("lcs_norm", "lcs_norm_gold_2"), 1):
        if values[measure] is not None:
            yield f"normalised LCS with gold plan {plan} {values[measure]:.3f} of 1"
    if score.parsed != score.official and values["lcs_norm_parsed"] is not None:
        yield f"parsed {values['lcs_norm_parsed']:.3f}"
    if score.form_validity is not None:
        yield f"form validity {score.form_validity:.2f}"
    if score.goal is not None and score.goal.share is not None:
        checked, unchecked = len(score.goal.reached + score.goal.missed), len(score.goal.unchecked)
        names = (
            ""
            if score.goal.names is None
            else f", {score.goal.named} of {score.goal.names} names understood"
        )
        reached = f"{len(score.goal.reached)} of {checked} goal conditions"
        yield reached + f", {unchecked} not checkable" * bool(unchecked) + names
    if score.bleurt is not None:
        probability = (
            "" if score.bleurt_probability is None else f" ({score.bleurt_probability:.2f})"
        )
        yield f"{'correct' if score.bleurt else 'wrong'} by the classifier{probability}"
    if score.truncated:
        yield "cut off"


def _read_rows() -> dict[Key, tuple[str, Images]]:
    rows = with_images(ACTPLAN.load(SPLIT), "images")
    return {
        key_of(row["id"], row["gold_plan_1"], row["gold_plan_2"]): (row["task_description"], images)
        for row, images in rows
    }
