"""Build the reports of both benchmarks: headlines, tables, figures, remarks, and the questions for
the gallery.
"""

import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from loguru import logger

from lmms_egoplan.benchmarks.conditions import condition_figure, condition_table
from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.failures import (
    LABELS,
    Failure,
    Frames,
    agreement_rows,
    share_rows,
)
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
from lmms_egoplan.benchmarks.egoplan.report.answers import (
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
from lmms_egoplan.benchmarks.egoplan.report.calibration import (
    Rows,
    calibration_figures,
    calibration_rows,
)
from lmms_egoplan.benchmarks.egoplan.report.gain import gain_rows, with_gains
from lmms_egoplan.benchmarks.egoplan.similarity import LEVELS, levels, preference, similarities
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.correction import draw
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.benchmark import (
    NO_INPUTS,
    BenchmarkReport,
    Inputs,
    read_prepared,
    read_spec,
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
from lmms_egoplan.report.document import Figure, Headline, ShownAnswer, Verdict
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.samples import HOW_TO_LOG, read_labels
from lmms_egoplan.report.scores import Answer, Key, Mean, mean_of
from lmms_egoplan.report.statistics import FEWEST_CLUSTERS
from lmms_egoplan.report.tables import Table, Value, number, read_notes, scored, share, show

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

note = read_notes(__file__, chance=CHANCE, fewest_clusters=FEWEST_CLUSTERS, min_items=MIN_ITEMS)
# Numbers of the baselines' line styles.
_LINE_STYLES = {"_blind": 3, "_narrated": 1}
# The conditions that are compared with each other. Pairs of all conditions would be too many.
_USUAL = (None, "blind")

Point = tuple[Series, float, tuple[float, float] | None]
"""A task with its accuracy and the interval."""


def accuracies_figure(series: Sequence[Series]) -> Figure | None:
    """Draw all tasks with an accuracy, best first; return None if there are none."""
    points = [
        (task, task.main.value, task.main.interval)
        for task in series
        if task.main.value is not None
    ]
    if not points:
        return None
    points.sort(key=lambda point: -point[1])
    spoken_means = spoken(["accuracy"], {task.name: [task.main] for task, _, _ in points}, 2)
    draw = partial(_draw_accuracies, points)
    return Figure(
        "egoplan_accuracy", "Accuracy of all runs", note("accuracy_caption"), draw, spoken_means
    )


def _draw_accuracies(points: Sequence[Point]) -> "Drawing":
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
    axes.set_yticks(range(len(points)), [task.short_name for task, _, _ in points])
    axes.set(xlim=(0, _top(task.main for task, _, _ in points)), xlabel="accuracy, %")
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
    """Return the upper limit of an axis in per cent:
    7 above the largest value and at least 57, at most 105.
    """
    ends = [end for mean in means for end in mean.interval or (mean.value,) if end is not None]
    return min(105.0, max([50.0, *ends]) + 7)


def lines_figure(key: str, by: str, label: str, groups: Groups, caption: str) -> Figure | None:
    """Draw each run's main task and the baselines by group; return None if no run has one.

    Args:
        by: The property that defines the groups.
        label: Label of the groups' axis.
    """
    parts = {
        (part.series.name, group): part
        for group, group_parts in groups.items()
        for part in group_parts
    }
    series = {part.series.name: part.series for part in parts.values()}
    mains = {task.run.name: name for name, task in reversed(series.items()) if task.is_main}
    drawn = {
        name: task
        for name, task in series.items()
        if task.unseen or mains.get(task.run.name) == name
    }
    if not drawn:
        return None
    means = {
        name: [parts[name, group].acc if (name, group) in parts else Mean() for group in groups]
        for name in drawn
    }
    sizes = [
        max(part.acc.questions or 0 for part in group_parts) for group_parts in groups.values()
    ]
    ticks = [f"{group}\n{size:,} questions" for group, size in zip(groups, sizes, strict=True)]
    looks = {
        name: {"label": task.short_name, "color": shade(task.look), **_marker(task)}
        | {"linestyle": line(_LINE_STYLES[task.unseen]) if task.unseen else "-"}
        for name, task in drawn.items()
    }
    top = _top(mean for task_means in means.values() for mean in task_means)
    draw = partial(draw_lines, ticks, means, "accuracy, %", label, top, looks, CHANCE)
    caption = note("lines_caption", caption=caption)
    return Figure(key, f"Accuracy by {by}", caption, draw, spoken(list(groups), means, 1))


_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}
# The least number of past actions in each bin. The paper does not state the bins of Fig. 8.
_BINS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
_SIMILARITY = "goal-answer similarity"
_CHECKED = "people's check"
_SOURCE_NAMES: dict[str, str] = {
    EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)",
    EGO4D: "Ego4D (out-of-domain)",
}

# The columns of Table 3.
_DOMAINS = {"id": SOURCE_METRIC[EPIC_KITCHENS], "od": SOURCE_METRIC[EGO4D], "all": "acc"}

Facts = dict[str, str]


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
            doc: The question; None if it is not available.
            part: `Choice.part`, as logged.
        """

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """Read the tasks with a score, each run's main task first."""
        return with_gains(read_series(runs, self.QUESTIONS))

    @cached_property
    def usual(self) -> list[Series]:
        """The benchmark's own tasks, the one without the video, and the baselines without a model."""
        return [*(task for task in self.tasks if task.shortcut in _USUAL), *self.without_model]

    @cached_property
    def without_model(self) -> list[Series]:
        """The baselines of `baseline_points` over the questions that were asked and are available,
        as a run's tasks.
        """
        return list(baseline_series(self.docs[0], self.tasks)) if self.tasks else []

    def notes(self, names: Iterable[str], **values: str) -> tuple[str, ...]:
        """Add the baselines to the note on chance."""
        means = ", ".join(
            f"{x.task} {show(x.main.value, self.SPEC.decimals)} %" for x in self.without_model
        )
        return super().notes(
            names, count=f"{len(self.docs[0]):,}", means=means or "missing", **values
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
        answers = [pair for task in reversed(self.tasks) for pair in (task.answers or {}).items()]
        videos = {key: answer.cluster for key, answer in answers}
        videos |= {key: answer.cluster for key, answer in answers if answer.cluster}

        def read() -> dict[Key, Doc]:
            rows: Iterable[Doc] = self.QUESTIONS.prepared.load(self.QUESTIONS.split)
            by_key = (
                ((row["split_size"], row["sample_id"], row["golden_choice_idx"]), row)
                for row in rows
            )
            return {
                key: row
                for key, row in by_key
                if key in videos and videos[key] in (None, row["video_id"])
            }

        prepared, problem = read_prepared(read) if videos else ({}, None)
        return {**{key: answer.doc for key, answer in answers if answer.doc}, **prepared}, problem

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort by id."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the question as prepared, or as lm-eval logs it."""
        doc = self.docs[0].get(key)
        part = next((answer.record.part for answer in answers if answer.record.part), None)
        fields = {
            "facts": self.facts(key, doc, part),
            "choices": tuple(LETTERS),
            "gold": LETTERS.index(str(key[2])),
        }
        if not doc:
            return fields | {"question": f"{key[1]}: the question is not available"}
        return fields | {
            "question": doc["question"],
            "title": f"To {doc['task_goal'][:1].lower()}{doc['task_goal'][1:]}: what next?"
            if doc["task_goal"]
            else "",
            "choices": tuple(doc["choices"]),
            "references": _references(doc),
            "images": self._frames(doc),
        }

    def _frames(self, doc: Doc) -> Callable[[], Any] | None:
        settings = {"media": "frames", "num_frames": visuals.UNIFORM_FRAMES}
        return (
            partial(self.VISUALS.visual_input, doc, settings)
            if _exists(doc["media_path"])
            else None
        )

    def wrong_answers(self, count: int | None) -> Iterator[tuple[Failure, Frames]]:
        """Yield wrong answers in which a choice was read, with its frames.

        Skip shortcuts and tasks without video.

        Args:
            count: Size of the random sample of each task's answers; None, or more than there are,
                for all.

        Raises:
            LmmsEgoplanError: Questions are missing.
        """
        for task in (task for task in self.own_tasks if not task.unseen):
            wrong = sorted(
                (x for x in (task.answers or {}).values() if x.scores["acc"] == 0),
                key=lambda x: x.key,
            )
            answers = [answer for answer in wrong if answer.record.chosen is not None]
            logger.info(
                f"{task.name}: {len(answers)} wrong answers, and "
                f"{len(wrong) - len(answers)} without a choice"
            )
            for gap in _ChoiceReport.gaps(self) if answers else ():
                raise LmmsEgoplanError(gap)
            parts = [answer.record.part or "" for answer in answers]
            for position in draw(parts, min(count or len(parts), len(parts))) if parts else ():
                answer, doc = answers[position], self.docs[0][answers[position].key]
                texts = _references(doc) | {
                    "Choices": "; ".join(doc["choices"]),
                    "Right choice": doc["answer"],
                }
                texts["The model's choice"] = doc["choices"][answer.record.chosen]
                texts |= {"The model's reply": answer.record.text} if answer.record.text else {}
                ids: dict[str, Any] = {
                    "id": f"{answer.id} of {task.name}",
                    "model": task.name,
                    "video": doc["video_id"],
                }
                run = f"{task.run.model}, {task.run.time}, {task.task}"
                yield Failure(**ids, run=run, texts=texts, wrong=len(answers)), self._frames(doc)

    def failure_tables(self) -> Iterator[Table | None]:
        """Yield types of failures, and the agreement of judges with people."""
        failures = read_labels(self.labelled(), LABELS, Failure, ("id", "run", "by"))
        for key, rows in (
            ("failures", share_rows(failures)),
            ("failures_agreement", agreement_rows(failures)),
        ):
            yield self.table(key, listed) if (listed := list(rows)) else None

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the log-probabilities of the choices, or the reply."""
        choice = answer.record
        unread = (
            "no letter of a choice was read"
            if choice.text is not None and choice.chosen is None
            else None
        )
        verdict, gain = (
            _VERDICTS[answer.scores["acc"]],
            (answer.scores.get("gain"), answer.scores.get("gain_margin")),
        )
        return ShownAnswer(verdict, choice.text, choice.logprobs, choice.chosen, unread, gain=gain)

    def compact_notes(self) -> Iterable[str]:
        """Explain the accuracies of ranked choices."""
        return (
            map(note, self.SPEC.compact_notes) if any(task.is_ranked for task in self.tasks) else ()
        )

    def cells(self, task: Series, block: Sequence[Series], /) -> dict[str, str]:
        """Return accuracies in per cent, and the number of questions that they cover."""
        is_ranked = any(block_task.is_ranked for block_task in block)
        whole = ("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",)
        ties = task.number("near_ties")
        return {
            **{
                metric: scored(task.percent(metric), self.SPEC.decimals, task.coverage)
                for metric in whole
            },
            **{
                metric: number(task.percent(metric), self.SPEC.decimals)
                for metric in self.QUESTIONS.part_metrics.values()
            },
            **(
                {}
                if is_ranked
                else {"unparsed": share(task.number("unparsed")), "truncated": task.truncated_text}
            ),
            "not compared": task.inexact or "",
            "near ties": show(ties, None) if ties else "",
            "ranking": task.text("ranking_note") or "",
            "questions": f"{number(task.questions)} of {number(task.whole)}",
        }

    def score_table(self) -> Table:
        """Build the table of every score of every task."""
        extra = ("acc_within", "acc_clear", "unparsed", "truncated", "incomplete")
        metrics = ("acc", "acc_sum", "acc_bytes", *self.QUESTIONS.part_metrics.values(), *extra)
        rows: list[dict[str, Value]] = [
            {
                "run": task.run.name,
                "task": task.task,
                "ties": task.number("ties"),
                "authors_fail": task.number("authors_fail"),
                "past_observation": task.number("past_observation"),
                "asked": task.number("num_questions"),
            }
            | {metric: task.percent(metric) for metric in metrics}
            | task.counts()
            for task in (*self.tasks, *self.without_model)
        ]
        return self.table("scores", rows)

    def group_table(self, key: str, groups: Groups, measure: str = "") -> Table | None:
        """Build the table of accuracies by group, with the group's name in the first column; None
        without groups.
        """
        rows: list[dict[str, Value]] = [
            {
                self.SPEC.tables[key].columns[0].key: group,
                "run": part.series.run.name,
                "task": part.series.task,
                "acc_sum": part.acc_sum,
                "questions": part.acc.questions,
                **part.acc.cells("acc"),
            }
            for group, parts in groups.items()
            for part in parts
        ]
        return self.table(key, rows, measure=measure) if rows else None

    @cached_property
    def _calibration(self) -> dict[str, Rows]:
        return calibration_rows(self.own_tasks)

    def meaning_tables(self) -> Iterator[Table | None]:
        """Yield the accuracy by condition, what the video adds, calibration, and conformal sets."""
        yield condition_table(self)
        for key, rows in ({"gain": list(gain_rows(self.tasks))} | self._calibration).items():
            yield self.table(key, rows) if rows else None

    def figures(self) -> Iterator[Figure | None]:
        """Yield the accuracy by condition, the reliability diagram and the risk-coverage curve."""
        yield condition_figure(self, CHANCE)
        yield from calibration_figures(self.SPEC, self._calibration["reliability"])

    def pairs_of_runs(self) -> Iterator[Table | None]:
        """Compare every pair of runs in each task."""
        logged = [task for task in self.tasks if task.answers and task.shortcut in _USUAL]
        for name in dict.fromkeys(task.task for task in logged):
            end = "" if name == EGOPLAN.main_task else "_" + re.sub(r"\W+", "_", name)
            same = [task for task in logged if task.task == name]
            yield self.pairs(same, f"Every pair of runs: {name}", f"comparisons{end}")

    def flaws(self, task: Series) -> Iterator[str]:
        """Yield problems with a task's questions and samples."""
        size, asked, with_score = (
            task.count("split_size"),
            task.count("num_questions"),
            task.questions,
        )
        if size is not None and size != self.QUESTIONS.official:
            yield note(
                "other_size", size=size, name=self.QUESTIONS.name, official=self.QUESTIONS.official
            )
        if asked is not None and size is not None and asked < size:
            yield note("not_all", asked=asked, size=size)
        if failed := task.count("authors_fail") or 0:
            yield note(
                "authors_fail",
                count=failed,
                asked=asked,
                ids=task.text("authors_fail_ids") or "unknown",
            )
        if asked is not None and with_score is not None and with_score + failed < asked:
            kind = "without_letter" if task.is_reasoned else "without_score"
            yield note(kind, count=asked - with_score - failed, asked=asked)
        if task.answers is None:
            yield note("no_samples")
        if task.inexact:
            yield f"{task.inexact}; the run is neither ranked nor compared."
        if ranking_note := task.text("ranking_note"):
            yield f"{ranking_note}."
        if task.is_reasoned:
            yield note("own_prompt", incomplete=share(task.number("incomplete")))
        if (unknown := task.text("unknown_fields") or "none") != "none":
            yield note("unknown_fields", fields=unknown)

    def gaps(self) -> Iterator[str]:
        """Yield problems with the prepared data."""
        docs, problem = self.docs
        if missing := self.answers.keys() - docs.keys():
            why = problem or note("not_prepared", example=min(missing)[1])
            yield note("missing", count=len(missing), why=why)


class EgoPlanReport(_ChoiceReport):
    """EgoPlan-Bench's part of a report.

    The input ``similarity`` sets the model for goal-answer similarity.
    """

    SPEC = read_spec(__file__, "egoplan", note, {_SIMILARITY: LEVELS, _CHECKED: (AGREED,)})
    QUESTIONS = EGOPLAN
    VISUALS = visuals.EGOPLAN

    def main_tasks(self) -> list[Series]:
        """Return each run's main task, or its first one if it has no main task."""
        return [
            next(run_tasks)
            for _, run_tasks in groupby(self.own_tasks, key=lambda task: task.run.name)
        ]

    def tables(self) -> Iterator[Table | None]:
        """Yield scores compared with the paper's, all scores, scores by group, pairs of runs, and
        the test split.
        """
        ranked = [task for task in self.tasks if task.is_main]
        rows = [_row(task) | {"acc": task.main.value} for task in ranked]
        yield self.published("table1", rows, None if rows else ())
        # Table 3 is about videos, not rendered scenes.
        rows = [_row(task) | _by_domain(task) for task in ranked if not task.is_demo]
        yield self.published("table3", rows, None if rows else ())
        rows = [
            _row(task) | _by_domain(task)
            for task in self.tasks
            if (task.is_main or task.unseen) and task.is_demo
        ]
        yield self.table("rendered", rows) if rows else None
        yield self.score_table()
        yield self.group_table("past_actions", self._by_past_actions)
        yield self.group_table("similarity", self._by_similarity, measure=self._similarity[1])
        yield self.table("closeness", rows) if (rows := list(self._closeness())) else None
        yield from self.meaning_tables()
        yield from self.failure_tables()
        yield from self.pairs_of_runs()
        yield from self._pairs_of_tasks()
        yield self.published("table4")

    def _pairs_of_tasks(self) -> Iterator[Table | None]:
        """Compare tasks of the same model."""
        by_model = sorted(
            (x for x in self.tasks if x.answers and x.shortcut in _USUAL),
            key=lambda task: task.model,
        )
        for position, (model, group) in enumerate(groupby(by_model, lambda task: task.model), 1):
            tasks = list(group)
            if any(task.is_main for task in tasks) and len({task.task for task in tasks}) > 1:
                name = model.rstrip("/").rpartition("/")[2]
                yield self.pairs(
                    tasks, f"Every pair of tasks: {name}", f"tasks_{position}", of_tasks=True
                )

    def figures(self) -> Iterator[Figure | None]:
        """Yield accuracies, and accuracies by group as in the paper's Figs. 8 and 7."""
        yield accuracies_figure(self.usual)
        by = "number of past actions"
        yield lines_figure("egoplan_past_actions", by, by, self._by_past_actions, note("bins"))
        caption = note(
            "similarity" if self.inputs.similarity is None else "bert_score",
            measure=self._similarity[1],
        )
        label = "similarity of goal and right answer"
        yield lines_figure("egoplan_similarity", _SIMILARITY, label, self._by_similarity, caption)
        yield from super().figures()

    @cached_property
    def _by_past_actions(self) -> Groups:
        return grouped(self.usual, {key: _bin_of(doc) for key, doc in self.docs[0].items()}, _BINS)

    @cached_property
    def _by_similarity(self) -> Groups:
        return grouped(
            self.usual, {key: LEVELS[x] for key, x in self._similarity[0].items()}, LEVELS
        )

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
        """The similarity of each goal and choice, its measure, and the reason why there is none;
        see `_similarity`.
        """
        pairs = [
            (doc["task_goal"], choice) for doc in self.docs[0].values() for choice in doc["choices"]
        ]
        try:
            return (*similarities(pairs, self.inputs.similarity), None) if pairs else ({}, "", None)
        except LmmsEgoplanError as error:
            if self.inputs.similarity is not None:
                raise
            return {}, "", str(error)

    def _closeness(self) -> Iterator[dict[str, Value]]:
        """Yield, for each task with samples, the mean `preference` of its wrong answers by each
        similarity.
        """
        from lmms_egoplan.benchmarks.egoplan.baselines import (
            shared_stems,
        )  # Importing nltk takes seconds.

        values, encoder, _ = self._similarities
        measures = [(note("stems"), shared_stems), (encoder, lambda *pair: values[pair])][
            : 1 + bool(values)
        ]
        for task, (measure, similarity) in product(
            [task for task in self.tasks if task.answers], measures
        ):
            wrong = [
                answer for answer in (task.answers or {}).values() if answer.scores["acc"] == 0
            ]
            measured = []
            for answer in wrong:
                doc, gold = self.docs[0].get(answer.key), LETTERS.index(str(answer.key[2]))
                chosen = answer.record.chosen
                if doc and chosen not in (None, gold):
                    nearness = [similarity(doc["task_goal"], choice) for choice in doc["choices"]]
                    measured.append(
                        replace(answer, scores={"closer": preference(nearness, chosen, gold)})
                    )
            mean = mean_of(measured, "closer")
            low, high = mean.interval or (0, 0)
            prefers = (
                "close choices"
                if low > 0
                else "far choices"
                if high < 0
                else mean.interval and "not shown"
            )
            row: dict[str, Value] = {
                "run": task.run.name,
                "task": task.task,
                "measure": measure,
                "prefers": prefers,
            }
            yield row | mean.cells("closer") | {"questions": mean.questions, "wrong": len(wrong)}

    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return video source and people's check; if the question is available, also past actions
        and similarity.
        """
        source, checked = doc["video_source"] if doc else part, self._checked.get(key[1:])
        facts = {"source": _SOURCE_NAMES[source]} if source in _SOURCE_NAMES else {}
        facts |= {_CHECKED: checked} if checked else {}
        if doc:
            facts["past actions"] = _bin_of(doc)
            if (level := self._similarity[0].get(key)) is not None:
                facts[_SIMILARITY] = LEVELS[level]
        return facts

    @cached_property
    def _checked(self) -> Verified:
        return read_checked(self.labelled())

    def gaps(self) -> Iterator[str]:
        """Also yield the reason why similarity is missing."""
        yield from super().gaps()
        if problem := self._similarity[2]:
            yield note("no_similarity", problem=problem)


class EgoPlanBench2Report(_ChoiceReport):
    """EgoPlan-Bench2's part of a report."""

    SPEC = read_spec(__file__, "egoplan_bench2", note, {"domain": DOMAINS})
    QUESTIONS = EGOPLAN_BENCH2
    VISUALS = visuals.EGOPLAN_BENCH2

    def tables(self) -> Iterator[Table | None]:
        """Yield all scores, scores by scenario, and pairs of runs."""
        scenarios: dict[Key, str | None] = {
            key: doc["scenario"] for key, doc in self.docs[0].items()
        }
        names = sorted({name for name in scenarios.values() if name})
        yield self.score_table()
        yield self.group_table("scenarios", grouped(self.usual, scenarios, names))
        yield from self.meaning_tables()
        yield from self.pairs_of_runs()

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
    if wrong := list(EgoPlanReport(read.runs).wrong_answers(count)):
        return wrong
    raise LmmsEgoplanError(
        f"{', '.join(map(str, runs))}: no wrong answers to EgoPlan's questions; {HOW_TO_LOG}"
    )


def _by_domain(task: Series) -> dict[str, Value]:
    """Return accuracies by the columns of Table 3, in per cent."""
    return {name: task.percent(metric) for name, metric in _DOMAINS.items()}


def _row(task: Series) -> dict[str, Value]:
    """Return a run's row for a table with published rows, without the accuracy."""
    return {
        "model": task.name,
        "acc_sum": task.percent("acc_sum"),
        "apart": "; ".join(task.objections),
    } | task.counts()


def _references(doc: Doc) -> dict[str, str]:
    done = "; ".join(action["narration_text"] for action in doc["past_actions"])
    return {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"}


def _bin_of(doc: Doc) -> str:
    """Return the bin of a question's number of past actions."""
    count = len(doc["past_actions"])
    return max((name for name, least in _BINS.items() if count >= least), key=_BINS.__getitem__)


def _exists(path: str) -> bool:
    # Path.exists raises an error if a parent folder is not readable.
    return os.path.exists(path)  # noqa: PTH110
