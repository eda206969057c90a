"""ActPlan-1K's section of the report.

It has scores by setting, length and activity type, and a gallery of plans.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePath
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.actplan.classifier import NO_CLASSIFIER
from lmms_egoplan.benchmarks.actplan.goal_check import GoalCheck
from lmms_egoplan.benchmarks.actplan.instances import INSTANCES, SETTINGS, parse_id
from lmms_egoplan.benchmarks.actplan.plans import ERRORS, VERDICTS
from lmms_egoplan.benchmarks.actplan.prepare import SPLIT
from lmms_egoplan.benchmarks.actplan.reply import official_steps
from lmms_egoplan.benchmarks.splits import ACTPLAN
from lmms_egoplan.report.actplan import marks
from lmms_egoplan.report.actplan.answers import (
    BY_SETTING,
    GROUPS,
    MEASURES,
    Planned,
    answer_of,
    key_of,
)
from lmms_egoplan.report.actplan.error_judge import JudgedPlan
from lmms_egoplan.report.benchmark import BenchmarkReport, Spec, read_prepared, with_images
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Images, Section, ShownAnswer, Verdict
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, differing, in_percent, read_tasks
from lmms_egoplan.report.tables import (
    Column,
    Table,
    Value,
    interval_columns,
    name_of,
    number,
    scored,
    share,
    table_of_runs,
)
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS, interval_of_sums
from lmms_egoplan.stats.means import Mean

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

# Notes and captions of several tables and figures.
_INTERVAL_NOTE = (
    "Low to high: 95 % interval over activities, each with all of its plans; Wilson's "
    "for scores, from a bootstrap for numbers of steps and for differences. No "
    f"interval without samples, or for fewer than {FEWEST_CLUSTERS} activities."
)
_SHARES_NOTE = (
    "Plans: number of plans in the score. Coverage: their share of the paper's "
    f"{sum(INSTANCES.values()):,} instances ({INSTANCES['normal']} normal, "
    f"{INSTANCES['counterfactual']} counterfactual). Truncated: share of the answers "
    "that reached the limit on new tokens, where known."
)
_GOLD_NOTE = (
    "LCS compares with gold plan 1 unless stated otherwise. The paper does not say "
    "which gold plan it uses. The authors' code uses gold plan 1 for Claude's and "
    "GPT-4V's plans, and gold plan 2 for Gemini's."
)
_OWN_GOLD_NOTE = (
    "Each gold plan favours one model. In the published plans, GPT-4V has a normalised "
    "LCS of 0.527 with gold plan 1 and 0.397 with gold plan 2, and Gemini-Pro-1.5 has "
    "0.471 and 0.628; 58 of the 209 plans that people called correct equal a gold "
    "plan. The gold plans were therefore probably written from these two models' "
    "plans, and Table 4 scores each of the two against its own. A run has no gold plan "
    "of its own, so its scores are not directly comparable with these two rows."
)
_CLASSIFIER_NOTE = (
    "The published correctness and commonsense are human verdicts, which runs do not "
    'have. "Correct by classifier" is the verdict of a finetuned BLEURT, in separate '
    "columns. Table 5 shows how far such classifiers agree with people."
)
_ABLATION_NOTE = (
    "Published: 40 normal and 20 counterfactual activities. Other rows: runs with the task "
    "actplan_text_only. Their lengths are mean numbers of parsed steps over all plans of the task."
)
_GROUPS_NOTE = (
    "Plans: number of plans with gold plan 1. LCS is the mean over these. Classified: "
    "number of plans with a classifier's verdict."
)
_LCS_CAPTION = (
    "Mean normalised LCS with gold plan 1, 0 to 1. Runs with samples have 95 % "
    "intervals from a bootstrap over the activities. The table has the numbers."
)


class ActPlanReport(BenchmarkReport[Planned]):
    """ActPlan-1K's section of a report."""

    SPEC = Spec(
        name="actplan",
        title="ActPlan-1K",
        lead=(
            "Models write plans for household activities, one action(object) per step, "
            "from a task description and views of the home. Plans are compared with "
            "gold plans by the longest common subsequence (LCS) of their steps. If a "
            "run has a classifier, it also calls each plan correct or wrong."
        ),
        metric="lcs_norm",
        decimals=3,
        measure="lcs_norm",
        clusters="activities",
        unit="",
        top=1,
        compact_title="ActPlan-1K: plans",
        compact_main="Norm. LCS",
        reference=("table4", "norm_lcs"),
        caveat=(
            "the published score is against the gold plan that was probably written "
            "from this model's plan"
        ),
    )

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
        if not runs:
            return section
        remark = f"Classifier of ActPlan-1K's plans for {', '.join(runs)}: {NO_CLASSIFIER}."
        return replace(section, finding=(*section.finding, remark))

    def terminal_notes(self) -> tuple[str, ...]:
        """Explain LCS."""
        return (
            (
                "LCS: longest common subsequence with gold plan 1 unless stated otherwise, "
                "in steps. Norm.: LCS divided by the longer plan's length. Each gold plan "
                "favours one of the paper's models."
            ),
        )

    def labels(self, task: Planned, answer: Answer) -> Mapping[str, str]:
        """Return people's verdicts on the same plan, and the types of errors that they marked."""
        plan = self._labelled.get(
            (answer.id, tuple(answer.record.score.official), not task.is_text_only)
        )
        if plan is None:
            return {}
        flags = {name: getattr(plan, name) for name in VERDICTS}
        for key, title in ERRORS.items():
            flags[title[0].lower() + title[1:]] = key in plan.errors
        return {f"people: {name}": "yes" if is_set else "no" for name, is_set in flags.items()}

    @cached_property
    def _labelled(self) -> dict[tuple[str, tuple[str, ...], bool], marks.LabelledPlan]:
        plans = {}
        for labelled in self._marks[0]:
            for plan in labelled.plans:
                plans[plan.id, tuple(official_steps(plan.candidate)), plan.images] = plan
        return plans

    def tables(self) -> Iterator[Table | None]:
        """Yield tables next to the paper's, all scores, breakdowns, and comparisons of runs."""
        people, judged = self._marks
        yield _table4(self.tasks)
        yield _table3(people, self.tasks)
        ablation = _ablation_runs(self.tasks)
        yield _table6(people, ablation)
        yield _table7(people, ablation)
        yield _table5(people, self.tasks)
        yield _errors_table(marks.marked_by(people, judged))
        yield _errors_agreement_table(judged)
        yield _scores_table(self.tasks)
        yield condition_table(self)
        yield _by_setting_table(self.tasks)
        yield _by_length_table(self.tasks)
        yield _people_by_length_table(people)
        yield _by_activity_type_table(self.tasks)
        yield self._pairs_of_runs()

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            (
                "The answer's lines are compared with gold plan 1. Only runs with the same "
                "sentence encoder are comparable."
            ),
        ]
        return self.pairs(self.tasks, "Every pair of runs: normalised LCS", notes)

    def figures(self) -> Iterator[Figure | None]:
        """Yield scores by group and types of errors; None for a figure without data."""
        yield self._by_setting_figure()
        yield self._by_length_figure()
        yield self._correct_by_length_figure()
        yield self._by_activity_type_figure()
        yield marks.length_figure(marks.people_by_length(self._marks[0]))
        yield marks.errors_figure(marks.marked_by(*self._marks))
        yield condition_figure(self)

    @cached_property
    def _marks(self) -> tuple[list[marks.ModelPlans], list[JudgedPlan]]:
        """Plans labelled by people, and plans whose errors a judge marked."""
        return marks.read_plans_by_model(self.labelled()), marks.read_judgements(self.labelled())

    def _by_setting_figure(self) -> Figure | None:
        """Draw LCS of normal and counterfactual activities."""
        groups, series = _series_by_group(self.tasks, "setting", "lcs_norm")
        if not series:
            return None
        return Figure(
            "actplan_by_setting",
            "Normal and counterfactual",
            _LCS_CAPTION,
            partial(draw_bars, groups, series, "normalised LCS, 0 to 1", 1, decimals=2),
            spoken(groups, series, 2),
        )

    def _by_length_figure(self) -> Figure | None:
        """Draw LCS by the length of gold plan 1."""
        groups, series = _series_by_group(self.tasks, "length", "lcs_norm")
        if not series:
            return None
        length = "steps of gold plan 1"
        return Figure(
            "actplan_by_length",
            "Normalised LCS by length",
            _LCS_CAPTION,
            partial(draw_lines, groups, series, "normalised LCS, 0 to 1", length, 1),
            spoken(groups, series, 2),
        )

    def _correct_by_length_figure(self) -> Figure | None:
        """Draw the classifier's verdicts by the length of gold plan 1, like Fig. 5 of the paper."""
        groups, series = _series_by_group(self.tasks, "length", "bleurt_correct")
        if not series:
            return None
        length = "steps of gold plan 1"
        return Figure(
            "actplan_correct_by_length",
            "Classifier's verdicts by length",
            (
                "Like Fig. 5 of the paper, with a classifier's verdicts instead of human "
                "ones: share of the plans called correct, by the length of gold plan 1 in "
                "steps, with 95 % intervals from a bootstrap over the activities."
            ),
            partial(draw_lines, groups, series, "share correct by classifier", length, 1),
            spoken(groups, series, 2),
        )

    def _by_activity_type_figure(self) -> Figure | None:
        """Draw LCS by type of activity."""
        groups, series = _series_by_group(self.tasks, "activity_type", "lcs_norm")
        if not series:
            return None
        return Figure(
            "actplan_by_activity_type",
            "Types of activity",
            _LCS_CAPTION,
            partial(draw_bars, groups, series, "normalised LCS, 0 to 1", 1, decimals=2),
            spoken(groups, series, 2),
        )

    def cells(self, task: Planned, block: Sequence[Planned], /) -> dict[str, str]:
        """Return the LCS with gold plan 1 and statistics of the plans, for the compact table."""
        has_classifier = any(run.number("bleurt_correct") is not None for run in block)
        shares = ["empty", "unparsed"]
        if has_classifier:
            shares.insert(0, "bleurt_correct")
        cells = {MEASURES[measure]: self._score(task, measure) for measure in _SCORES}
        for measure in shares:
            cells[MEASURES[measure]] = share(task.number(measure))
        cells[MEASURES["truncated"]] = task.truncated_text
        cells["Plans"] = f"{number(task.number('num_plans'))} of {number(task.official)}"
        cells["Sentence encoder"] = name_of(task.text("encoder"))
        if has_classifier:
            cells["Classifier"] = name_of(task.text("bleurt_model"))
        return cells

    def _score(self, task: Planned, measure: str) -> str:
        mean = task.logged_mean(measure)
        decimals = self.SPEC.decimals
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
        facts = {
            "setting": first.groups["setting"],
            "activity type": first.groups["activity_type"],
            "activity": first.cluster,
            "length of gold plan 1": first.groups["length"],
        }
        instance = parse_id(first.id)
        if instance:
            facts["scene"] = instance.scene
        references = {}
        for gold_plan, steps in enumerate(first.record.golds, 1):
            if steps:
                references[f"Gold plan {gold_plan}"] = "\n".join(steps)
        saw_images = any(not run.is_text_only for run in self.tasks if key in (run.answers or ()))
        return {
            "question": text.strip(),
            "facts": facts,
            "references": references,
            "images": images if saw_images else None,
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return a plan with its verdict."""
        score = answer.record.score
        text = "\n".join(score.official) or "(nothing)"
        if score.parsed != score.official:
            text += f"\n\nRead as {len(score.parsed)} steps:\n" + "\n".join(score.parsed)
        return ShownAnswer(_verdict(answer), text, rating="; ".join(_ratings(answer)))

    @cached_property
    def _prepared(self) -> tuple[Mapping[Key, tuple[str, Images]], str | None]:
        """Task descriptions and images of the prepared instances; if missing, the reason."""
        return read_prepared(_read_rows)

    def flaws(self, task: Planned) -> Iterator[str]:
        """Yield remarks on a task's instances, answers and samples."""
        asked = task.number("num_plans")
        prepared = task.number("split_size")
        if task.number("lcs_norm") is None:
            yield "no LCS, because no instance has gold plan 1."
        if asked is not None and prepared and asked < prepared:
            yield f"{asked:,} plans, {asked / prepared:.1%} of the prepared instances."
        if prepared and prepared != task.official:
            yield (
                f"the data have {prepared:,} instances, the paper {task.official:,}. Scores over "
                "other instances are not comparable with the published ones."
            )
        unparsed = task.number("unparsed")
        if unparsed:
            yield f"{unparsed:.1%} of the answers have no step."
        cut = task.number("bleurt_truncated")
        if cut:
            yield (
                f"for {cut:.1%} of the plans, the classifier saw only part of the plan "
                "or of the gold plan."
            )
        if task.answers is None:
            yield (
                "no samples, and therefore no intervals, no comparisons and no plans "
                "in the gallery."
            )

    def gaps(self) -> Iterator[str]:
        """Yield remarks on encoders, classifiers and the prepared data."""
        yield from _scorers(self.tasks)
        prepared, problem = self._prepared
        missing = self.answers.keys() - prepared.keys()
        if problem:
            yield (
                "The gallery has no images and, for runs of lmms-eval, no task "
                f"descriptions: {problem}"
            )
        elif missing:
            yield (
                f"{len(missing):,} of the instances are not in the prepared data, for "
                f"example {min(missing)[0]}. The gallery lacks their images."
            )


def _scorers(planned: Sequence[Planned]) -> Iterator[str]:
    """Yield remarks on encoders and classifiers."""
    encoders = {run.name: run.task_run.metrics.get("encoder") or "" for run in planned}
    unofficial = [
        name for name in encoders.values() if _ENCODER not in name.lower().replace("_", "-")
    ]
    unofficial_by_end = {_last_part(name): name for name in sorted(unofficial, reverse=True)}
    if unofficial_by_end:
        names = ", ".join(
            name or "an unnamed encoder" for name in sorted(unofficial_by_end.values())
        )
        yield (
            f"Steps were compared by {names}. Unless that is a copy of "
            "all-MiniLM-L6-v2, LCS is not comparable with Table 4."
        )
    differences = differing(encoders, _last_part)
    if differences:
        yield (
            "Different sentence encoders, so LCS is not comparable between these runs: "
            f"{differences}."
        )
    classified = [run for run in planned if run.number("bleurt_correct") is not None]
    classifiers = {run.name: str(run.task_run.metrics.get("bleurt_model")) for run in classified}
    # Default folders have the same name.
    classifiers_encoders = {run.name: marks.encoder_of(run) for run in classified}
    differences = differing(classifiers, _last_part) or differing(classifiers_encoders)
    if differences:
        yield (
            "Different classifiers, so verdicts are not comparable between these runs: "
            f"{differences}."
        )


def _last_part(path: str) -> str:
    return PurePath(path).name


def _table4(planned: Sequence[Planned]) -> Table:
    """Put the LCS with each gold plan, and with the better of the two, above Table 4."""
    columns = (
        Column("gold_plan", "Gold plan"),
        *interval_columns("norm_lcs", decimals=2, label="(norm. LCS)"),
        Column("norm_lcs_normal", "Norm. LCS, normal", decimals=2, higher_is_better=True),
        Column(
            "norm_lcs_counterfactual",
            "Norm. LCS, counterfactual",
            decimals=2,
            higher_is_better=True,
        ),
        Column("plans", "Plans"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("encoder", "Sentence encoder"),
    )
    notes = [
        _GOLD_NOTE,
        _OWN_GOLD_NOTE,
        "LCS depends on the sentence encoder.",
        "Runs of one setting have only that setting's values.",
        _INTERVAL_NOTE,
        _SHARES_NOTE,
    ]
    rows: list[OwnRow] = []
    for run in planned:
        for suffix, ending, gold_plan in _TABLE4_ROWS:
            norm = run.means[f"lcs_norm{suffix}"]
            if run.is_text_only or norm.value is None or (run.part and suffix):
                continue
            row: dict[str, Any] = {
                "model": f"{run.name}{ending}",
                "gold_plan": gold_plan,
                "encoder": run.task_run.metrics.get("encoder"),
                "apart": run.objections,
            }
            if run.part is None:
                row["lcs"] = run.means[f"lcs{suffix}"].value
                row |= norm.cells("norm_lcs")
            if not suffix:
                row |= _norms_by_setting(run)
            rows.append(row | run.shares(norm))
    published = load_table("actplan", "table4")
    title = "LCS, next to Table 4 of the paper"
    return published_with_runs(title, published, rows, columns, notes, main="norm_lcs")


def _table3(people: Sequence[marks.ModelPlans], planned: Sequence[Planned]) -> Table:
    """Put correctness, by the classifier and by people, above Table 3 of the paper."""
    columns = (
        Column(
            "normal_classified",
            "Normal, correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "counterfactual_classified",
            "Counterfactual, correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "total_classified", "Total, correct by classifier %", decimals=1, higher_is_better=True
        ),
        *interval_columns("total_classified", decimals=1, label="(total by classifier)"),
        Column("plans", "Plans"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("classifier", "Classifier"),
    )
    rows: list[OwnRow] = list(marks.table3_rows(people))
    for run in planned:
        mean = run.means["bleurt_correct"]
        if run.is_text_only or mean.value is None:
            continue
        row: dict[str, Any] = {
            "model": run.name,
            "classifier": run.task_run.metrics.get("bleurt_model"),
            "apart": run.objections,
        }
        row |= _verdicts_by_setting(run)
        if run.part is None:
            row |= mean.cells("total_classified", scale=100)
        rows.append(row | run.shares(mean))
    if rows:
        title = "Correctness, next to Table 3 of the paper"
        notes = [_CLASSIFIER_NOTE, _INTERVAL_NOTE, _SHARES_NOTE]
    else:
        title = "Published: correctness, judged by people"
        notes = [_CLASSIFIER_NOTE]
    return published_with_runs(title, load_table("actplan", "table3"), rows, columns, notes)


def _ablation_runs(planned: Sequence[Planned]) -> list[Planned]:
    """Return the tasks over both settings of the runs that include the text-only task."""
    text_only_runs = {run.run.name for run in planned if run.is_text_only}
    return [run for run in planned if run.run.name in text_only_runs and run.part is None]


def _table6(people: Sequence[marks.ModelPlans], ablation: Sequence[Planned]) -> Table:
    """Put runs without and with images above Table 6 of the paper."""
    columns = (
        Column("norm_lcs", "Norm. LCS", decimals=2, higher_is_better=True),
        Column("classified", "Correct by classifier %", decimals=1, higher_is_better=True),
        Column("plans", "Plans"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
    )
    rows: list[OwnRow] = []
    for run in ablation:
        name = f"{run.run.name} (w/o)" if run.is_text_only else f"{run.name} (w)"
        row: dict[str, Any] = {
            "model": name,
            "avg_len": run.number("plan_length"),
            "norm_lcs": run.means["lcs_norm"].value,
            "classified": in_percent(run.means["bleurt_correct"].value),
            "apart": run.objections,
        }
        rows.append(row | run.shares(run.means["plan_length"]))
    rows += marks.ablation_rows(people, 6)
    title = "Without images, next to Table 6 of the paper" if rows else "Published: without images"
    notes = [_ABLATION_NOTE, _CLASSIFIER_NOTE, _SHARES_NOTE] if ablation else []
    return published_with_runs(title, load_table("actplan", "table6"), rows, columns, notes)


def _table7(people: Sequence[marks.ModelPlans], ablation: Sequence[Planned]) -> Table:
    """Put runs without and with images, by setting, above Table 7 of the paper."""
    columns = (
        Column("norm_lcs_normal", "Normal: Norm. LCS", decimals=2, higher_is_better=True),
        Column(
            "norm_lcs_counterfactual",
            "Counterfactual: Norm. LCS",
            decimals=2,
            higher_is_better=True,
        ),
        Column(
            "normal_classified",
            "Normal: Correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column(
            "counterfactual_classified",
            "Counterfactual: Correct by classifier %",
            decimals=1,
            higher_is_better=True,
        ),
        Column("plans", "Plans"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
    )
    rows: list[OwnRow] = []
    for run in ablation:
        name = f"{run.run.name}, w/o image" if run.is_text_only else f"{run.name}, w image"
        row: dict[str, Any] = {"model": name, "apart": run.objections}
        for setting in SETTINGS:
            row[f"{setting}_avg_len"] = run.group_mean("setting", setting, "plan_length").value
        row |= _norms_by_setting(run)
        row |= _verdicts_by_setting(run)
        rows.append(row | run.shares(run.means["plan_length"]))
    rows += marks.ablation_rows(people, 7)
    if rows:
        title = "Without images, by setting, next to Table 7 of the paper"
    else:
        title = "Published: without images, by setting"
    notes = [_ABLATION_NOTE, _CLASSIFIER_NOTE, _SHARES_NOTE] if ablation else []
    return published_with_runs(title, load_table("actplan", "table7"), rows, columns, notes)


def _table5(people: Sequence[marks.ModelPlans], planned: Sequence[Planned]) -> Table:
    """Put the agreement of classifiers with people above Table 5 of the paper."""
    columns = (
        Column("all_acc", "Accuracy, all plans", decimals=1, higher_is_better=True),
        Column("majority_acc", "Accuracy, majority class", decimals=1),
        Column("equal_acc", "Accuracy, right if equal to a gold plan", decimals=1),
        Column("plans", "Plans"),
    )
    notes = [
        (
            "Right if equal to a gold plan: accuracy of calling exactly the plans correct "
            "that equal one of their instance's gold plans, line by line. A classifier is "
            "informative only above it and above the majority class."
        ),
    ]
    rows = list(marks.table5_rows(people, planned))
    if rows:
        title = "Agreement of classifiers with people, next to Table 5 of the paper"
    else:
        title = "Published: agreement of classifiers with people"
    return published_with_runs(title, load_table("actplan", "table5"), rows, columns, notes)


def _errors_table(marked: Sequence[marks.Marked]) -> Table | None:
    """Build the table of types of errors; None without marked plans."""
    rows = list(marks.error_rows(marked))
    if not rows:
        return None
    columns = (
        Column("error", "Error"),
        Column("model", "Model"),
        Column("plans", "Plans"),
        Column("unmarked", "Not judged"),
        Column("count", "Plans with it"),
        Column("share", "Of all errors %", decimals=1),
        Column("example", "Example: activity"),
        Column("steps", "Its steps"),
    )
    notes = [
        (
            "Share: percentage of all errors in these plans, as in Fig. 6 of the paper, which "
            "counts errors in 40 plans of each model (sec. 5.6). The figure prints no numbers. The "
            "text says that missing actions occur most, and that mistakes of object property or "
            "function are common in all models. Table 8 has an example of each type."
        ),
        (
            "People: errors marked on the annotation page, including those in correct "
            "plans. Judge: errors from lmms-egoplan judge actplan, in plans that people "
            "did not call correct. Not judged: plans without a usable reply."
        ),
    ]
    return table_of_runs("actplan_errors", "Types of errors", columns, rows, notes)


def _errors_agreement_table(judged: Sequence[JudgedPlan]) -> Table | None:
    """Build the table of the agreement of judges and people; None without plans marked by both."""
    rows = list(marks.agreement_rows(judged))
    if not rows:
        return None
    columns = (
        Column("judge", "Judge"),
        Column("error", "Error"),
        Column("plans", "Plans"),
        Column("people", "By people"),
        Column("by_judge", "By judge"),
        Column("both", "By both"),
        Column("equal", "Same verdict %", decimals=1),
        Column("kappa", "Cohen's kappa", decimals=2),
        *interval_columns("kappa", decimals=2),
    )
    notes = [
        (
            "Agreement on whether a plan has a type of error, over plans marked by both people "
            "and the judge. Cohen's kappa has a 95 % interval from a bootstrap over plans. No "
            f"kappa for fewer than {MIN_ITEMS} plans, or if one side marks all plans the same."
        ),
    ]
    title = "Types of errors: judges and people"
    return table_of_runs("actplan_errors_agreement", title, columns, rows, notes)


def _scores_table(planned: Sequence[Planned]) -> Table:
    """Build the table of every measure of every run."""
    columns = (
        Column("measure", "Score"),
        Column("model", "Run"),
        Column("value", "Value", decimals=3),
        *interval_columns("value", decimals=3),
        Column("activities", "Activities"),
        Column("plans", "Plans"),
        Column("coverage", "Coverage %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
    )
    rows: list[dict[str, Value]] = []
    for measure, title in MEASURES.items():
        for run in planned:
            mean = run.means[measure]
            if mean.value is None:
                continue
            row: dict[str, Value] = {
                "measure": title,
                "model": run.name,
                "activities": mean.clusters,
            }
            rows.append({**row, **mean.cells("value"), **run.shares(mean)})
    notes = [
        (
            "LCS and normalised LCS (divided by the longer plan's length, 0 to 1) use the "
            "answer's lines, as the authors' code does. The parsed measures use the steps "
            "found in the answer. Each measure is over the plans for which it is defined."
        ),
        (
            "Form validity: mean share of a plan's steps of the form action(object). Plan "
            "length: number of parsed steps. Empty, without a step, truncated: shares of "
            "the answers; lower is better."
        ),
    ]
    if any(run.means["goal_conditions"].value is not None for run in planned):
        notes.append(
            "Goal conditions: a diagnostic of this project. The steps are executed on the "
            "activity's BDDL problem, as far as actions and names are understood. Reached: mean "
            "share of the checkable conditions that hold at the end. Checked: their share of all "
            "conditions; 0 for a plan without a problem, a checkable condition, an understood step "
            "or a matching name. Do not rank models by either: on the release's test activities, "
            "the check is right less often than calling every plan wrong."
        )
    notes += [_GOLD_NOTE, _OWN_GOLD_NOTE, _INTERVAL_NOTE, _SHARES_NOTE]
    return table_of_runs("actplan_scores", "All scores with intervals", columns, rows, notes)


def _by_setting_table(planned: Sequence[Planned]) -> Table:
    """Build the table that compares normal and counterfactual activities."""
    columns = (
        Column("measure", "Score"),
        Column("model", "Run"),
        Column("normal", "Normal", decimals=3),
        *interval_columns("normal", decimals=3, prefix="normal_"),
        Column("normal_plans", "Plans"),
        Column("counterfactual", "Counterfactual", decimals=3),
        *interval_columns("counterfactual", decimals=3, prefix="counterfactual_"),
        Column("counterfactual_plans", "Plans"),
        Column("difference", "Difference", decimals=3),
        *interval_columns("difference", decimals=3, prefix="difference_"),
    )
    notes = [
        (
            "Difference: normal minus counterfactual. Each bootstrap resample draws whole "
            "activities, with the normal and counterfactual plans of an activity together. "
            "No interval if a resample lacks one of the two settings."
        ),
        _INTERVAL_NOTE,
    ]
    rows: list[dict[str, Value]] = []
    for measure in BY_SETTING:
        for run in planned:
            means = {setting: run.group_mean("setting", setting, measure) for setting in SETTINGS}
            if all(mean.value is None for mean in means.values()):
                continue
            means["difference"] = _difference(run, means, measure)
            row: dict[str, Value] = {"measure": MEASURES[measure], "model": run.name}
            for part, mean in means.items():
                row |= mean.cells(part, f"{part}_")
                row[f"{part}_plans"] = mean.questions
            rows.append(row)
    return table_of_runs("actplan_by_setting", "Normal and counterfactual", columns, rows, notes)


def _by_length_table(planned: Sequence[Planned]) -> Table:
    """Build the table of LCS and the classifier's verdicts by length of gold plan 1."""
    notes = [
        _GROUPS_NOTE,
        _INTERVAL_NOTE,
        (
            "The paper's Fig. 5 shows human verdicts by length. Its numbers are not "
            "printed, and its bins are not legible. People's verdicts, where the report "
            "has them, are in a separate table and figure."
        ),
    ]
    columns = _group_columns(Column("group", "Steps"))
    rows = _group_rows(planned, "length")
    return table_of_runs("actplan_by_length", "By length of gold plan 1", columns, rows, notes)


def _by_activity_type_table(planned: Sequence[Planned]) -> Table:
    """Build the table of LCS and the classifier's verdicts by type of activity."""
    notes = [
        _GROUPS_NOTE,
        _INTERVAL_NOTE,
        (
            "The paper does not assign activities to types (sec. 3.4). Here the activity's "
            "name decides."
        ),
    ]
    columns = _group_columns(Column("group", "Type"))
    rows = _group_rows(planned, "activity_type")
    return table_of_runs("actplan_by_activity_type", "By type of activity", columns, rows, notes)


def _group_columns(group: Column) -> tuple[Column, ...]:
    """Return the columns of a table of LCS and the classifier's verdicts by group.

    Args:
        group: The column with the groups.
    """
    return (
        group,
        Column("model", "Run"),
        Column("plans", "Plans"),
        Column("lcs_norm", "Norm. LCS", decimals=3),
        *interval_columns("lcs_norm", decimals=3),
        Column("lcs", "LCS, steps", decimals=3),
        Column("lcs_norm_parsed", "Norm. LCS, parsed", decimals=3),
        Column("verdicts", "Classified"),
        Column("bleurt_correct", "Correct by classifier %", decimals=1),
        *interval_columns("bleurt_correct", decimals=1, prefix="correct_"),
    )


def _group_rows(planned: Sequence[Planned], by: str) -> list[dict[str, Value]]:
    """Return LCS and the classifier's verdicts of each run by group.

    Args:
        planned: The runs' tasks.
        by: A key of `GROUPS`.
    """
    rows = []
    for group in GROUPS[by]:
        for run in planned:
            if group not in run.groups[by]:
                continue
            norm = run.group_mean(by, group, "lcs_norm")
            correct = run.group_mean(by, group, "bleurt_correct")
            row: dict[str, Value] = {
                "group": group,
                "model": run.name,
                "plans": norm.questions,
                "verdicts": None if correct.value is None else correct.questions,
                "lcs": run.group_mean(by, group, "lcs").value,
                "lcs_norm_parsed": run.group_mean(by, group, "lcs_norm_parsed").value,
            }
            row |= norm.cells("lcs_norm")
            row |= correct.cells("bleurt_correct", "correct_", scale=100)
            rows.append(row)
    return rows


def _people_by_length_table(people: Sequence[marks.ModelPlans]) -> Table | None:
    """Build the table of people's verdicts by length; None without labels."""
    rows: list[dict[str, Value]] = []
    for model, bins in marks.people_by_length(people).items():
        for length, mean in bins.items():
            row: dict[str, Value] = {"group": length, "model": model, "plans": mean.questions}
            rows.append({**row, **mean.cells("correct")})
    if not rows:
        return None
    columns = (
        Column("group", "Steps"),
        Column("model", "Model"),
        Column("plans", "Plans"),
        Column("correct", "Correct %", decimals=1),
        *interval_columns("correct", decimals=1),
    )
    notes = [marks.PEOPLE_BY_LENGTH_NOTE]
    title = "Correctness by length, judged by people"
    return table_of_runs("actplan_people_by_length", title, columns, rows, notes)


def _series_by_group(
    planned: Sequence[Planned], by: str, measure: str
) -> tuple[list[str], dict[str, list[Mean]]]:
    """Return the groups in which a run has a value, and the means of each run with a value.

    Args:
        planned: The runs' tasks.
        by: A key of `GROUPS`.
        measure: A key of `MEASURES`.
    """
    groups = []
    for group in GROUPS[by]:
        if any(run.group_mean(by, group, measure).value is not None for run in planned):
            groups.append(group)
    series = {}
    for run in planned:
        means = [run.group_mean(by, group, measure) for group in groups]
        if any(mean.value is not None for mean in means):
            series[run.name] = means
    return groups, series


def _norms_by_setting(run: Planned) -> dict[str, Value]:
    """Return the normalised LCS by column."""
    cells: dict[str, Value] = {}
    for setting in SETTINGS:
        cells[f"norm_lcs_{setting}"] = run.group_mean("setting", setting, "lcs_norm").value
    return cells


def _verdicts_by_setting(run: Planned) -> dict[str, Value]:
    """Return the share of plans that the classifier calls correct, in per cent, by column."""
    cells: dict[str, Value] = {}
    for setting in SETTINGS:
        mean = run.group_mean("setting", setting, "bleurt_correct")
        cells[f"{setting}_classified"] = in_percent(mean.value)
    return cells


def _difference(run: Planned, means: Mapping[str, Mean], measure: str) -> Mean:
    """Return normal minus counterfactual, with an interval over activities.

    Args:
        run: The run's task.
        means: The mean of each setting.
        measure: A key of `MEASURES`.
    """
    normal, counterfactual = (means[setting].value for setting in SETTINGS)
    if normal is None or counterfactual is None:
        return Mean()
    answers = [
        answer for answer in (run.answers or {}).values() if answer.scores[measure] is not None
    ]
    scores = np.array([answer.scores[measure] for answer in answers])
    settings = np.array([answer.groups["setting"] for answer in answers], dtype=str)
    in_setting = np.stack([settings == setting for setting in SETTINGS], axis=-1)
    rows = np.stack([in_setting * scores[:, None], in_setting], axis=-1)
    activities = [str(answer.cluster) for answer in answers]
    interval = interval_of_sums(rows, activities, _difference_of_settings)
    return Mean(normal - counterfactual, interval)


def _difference_of_settings(sums: np.ndarray) -> np.ndarray:
    """Return normal minus counterfactual; NaN if a resample has plans of one setting only."""
    total, count = np.moveaxis(sums, -1, 0)
    means = np.divide(total, count, out=np.full_like(total, math.nan), where=count > 0)
    return means[..., 0] - means[..., 1]


def _verdict(answer: Answer) -> Verdict:
    """Return the classifier's verdict.

    Without a classifier, a plan is right if its normalised LCS is 1, and wrong if it is 0.
    """
    score = answer.record.score
    norm = answer.scores["lcs_norm"]
    if score.bleurt is not None:
        return "right" if score.bleurt else "wrong"
    if norm is None:
        return "unscored"
    if norm == 1:
        return "right"
    return "wrong" if norm == 0 else "partly"


def _ratings(answer: Answer) -> Iterator[str]:
    """Yield the scores of a plan in words."""
    score = answer.record.score
    scores = answer.scores
    for plan, measure in enumerate(("lcs_norm", "lcs_norm_gold_2"), 1):
        if scores[measure] is not None:
            yield f"normalised LCS with gold plan {plan} {scores[measure]:.3f} of 1"
    if score.parsed != score.official and scores["lcs_norm_parsed"] is not None:
        yield f"parsed {scores['lcs_norm_parsed']:.3f}"
    if score.form_validity is not None:
        yield f"form validity {score.form_validity:.2f}"
    if score.goal is not None and score.goal.share is not None:
        yield _goal_text(score.goal)
    if score.bleurt is not None:
        text = f"{'correct' if score.bleurt else 'wrong'} by the classifier"
        if score.bleurt_probability is not None:
            text += f" ({score.bleurt_probability:.2f})"
        yield text
    if score.truncated:
        yield "cut off"


def _goal_text(goal: GoalCheck) -> str:
    """Describe the goal check of a plan."""
    checked = len(goal.reached + goal.missed)
    text = f"{len(goal.reached)} of {checked} goal conditions"
    if goal.unchecked:
        text += f", {len(goal.unchecked)} not checkable"
    if goal.names is not None:
        text += f", {goal.named} of {goal.names} names understood"
    return text


def _read_rows() -> dict[Key, tuple[str, Images]]:
    """Read task descriptions and images of the prepared instances."""
    prepared = {}
    for row, images in with_images(ACTPLAN.load(SPLIT), "images"):
        key = key_of(row["id"], row["gold_plan_1"], row["gold_plan_2"])
        prepared[key] = (row["task_description"], images)
    return prepared
