"""Build EgoThink's part of a report: twelve dimensions, six capabilities, judges and questions."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import (
    BY_NAME,
    DIMENSION_NAMES,
    DIMENSIONS,
    Dimension,
    capability_of,
    dimension_of,
)
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.prepare import FORMATS, question_format
from lmms_egoplan.benchmarks.egothink.presets import PRESETS
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.report.benchmark import (
    BenchmarkReport,
    Inputs,
    Spec,
    read_prepared,
    with_images,
)
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Images, ShownAnswer, Verdict
from lmms_egoplan.report.egothink.agreement import (
    coefficient_cells,
    noise_by_dimension,
    pair_coefficients,
)
from lmms_egoplan.report.egothink.answer_files import PEOPLE, RatedAnswer, read_repeated
from lmms_egoplan.report.egothink.answers import (
    CAPABILITIES,
    SINGLE,
    EgoThinkTask,
    read_graded,
)
from lmms_egoplan.report.egothink.slopes import slope_rows
from lmms_egoplan.report.models import model_facts
from lmms_egoplan.report.panels import Panel, panels_of
from lmms_egoplan.report.published import OwnRow, load_table, published_with_runs
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.scores import Answer, Key, differing, in_percent
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
from lmms_egoplan.stats.agreement import MIN_ITEMS, agreement
from lmms_egoplan.stats.correction import FEWEST_RATED, corrected
from lmms_egoplan.stats.intervals import (
    RESAMPLES,
    Interval,
    interval_of_sums,
    stratified_interval,
    stratified_score_interval,
)
from lmms_egoplan.stats.means import Mean

# Capabilities of Tables 9 to 11.
_TABLE9_CAPABILITIES = ("object", "planning")
_SAME_ANSWERS = 0.5
# Smallest share of a sample that people must rate; missing ratings may not be random.
_MOSTLY_RATED = 0.9
_OTHER_ANSWERS = "other answers than the published ones"
# Published model in the figures, the best of Table 3.
_REFERENCE = "GPT-4V"
_PEOPLE = "people's rating"
_FORMAT = "question format"
_GRADES = {0.0: "wrong", 0.5: "partly right", 1.0: "right"}
_VERDICTS: dict[float | None, Verdict] = {0.0: "wrong", 1.0: "right", None: "unscored"}
_SCORE = "score, 0 to 100"

# Notes of several tables.
_INTERVAL_NOTE = (
    "Low to high: 95 % interval by Wilson over the questions of each dimension; that of a "
    "difference is from a bootstrap. It covers the choice of questions, not the choice of judge."
)
_SHARES_NOTE = (
    "Coverage: fraction of the official questions with a rating (50 per dimension, 100 in activity "
    "and forecasting). The score is the mean over these ratings. Judged: fraction of the answers "
    "with a rating. Truncated: fraction of the answers that the limit on new tokens ended, if "
    "known. Suspect: fraction of the answers that look as if they rate themselves. Prompts: the "
    "model family of Tables 5 and 6 whose prompts were used."
)

# How the tasks obtain their scores, in the words of the ledger.
_LEDGER_FIELDS = {
    "egothink_bench": {"prompt": "the model family's prompts in appendix C of the paper"},
    # Presets of LMMS_EGOPLAN_PROTOCOL.
    "egothink_bench+official": {"prompt": "official EgoThink API prompt"},
    "egothink_bench+lmms-eval-0.7.3": {"prompt": "lmms-eval EgoThink"},
    "egothink_bench+physbrain": {"prompt": "camera wearer, as short as possible"},
}


@dataclass(frozen=True)
class _JudgeMean:
    """The mean of an evaluator's ratings of a run's answers in one capability.

    Attributes:
        run: Name of the run.
        evaluator: Name of the judge, or ``people``.
        capability: The capability.
        answers: Number of answers.
        mean: The mean rating.
    """

    run: str
    evaluator: str
    capability: str
    answers: int
    mean: Mean


class EgoThinkReport(BenchmarkReport[EgoThinkTask]):
    """EgoThink's part of a report."""

    SPEC = Spec(
        name="egothink",
        title="EgoThink",
        lead=(
            "700 open questions about single first-person images, in six capabilities "
            "and twelve dimensions. A judge model compares each answer with a person's "
            "answer and rates it 0, 0.5 or 1. Scores are 100 times the mean."
        ),
        metric="average",
        decimals=1,
        measure="score",
        compact_title="EgoThink: score, 0 to 100",
        compact_main="average of the twelve",
        group_order={
            "dimension": DIMENSION_NAMES,
            "capability": [*CAPABILITIES],
            _PEOPLE: [*_GRADES.values()],
            _FORMAT: FORMATS,
        },
        reference=("table3", ""),
        caveat=("the published scores are by another judge, GPT-4, which is no longer available"),
        subsets={
            "average": "",
            "object": "object",
            "activity": "activity",
            "localization": "localization",
            "reasoning": "reasoning",
            "forecasting": "forecasting",
            "planning: navigation": "navigation",
            "planning: assistance": "assistance",
        },
        ledger_fields=_LEDGER_FIELDS,
    )

    def read(self, runs: Sequence[Run]) -> list[EgoThinkTask]:
        """Return the dimensions of each run as one task.

        Those of each shortcut condition are another one.
        """
        tasks: list[EgoThinkTask] = []
        for run in runs:
            tasks += read_graded(run)
        return tasks

    def summary_tasks(self) -> list[EgoThinkTask]:
        """Add each run's capabilities."""
        tasks = list(self.tasks)
        for task in self.tasks:
            tasks += task.capabilities()
        return tasks

    def labels(self, _task: EgoThinkTask, answer: Answer) -> Mapping[str, str]:
        """Return the people's rating of the same answer."""
        rating = self._rated.get((answer.id, answer.record.answer))
        return {} if rating is None else {_PEOPLE: _GRADES.get(rating, "between these")}

    @cached_property
    def _people(self) -> list[RatedAnswer]:
        return read_labels(self.labelled(), PEOPLE, RatedAnswer, ("id", "model", "answer"))

    @cached_property
    def _rated(self) -> dict[tuple[str, str], float]:
        return {(answer.id, answer.answer): answer.rating for answer in self._people}

    def subset_means(self, task: EgoThinkTask) -> dict[str, Mean]:
        """Return the average, the scores by capability, and those of planning by dimension."""
        groups = {"": task.dimensions, **CAPABILITIES, **SINGLE}
        return {subset: task.part(groups[name]).mean for subset, name in self.SPEC.subsets.items()}

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions."""
        return _mean_of_dimensions(
            answers, partial(stratified_score_interval, top=EgoThinkTask.largest)
        )

    def mean_of_differences(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions, for differences."""
        return _mean_of_dimensions(answers, stratified_interval)

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """Return the table of judge noise, or None without repeated judgements."""
        return _noise_table(inputs.judged)

    def tables(self) -> Iterator[Table | None]:
        """Yield tables with published scores, scores by group, and pairs of judges and runs."""
        yield _table3(self.tasks)
        yield self._table2()
        yield _capabilities_table(self.tasks)
        yield _dimensions_table(self.tasks)
        yield self._formats_table()
        yield self._judge_means_table()
        yield _judges_table(self.tasks)
        yield _corrected_table(self._people, self.tasks)
        yield self._pairs_of_runs()
        yield condition_table(self)
        yield _table9(self._rated, self.tasks)
        yield _table10(self._people)
        yield _table11()

    def _table2(self) -> Table:
        """Put facts about the models above Table 2 of the paper."""
        columns = (
            Column("named_billions", "Billions by its name", decimals=2),
            Column("tuned", "Tuning by its name"),
            Column("family", "Family by its name"),
            Column("images", "Images"),
            Column("average", "Average", decimals=1),
            *interval_columns("average", decimals=1, prefix="average_"),
            Column("facts_from", "Facts from"),
        )
        notes = [
            (
                "Rows of runs: facts in the checkpoint's configuration, with the name of the "
                "field, if the checkpoint is on this machine. Total: parameters as the harness "
                "counted them, else by the headers of the safetensors files, in billions; unknown "
                "for quantised weights. Size, family and tuning are what the model's name states. "
                "Images: mean number per question that the harness logged. Everything else is "
                "unknown, such as the data of training, and models of an API."
            ),
        ]
        rows = self._models
        title = "Models, next to Table 2 of the paper" if rows else "Published: models"
        return published_with_runs(title, load_table("egothink", "table2"), rows, columns, notes)

    def _formats_table(self) -> Table:
        """Compare yes-or-no questions and what-questions, after Fig. 4 of the paper."""
        columns = (
            Column("model", "Run"),
            Column("dimensions", "Dimensions"),
            Column("difference", "Difference", decimals=1),
            *interval_columns("difference", decimals=1),
            Column("questions", "Questions"),
            Column("left_out", "Not compared"),
        )
        notes = [
            (
                "Fig. 4 of the paper asks for one fact in two formats, once with yes or no "
                'and once with "what". The released questions contain no such pair. This '
                "table therefore compares different questions of the same dimensions, "
                "which may also differ in difficulty. Guesses are right more often if the "
                "answer is yes or no. Scores by format are among the scores by attribute."
            ),
            (
                "Difference: score of what-questions minus that of yes-or-no questions within a "
                "dimension; over several dimensions, a mean with weights n m / (n + m) for n and "
                f"m questions. Low to high: 95 % interval, percentiles of {RESAMPLES:,} bootstrap "
                "resamples of the questions. Not compared: questions of other formats, of unknown "
                "text, or of dimensions that lack a format. These rules are this project's."
            ),
        ]
        title = "Yes-or-no questions and what-questions, after Fig. 4 of the paper"
        return table_of_runs("egothink_formats", title, columns, self._format_rows(), notes)

    def _judge_means_table(self) -> Table:
        """Build the table of the means of the same answers by judge."""
        columns = (
            Column("model", "Answers of"),
            Column("evaluator", "Evaluator"),
            Column("group", "Capability"),
            Column("score", "Score", decimals=1),
            *interval_columns("score", decimals=1),
            Column("answers", "Answers"),
        )
        notes = [
            (
                "Over the answers that all evaluators rated. Fig. 18 of the paper shows "
                "such means for GPT-4V's answers; Tables 3, 10 and 11 print their parts. "
                f"People count if they rated at least {MIN_ITEMS} of the answers."
            ),
            _INTERVAL_NOTE,
        ]
        rows: list[dict[str, Value]] = []
        for judge_mean in self._judge_means:
            row: dict[str, Value] = {
                "model": judge_mean.run,
                "evaluator": judge_mean.evaluator,
                "group": judge_mean.capability,
                "answers": judge_mean.answers,
            }
            rows.append({**row, **judge_mean.mean.cells("score")})
        title = "Means of the same answers by judge"
        return table_of_runs("egothink_judge_means", title, columns, rows, notes)

    def _pairs_of_runs(self) -> Table | None:
        """Compare every pair of runs."""
        notes = [
            (
                "All questions have equal weight here, so activity and forecasting count "
                "twice. The differences therefore deviate from those of the averages. They "
                "are comparable only if the same judge rated both runs."
            ),
        ]
        return self.pairs(self.tasks, "Every pair of runs", notes)

    def figures(self) -> Iterator[Figure | None]:
        """Yield bar charts of capabilities and dimensions, with a published model to compare."""
        if self.tasks:
            yield _bars("egothink_capability_bars", "Six capabilities", CAPABILITIES, self.tasks)
            yield _bars("egothink_dimension_bars", "Twelve dimensions", SINGLE, self.tasks)
            yield self._sizes()
        yield from self._judge_bars()
        yield condition_figure(self)

    @cached_property
    def _models(self) -> list[dict[str, Value]]:
        """Rows of Table 2, one per run."""
        rows = []
        for run in self.tasks:
            facts = model_facts(run.run, [task.task for task in run.tasks.values()])
            rows.append({"model": run.name, **facts, **run.main.cells("average", "average_")})
        return rows

    def _sizes(self) -> Figure | None:
        """Draw the scores of families of models by size and tuning.

        Return None without a family with two of these.
        """
        lines: dict[str, dict[float, Mean]] = {}
        for run, row in zip(self.tasks, self._models, strict=True):
            size = row["named_billions"] or row["total_billions"]
            if run.main.value is not None and size:
                line = f"{row['family']}, judge {name_of(run.judge)}, tuning: {row['tuned']}"
                lines.setdefault(line, {}).setdefault(float(f"{size:.2g}"), run.main)
        points_of_family: Counter[str] = Counter()
        sizes: set[float] = set()
        for line, points in lines.items():
            points_of_family[line.rpartition(",")[0]] += len(points)
            sizes.update(points)
        if max(points_of_family.values(), default=0) < 2:
            return None
        means = {}
        for line, points in lines.items():
            means[line] = [points.get(size, Mean()) for size in sorted(sizes)]
        labels = [f"{size:g}" for size in sorted(sizes)]
        title = "Score by size of the model and instruction tuning, like Fig. 8 of the paper"
        caption = (
            "With 95 % bootstrap intervals over the questions. A line joins models of "
            "one family by name, with the same judge. If several runs have the same "
            "model and judge, the first counts. A name without such a word does not "
            'state the tuning, so "unknown" may be tuned, too. Sizes are rounded to '
            "two digits. Table 2 has all values, and the table of pairs the "
            "differences."
        )
        size_label = "billions of parameters, by the name of the model, else counted (not to scale)"
        score_label = "average of the twelve, 0 to 100"
        draw = partial(draw_lines, labels, means, score_label, size_label, 100)
        return Figure("egothink_sizes", title, caption, draw, spoken(labels, means, 1))

    def _format_rows(self) -> Iterator[dict[str, Value]]:
        """Compare yes-or-no and what-questions of each run.

        The rows are for all dimensions together, and for each that has both.
        """
        for run in self.tasks:
            facts = [self.questions[key]["facts"] for key in run.judged]
            names = np.array([fact.get("dimension", "") for fact in facts])
            formats = np.array([fact.get(_FORMAT, "") for fact in facts])
            # The group "" has no what-questions.
            groups = np.where(np.isin(formats, FORMATS[:2]), names, "")
            scores = 100 * np.array(_ratings([*run.judged.values()]))
            summands = slope_rows(formats == FORMATS[1], scores, groups)
            for scope in ("all", *DIMENSION_NAMES):
                is_in_scope = (names == scope) | (scope == "all")
                used = summands[is_in_scope & (summands[:, 2] > 0)]
                if not len(used):
                    continue
                interval = interval_of_sums(used, np.arange(len(used)), _slope)
                difference = Mean(used[:, 0].sum() / used[:, 1].sum(), interval)
                row: dict[str, Value] = {
                    "model": run.name,
                    "dimensions": scope,
                    "questions": len(used),
                    "left_out": int(is_in_scope.sum()) - len(used),
                }
                yield {**row, **difference.cells("difference")}

    @cached_property
    def _judge_means(self) -> list[_JudgeMean]:
        """Mean of each evaluator over the answers of a run that all its evaluators rated.

        Evaluators are the judges of a panel, and people if they rated at least `MIN_ITEMS` of its
        answers.
        """
        means = []
        for panel in panels_of(self.tasks):
            run = panel.runs[0]
            answers = [run.answers[key] for key, _ in panel.parts]
            ratings = self._ratings_by_evaluator(panel, answers)
            is_rated = np.all(np.isfinite([*ratings.values()]), axis=0)
            for evaluator, scores in ratings.items():
                rated = [
                    replace(answer, scores={"score": score})
                    for answer, score, is_used in zip(answers, scores, is_rated, strict=True)
                    if is_used
                ]
                for capability in CAPABILITIES:
                    part = [answer for answer in rated if capability_of(answer.id) == capability]
                    if part:
                        mean = self.mean_of_scores(part)
                        means.append(_JudgeMean(run.name, evaluator, capability, len(part), mean))
        return means

    def _ratings_by_evaluator(
        self, panel: Panel, answers: Sequence[Answer]
    ) -> dict[str, np.ndarray]:
        """Return the ratings of a panel's answers, 0 to 100, by judge and by people."""
        ratings: dict[str, np.ndarray] = {}
        for run, judge_ratings in zip(panel.runs, panel.ratings.T, strict=True):
            ratings[run.judge] = judge_ratings
        people = np.array(
            [self._rated.get((answer.id, answer.record.answer), np.nan) for answer in answers]
        )
        if np.isfinite(people).sum() >= MIN_ITEMS:
            ratings["people"] = 100 * people
        return ratings

    def _judge_bars(self) -> Iterator[Figure]:
        """Draw the means by judge of each run's answers."""
        for index, run in enumerate(dict.fromkeys(row.run for row in self._judge_means), 1):
            labels: dict[str, None] = {}
            means: dict[str, list[Mean]] = {}
            for row in self._judge_means:
                if row.run == run:
                    labels[f"{row.capability}\n{row.answers} answers"] = None
                    means.setdefault(row.evaluator, []).append(row.mean)
            yield Figure(
                f"egothink_judges_{index}",
                f"Means by judge of the same answers, like Fig. 18 of the paper: {run}",
                (
                    "With 95 % bootstrap intervals over the questions. Below the "
                    "capabilities: number of answers that all evaluators rated."
                ),
                partial(draw_bars, [*labels], means, _SCORE, 100),
                spoken([*labels], means, 1),
            )

    def heading(self, _task: EgoThinkTask) -> str:
        """Return "", because a run has only one block."""
        return ""

    def cells(self, task: EgoThinkTask, _block: Sequence[EgoThinkTask], /) -> dict[str, str]:
        """Return each dimension's score, 0 to 100, and their average."""
        whole = task.whole
        parts = {name: task.part(part) for name, part in SINGLE.items() if name in task.tasks}
        parts[self.SPEC.compact_main] = whole
        cells = dict.fromkeys(SINGLE, "")
        for name, part in parts.items():
            cells[name] = scored(part.mean.value, self.SPEC.decimals, part.coverage)
        return {
            **cells,
            "questions": f"{number(whole.questions)} of {number(whole.official)}",
            "judged": share(whole.judged / whole.questions if whole.questions else None),
            "truncated": task.truncated_text,
            "suspect": share(whole.suspect),
            "judge": name_of(task.judge),
        }

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort questions by dimension."""
        return sorted(keys, key=lambda key: DIMENSION_NAMES.index(dimension_of(str(key[0]))))

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared question, or the text that lm-eval logged.

        No harness logs the image.
        """
        question_id = answers[0].id
        reference = key[1]
        logged = next((answer.doc.get("question") for answer in answers if answer.doc), None)
        prepared = self._prepared[0].get(key)
        if prepared is not None:
            text, images = prepared
        else:
            text = logged or f"{question_id}: text not available"
            images = None
        dimension = BY_NAME[dimension_of(question_id)]
        facts = {"capability": dimension.capability, "dimension": dimension.name}
        if logged or prepared is not None:
            facts[_FORMAT] = question_format(text, str(reference))
        return {
            "question": text,
            "facts": facts,
            "references": {"Reference answer": reference},
            "images": images,
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the judge's rating and reply."""
        judged = answer.record
        if judged.rating is None:
            tags = [f"not judged: {judged.error}"]
        else:
            tags = [f"{judged.rating:g} of 1 by {judged.judge}"]
        if judged.truncated:
            tags.append("cut off")
        if judged.suspect:
            tags.append("suspect")
        verdict = _VERDICTS.get(judged.rating, "partly")
        return ShownAnswer(
            verdict, judged.answer, rating="; ".join(tags), judgement=judged.judgement
        )

    @cached_property
    def _prepared(self) -> tuple[dict[Key, tuple[str, Images]], dict[str, str]]:
        """Texts and images of the prepared questions, and each unreadable dimension's error."""
        names: dict[str, None] = {}
        for run in self.tasks:
            for answer in run.answers.values():
                names[dimension_of(answer.id)] = None
        prepared: dict[Key, tuple[str, Images]] = {}
        problems: dict[str, str] = {}
        for name in names:
            rows, problem = read_prepared(partial(_read_rows, name))
            prepared |= rows
            if problem:
                problems[name] = problem
        return prepared, problems

    def flaws(self, task: EgoThinkTask) -> Iterator[str]:
        """Yield the problems of dimensions, judges and samples."""
        whole = task.whole
        missing = [name for name in DIMENSION_NAMES if name not in task.tasks]
        if missing:
            yield f"no average, because these dimensions were not run: {', '.join(missing)}."
        unrated = [name for name, run in task.tasks.items() if run.number("score") is None]
        if unrated:
            yield f"no score, because no answer is judged: {', '.join(unrated)}."
        if whole.judged < whole.questions:
            count = whole.questions - whole.judged
            if task.ranking_flaw:
                yield (
                    f"{count:,} of {whole.questions:,} judgements failed and count as "
                    "-1, as the judge's protocol has it. To judge the answers again, "
                    "run lmms-egoplan judge egothink."
                )
            else:
                yield (
                    f"{count:,} of {whole.questions:,} answers are not judged and count as neither "
                    "right nor wrong. To judge them, run lmms-egoplan judge egothink."
                )
        if task.is_by_demo:
            yield "the demo judge only compares words; its ratings are meaningless."
        unlogged = [name for name, run in task.tasks.items() if run.samples is None]
        if unlogged:
            yield (
                f"no samples of {', '.join(unlogged)}, so they have no intervals, no "
                "comparisons and no answers in the gallery."
            )
        preset = PRESETS.get((task.task_run.version or "").partition("+")[2])
        if preset and preset.unknown:
            fields = ", ".join(preset.unknown).replace("_", " ")
            yield (
                f"the source of this preset does not state {fields}; this project's own "
                "choice is used there."
            )
        if task.left_out:
            yield (
                "excluded, because their dimension is unknown or already has a task of "
                f"the benchmark in this run: {', '.join(task.left_out)}."
            )

    def gaps(self) -> Iterator[str]:
        """Yield notes on different judges and on questions that are not prepared."""
        judges = differing({run.name: run.judge for run in self.tasks})
        if judges:
            yield f"Different judges, so scores are not comparable: {judges}."
        prepared, problems = self._prepared
        if problems:
            problem = next(iter(problems.values()))
            yield (
                f"{len(problems)} dimensions are unreadable in the prepared data. The gallery "
                f"lacks their images and, for runs of lmms-eval, their questions: {problem}"
            )
        unknown = {
            key
            for key in self.answers.keys() - prepared.keys()
            if dimension_of(str(key[0])) not in problems
        }
        if unknown:
            yield (
                f"{len(unknown)} questions differ from the prepared data, for example "
                f"{min(unknown)[0]}; the gallery lacks their images."
            )


def _read_rows(dimension: str) -> dict[Key, tuple[str, Images]]:
    rows = with_images(EGOTHINK.load(dimension), "image")
    return {(row["id"], row["answer"]): (row["question"], images) for row, images in rows}


def _mean_of_dimensions(
    answers: Sequence[Answer], interval_of: Callable[[Sequence[Sequence[float]]], Interval]
) -> Mean:
    """Return the plain mean over the dimensions of the answers with a score.

    Args:
        answers: The answers.
        interval_of: Returns the interval of scores by dimension.
    """
    scores: dict[str, list[float]] = {}
    for answer in answers:
        score = answer.scores["score"]
        if score is not None:
            scores.setdefault(dimension_of(answer.id), []).append(score)
    strata = [*scores.values()]
    count = sum(map(len, strata))
    if not count:
        return Mean(questions=0, clusters=0)
    return Mean(fmean(map(fmean, strata)), interval_of(strata), count, count)


def _slope(sums: np.ndarray) -> np.ndarray:
    """Return the slope from sums of `slope_rows`."""
    return sums[..., 0] / sums[..., 1]


def _bars(
    key: str, title: str, groups: Mapping[str, Sequence[Dimension]], graded: Sequence[EgoThinkTask]
) -> Figure:
    """Draw the runs' scores by group of dimensions, with the published model `_REFERENCE`."""
    (reference,) = (
        row for row in load_table("egothink", "table3").rows if row["model"] == _REFERENCE
    )
    published = []
    for dimensions in groups.values():
        cells = [reference[dimension.name] for dimension in dimensions]
        published.append(fmean(cell for cell in cells if isinstance(cell, float)))
    means = {}
    for run in graded:
        means[run.name] = [run.part(dimensions).mean for dimensions in groups.values()]
    names = list(groups)
    reference_bars = (f"{_REFERENCE}, published", published)
    caption = (
        "Scores of the runs, 0 to 100, with 95 % bootstrap intervals over the "
        f"questions. Dashed: {_REFERENCE} in Table 3 of the paper, graded by GPT-4."
    )
    draw = partial(draw_bars, names, means, _SCORE, 100, reference_bars)
    return Figure(key, title, caption, draw, spoken(names, means, 1))


def _table3(graded: Sequence[EgoThinkTask]) -> Table:
    """Put the dimensions' scores of the runs above Table 3 of the paper."""
    columns = (
        *interval_columns("average", decimals=1, label="(average)"),
        Column("questions", "Questions"),
        Column("coverage", "Coverage %", decimals=1),
        Column("judged", "Judged %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("suspect", "Suspect %", decimals=1),
        Column("judge", "Judge"),
        Column("prompts", "Prompts"),
    )
    notes = [
        "Average: plain mean over the twelve dimensions, if all have a score.",
        (
            "The paper's judge, GPT-4, is no longer available. Scores of other judges are "
            "close to the published ones, but not equal."
        ),
        _INTERVAL_NOTE,
        _SHARES_NOTE,
    ]
    rows: list[OwnRow] = []
    for run in graded:
        values = run.whole.values()
        row: dict[str, Value] = {
            "model": run.name,
            "average": values.pop("score"),
            "apart": "; ".join(run.objections),
        }
        for name, task_run in run.tasks.items():
            row[name] = task_run.number("score")
        rows.append(row | values)
    title = "Twelve dimensions, next to Table 3 of the paper"
    return published_with_runs(title, load_table("egothink", "table3"), rows, columns, notes)


def _capabilities_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the runs' scores by capability."""
    notes = [
        "Score: plain mean over the dimensions of the capability, if all have a score.",
        _INTERVAL_NOTE,
        _SHARES_NOTE,
    ]
    columns = _score_columns(Column("group", "Capability"))
    rows = _score_rows(graded, CAPABILITIES)
    return table_of_runs("egothink_capabilities", "Scores by capability", columns, rows, notes)


def _dimensions_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the runs' scores by dimension."""
    columns = _score_columns(Column("group", "Dimension"))
    rows = _score_rows(graded, SINGLE)
    notes = [_INTERVAL_NOTE, _SHARES_NOTE]
    return table_of_runs("egothink_dimensions", "Scores by dimension", columns, rows, notes)


def _score_columns(group: Column) -> tuple[Column, ...]:
    """Return the columns of a table of scores by group of dimensions.

    Args:
        group: The column with the groups.
    """
    return (
        group,
        Column("model", "Run"),
        Column("score", "Score", decimals=1),
        *interval_columns("score", decimals=1),
        Column("questions", "Questions"),
        Column("coverage", "Coverage %", decimals=1),
        Column("judged", "Judged %", decimals=1),
        Column("truncated", "Truncated %", decimals=1),
        Column("suspect", "Suspect %", decimals=1),
        Column("judge", "Judge"),
        Column("prompts", "Prompts"),
    )


def _score_rows(
    graded: Sequence[EgoThinkTask], groups: Mapping[str, Sequence[Dimension]]
) -> list[dict[str, Value]]:
    """Return the scores of each run in each group of dimensions."""
    rows = []
    for group, dimensions in groups.items():
        for run in graded:
            part = run.part(dimensions)
            if part.questions:
                rows.append(part.values() | {"group": group, "model": run.name})
    return rows


def _judges_table(graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the agreement of each pair of judges on the same answers."""
    columns = (
        Column("first", "First run"),
        Column("first_judge", "Its judge"),
        Column("second", "Second run"),
        Column("second_judge", "Its judge"),
        Column("answers", "Answers"),
        Column("questions", "Questions"),
        Column("pearson", "Pearson's r", decimals=3),
        *interval_columns("pearson", decimals=3, prefix="pearson_"),
        Column("kappa_unweighted", "Cohen's kappa", decimals=3),
        *interval_columns("kappa_unweighted", decimals=3, prefix="kappa_unweighted_"),
        Column("kappa_linear", "Kappa, linear", decimals=3),
        *interval_columns("kappa_linear", decimals=3, prefix="kappa_linear_"),
    )
    notes = [
        (
            "Computed over identical answers that both runs rated, if these are at least half of "
            "the answers rated in both. Kappa: Cohen's, unweighted and with linear weights."
        ),
        (
            "Low to high: 95 % interval, percentiles of a bootstrap over questions. There is none "
            f"for fewer than {MIN_ITEMS} questions, or if all ratings of a judge are equal."
        ),
        (
            "Table 9 of the paper covers object and planning, and prints r times 100. For "
            "its three people, the paper reports a Cohen's kappa of 0.81 (sec. 5.2), but "
            "not how it combined them."
        ),
    ]
    title = "Agreement of judges on the same answers"
    return table_of_runs("egothink_judges", title, columns, _judge_rows(graded), notes)


def _judge_rows(graded: Sequence[EgoThinkTask]) -> Iterator[dict[str, Value]]:
    """Yield the agreement of each pair of judges on the same answers."""
    for first, second in combinations(graded, 2):
        second_records = second.judged
        rated = [
            (record, second_records[key])
            for key, record in first.judged.items()
            if key in second_records
        ]
        same = [
            pair
            for pair in rated
            if pair[0].answer == pair[1].answer and pair[0].judge != pair[1].judge
        ]
        if same and len(same) >= _SAME_ANSWERS * len(rated):
            for row in _agreements(same):
                yield {**row, "first": first.name, "second": second.name}


def _agreements(pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[dict[str, Value]]:
    """Yield the agreement of two judges: over all answers, those of Table 9, and by capability."""
    capabilities_by_scope = {
        "all": tuple(CAPABILITIES),
        " and ".join(_TABLE9_CAPABILITIES): _TABLE9_CAPABILITIES,
    }
    for name in CAPABILITIES:
        capabilities_by_scope[name] = (name,)
    for scope, names in capabilities_by_scope.items():
        scope_pairs = [pair for pair in pairs if capability_of(pair[0].id) in names]
        if not scope_pairs:
            continue
        first, second = zip(*scope_pairs, strict=True)
        first_ratings = _ratings(first)
        second_ratings = _ratings(second)
        # Some published protocols read other ratings. Then only Pearson's r is defined.
        is_on_levels = {*first_ratings, *second_ratings} <= {*LEVELS}
        result = agreement(first_ratings, second_ratings, LEVELS if is_on_levels else None)
        row: dict[str, Value] = {
            "first_judge": _judge_names(first),
            "second_judge": _judge_names(second),
            "answers": scope,
            "questions": result.questions,
        }
        yield {**row, **coefficient_cells(pair_coefficients(result))}


def _table9(people: Mapping[tuple[str, str], float], graded: Sequence[EgoThinkTask]) -> Table:
    """Put Pearson's r between people and the runs' judges above Table 9 of the paper."""
    columns = (
        Column("own", "Judge of the run", decimals=1, higher_is_better=True),
        *interval_columns("own", decimals=1, prefix="own_"),
        Column("judge", "Judge"),
        Column("answers", "Answers"),
    )
    rows = list(_table9_rows(people, graded))
    if rows:
        title = "Judges and people, next to Table 9 of the paper"
    else:
        title = "Published: Pearson's r between judges, times 100"
    return published_with_runs(title, load_table("egothink", "table9"), rows, columns)


def _table9_rows(
    people: Mapping[tuple[str, str], float], graded: Sequence[EgoThinkTask]
) -> Iterator[OwnRow]:
    """Yield Pearson's r between the people and the judge of each run, over the same answers."""
    for run in graded:
        records = [
            record
            for record in run.judged.values()
            if (record.id, record.answer) in people
            and capability_of(record.id) in _TABLE9_CAPABILITIES
        ]
        if not records:
            continue
        ratings = [people[record.id, record.answer] for record in records]
        pearson = coefficient_cells({"own": agreement(ratings, _ratings(records), None).pearson})
        reasons = [_OTHER_ANSWERS]
        if len(records) < MIN_ITEMS:
            reasons.append(f"fewer than {MIN_ITEMS} answers, so no coefficient")
        row: dict[str, Value] = {
            "evaluator": f"Human ({run.name})",
            "judge": _judge_names(records),
            "answers": len(records),
            "apart": "; ".join(reasons),
        }
        for name, coefficient in pearson.items():
            if coefficient is not None:
                row[name] = in_percent(coefficient)
        yield row


def _table10(rated: Sequence[RatedAnswer]) -> Table:
    """Put people's mean grades of each model above Table 10 of the paper."""
    columns = (Column("answers", "Answers"),)
    rows = list(_table10_rows(rated))
    if rows:
        title = "People's grades, next to Table 10 of the paper"
    else:
        title = "Published: people's grades of GPT-4V"
    return published_with_runs(title, load_table("egothink", "table10"), rows, columns)


def _table10_rows(rated: Sequence[RatedAnswer]) -> Iterator[OwnRow]:
    """Yield the people's mean grades of each model, for the dimensions of object and planning."""
    for model in dict.fromkeys(answer.model for answer in rated):
        answers = [answer for answer in rated if answer.model == model]
        row: dict[str, Value] = {"grading_methods": f"People, {model}", "apart": _OTHER_ANSWERS}
        for dimension in DIMENSIONS:
            ratings = [
                answer.rating for answer in answers if dimension_of(answer.id) == dimension.name
            ]
            if dimension.capability in _TABLE9_CAPABILITIES and ratings:
                row[f"{dimension.capability}_{dimension.name}"] = 100 * fmean(ratings)
        yield row | {"answers": len(answers)}


def _table11() -> Table:
    """Return Table 11 of the paper."""
    title = "Published: grades by two other judges"
    return published_with_runs(title, load_table("egothink", "table11"), ())


@dataclass(frozen=True)
class _MatchedSample:
    """People's ratings of a sample of a model's answers, matched with a run's answers.

    Attributes:
        size: Number of answers in the sample that people rated.
        planned: Number of answers that were drawn; None if unknown.
        frame: Number of answers from which the sample was drawn; 0 if unknown.
        records: The run's answers.
        rated: For each of the run's answers, people's rating of the same answer; None without one.
        judged: Number of the run's answers with a rating by the judge.
    """

    size: int
    planned: int | None
    frame: int
    records: Sequence[JudgedAnswer]
    rated: Sequence[RatedAnswer | None]
    judged: int

    @property
    def matched(self) -> int:
        """Number of the sample's answers that are answers of the run."""
        return len(self.rated) - self.rated.count(None)

    @property
    def both(self) -> int:
        """Number of answers that people and the judge rated."""
        return sum(
            rating is not None and record.rating is not None
            for record, rating in zip(self.records, self.rated, strict=True)
        )

    @property
    def is_usable(self) -> bool:
        """True if the run's score can be corrected by the sample."""
        is_whole = self.matched == self.size and self.frame == len(self.records)
        return self.both >= MIN_ITEMS and is_whole

    def remarks(self) -> Iterator[str]:
        """Yield the reasons why the score is not corrected, and the limits of the correction."""
        asked = len(self.records)
        if not self.frame:
            yield (
                "Not corrected: the labels do not state the probability and size of one sample. "
                "Draw a sample with lmms-egoplan annotate egothink --sample."
            )
        if self.matched < self.size:
            yield (
                f"Not corrected: only {self.matched} of the {self.size} rated answers "
                "are answers of this run."
            )
        if self.frame not in (0, asked):
            yield (
                f"Not corrected: the sample was drawn from {self.frame} answers, but "
                f"the run has {asked}."
            )
        if self.both < FEWEST_RATED:
            yield (
                f"Only {self.both} answers have both ratings. Intervals need "
                f"{MIN_ITEMS} of them. With fewer than {FEWEST_RATED}, their coverage "
                "was not simulated and may be lower."
            )
        if self.size < _MOSTLY_RATED * (self.planned or 0):
            yield (
                f"Only {self.size} of the {self.planned} sampled answers are rated by "
                "people. The estimate may be biased."
            )
        if self.judged < asked:
            yield (
                f"{asked - self.judged} answers without a judge's rating are excluded, "
                "also if the run's score counts them as -1. Those that judges cannot "
                "rate may differ from the others."
            )


def _matched_sample(
    sample: Mapping[tuple[str, str], RatedAnswer], run: EgoThinkTask
) -> _MatchedSample:
    """Match people's ratings of a sample, by id and answer, with a run's answers."""
    records = [answer.record for answer in run.answers.values()]
    designs = {(answer.planned, answer.probability) for answer in sample.values()}
    planned, chance = next(iter(designs))
    frame = 0
    if planned and chance and len(designs) == 1 and len(sample) <= planned:
        frame = round(planned / chance)
    return _MatchedSample(
        size=len(sample),
        planned=planned,
        frame=frame,
        records=records,
        rated=[sample.get((record.id, record.answer)) for record in records],
        judged=len(run.judged),
    )


def _corrected_table(people: Sequence[RatedAnswer], graded: Sequence[EgoThinkTask]) -> Table:
    """Build the table of the judge's scores, corrected by people's ratings of a sample."""
    columns = (
        Column("model", "Run"),
        Column("labels", "Labels of"),
        Column("raw", "Score by the judge", decimals=1),
        Column("people", "People only", decimals=1),
        *interval_columns("people", decimals=1, prefix="people_"),
        Column("corrected", "Corrected", decimals=1),
        *interval_columns("corrected", decimals=1, prefix="corrected_"),
        Column("error", "People minus judge", decimals=1),
        *interval_columns("error", decimals=1, prefix="error_"),
        Column("correlation", "Pearson's r", decimals=2),
        Column("tuning", "Lambda", decimals=2),
        Column("sampled", "Rated"),
        Column("of", "Judged"),
        Column("mean", "Mean over"),
        Column("remarks", "Remarks"),
    )
    notes = [
        (
            "People rated a random sample of the answers. Corrected: the score that they "
            "would give to all answers, estimated by prediction-powered inference (arXiv "
            "2311.01453) from their ratings and the judge's. People only: from their "
            "ratings alone. People minus judge: the judge's own error. Low to high: 95 % "
            "interval over questions and samples. In simulations with at least "
            f"{FEWEST_RATED} rated answers, that of the corrected score contains the truth "
            "in 93 % of the studies or more, within the error of the simulation."
        ),
        (
            "Score by the judge: over the answers that the judge rated. Rated: answers of "
            "the sample with ratings by people and by the judge. Judged: all answers with "
            "a rating by the judge. Lambda: weight of the judge's ratings, 0 to 1. Mean "
            "over: the dimensions, with equal weights, if all twelve have judged answers; "
            "otherwise the answers, with equal weights."
        ),
    ]
    title = "Judge corrected by people"
    rows = _correction_rows(people, graded)
    return table_of_runs("egothink_corrected", title, columns, rows, notes)


def _correction_rows(
    people: Sequence[RatedAnswer], graded: Sequence[EgoThinkTask]
) -> Iterator[dict[str, Value]]:
    """Yield the score of each run, corrected by people's ratings of a sample of its answers.

    A row without a corrected score says why.
    """
    samples: dict[str, dict[tuple[str, str], RatedAnswer]] = {}
    for answer in people:
        samples.setdefault(answer.model, {})[answer.id, answer.answer] = answer
    for run in graded:
        for model, ratings in samples.items():
            sample = _matched_sample(ratings, run)
            if sample.matched < _SAME_ANSWERS * sample.size:
                continue
            row: dict[str, Value] = {
                "model": run.name,
                "labels": model,
                "sampled": f"{sample.both} of {sample.planned or sample.size}",
                "of": sample.judged,
                "remarks": " ".join(sample.remarks()),
            }
            if sample.is_usable:
                row |= _corrected_cells(sample, run)
            yield row


def _corrected_cells(sample: _MatchedSample, run: EgoThinkTask) -> dict[str, Value]:
    """Return the corrected score of a run, and the numbers next to it."""
    sizes = Counter(dimension_of(record.id) for record in run.judged.values())
    is_whole = len(sizes) == len(DIMENSIONS)
    weights: list[float] = [1] * len(sample.records)
    if is_whole:
        weights = [1 / sizes[dimension_of(record.id)] for record in sample.records]
    result = corrected(
        [record.rating for record in sample.records],
        [None if answer is None else answer.rating for answer in sample.rated],
        [None if answer is None else answer.probability for answer in sample.rated],
        weights,
    )
    scores = {"raw": result.raw} | coefficient_cells(
        {"people": result.people, "corrected": result.corrected, "error": result.error}
    )
    cells: dict[str, Value] = {name: in_percent(score) for name, score in scores.items()}
    cells["tuning"] = result.tuning
    cells["correlation"] = result.correlation
    cells["mean"] = "dimensions" if is_whole else "answers"
    return cells


def _noise_table(judged: Sequence[Path]) -> Table | None:
    """Build the table of judge noise; None without files of repeated judgements.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed.
    """
    rows = list(_noise_rows(judged))
    if not rows:
        return None
    columns = (
        Column("answers_of", "Answers of"),
        Column("judge", "Judge"),
        Column("questions", "Questions"),
        Column("repeats", "Repeats"),
        Column("answers", "Answers"),
        Column("left_out", "Excluded"),
        Column("score", "Mean score", decimals=2),
        Column("score_sd", "SD", decimals=2),
        Column("lowest", "Lowest", decimals=2),
        Column("highest", "Highest", decimals=2),
        Column("changed", "Answers that change, %", decimals=1),
        Column("rating_sd", "SD of a rating", decimals=3),
    )
    notes = [
        (
            "The judge rated each answer several times at temperature 0, so differences "
            "come from the endpoint. A difference between runs may be judge noise unless "
            "it is well above the SD of the score."
        ),
        (
            "Computed over the answers with a rating in every repeat; all other answers "
            "count as excluded. Scores are 0 to 100, ratings 0 to 1. The average is the "
            "plain mean over the dimensions. It requires a rating of all "
            f"{sum(EGOTHINK.official.values())} questions in every repeat."
        ),
    ]
    table = table_of_runs("egothink_judge_noise", "Judge noise", columns, rows, notes)
    return replace(table, source="lmms-egoplan judge")


def _noise_rows(judged: Sequence[Path]) -> Iterator[dict[str, Value]]:
    """Yield the spread of ratings and scores in files of repeated judgements.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed.
    """
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        for scope, noise in noise_by_dimension(ratings, EGOTHINK.official).items():
            yield {
                "answers_of": path.stem if stems[path.stem] == 1 else str(path),
                "judge": judges,
                "questions": scope,
                "repeats": len(next(iter(ratings.values()))),
                "answers": noise.answers,
                "left_out": noise.left_out,
                "score": noise.score,
                "score_sd": noise.score_sd,
                "lowest": min(noise.scores, default=None),
                "highest": max(noise.scores, default=None),
                "changed": in_percent(noise.changed),
                "rating_sd": None if noise.rating_sd is None else noise.rating_sd / 100,
            }


def _ratings(records: Sequence[JudgedAnswer]) -> list[float]:
    return [record.rating for record in records if record.rating is not None]


def _judge_names(records: Sequence[JudgedAnswer]) -> str:
    return ", ".join(sorted({record.judge or "" for record in records}))
