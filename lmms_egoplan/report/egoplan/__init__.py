"""Build the reports of EgoPlan-Bench and EgoPlan-Bench2.

They have headlines, tables, figures, remarks, and the questions for the gallery.
"""

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from loguru import logger

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.frames import UNIFORM_FRAMES
from lmms_egoplan.benchmarks.egoplan.metrics import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import (
    AGREED,
    DOMAINS,
    EGO4D,
    EPIC_KITCHENS,
    Verified,
    read_checked,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.benchmark import (
    NO_INPUTS,
    BenchmarkReport,
    Inputs,
    Spec,
    read_prepared,
)
from lmms_egoplan.report.charts import (
    NOTE,
    draw_lines,
    finish,
    line,
    marker,
    new_figure,
    shade,
    spoken,
)
from lmms_egoplan.report.conditions import condition_figure, condition_table
from lmms_egoplan.report.document import Figure, Headline, ShownAnswer, Verdict
from lmms_egoplan.report.egoplan.answers import (
    CHANCE,
    EGOPLAN,
    EGOPLAN_BENCH2,
    Groups,
    Questions,
    Series,
    baseline_series,
    grouped,
    read_series,
)
from lmms_egoplan.report.egoplan.calibration import Rows, calibration_figures, calibration_rows
from lmms_egoplan.report.egoplan.failures import LABELS, Failure, Frames, agreement_rows, share_rows
from lmms_egoplan.report.egoplan.gain import gain_rows, with_gains
from lmms_egoplan.report.egoplan.similarity import LEVELS, levels, preference, similarities
from lmms_egoplan.report.published import load_table, published_with_runs
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.samples import HOW_TO_LOG, read_labels
from lmms_egoplan.report.scores import Answer, Key, mean_of
from lmms_egoplan.report.tables import (
    Column,
    Table,
    Value,
    interval_columns,
    number,
    scored,
    share,
    show,
    table_of_runs,
)
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.correction import draw
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS
from lmms_egoplan.stats.means import Mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

# Numbers of the baselines' line styles.
_LINE_STYLES = {"_blind": 3, "_narrated": 1}
# The conditions that are compared with each other. Pairs of all conditions would be too many.
_MAIN_CONDITIONS = (None, "blind")
_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}
# The least number of past actions in each bin. The paper does not state the bins of Fig. 8.
_BINS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
_SIMILARITY = "goal-answer similarity"
_CHECKED = "people's check"
_SOURCE_NAMES: dict[str, str] = {
    EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)",
    EGO4D: "Ego4D (out-of-domain)",
}
# The metrics of Table 3's columns.
_DOMAINS = {"id": SOURCE_METRIC[EPIC_KITCHENS], "od": SOURCE_METRIC[EGO4D], "all": "acc"}
# Scores of the table of all scores, in addition to the accuracies.
_OTHER_SCORES = ("acc_within", "acc_clear", "unparsed", "truncated", "incomplete")

# Notes of several tables.
_INTERVAL_NOTE = (
    "Low to high: 95 % interval over videos, each with all of its questions; Wilson's "
    "for scores and shares, from a bootstrap for other means. Absent without samples "
    f"or with fewer than {FEWEST_CLUSTERS} videos."
)
_COUNTS_NOTE = (
    "Questions: the number that the accuracy covers. Coverage: their share of the official "
    "questions. A question that a model could not score counts as neither right nor wrong."
)
_SCORE_NOTE = (
    "Accuracy: for your runs, the choices are ranked by the mean log-probability per token. The "
    "paper says likelihood p(a|v,l) (sec. 3.5), not whether it is a mean or a sum. The authors' "
    "code uses the mean, including the token that ends an answer, as egoplan_val_published does. "
    "By sum: the same, ranked by the sum; absent if the backend reports only means."
)
_FRAMES_NOTE = (
    "The paper does not say how many frames each model saw. egoplan_val shows 8 frames "
    "of the whole progress (6 to LLaVA-1.5), egoplan_val_clips 8 frames of each of the "
    "last 4 past actions."
)
_BENCH2_SCORE_NOTE = (
    "Accuracy: egoplan_bench2_generate reads the first capital A to D of a reply, as the paper's "
    "code does. Clear letter: accuracy of the letter that a reply clearly claims, which "
    "egoplan_bench2_thinking reads. A reply without one (unparsed) is wrong there. egoplan_bench2, "
    "which is not in the paper, ranks the choices by the mean log-probability per token. By sum "
    "and by bytes: the same, ranked by the sum and by the sum per UTF-8 byte. Truncated: replies "
    "that the limit on new tokens ended."
)
_EXCLUDED_NOTE = "Excluded: questions with a choice whose log-probability is unknown or not finite."

Facts = dict[str, str]


class _Point(NamedTuple):
    """A task with its accuracy and the interval."""

    task: Series
    accuracy: float
    interval: tuple[float, float] | None


def accuracies_figure(series: Sequence[Series]) -> Figure | None:
    """Draw all tasks with an accuracy, best first; return None if there are none."""
    points = [
        _Point(task, task.main.value, task.main.interval)
        for task in series
        if task.main.value is not None
    ]
    if not points:
        return None
    points.sort(key=lambda point: -point.accuracy)
    return Figure(
        "egoplan_accuracy",
        "Accuracy of all runs",
        (
            "Accuracy with 95 % intervals, clustered by video. Filled: choices ranked "
            "after the video, as in the paper. Hollow: other tasks. Each run has its own "
            "marker shape, except that runs without a filled marker use their model's."
        ),
        partial(_draw_accuracies, points),
        spoken(["accuracy"], {point.task.name: [point.task.main] for point in points}, 2),
    )


def _draw_accuracies(points: Sequence[_Point]) -> "Drawing":
    figure, axes = new_figure(7.2, 1.1 + 0.3 * len(points))
    axes.axvline(CHANCE, color="0.15", linestyle=":", linewidth=1.2)
    axes.annotate(
        "chance", (CHANCE, 1), (0, 2), xycoords=("data", "axes fraction"), ha="center", **NOTE
    )
    for y, (task, accuracy, interval) in enumerate(points):
        if interval:
            axes.hlines(y, *interval, color="0.15", linewidth=1.2)
        axes.plot(accuracy, y, linestyle="none", zorder=3, **_marker(task))
        right = max(accuracy, *(interval or (0,)))
        axes.annotate(f"{accuracy:.1f}", (right, y), (6, 0), va="center", **NOTE)
    axes.set_yticks(range(len(points)), [point.task.short_name for point in points])
    axes.set(xlim=(0, _top(point.task.main for point in points)), xlabel="accuracy, %")
    axes.set_ylim(len(points) - 0.4, -0.6)
    finish(axes)
    return figure


def _marker(task: Series) -> dict[str, Any]:
    """Return the marker of a series: filled if its choices were ranked after the video."""
    face = shade(task.look) if task.is_main else "white"
    return {
        "marker": marker(task.look),
        "markersize": 6.5,
        "markerfacecolor": face,
        "markeredgecolor": "0.15" if task.is_main else shade(task.look),
        "markeredgewidth": 0.7 if task.is_main else 1.4,
    }


def _top(means: Iterable[Mean]) -> float:
    """Return the upper limit of an axis in per cent.

    It is 7 above the largest value, at least 57 and at most 105.
    """
    largest = 50.0
    for mean in means:
        for end in mean.interval or (mean.value,):
            if end is not None:
                largest = max(largest, end)
    return min(105.0, largest + 7)


def lines_figure(key: str, by: str, label: str, groups: Groups, caption: str) -> Figure | None:
    """Draw each run's main task and the baselines by group; return None if no run has one.

    Args:
        key: The figure's key.
        by: The property that defines the groups.
        label: Label of the groups' axis.
        groups: The tasks' accuracies by group.
        caption: First sentences of the caption.
    """
    drawn = _drawn_series(groups)
    if not drawn:
        return None
    means = {task.name: _means_by_group(task, groups) for task in drawn}
    ticks = []
    for group, parts in groups.items():
        size = max(part.acc.questions or 0 for part in parts)
        ticks.append(f"{group}\n{size:,} questions")
    looks = {task.name: _line_look(task) for task in drawn}
    all_means: list[Mean] = []
    for task_means in means.values():
        all_means += task_means
    caption = (
        f"{caption} 95 % intervals, clustered by video. Dotted: the question without "
        "the video (blind). Dashed: narrations instead of the video."
    )
    return Figure(
        key,
        f"Accuracy by {by}",
        caption,
        partial(draw_lines, ticks, means, "accuracy, %", label, _top(all_means), looks, CHANCE),
        spoken(list(groups), means, 1),
    )


def _drawn_series(groups: Groups) -> list[Series]:
    """Return the baselines without video, and each run's first task with the video."""
    series: dict[str, Series] = {}
    for parts in groups.values():
        for part in parts:
            series[part.series.name] = part.series
    main_names: dict[str, str] = {}
    for task in series.values():
        if task.is_main:
            main_names.setdefault(task.run.name, task.name)
    return [
        task
        for task in series.values()
        if task.without_video or main_names.get(task.run.name) == task.name
    ]


def _means_by_group(task: Series, groups: Groups) -> list[Mean]:
    """Return a task's accuracy in each group."""
    means = []
    for parts in groups.values():
        by_name = {part.series.name: part.acc for part in parts}
        means.append(by_name.get(task.name, Mean()))
    return means


def _line_look(task: Series) -> dict[str, Any]:
    """Return matplotlib's arguments for a task's line."""
    style = line(_LINE_STYLES[task.without_video]) if task.without_video else "-"
    return {
        "label": task.short_name,
        "color": shade(task.look),
        **_marker(task),
        "linestyle": style,
    }


class _ChoiceReport(BenchmarkReport[Series]):
    """Base class of both benchmarks' reports.

    Attributes:
        QUESTIONS: The benchmark's questions.
        VISUALS: Reads the frames that the gallery shows.
    """

    QUESTIONS: ClassVar[Questions]
    VISUALS: ClassVar[visuals.FrameReader]

    def __init__(self, runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> None:
        """Read the runs' samples.

        The shortcut conditions are among the tasks: tables and gallery contain them.
        """
        super().__init__(runs, inputs)
        self.tasks += self.shortcuts

    @abstractmethod
    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the properties that the gallery can be filtered by.

        Args:
            key: The question's key.
            doc: The question; None if it is not available.
            part: `Choice.part`, as logged.
        """

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """Read the tasks with a score, each run's main task first."""
        return with_gains(read_series(runs, self.QUESTIONS))

    @cached_property
    def usual(self) -> list[Series]:
        """The own tasks, the one without the video, and the baselines without a model."""
        asked = [task for task in self.tasks if task.shortcut in _MAIN_CONDITIONS]
        return [*asked, *self.text_baselines]

    @cached_property
    def text_baselines(self) -> list[Series]:
        """The baselines of `baseline_points`, as a run's tasks.

        They cover the questions that were asked and are available.
        """
        return list(baseline_series(self.docs[0], self.tasks)) if self.tasks else []

    def chance_note(self) -> str:
        """State the accuracies of chance and of the baselines without a model."""
        means = ", ".join(
            f"{task.task} {show(task.main.value, self.SPEC.decimals)} %"
            for task in self.text_baselines
        )
        return (
            f"Chance: {CHANCE:g} %. Without a model, over the {len(self.docs[0]):,} "
            f"questions that were asked and are available: {means or 'missing'}. Most "
            "frequent action: the answer of most questions on other videos. Similarity "
            "to the goal: most word stems in common with it. Not done yet: any choice "
            "that is not among the past actions. Longest candidate: most characters. "
            "Equally good choices share one point. These baselines are this project's."
        )

    def headline(self, task: Series) -> Headline:
        """Add the accuracy of chance and, if choices were ranked, the accuracy by sum."""
        by_sum = (("by sum", task.percent("acc_sum")),) if task.is_ranked else ()
        return replace(
            super().headline(task), is_generated=not task.is_ranked, chance=CHANCE, beside=by_sum
        )

    @cached_property
    def docs(self) -> tuple[dict[Key, Doc], str | None]:
        """Rows of the questions that were asked, and the reason why prepared questions are missing.

        Questions that are not prepared are taken from lm-eval's log, if possible of a run's main
        task.
        """
        answers: list[tuple[Key, Answer]] = []
        for task in reversed(self.tasks):
            answers += (task.answers or {}).items()
        videos = {key: answer.cluster for key, answer in answers}
        for key, answer in answers:
            if answer.cluster:
                videos[key] = answer.cluster
        logged = {key: answer.doc for key, answer in answers if answer.doc}
        if not videos:
            return logged, None
        prepared, problem = read_prepared(partial(self._read_docs, videos))
        return {**logged, **prepared}, problem

    def _read_docs(self, videos: Mapping[Key, str | None]) -> dict[Key, Doc]:
        """Read the prepared questions.

        Args:
            videos: The video of each question to read; None if it is unknown.
        """
        docs: dict[Key, Doc] = {}
        rows: Iterable[Doc] = self.QUESTIONS.prepared.load(self.QUESTIONS.split)
        for row in rows:
            key = (row["split_size"], row["sample_id"], row["golden_choice_idx"])
            if key in videos and videos[key] in (None, row["video_id"]):
                docs[key] = row
        return docs

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort by id."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the question as prepared, or as lm-eval logs it."""
        doc = self.docs[0].get(key)
        parts = [answer.record.part for answer in answers if answer.record.part]
        fields = {
            "facts": self.facts(key, doc, parts[0] if parts else None),
            "choices": tuple(LETTERS),
            "gold": LETTERS.index(str(key[2])),
        }
        if not doc:
            return fields | {"question": f"{key[1]}: the question is not available"}
        goal = doc["task_goal"]
        return fields | {
            "question": doc["question"],
            "title": f"To {goal[:1].lower()}{goal[1:]}: what next?" if goal else "",
            "choices": tuple(doc["choices"]),
            "references": _references(doc),
            "images": self._frames(doc),
        }

    def _frames(self, doc: Doc) -> Callable[[], Any] | None:
        """Return a function that reads a question's frames; None if its media are missing."""
        if not _exists(doc["media_path"]):
            return None
        settings = {"media": "frames", "num_frames": UNIFORM_FRAMES}
        return partial(self.VISUALS.visual_input, doc, settings)

    def wrong_answers(self, count: int | None) -> Iterator[tuple[Failure, Frames]]:
        """Yield wrong answers in which a choice was read, with its frames.

        Skip shortcuts and tasks without video.

        Args:
            count: Size of the random sample of each task's answers; None, or more than there are,
                for all.

        Raises:
            LmmsEgoplanError: Questions are missing.
        """
        for task in self.own_tasks:
            if task.without_video:
                continue
            wrong = _wrong_answers_of(task)
            wrong.sort(key=lambda answer: answer.key)
            answers = [answer for answer in wrong if answer.record.chosen is not None]
            logger.info(
                f"{task.name}: {len(answers)} wrong answers, and "
                f"{len(wrong) - len(answers)} without a choice"
            )
            if not answers:
                continue
            for gap in _ChoiceReport.gaps(self):
                raise LmmsEgoplanError(gap)
            parts = [answer.record.part or "" for answer in answers]
            for position in draw(parts, min(count or len(parts), len(parts))):
                answer = answers[position]
                doc = self.docs[0][answer.key]
                yield _failure(task, answer, doc, len(answers)), self._frames(doc)

    def failure_tables(self) -> Iterator[Table | None]:
        """Yield types of failures, and the agreement of judges with people."""
        failures = read_labels(self.labelled(), LABELS, Failure, ("id", "run", "by"))
        yield _failures_table(failures)
        yield _failures_agreement_table(failures)

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the log-probabilities of the choices, or the reply."""
        choice = answer.record
        is_unread = choice.text is not None and choice.chosen is None
        return ShownAnswer(
            _VERDICTS[answer.scores["acc"]],
            choice.text,
            choice.logprobs,
            choice.chosen,
            "no letter of a choice was read" if is_unread else None,
            gain=(answer.scores.get("gain"), answer.scores.get("gain_margin")),
        )

    def terminal_notes(self) -> Iterable[str]:
        """Explain acc, acc_sum and acc_bytes below the terminal's table, if choices are ranked."""
        if not any(task.is_ranked for task in self.tasks):
            return ()
        note = (
            "acc ranks the choices by mean log-probability per token, acc_sum by the sum, "
            "acc_bytes by the sum per byte."
        )
        return (note,)

    def cells(self, task: Series, block: Sequence[Series], /) -> dict[str, str]:
        """Return accuracies in per cent, and the number of questions that they cover."""
        decimals = self.SPEC.decimals
        is_ranked = any(block_task.is_ranked for block_task in block)
        cells = {}
        for metric in ("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",):
            cells[metric] = scored(task.percent(metric), decimals, task.coverage)
        for metric in self.QUESTIONS.part_metrics.values():
            cells[metric] = number(task.percent(metric), decimals)
        if not is_ranked:
            cells["unparsed"] = share(task.number("unparsed"))
            cells["truncated"] = task.truncated_text
        ties = task.number("near_ties")
        return cells | {
            "not compared": task.ranking_flaw or "",
            "near ties": show(ties, None) if ties else "",
            "ranking": task.text("ranking_note") or "",
            "questions": f"{number(task.questions)} of {number(task.whole)}",
        }

    def score_rows(self) -> list[dict[str, Value]]:
        """Return every score of every task, for the table of all scores."""
        accuracies = ("acc", "acc_sum", "acc_bytes", *self.QUESTIONS.part_metrics.values())
        rows = []
        for task in (*self.tasks, *self.text_baselines):
            row: dict[str, Value] = {
                "run": task.run.name,
                "task": task.task,
                "ties": task.number("ties"),
                "authors_fail": task.number("authors_fail"),
                "past_observation": task.number("past_observation"),
                "asked": task.number("num_questions"),
            }
            for metric in (*accuracies, *_OTHER_SCORES):
                row[metric] = task.percent(metric)
            rows.append(row | task.counts())
        return rows

    def group_table(
        self, key: str, title: str, group_column: Column, groups: Groups, notes: Sequence[str]
    ) -> Table | None:
        """Build a table of accuracies by group; None without groups.

        Args:
            key: End of the table's key, after the benchmark's name.
            title: Title of the table.
            group_column: The first column, with the names of the groups.
            groups: The tasks' accuracies by group.
            notes: Notes of the table.
        """
        rows: list[dict[str, Value]] = []
        for group, parts in groups.items():
            for part in parts:
                row: dict[str, Value] = {
                    group_column.key: group,
                    "run": part.series.run.name,
                    "task": part.series.task,
                    "acc_sum": part.acc_sum,
                    "questions": part.acc.questions,
                }
                rows.append({**row, **part.acc.cells("acc")})
        if not rows:
            return None
        columns = (
            group_column,
            Column("run", "Run"),
            Column("task", "Task"),
            Column("acc", "Accuracy %", decimals=2),
            Column("acc_sum", "By sum %", decimals=2),
            *interval_columns("acc", decimals=2),
            Column("questions", "Questions"),
        )
        return table_of_runs(f"{self.SPEC.name}_{key}", title, columns, rows, notes)

    @cached_property
    def _calibration(self) -> dict[str, Rows]:
        return calibration_rows(self.own_tasks)

    def meaning_tables(self) -> Iterator[Table | None]:
        """Yield the accuracy by condition, what the video adds, calibration, and conformal sets."""
        yield condition_table(self)
        yield self._gain_table()
        yield self._calibration_table()
        yield self._prediction_sets_table()
        yield self._reliability_table()

    def _gain_table(self) -> Table | None:
        """Build the table of what the video adds; None without a run of both tasks."""
        rows = list(gain_rows(self.tasks))
        if not rows:
            return None
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("measure", "Measure"),
            Column("unit", "Unit"),
            Column("value", "Value", decimals=2),
            *interval_columns("value", decimals=2),
            Column("questions", "Questions"),
            Column("asked", "Asked"),
        )
        notes = [
            (
                "Seen: the run's own task. Unseen: the same run's task with the suffix "
                "_blind, which asks the same questions without the video. A gain's "
                "interval is from a bootstrap of the videos, with both tasks together. "
                "Asked: questions in both tasks. Questions: those with a value."
            ),
            (
                "Added to the right choice: its log-probability when the video is seen, minus that "
                "when it is not. Margin: the right choice's log-probability minus that of the best "
                "wrong one. In nats, log-probabilities are sums over the tokens; per token, means, "
                "which rank the choices. A backend that reports only means has no values in nats, "
                "one that reports only sums none per token."
            ),
            (
                "Right without seeing: the accuracy of the unseen task. It includes the "
                "questions that are right only without seeing. A model that ignores the "
                "video adds 0 nats, and is never right only with seeing."
            ),
        ]
        title = "What the video adds to the ranked choices"
        return table_of_runs(f"{self.SPEC.name}_gain", title, columns, rows, notes)

    def _calibration_table(self) -> Table | None:
        """Build the table of calibration errors; None without samples of ranked choices."""
        rows = self._calibration["calibration"]
        if not rows:
            return None
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("kind", "Scores"),
            Column("temperature", "Temperature", decimals=2),
            Column("ece", "ECE %", decimals=2),
            Column("ece_low", "ECE low", decimals=2, end_of="ece"),
            Column("ece_high", "ECE high", decimals=2, end_of="ece"),
            Column("brier", "Brier score", decimals=3),
            Column("brier_low", "Brier low", decimals=3, end_of="brier"),
            Column("brier_high", "Brier high", decimals=3, end_of="brier"),
            Column("aurc", "AURC %", decimals=2),
            Column("questions", "Questions"),
            Column("videos", "Videos"),
            Column("excluded", "Excluded"),
            Column("ids", "Ids excluded"),
            Column("no_value", "No value"),
        )
        notes = [
            (
                "A choice's probability is the softmax of the four mean log-probabilities "
                'per token, divided by a temperature: 1 for "as is". Confidence: the '
                "probability of the best choice."
            ),
            (
                "ECE: expected calibration error over ten bins with equally many questions. Noise "
                "makes it too large; its interval takes this into account. Brier score: squared "
                "errors summed over the choices, 0 to 2; 0.75 for equal probabilities. AURC: mean "
                "share of errors among the most confident questions, over all coverages."
            ),
            (
                '"Fitted" scores use the temperature with the highest likelihood of the '
                "right choices, above 1 for overconfident models. The values are "
                "cross-validated: each question's temperature is fitted to other videos. "
                "The printed one is fitted to all."
            ),
            _EXCLUDED_NOTE,
            _INTERVAL_NOTE,
        ]
        title = "Calibration of the choices' probabilities"
        return table_of_runs(f"{self.SPEC.name}_calibration", title, columns, rows, notes)

    def _prediction_sets_table(self) -> Table | None:
        """Build the table of conformal sets; None without samples of enough videos."""
        rows = self._calibration["prediction_sets"]
        if not rows:
            return None
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("level", "Level %", decimals=0),
            Column("covered", "Contains the right one %", decimals=1),
            *interval_columns("covered", decimals=1),
            Column("size", "Choices in a set", decimals=2),
            Column("asks", "Asks %", decimals=1),
            Column("questions", "Questions"),
            Column("videos", "Videos"),
            Column("excluded", "Excluded"),
        )
        notes = [
            (
                "A set has all choices whose mean log-probability per token is at most a threshold "
                "below the best one. Each question's threshold is calibrated on other videos, so "
                "that sets of new videos contain the right choice as often as the level says, or "
                "more often. Asks: share of questions whose set has several choices. Each video "
                "has the same weight. Low to high: 95 % interval over the videos."
            ),
            _EXCLUDED_NOTE,
        ]
        title = "Conformal sets: how often must the model ask?"
        return table_of_runs(f"{self.SPEC.name}_prediction_sets", title, columns, rows, notes)

    def _reliability_table(self) -> Table | None:
        """Build the table with the points of `calibration_figures`; None without points."""
        rows = self._calibration["reliability"]
        if not rows:
            return None
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("kind", "Scores"),
            Column("confidence", "Mean confidence %", decimals=1),
            Column("right", "Right %", decimals=1),
            Column("questions", "Questions"),
            Column("answered", "Coverage so far %", decimals=1),
            Column("risk", "Errors so far %", decimals=1),
        )
        notes = [
            (
                "Bins of the figures, most confident first. So far: over this bin and all "
                "more confident ones."
            ),
        ]
        title = "Right choices by confidence, and errors by coverage"
        return table_of_runs(f"{self.SPEC.name}_reliability", title, columns, rows, notes)

    def figures(self) -> Iterator[Figure | None]:
        """Yield the accuracy by condition, the reliability diagram and the risk-coverage curve."""
        yield condition_figure(self, CHANCE)
        yield from calibration_figures(self.SPEC, self._calibration["reliability"])

    def pairs_of_runs(self) -> Iterator[Table | None]:
        """Compare every pair of runs in each task."""
        logged = [task for task in self.tasks if task.answers and task.shortcut in _MAIN_CONDITIONS]
        for name in dict.fromkeys(task.task for task in logged):
            key = "comparisons"
            if name != EGOPLAN.main_task:
                key += "_" + re.sub(r"\W+", "_", name)
            same = [task for task in logged if task.task == name]
            yield self.pairs(same, f"Every pair of runs: {name}", key=key)

    def flaws(self, task: Series) -> Iterator[str]:
        """Yield problems with a task's questions and samples."""
        yield from self._flaws_of_questions(task)
        if task.answers is None:
            yield "without samples, there are no intervals, groups, comparisons or gallery."
        if task.ranking_flaw:
            yield f"{task.ranking_flaw}; the run is neither ranked nor compared."
        ranking_note = task.text("ranking_note")
        if ranking_note:
            yield f"{ranking_note}."
        if task.is_reasoned:
            yield (
                "the prompt is not the paper's protocol: App. B.2 describes one case and prints "
                f"no prompt. {share(task.number('incomplete'))} of the replies lack the summary, "
                "the description or the plan, or have them in another order."
            )
        unknown = task.text("unknown_fields") or "none"
        if unknown != "none":
            yield (
                f"not known or not followed in this preset: {unknown}. For a field that the source "
                "does not state, this project's or the model's own choice is used."
            )

    def _flaws_of_questions(self, task: Series) -> Iterator[str]:
        """Yield differences from the official file, and questions without a score."""
        size = task.count("split_size")
        asked = task.count("num_questions")
        with_score = task.questions
        official = self.QUESTIONS.official
        if size is not None and size != official:
            yield (
                f"the annotation file has {size:,} questions, {self.QUESTIONS.name} "
                f"{official:,}; scores are not comparable with published ones."
            )
        if asked is not None and size is not None and asked < size:
            yield f"{asked:,} of the annotation file's {size:,} questions were asked."
        failed = task.count("authors_fail") or 0
        if failed and asked is not None:
            ids = task.text("authors_fail_ids") or "unknown"
            yield (
                f"{failed:,} of {asked:,} questions have no score, as the authors' code fails on "
                f"them: progress or action have too few frames. Their sample ids: {ids}."
            )
        if asked is None or with_score is None:
            return
        missing = asked - with_score - failed
        if missing > 0 and task.is_reasoned:
            yield (
                f"{missing:,} of {asked:,} questions have no score, as no letter was "
                "read from the last part of the reply."
            )
        elif missing > 0:
            yield (
                f"{missing:,} of {asked:,} questions have no score, as a choice's mean "
                "log-probability is unknown or not finite."
            )

    def gaps(self) -> Iterator[str]:
        """Yield problems with the prepared data."""
        docs, problem = self.docs
        missing = self.answers.keys() - docs.keys()
        if missing:
            why = problem or f"they are not in the prepared data, for example {min(missing)[1]}"
            yield (
                f"text, past actions, goal and frames of {len(missing):,} questions are "
                f"missing, and the baselines without a model do not cover them: {why}"
            )


# How the tasks of EgoPlan-Bench obtain their scores, in the words of the ledger.
_RANKED = {
    "prompt": "question without options",
    "thinking": "off",
    "parser": "likelihood without the end token",
}
_RANKED_WITH_END = {
    "prompt": "question without options",
    "thinking": "off",
    "parser": "likelihood",
}
_SEED_BENCH_R1 = {
    "prompt": "think and answer tags",
    "thinking": "on",
    "parser": "first letter in answer tags",
    "frames": "4-16 at 2 per second, and the observation image",
}
_EGOPLAN_LEDGER_FIELDS = {
    "egoplan_val": _RANKED,
    "egoplan_val_clips": _RANKED,
    "egoplan_val_published": _RANKED_WITH_END,
    "egoplan_val_clips_published": _RANKED_WITH_END,
    "egoplan_val_generate": {
        "prompt": "question and options with letter only",
        "parser": "clear letter",
    },
    "egoplan_val_thinking": {
        "prompt": "question and options with boxed letter",
        "thinking": "on",
        "parser": "clear letter",
    },
    "egoplan_val_reasoned": {
        "prompt": "summary, description, then letter",
        "thinking": "asked for",
        "parser": "clear letter",
    },
    "egoplan_val_clips_marked": _RANKED,
    # Presets, with the texts of ledger.csv for the same source.
    "egoplan__official": _RANKED_WITH_END,
    "egoplan__lmms-eval-0.7.3": {
        "prompt": "short phrase, then letter",
        "parser": "lmms-eval first letter",
    },
    "egoplan__seed-bench-r1": _SEED_BENCH_R1,
}


class EgoPlanReport(_ChoiceReport):
    """EgoPlan-Bench's part of a report.

    The input ``similarity`` sets the model for goal-answer similarity.
    """

    SPEC = Spec(
        name="egoplan",
        title="EgoPlan",
        lead=(
            "Which of four actions comes next, given a goal and a first-person video of the "
            "progress so far? The choices are ranked by the likelihood that the model assigns to "
            "them. The score is the share of questions with the right choice first."
        ),
        metric="accuracy",
        decimals=2,
        measure="acc",
        scale=100,
        clusters="videos",
        compact_title="EgoPlan: accuracy in per cent",
        compact_main="acc",
        group_order={_SIMILARITY: LEVELS, _CHECKED: (AGREED,)},
        reference=("table1", ""),
        subsets={
            "val": "",
            "val (EPIC-KITCHENS), called L1": "acc_epic_kitchens",
            "val (Ego4D), called L2": "acc_ego4d",
        },
        ledger_fields=_EGOPLAN_LEDGER_FIELDS,
    )
    QUESTIONS = EGOPLAN
    VISUALS = visuals.EGOPLAN

    def main_tasks(self) -> list[Series]:
        """Return each run's main task, or its first one if it has no main task."""
        return [
            next(run_tasks)
            for _, run_tasks in groupby(self.own_tasks, key=lambda task: task.run.name)
        ]

    def tables(self) -> Iterator[Table | None]:
        """Yield all tables.

        They have scores compared with the paper's, all scores, scores by group, pairs of runs, and
        the test split.
        """
        ranked = [task for task in self.tasks if task.is_main]
        yield self._table1(ranked)
        # Table 3 is about videos, not rendered scenes.
        yield self._table3([task for task in ranked if not task.is_demo])
        yield self._rendered_table()
        yield self._score_table()
        yield self._past_actions_table()
        yield self._similarity_table()
        yield self._closeness_table()
        yield from self.meaning_tables()
        yield from self.failure_tables()
        yield from self.pairs_of_runs()
        yield from self._pairs_of_tasks()
        yield self._table4()

    def _table1(self, ranked: Sequence[Series]) -> Table:
        """Put the accuracies of ranked choices above Table 1 of the paper."""
        rows = [_row(task) | {"acc": task.main.value} for task in ranked]
        columns = (
            Column("acc_sum", "By sum %", decimals=2),
            *interval_columns("acc", decimals=2),
            Column("questions", "Questions"),
            Column("coverage", "Coverage %", decimals=1),
        )
        title = "Accuracy, next to Table 1 of the paper"
        notes = self._notes_with_published() if rows else ()
        return published_with_runs(title, load_table("egoplan", "table1"), rows, columns, notes)

    def _table3(self, ranked: Sequence[Series]) -> Table:
        """Build Table 3: the runs' accuracies by domain, above the paper's rows."""
        rows = [_row(task) | _by_domain(task) for task in ranked]
        further_columns = (
            Column("acc_sum", "By sum % (all)", decimals=2),
            *interval_columns("all", decimals=2, label="(all)"),
            Column("questions", "Questions"),
            Column("coverage", "Coverage %", decimals=1),
        )
        title = "In-domain (EPIC-KITCHENS) and out-of-domain (Ego4D), next to Table 3 of the paper"
        notes = self._notes_with_published() if rows else ()
        published = load_table("egoplan", "table3")
        return published_with_runs(title, published, rows, further_columns, notes)

    def _notes_with_published(self) -> tuple[str, ...]:
        """Return the notes on runs next to published rows."""
        return (
            f"{_SCORE_NOTE} {_FRAMES_NOTE}",
            self.chance_note(),
            _INTERVAL_NOTE,
            _COUNTS_NOTE,
        )

    def _rendered_table(self) -> Table | None:
        """Build the table of accuracies on the demo's scenes; None without such runs."""
        rows = [
            _row(task) | _by_domain(task)
            for task in self.tasks
            if (task.is_main or task.without_video) and task.is_demo
        ]
        if not rows:
            return None
        columns = (
            Column("model", "Run"),
            Column("id", "ID %", decimals=2),
            Column("od", "OD %", decimals=2),
            Column("all", "All %", decimals=2),
            Column("acc_sum", "By sum % (all)", decimals=2),
            *interval_columns("all", decimals=2, label="(all)"),
            Column("questions", "Questions"),
            Column("coverage", "Coverage %", decimals=1),
        )
        notes = [
            (
                "The scenes are rendered. These accuracies are comparable with each other, "
                "not with published ones."
            ),
            self.chance_note(),
            _INTERVAL_NOTE,
            _COUNTS_NOTE,
        ]
        title = "Rendered scenes: in-domain and out-of-domain"
        return table_of_runs("egoplan_rendered", title, columns, rows, notes)

    def _score_table(self) -> Table:
        """Build the table of every score of every task."""
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("acc", "Accuracy %", decimals=2),
            *interval_columns("acc", decimals=2),
            Column("acc_sum", "By sum %", decimals=2),
            Column("acc_bytes", "By bytes %", decimals=2),
            Column("acc_epic_kitchens", "EPIC-KITCHENS %", decimals=2),
            Column("acc_ego4d", "Ego4D %", decimals=2),
            Column("acc_within", "Within %", decimals=2),
            Column("acc_clear", "Clear letter %", decimals=2),
            Column("authors_fail", "Authors fail"),
            Column("past_observation", "Past observation"),
            Column("ties", "Ties"),
            Column("unparsed", "Unparsed %", decimals=1),
            Column("truncated", "Truncated %", decimals=1),
            Column("incomplete", "Incomplete %", decimals=1),
            Column("asked", "Asked"),
            Column("questions", "Questions"),
            Column("coverage", "Coverage %", decimals=1),
        )
        notes = [
            _SCORE_NOTE,
            (
                "By bytes: ranked by the sum per UTF-8 byte. In egoplan_val_generate, the "
                "accuracy uses the letter that was written; a reply without a clear letter "
                "(unparsed) is wrong. Truncated: replies that the limit on new tokens "
                "ended. EPIC-KITCHENS, Ego4D: accuracy over the questions of one source."
            ),
            (
                "egoplan_val_reasoned asks for a summary of the progress and a description of the "
                "observation before the letter, as in the case of App. B.2. Its prompt is not the "
                "paper's protocol. The accuracy covers the replies with a clear letter in the last "
                "part. Incomplete: replies that lack a part, for example because they were cut off."
            ),
            (
                "egoplan_val_published and egoplan_val_clips_published follow the authors' code: "
                "the mean includes the token that ends an answer. In the latter, frames after the "
                "observation may be shown in Ego4D. Past observation: questions that show such a "
                "frame. Within: accuracy over the remaining questions. Authors fail: questions on "
                "which the authors' code fails, which have no accuracy."
            ),
            (
                "egoplan_val_blind: the question without the video. egoplan_val_narrated: "
                "narrations of the past actions instead of the video."
            ),
            self.chance_note(),
            "Ties: questions with several equally good best choices; the first one counts.",
            _INTERVAL_NOTE,
            _COUNTS_NOTE,
        ]
        title = "All scores of each run"
        return table_of_runs("egoplan_scores", title, columns, self.score_rows(), notes)

    def _past_actions_table(self) -> Table | None:
        """Build the table of accuracies by number of past actions, as in Fig. 8 of the paper."""
        return self.group_table(
            "past_actions",
            "Accuracy by number of past actions",
            Column("group", "Past actions"),
            self._by_past_actions,
            [_SCORE_NOTE, self.chance_note(), _INTERVAL_NOTE],
        )

    def _similarity_table(self) -> Table | None:
        """Build the table of accuracies by goal-answer similarity, as in Fig. 7 of the paper."""
        measure = self._similarity[1]
        levels_note = (
            f"Three equally large levels of the {measure}, over all questions that were asked."
        )
        return self.group_table(
            "similarity",
            "Accuracy by goal-answer similarity",
            Column("group", "Similarity"),
            self._by_similarity,
            [levels_note, _SCORE_NOTE, self.chance_note(), _INTERVAL_NOTE],
        )

    def _closeness_table(self) -> Table | None:
        """Build the table of the similarity of wrong answers to the goal; None without samples."""
        rows = list(self._closeness_rows())
        if not rows:
            return None
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("measure", "Similarity"),
            Column("prefers", "Prefers"),
            Column("closer", "Picked minus others", decimals=3),
            *interval_columns("closer", decimals=3),
            Column("questions", "Measured"),
            Column("wrong", "Wrong"),
        )
        notes = [
            (
                "The paper says that models often select choices that are close to the "
                "task goal (sec. 4.2, Failure Type-1). Over a run's wrong answers: the "
                "similarity of the goal to the choice that was picked, minus its mean "
                "similarity to the other two wrong ones. This measure is this project's. A "
                "run that picks wrong choices regardless of the goal has 0 on average."
            ),
            (
                "Prefers: close or far choices if the interval excludes 0; empty without an "
                "interval. The intervals are not corrected for the number of rows. Wrong: wrong "
                "answers. Measured: those with a choice, whose question is available."
            ),
            _INTERVAL_NOTE,
        ]
        title = "Do wrong answers prefer choices close to the goal?"
        return table_of_runs("egoplan_closeness", title, columns, rows, notes)

    def _table4(self) -> Table:
        """Return Table 4 of the paper."""
        notes = [
            (
                "The answers of this split are private, so runs of egoplan_test have "
                "predictions but no score."
            ),
        ]
        title = "Published: the test split"
        return published_with_runs(title, load_table("egoplan", "table4"), (), (), notes)

    def _pairs_of_tasks(self) -> Iterator[Table | None]:
        """Compare tasks of the same model."""
        logged = [task for task in self.tasks if task.answers and task.shortcut in _MAIN_CONDITIONS]
        logged.sort(key=lambda task: task.model)
        for position, (model, group) in enumerate(groupby(logged, lambda task: task.model), 1):
            tasks = list(group)
            has_several = len({task.task for task in tasks}) > 1
            if has_several and any(task.is_main for task in tasks):
                name = model.rstrip("/").rpartition("/")[2]
                title = f"Every pair of tasks: {name}"
                yield self.pairs(tasks, title, key=f"tasks_{position}", of_tasks=True)

    def figures(self) -> Iterator[Figure | None]:
        """Yield accuracies, and accuracies by group as in the paper's Figs. 8 and 7."""
        yield accuracies_figure(self.usual)
        yield self._past_actions_figure()
        yield self._similarity_figure()
        yield from super().figures()

    def _past_actions_figure(self) -> Figure | None:
        """Draw accuracies by number of past actions, as in Fig. 8 of the paper."""
        caption = (
            "As in Fig. 8 of the paper. The bins are this project's, as the paper does "
            "not state them."
        )
        by = "number of past actions"
        return lines_figure("egoplan_past_actions", by, by, self._by_past_actions, caption)

    def _similarity_figure(self) -> Figure | None:
        """Draw accuracies by goal-answer similarity, as in Fig. 7 of the paper."""
        measure = self._similarity[1]
        if self.inputs.similarity is None:
            caption = (
                f"As in Fig. 7 of the paper: three levels of the {measure}. The paper "
                "uses BERTScore. The equal size of the levels is this project's choice."
            )
        else:
            caption = (
                f"As in Fig. 7 of the paper: three levels of the {measure}. The equal "
                "size of the levels is this project's choice."
            )
        label = "similarity of goal and right answer"
        return lines_figure("egoplan_similarity", _SIMILARITY, label, self._by_similarity, caption)

    @cached_property
    def _by_past_actions(self) -> Groups:
        return grouped(self.usual, {key: _bin_of(doc) for key, doc in self.docs[0].items()}, _BINS)

    @cached_property
    def _by_similarity(self) -> Groups:
        level_names = {key: LEVELS[level] for key, level in self._similarity[0].items()}
        return grouped(self.usual, level_names, LEVELS)

    @cached_property
    def _similarity(self) -> tuple[dict[Key, int], str, str | None]:
        """The level of each question, the measure of similarity, and the reason why there is none.

        Raises:
            LmmsEgoplanError: A model for BERTScore was requested and cannot be loaded. A missing
                sentence encoder is no error.
        """
        pairs = {key: (doc["task_goal"], doc["answer"]) for key, doc in self.docs[0].items()}
        values, measure, problem = self._similarities
        return (
            levels({key: values[pair] for key, pair in pairs.items() if pair in values}),
            measure,
            problem,
        )

    @cached_property
    def _similarities(self) -> tuple[dict[tuple[str, str], float], str, str | None]:
        """The similarity of each goal and choice, its measure, and the reason why there is none.

        See `_similarity`.
        """
        pairs: list[tuple[str, str]] = []
        for doc in self.docs[0].values():
            pairs += ((doc["task_goal"], choice) for choice in doc["choices"])
        if not pairs:
            return {}, "", None
        try:
            values, measure = similarities(pairs, self.inputs.similarity)
        except LmmsEgoplanError as error:
            if self.inputs.similarity is not None:
                raise
            return {}, "", str(error)
        return values, measure, None

    def _closeness_rows(self) -> Iterator[dict[str, Value]]:
        """Yield each task's mean `preference` of its wrong answers, by each similarity."""
        # Importing nltk takes seconds.
        from lmms_egoplan.benchmarks.egoplan.baselines import shared_stems

        values, encoder, _ = self._similarities
        measures: dict[str, Callable[[str, str], float]] = {"word stems in common": shared_stems}
        if values:
            measures[encoder] = lambda goal, choice: values[goal, choice]
        for task in self.tasks:
            if not task.answers:
                continue
            wrong = _wrong_answers_of(task)
            for measure, similarity in measures.items():
                measured = self._with_preference(wrong, similarity)
                mean = mean_of(measured, "closer")
                row: dict[str, Value] = {
                    "run": task.run.name,
                    "task": task.task,
                    "measure": measure,
                    "prefers": _preferred(mean),
                    "questions": mean.questions,
                    "wrong": len(wrong),
                }
                yield {**row, **mean.cells("closer")}

    def _with_preference(
        self, wrong: Sequence[Answer], similarity: Callable[[str, str], float]
    ) -> list[Answer]:
        """Return the wrong answers with a choice, with their `preference` as score ``closer``.

        Answers whose question is not available are skipped.
        """
        measured = []
        for answer in wrong:
            doc = self.docs[0].get(answer.key)
            gold = LETTERS.index(str(answer.key[2]))
            chosen = answer.record.chosen
            if doc and chosen not in (None, gold):
                nearness = [similarity(doc["task_goal"], choice) for choice in doc["choices"]]
                closer = preference(nearness, chosen, gold)
                measured.append(replace(answer, scores={"closer": closer}))
        return measured

    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return video source and people's check.

        If the question is available, add past actions and similarity.
        """
        facts = {}
        source = doc["video_source"] if doc else part
        if source in _SOURCE_NAMES:
            facts["source"] = _SOURCE_NAMES[source]
        checked = self._checked.get(key[1:])
        if checked:
            facts[_CHECKED] = checked
        if doc:
            facts["past actions"] = _bin_of(doc)
            level = self._similarity[0].get(key)
            if level is not None:
                facts[_SIMILARITY] = LEVELS[level]
        return facts

    @cached_property
    def _checked(self) -> Verified:
        return read_checked(self.labelled())

    def gaps(self) -> Iterator[str]:
        """Also yield the reason why similarity is missing."""
        yield from super().gaps()
        problem = self._similarity[2]
        if problem:
            yield f"No accuracy by goal-answer similarity: {problem}"


# How the tasks of EgoPlan-Bench2 obtain their scores, in the words of the ledger.
_BENCH2_LEDGER_FIELDS = {
    "egoplan_bench2": _RANKED,
    "egoplan_bench2_generate": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "official EgoPlan-Bench2",
    },
    "egoplan_bench2_thinking": {
        "prompt": "official instruction with boxed letter",
        "thinking": "on",
        "parser": "clear letter",
    },
    "egoplan_bench2__official": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "official EgoPlan-Bench2",
    },
    "egoplan_bench2__lmms-eval-0.7.3": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "lmms-eval first letter",
    },
    "egoplan_bench2__flageval": {
        "prompt": "FlagEvalMM option letter",
        "parser": "FlagEvalMM",
    },
    "egoplan_bench2__mimo": {
        "prompt": "official question, then boxed answer",
        "thinking": "on",
        "parser": "boxed, exact match",
    },
    # Its source also says "or the model's own" prompt, so the texts differ.
    "egoplan_bench2__physbrain-evalkit": {
        "prompt": "EmbodiedEvalKit letter only",
        "parser": "PhysBrainEvalKit",
    },
    "egoplan_bench2__physbrain-evalkit-thinking": {
        "prompt": "EmbodiedEvalKit letter only",
        "thinking": "on",
        "parser": "PhysBrainEvalKit",
    },
    "egoplan_bench2__seed-bench-r1": _SEED_BENCH_R1,
}


class EgoPlanBench2Report(_ChoiceReport):
    """EgoPlan-Bench2's part of a report."""

    SPEC = Spec(
        name="egoplan_bench2",
        title="EgoPlan-Bench2",
        lead=(
            "Which of four actions comes next, given a goal and a first-person video of the task "
            "up to now, in four domains of daily life? In the paper, models write a letter. Here, "
            "the choices are also ranked by the likelihood that a model assigns to them."
        ),
        metric="accuracy",
        decimals=2,
        measure="acc",
        scale=100,
        clusters="videos",
        compact_title="EgoPlan-Bench2: accuracy in per cent",
        compact_main="acc",
        group_order={"domain": DOMAINS},
        subsets={
            "all": "",
            "Daily life": "acc_daily_life",
            "Work": "acc_work",
            "Hobbies": "acc_hobbies",
            "Recreation": "acc_recreation",
        },
        ledger_fields=_BENCH2_LEDGER_FIELDS,
    )
    QUESTIONS = EGOPLAN_BENCH2
    VISUALS = visuals.EGOPLAN_BENCH2

    def tables(self) -> Iterator[Table | None]:
        """Yield all scores, scores by scenario, and pairs of runs."""
        yield self._score_table()
        yield self._scenarios_table()
        yield from self.meaning_tables()
        yield from self.pairs_of_runs()

    def _score_table(self) -> Table:
        """Build the table of every score of every task."""
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("acc", "Accuracy %", decimals=2),
            *interval_columns("acc", decimals=2),
            Column("acc_sum", "By sum %", decimals=2),
            Column("acc_bytes", "By bytes %", decimals=2),
            Column("acc_daily_life", "Daily life %", decimals=2),
            Column("acc_work", "Work %", decimals=2),
            Column("acc_hobbies", "Hobbies %", decimals=2),
            Column("acc_recreation", "Recreation %", decimals=2),
            Column("acc_clear", "Clear letter %", decimals=2),
            Column("ties", "Ties"),
            Column("unparsed", "Unparsed %", decimals=1),
            Column("truncated", "Truncated %", decimals=1),
            Column("asked", "Asked"),
            Column("questions", "Questions"),
            Column("coverage", "Coverage %", decimals=1),
        )
        notes = [
            _BENCH2_SCORE_NOTE,
            self.chance_note(),
            "The paper's tables are not included.",
            _INTERVAL_NOTE,
            (
                "Questions: the number that the accuracy covers. Coverage: their share of the "
                "official questions. A question that a model could not score counts as neither "
                "right nor wrong. Ties: questions with several equally good best choices."
            ),
        ]
        title = "All scores of each run"
        return table_of_runs("egoplan_bench2_scores", title, columns, self.score_rows(), notes)

    def _scenarios_table(self) -> Table | None:
        """Build the table of accuracies by scenario."""
        scenarios: dict[Key, str | None] = {}
        for key, doc in self.docs[0].items():
            scenarios[key] = doc["scenario"]
        names = sorted({name for name in scenarios.values() if name})
        return self.group_table(
            "scenarios",
            "Accuracy by scenario",
            Column("scenario", "Scenario"),
            grouped(self.usual, scenarios, names),
            [_BENCH2_SCORE_NOTE, self.chance_note(), _INTERVAL_NOTE],
        )

    def facts(self, _key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the domain; if the question is available, also the scenario."""
        if doc:
            return {"domain": doc["domain"], "scenario": doc["scenario"]}
        return {"domain": part} if part else {}


def wrong_answers(runs: Sequence[Path], count: int | None) -> list[tuple[Failure, Frames]]:
    """Read the wrong answers of runs; see `EgoPlanReport.wrong_answers`.

    Raises:
        LmmsEgoplanError: A run cannot be read, there are no wrong answers, or their questions are
            missing.
    """
    read = read_runs(runs)
    for skipped in read.skipped:
        logger.warning(f"Skipped: {skipped}")
    wrong = list(EgoPlanReport(read.runs).wrong_answers(count))
    if not wrong:
        raise LmmsEgoplanError(
            f"{', '.join(map(str, runs))}: no wrong answers to EgoPlan's questions; {HOW_TO_LOG}"
        )
    return wrong


def _wrong_answers_of(task: Series) -> list[Answer]:
    """Return a task's answers with accuracy 0, in order."""
    return [answer for answer in (task.answers or {}).values() if answer.scores["acc"] == 0]


def _failure(series: Series, answer: Answer, doc: Doc, num_wrong: int) -> Failure:
    """Return a wrong answer as people and judges see it.

    Args:
        series: The task of a run that asked the question.
        answer: The wrong answer.
        doc: The question.
        num_wrong: Number of wrong answers from which this one was drawn.
    """
    texts = _references(doc) | {
        "Choices": "; ".join(doc["choices"]),
        "Right choice": doc["answer"],
        "The model's choice": doc["choices"][answer.record.chosen],
    }
    if answer.record.text:
        texts["The model's reply"] = answer.record.text
    return Failure(
        id=f"{answer.id} of {series.name}",
        model=series.name,
        video=doc["video_id"],
        run=f"{series.run.model}, {series.run.time}, {series.task}",
        texts=texts,
        wrong=num_wrong,
    )


def _failures_table(failures: Sequence[Failure]) -> Table | None:
    """Build the table of types of failures; None without labels."""
    rows = list(share_rows(failures))
    if not rows:
        return None
    columns = (
        Column("model", "Run"),
        Column("by", "Labelled by"),
        Column("type", "Type"),
        Column("count", "Answers of this type"),
        Column("typed", "Answers with a type"),
        Column("share", "Share %", decimals=1),
        *interval_columns("share", decimals=1),
        Column("untyped", "Without a type"),
        Column("drawn", "Drawn"),
        Column("wrong", "Wrong answers"),
        Column("example", "Example"),
    )
    notes = [
        (
            "The three types are those of Fig. 6 of the paper, which shows a case of each "
            'and no numbers. "None of the three", the labelling and the judge\'s prompt are '
            "this project's. Only wrong answers to whole questions with video are "
            "labelled, not those of shortcuts, nor those in which no choice was read."
        ),
        (
            "Labelled by: people, on the page of lmms-egoplan annotate egoplan-failures, "
            "or a judge with the version of its prompt, from lmms-egoplan judge egoplan. "
            '"No frames": the video was missing. Share: of the answers with a type. '
            "Without a type: not labelled, labels that differ, or no usable verdict. "
            "Drawn: answers given to people or judge. Wrong answers: those of which they "
            "are a random sample."
        ),
        (
            "Low to high: 95 % interval by Wilson over videos. Absent with fewer than "
            f"{FEWEST_CLUSTERS} videos."
        ),
    ]
    title = "Types of failures in wrong answers"
    return table_of_runs("egoplan_failures", title, columns, rows, notes)


def _failures_agreement_table(failures: Sequence[Failure]) -> Table | None:
    """Build the table of the agreement of judges with people; None without labels by both."""
    rows = list(agreement_rows(failures))
    if not rows:
        return None
    columns = (
        Column("judge", "Judge"),
        Column("answers", "Answers"),
        Column("equal", "Same type %", decimals=1),
        Column("kappa", "Cohen's kappa", decimals=2),
        *interval_columns("kappa", decimals=2),
    )
    notes = [
        (
            "Over the answers to which people and the judge both gave a type. Cohen's kappa of "
            "the four types has a 95 % interval from a bootstrap over answers. No kappa for fewer "
            f"than {MIN_ITEMS} answers, or if one side gives all answers the same type."
        ),
    ]
    title = "Types of failures: judges and people"
    return table_of_runs("egoplan_failures_agreement", title, columns, rows, notes)


def _preferred(closeness: Mean) -> str | None:
    """Return which choices a run prefers; None without an interval.

    Args:
        closeness: The mean of `preference`.
    """
    if closeness.interval is None:
        return None
    low, high = closeness.interval
    if low > 0:
        return "close choices"
    if high < 0:
        return "far choices"
    return "not shown"


def _by_domain(task: Series) -> dict[str, Value]:
    """Return accuracies by the columns of Table 3, in per cent."""
    return {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def _row(task: Series) -> dict[str, Value]:
    """Return a run's row for a table with published rows, without the accuracy."""
    row: dict[str, Value] = {
        "model": task.name,
        "acc_sum": task.percent("acc_sum"),
        "apart": "; ".join(task.objections),
    }
    return row | task.counts()


def _references(doc: Doc) -> dict[str, str]:
    done = "; ".join(action["narration_text"] for action in doc["past_actions"])
    return {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"}


def _bin_of(doc: Doc) -> str:
    """Return the bin of a question's number of past actions."""
    count = len(doc["past_actions"])
    bins = [name for name, least in _BINS.items() if count >= least]
    return bins[-1]


def _exists(path: str) -> bool:
    # Path.exists raises an error if a parent folder is not readable.
    return os.path.exists(path)  # noqa: PTH110
