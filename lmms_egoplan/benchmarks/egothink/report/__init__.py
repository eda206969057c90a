"""EgoThink's part of reports: twelve dimensions and six capabilities, their judges, and the questions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from lmms_egoplan.benchmarks.egothink.answer_files import read_rated
from lmms_egoplan.benchmarks.egothink.dimensions import BY_NAME, DIMENSION_NAMES, DIMENSIONS, Dimension, dimension_of
from lmms_egoplan.benchmarks.egothink.report.answers import CAPABILITIES, SINGLE, Graded, judged_samples, read_graded
from lmms_egoplan.benchmarks.egothink.report.tables import DECIMALS, all_tables, judge_noise, note
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.report.benchmark import BenchmarkReport, Inputs, Judged, read_prepared, with_images
from lmms_egoplan.report.charts import draw_bars, spoken
from lmms_egoplan.report.compact_tables import Cell, compact_table, name_of, number, score_notes, scored, share
from lmms_egoplan.report.document import Figure, Images, Reference, ShownAnswer, Table, Verdict
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key, Mean, differing
from lmms_egoplan.report.statistics import stratified_interval

# What the figures show beside the runs: the best of Table 3.
_REFERENCE = "GPT-4V"
_PEOPLE = "people's rating"
_SAID = {0.0: "wrong", 0.5: "partly right", 1.0: "right"}
_VERDICTS: dict[float | None, Verdict] = {0.0: "wrong", 1.0: "right", None: "unscored"}


class EgoThinkReport(BenchmarkReport[Graded]):
    """EgoThink's part of a report."""

    NAME = "egothink"
    TITLE = "EgoThink"
    LEAD = note("lead")
    GROUP_ORDER: ClassVar = {"dimension": DIMENSION_NAMES, "capability": [*CAPABILITIES], _PEOPLE: [*_SAID.values()]}
    METRIC = "average"
    DECIMALS = DECIMALS
    MEASURE = "score"

    def read(self, runs: Sequence[Run]) -> list[Graded]:
        """Return each run's dimensions as one."""
        return [graded for run in runs if (graded := read_graded(run)) is not None]

    def reference(self) -> Reference:
        """Return the best score of Table 3."""
        return reference_of(load_table("egothink", "table3"), caveat=note("caveat"))

    def labels(self, _task: Graded, answer: Answer) -> Mapping[str, str]:
        """Return people's rating of the same answer."""
        rating = self._rated.get((answer.id, answer.record.answer))
        return {} if rating is None else {_PEOPLE: _SAID.get(rating, "between these")}

    @cached_property
    def _rated(self) -> dict[tuple[str, str], float]:
        return {(answer.id, answer.answer): answer.rating for answer in read_rated(self.labelled())}

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions."""
        scores: dict[str, list[float]] = {}
        for answer in answers:
            if (score := answer.scores["score"]) is not None:
                scores.setdefault(dimension_of(answer.id), []).append(score)
        strata = [*scores.values()]
        count = sum(map(len, strata))
        if not count:
            return Mean(questions=0, clusters=0)
        return Mean(fmean(map(fmean, strata)), stratified_interval(strata), count, count)

    @classmethod
    def judged_samples(cls, path: Path) -> Iterator[Judged]:
        """Yield the first judging of each answer."""
        return judged_samples(path)

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """Return how far a judge's ratings of the same answers differ."""
        return judge_noise(inputs.judged)

    def tables(self) -> Iterator[Table | None]:
        """Return the tables beside the published ones, by group, and of pairs of runs and judges."""
        return all_tables(self.tasks, read_rated(self.labelled()))

    def figures(self) -> Iterator[Figure]:
        """Yield bars of capabilities and dimensions, with a published model for comparison."""
        if self.tasks:
            yield self._bars("egothink_capability_bars", "Six capabilities", CAPABILITIES)
            yield self._bars("egothink_dimension_bars", "Twelve dimensions", SINGLE)

    def _bars(self, key: str, title: str, groups: Mapping[str, Sequence[Dimension]]) -> Figure:
        (reference,) = (row for row in load_table("egothink", "table3").rows if row["model"] == _REFERENCE)
        cells = {name: cell for name, cell in reference.items() if isinstance(cell, float)}
        published = [fmean(cells[dimension.name] for dimension in dimensions) for dimensions in groups.values()]
        means = {run.name: [run.part(dimensions).mean for dimensions in groups.values()] for run in self.tasks}
        draw = partial(draw_bars, list(groups), means, "score, 0 to 100", 100, (f"{_REFERENCE}, published", published))
        caption = note("bars_caption", reference=_REFERENCE)
        return Figure(key, title, caption, draw, spoken(list(groups), means, DECIMALS))

    def compact_table(self) -> Table:
        """Return each dimension's score, 0 to 100, and their average."""
        title, notes = "EgoThink: score, 0 to 100", score_notes(self.tasks)
        return compact_table("egothink_compact", title, self.tasks, lambda _: _MEASURES, notes, lambda _: "")

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort questions by dimension."""
        return sorted(keys, key=lambda key: DIMENSION_NAMES.index(dimension_of(str(key[0]))))

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared question; only lm-eval logs its text, and no harness its image."""
        question_id, reference = answers[0].id, key[1]
        logged = next((answer.doc.get("question") for answer in answers if answer.doc), None)
        text, images = self._prepared[0].get(key, (logged or f"{question_id}: the question is not at hand", None))
        dimension = BY_NAME[dimension_of(question_id)]
        return {
            "question": text,
            "facts": {"capability": dimension.capability, "dimension": dimension.name},
            "references": {"Reference answer": reference},
            "images": images,
        }

    def shown(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the judge's rating and words."""
        judged = answer.record
        told = [f"not judged: {judged.error}" if judged.rating is None else f"{judged.rating:g} of 1 by {judged.judge}"]
        told += ["cut off"] * bool(judged.truncated) + ["suspect"] * judged.suspect
        verdict = _VERDICTS.get(judged.rating, "partly")
        return ShownAnswer(verdict, judged.answer, rating="; ".join(told), judgement=judged.judgement)

    @cached_property
    def _prepared(self) -> tuple[dict[Key, tuple[str, Images]], dict[str, str]]:
        """Text and images of the prepared questions, and by dimension why they cannot be read."""
        prepared: dict[Key, tuple[str, Images]] = {}
        problems: dict[str, str] = {}
        for name in dict.fromkeys(dimension_of(x.id) for run in self.tasks for x in run.answers.values()):
            rows, problem = read_prepared(partial(_read_rows, name))
            prepared |= rows
            problems |= {name: problem} if problem else {}
        return prepared, problems

    def flaws(self, task: Graded) -> Iterator[str]:
        """Yield problems of dimensions, judges and samples."""
        whole, dimensions = task.whole, task.tasks.items()
        if missing := [name for name in DIMENSION_NAMES if name not in task.tasks]:
            yield note("no_average", dimensions=", ".join(missing))
        if unrated := [name for name, task_run in dimensions if task_run.number("score") is None]:
            yield note("no_score", dimensions=", ".join(unrated))
        if whole.judged < whole.questions:
            yield note("unjudged", count=whole.questions - whole.judged, questions=whole.questions)
        if task.is_by_demo:
            yield note("demo")
        if unlogged := [name for name, task_run in dimensions if task_run.samples is None]:
            yield note("no_samples", dimensions=", ".join(unlogged))
        if task.left_out:
            yield note("left_out", tasks=", ".join(task.left_out))

    def gaps(self) -> Iterator[str]:
        """Yield differences between judges, and questions that are not prepared."""
        if told := differing({run.name: run.judge for run in self.tasks}):
            yield note("different_judges", told=told)
        prepared, problems = self._prepared
        if problems:
            yield note("not_prepared", count=len(problems), problem=next(iter(problems.values())))
        if other := {key for key in self.asked - prepared.keys() if dimension_of(str(key[0])) not in problems}:
            yield note("others_prepared", count=len(other), example=min(other)[0])


def _score_cell(dimensions: Sequence[Dimension]) -> Cell:
    def cell(run: Graded) -> str:
        part = run.part(dimensions)
        is_there = len(dimensions) > 1 or dimensions[0].name in run.tasks
        return scored(part.mean.value, DECIMALS, part.coverage) if is_there else ""

    return cell


_MEASURES: dict[str, Cell] = {
    **{name: _score_cell(dimensions) for name, dimensions in SINGLE.items()},
    "average of the twelve": _score_cell(DIMENSIONS),
    "questions": lambda run: f"{number(run.whole.questions)} of {number(run.whole.official)}",
    "judged": lambda run: share(run.whole.judged / run.whole.questions if run.whole.questions else None),
    "truncated": lambda run: share(run.whole.truncated),
    "suspect": lambda run: share(run.whole.suspect),
    "judge": lambda run: name_of(run.judge),
}


def _read_rows(dimension: str) -> dict[Key, tuple[str, Images]]:
    rows = with_images(EGOTHINK.load(dimension), "image")
    return {(row["id"], row["answer"]): (row["question"], images) for row, images in rows}
