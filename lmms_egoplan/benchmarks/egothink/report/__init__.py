"""Build EgoThink's part of a report: twelve dimensions, six capabilities, judges and questions."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations, compress, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from lmms_egoplan.benchmarks.conditions import condition_figure, condition_table
from lmms_egoplan.benchmarks.egothink.agreement import coefficient_cells, pair_coefficients
from lmms_egoplan.benchmarks.egothink.answer_files import PEOPLE, RatedAnswer, read_repeated
from lmms_egoplan.benchmarks.egothink.dimensions import (
    BY_NAME,
    DIMENSION_NAMES,
    DIMENSIONS,
    Dimension,
    capability_of,
    dimension_of,
)
from lmms_egoplan.benchmarks.egothink.judge_protocol import LEVELS
from lmms_egoplan.benchmarks.egothink.metrics import noise_by_dimension
from lmms_egoplan.benchmarks.egothink.prepare import FORMATS, question_format
from lmms_egoplan.benchmarks.egothink.presets import PRESETS
from lmms_egoplan.benchmarks.egothink.report.answers import (
    CAPABILITIES,
    SINGLE,
    Graded,
    judged_samples,
    read_graded,
)
from lmms_egoplan.benchmarks.egothink.report.slopes import slope_rows
from lmms_egoplan.benchmarks.egothink.scoring import JudgedAnswer
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.judging.agreement import MIN_ITEMS, agreement
from lmms_egoplan.judging.correction import FEWEST_RATED, corrected
from lmms_egoplan.report.benchmark import (
    BenchmarkReport,
    Inputs,
    Judged,
    read_prepared,
    read_spec,
    with_images,
)
from lmms_egoplan.report.charts import draw_bars, draw_lines, spoken
from lmms_egoplan.report.document import Figure, Images, ShownAnswer, Verdict
from lmms_egoplan.report.models import model_facts
from lmms_egoplan.report.panels import panels_of
from lmms_egoplan.report.published import OwnRow, load_table
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.samples import read_labels
from lmms_egoplan.report.scores import Answer, Key, Mean, differing, in_percent
from lmms_egoplan.report.statistics import (
    RESAMPLES,
    Interval,
    interval_of_sums,
    stratified_interval,
    stratified_score_interval,
)
from lmms_egoplan.report.tables import Row, Table, Value, name_of, number, read_notes, scored, share

note = read_notes(
    __file__,
    resamples=RESAMPLES,
    min_items=MIN_ITEMS,
    official=sum(EGOTHINK.official.values()),
    fewest=FEWEST_RATED,
)
# Capabilities of Tables 9 to 11.
_BY_SEVERAL = ("object", "planning")
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


class EgoThinkReport(BenchmarkReport[Graded]):
    """EgoThink's part of a report."""

    SPEC = read_spec(
        __file__,
        "egothink",
        note,
        {
            "dimension": DIMENSION_NAMES,
            "capability": [*CAPABILITIES],
            _PEOPLE: [*_GRADES.values()],
            _FORMAT: FORMATS,
        },
    )

    def read(self, runs: Sequence[Run]) -> list[Graded]:
        """Return the dimensions of each run as one task, and those of each shortcut condition as
        another one.
        """
        return [graded for run in runs for graded in read_graded(run)]

    def summary_tasks(self) -> list[Graded]:
        """Add each run's capabilities."""
        return [*self.tasks, *(group for task in self.tasks for group in task.capabilities())]

    def labels(self, _task: Graded, answer: Answer) -> Mapping[str, str]:
        """Return the people's rating of the same answer."""
        rating = self._rated.get((answer.id, answer.record.answer))
        return {} if rating is None else {_PEOPLE: _GRADES.get(rating, "between these")}

    @cached_property
    def _people(self) -> list[RatedAnswer]:
        return read_labels(self.labelled(), PEOPLE, RatedAnswer, ("id", "model", "answer"))

    @cached_property
    def _rated(self) -> dict[tuple[str, str], float]:
        return {(answer.id, answer.answer): answer.rating for answer in self._people}

    def subset_means(self, task: Graded) -> dict[str, Mean]:
        """Return the average, the scores by capability, and those of planning by dimension."""
        groups = {"": task.dimensions, **CAPABILITIES, **SINGLE}
        return {subset: task.part(groups[name]).mean for subset, name in self.SPEC.subsets.items()}

    def mean_of_scores(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions."""
        return _mean_of_dimensions(answers, partial(stratified_score_interval, top=Graded.largest))

    def mean_of_differences(self, answers: Sequence[Answer]) -> Mean:
        """Return the plain mean over the answers' dimensions, for differences."""
        return _mean_of_dimensions(answers, stratified_interval)

    @classmethod
    def judged_samples(cls, path: Path) -> Iterator[Judged]:
        """Yield the first judgement of each answer."""
        return judged_samples(path)

    @classmethod
    def inputs_table(cls, inputs: Inputs) -> Table | None:
        """Return the table of judge noise, or None without repeated judgements."""
        rows, spec = tuple(_noise_rows(inputs.judged)), cls.SPEC.tables["judge_noise"]
        notes = tuple(map(note, spec.notes))
        table = Table(
            "egothink_judge_noise", spec.title, spec.columns, rows, "lmms-egoplan judge", notes
        )
        return table if rows else None

    def tables(self) -> Iterator[Table | None]:
        """Yield tables with published scores, scores by group, and pairs of judges and runs."""
        yield self.published("table3", list(_table3_rows(self.tasks)))
        yield self.published("table2", self._models)
        yield self.table("capabilities", _score_rows(self.tasks, CAPABILITIES))
        yield self.table("dimensions", _score_rows(self.tasks, SINGLE))
        yield self.table("formats", self._format_rows())
        yield self.table("judge_means", self._judge_means)
        yield self.table("judges", _judge_rows(self.tasks))
        yield self.table("corrected", _correction_rows(self._people, self.tasks))
        yield self.pairs(self.tasks)
        yield condition_table(self)
        yield self.published("table9", list(_table9_rows(self._rated, self.tasks)))
        yield self.published("table10", list(_table10_rows(self._people)))
        yield self.published("table11")

    def figures(self) -> Iterator[Figure | None]:
        """Yield bar charts of capabilities and dimensions, with a published model for comparison."""
        if self.tasks:
            yield self._bars("egothink_capability_bars", "Six capabilities", CAPABILITIES)
            yield self._bars("egothink_dimension_bars", "Twelve dimensions", SINGLE)
            yield self._sizes()
        yield from self._judge_bars()
        yield condition_figure(self)

    def _bars(self, key: str, title: str, groups: Mapping[str, Sequence[Dimension]]) -> Figure:
        (reference,) = (
            row for row in load_table("egothink", "table3").rows if row["model"] == _REFERENCE
        )
        cells = {name: cell for name, cell in reference.items() if isinstance(cell, float)}
        published = [
            fmean(cells[dimension.name] for dimension in dimensions)
            for dimensions in groups.values()
        ]
        means = {
            run.name: [run.part(dimensions).mean for dimensions in groups.values()]
            for run in self.tasks
        }
        draw = partial(
            draw_bars,
            list(groups),
            means,
            note("score"),
            100,
            (f"{_REFERENCE}, published", published),
        )
        return Figure(
            key,
            title,
            note("bars_caption", reference=_REFERENCE),
            draw,
            spoken(list(groups), means, 1),
        )

    @cached_property
    def _models(self) -> list[dict[str, Value]]:
        """Rows of Table 2, one per run."""
        facts = (
            (run, model_facts(run.run, [task.task for task in run.tasks.values()]))
            for run in self.tasks
        )
        return [
            {"model": run.name, **row, **run.main.cells("average", "average_")}
            for run, row in facts
        ]

    def _sizes(self) -> Figure | None:
        """Draw the scores of families of models by size and tuning; None without a family with two
        of these.
        """
        lines: dict[str, dict[float, Mean]] = {}
        for run, row in zip(self.tasks, self._models, strict=True):
            if run.main.value is not None and (
                size := row["named_billions"] or row["total_billions"]
            ):
                line = f"{row['family']}, judge {name_of(run.judge)}, tuning: {row['tuned']}"
                lines.setdefault(line, {}).setdefault(float(f"{size:.2g}"), run.main)
        kinds = Counter(line.rpartition(",")[0] for line, points in lines.items() for _ in points)
        sizes = sorted({size for points in lines.values() for size in points})
        means = {
            line: [points.get(size, Mean()) for size in sizes] for line, points in lines.items()
        }
        labels = [f"{size:g}" for size in sizes]
        draw = partial(draw_lines, labels, means, note("sizes_y"), note("sizes_x"), 100)
        figure = Figure(
            "egothink_sizes", note("sizes_title"), note("sizes"), draw, spoken(labels, means, 1)
        )
        return figure if max(kinds.values(), default=0) > 1 else None

    def _format_rows(self) -> Iterator[dict[str, Value]]:
        """Compare yes-or-no and what-questions of each run, within all dimensions and within each
        that has both.
        """
        for run in self.tasks:
            facts = [self.questions[key]["facts"] for key in run.judged]
            names, kinds = (
                np.array([x.get(name, "") for x in facts]) for name in ("dimension", _FORMAT)
            )
            groups = np.where(
                np.isin(kinds, FORMATS[:2]), names, ""
            )  # the group "" has no what-questions
            rows = slope_rows(
                kinds == FORMATS[1], 100 * np.array(_ratings([*run.judged.values()])), groups
            )
            for scope in ("all", *DIMENSION_NAMES):
                is_in_scope = (names == scope) | (scope == "all")
                if len(used := rows[is_in_scope & (rows[:, 2] > 0)]):
                    interval = interval_of_sums(
                        used, np.arange(len(used)), lambda sums: sums[..., 0] / sums[..., 1]
                    )
                    row: dict[str, Value] = {
                        "model": run.name,
                        "dimensions": scope,
                        "questions": len(used),
                    }
                    row |= Mean(used[:, 0].sum() / used[:, 1].sum(), interval).cells("difference")
                    yield row | {"left_out": int(is_in_scope.sum()) - len(used)}

    @cached_property
    def _judge_means(self) -> list[dict[str, Any]]:
        """Rows with the ``mean`` of each evaluator over the answers of a run that all its
        evaluators rated.

        Evaluators are the judges of a panel, and people if they rated at least `MIN_ITEMS` of its
        answers.
        """
        means = []
        for panel in panels_of(self.tasks):
            answers = [panel.runs[0].answers[key] for key, _ in panel.parts]
            people = np.array([self._rated.get((x.id, x.record.answer), np.nan) for x in answers])
            ratings = {
                run.judge: of_run for run, of_run in zip(panel.runs, panel.ratings.T, strict=True)
            }
            ratings |= {"people": 100 * people} if np.isfinite(people).sum() >= MIN_ITEMS else {}
            is_rated = np.all(np.isfinite([*ratings.values()]), axis=0)
            for name, capability in product(ratings, CAPABILITIES):
                rows = compress(zip(answers, ratings[name], strict=True), is_rated.tolist())
                part = [
                    replace(x, scores={"score": score})
                    for x, score in rows
                    if capability_of(x.id) == capability
                ]
                row = {
                    "model": panel.runs[0].name,
                    "evaluator": name,
                    "group": capability,
                    "answers": len(part),
                }
                mean = self.mean_of_scores(part)
                means += [row | {"mean": mean} | mean.cells("score")] if part else []
        return means

    def _judge_bars(self) -> Iterator[Figure]:
        """Draw the means by judge of each run's answers."""
        for index, run in enumerate(dict.fromkeys(row["model"] for row in self._judge_means), 1):
            rows = [row for row in self._judge_means if row["model"] == run]
            labels = [*dict.fromkeys(f"{row['group']}\n{row['answers']} answers" for row in rows)]
            means = {
                x["evaluator"]: [y["mean"] for y in rows if y["evaluator"] == x["evaluator"]]
                for x in rows
            }
            draw, title = (
                partial(draw_bars, labels, means, note("score"), 100),
                note("by_judge", run=run),
            )
            yield Figure(
                f"egothink_judges_{index}", title, note("bars"), draw, spoken(labels, means, 1)
            )

    def heading(self, _task: Graded) -> str:
        """Return "", because a run has only one block."""
        return ""

    def cells(self, task: Graded, _block: Sequence[Graded], /) -> dict[str, str]:
        """Return each dimension's score, 0 to 100, and their average."""
        whole = task.whole
        asked = {name: part for name, part in SINGLE.items() if name in task.tasks}
        parts = {name: task.part(part) for name, part in asked.items()} | {
            self.SPEC.compact_main: whole
        }
        return {
            **dict.fromkeys(SINGLE, ""),
            **{
                name: scored(part.mean.value, self.SPEC.decimals, part.coverage)
                for name, part in parts.items()
            },
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
        """Return the prepared question, or the text that lm-eval logged. No harness logs the image."""
        question_id, reference = answers[0].id, key[1]
        logged = next((answer.doc.get("question") for answer in answers if answer.doc), None)
        text, images = self._prepared[0].get(
            key, (logged or f"{question_id}: text not available", None)
        )
        dimension = BY_NAME[dimension_of(question_id)]
        asked_as = (
            {_FORMAT: question_format(text, str(reference))}
            if logged or key in self._prepared[0]
            else {}
        )
        facts = {"capability": dimension.capability, "dimension": dimension.name} | asked_as
        return {
            "question": text,
            "facts": facts,
            "references": {"Reference answer": reference},
            "images": images,
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer with the judge's rating and reply."""
        judged = answer.record
        tags = [
            f"not judged: {judged.error}"
            if judged.rating is None
            else f"{judged.rating:g} of 1 by {judged.judge}"
        ]
        tags += ["cut off"] * bool(judged.truncated) + ["suspect"] * judged.suspect
        verdict = _VERDICTS.get(judged.rating, "partly")
        return ShownAnswer(
            verdict, judged.answer, rating="; ".join(tags), judgement=judged.judgement
        )

    @cached_property
    def _prepared(self) -> tuple[dict[Key, tuple[str, Images]], dict[str, str]]:
        """Texts and images of the prepared questions, and the error of each unreadable dimension."""
        prepared: dict[Key, tuple[str, Images]] = {}
        problems: dict[str, str] = {}
        for name in dict.fromkeys(
            dimension_of(x.id) for run in self.tasks for x in run.answers.values()
        ):
            rows, problem = read_prepared(partial(_read_rows, name))
            prepared |= rows
            problems |= {name: problem} if problem else {}
        return prepared, problems

    def flaws(self, task: Graded) -> Iterator[str]:
        """Yield the problems of dimensions, judges and samples."""
        whole, dimensions = task.whole, task.tasks.items()
        if missing := [name for name in DIMENSION_NAMES if name not in task.tasks]:
            yield note("no_average", dimensions=", ".join(missing))
        if unrated := [name for name, task_run in dimensions if task_run.number("score") is None]:
            yield note("no_score", dimensions=", ".join(unrated))
        if whole.judged < whole.questions:
            kind = "failed" if task.inexact else "unjudged"
            yield note(kind, count=whole.questions - whole.judged, questions=whole.questions)
        if task.is_by_demo:
            yield note("demo")
        if unlogged := [name for name, task_run in dimensions if task_run.samples is None]:
            yield note("no_samples", dimensions=", ".join(unlogged))
        if (
            preset := PRESETS.get((task.task_run.version or "").partition("+")[2])
        ) and preset.unknown:
            yield note("unknown_fields", fields=", ".join(preset.unknown).replace("_", " "))
        if task.left_out:
            yield note("left_out", tasks=", ".join(task.left_out))

    def gaps(self) -> Iterator[str]:
        """Yield notes on different judges and on questions that are not prepared."""
        if judges := differing({run.name: run.judge for run in self.tasks}):
            yield note("different_judges", judges=judges)
        prepared, problems = self._prepared
        if problems:
            yield note("not_prepared", count=len(problems), problem=next(iter(problems.values())))
        unknown = {
            key
            for key in self.answers.keys() - prepared.keys()
            if dimension_of(str(key[0])) not in problems
        }
        if unknown:
            yield note("others_prepared", count=len(unknown), example=min(unknown)[0])


def _read_rows(dimension: str) -> dict[Key, tuple[str, Images]]:
    rows = with_images(EGOTHINK.load(dimension), "image")
    return {(row["id"], row["answer"]): (row["question"], images) for row, images in rows}


def _mean_of_dimensions(
    answers: Sequence[Answer], interval_of: Callable[[Sequence[Sequence[float]]], Interval]
) -> Mean:
    scores: dict[str, list[float]] = {}
    for answer in answers:
        if (score := answer.scores["score"]) is not None:
            scores.setdefault(dimension_of(answer.id), []).append(score)
    strata = [*scores.values()]
    count = sum(map(len, strata))
    if not count:
        return Mean(questions=0, clusters=0)
    return Mean(fmean(map(fmean, strata)), interval_of(strata), count, count)


def _table3_rows(graded: Sequence[Graded]) -> Iterator[OwnRow]:
    """Yield the dimensions' scores of each run for Table 3."""
    for run in graded:
        values = run.whole.values()
        row = {
            "model": run.name,
            "average": values.pop("score"),
            "apart": "; ".join(run.objections),
        }
        yield (
            row | {name: task_run.number("score") for name, task_run in run.tasks.items()} | values
        )


def _score_rows(
    graded: Sequence[Graded], groups: Mapping[str, Sequence[Dimension]]
) -> list[dict[str, Value]]:
    """Return the scores of each run in each group of dimensions."""
    parts = [
        (group, run.name, run.part(dimensions))
        for group, dimensions in groups.items()
        for run in graded
    ]
    return [
        part.values() | {"group": group, "model": name}
        for group, name, part in parts
        if part.questions
    ]


def _judge_rows(graded: Sequence[Graded]) -> Iterator[dict[str, Value]]:
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
            yield from (
                {**row, "first": first.name, "second": second.name} for row in _agreements(same)
            )


def _agreements(pairs: Sequence[tuple[JudgedAnswer, JudgedAnswer]]) -> Iterator[dict[str, Value]]:
    scopes = {"all": tuple(CAPABILITIES), " and ".join(_BY_SEVERAL): _BY_SEVERAL}
    for scope, names in (scopes | {name: (name,) for name in CAPABILITIES}).items():
        if scope_pairs := [pair for pair in pairs if capability_of(pair[0].id) in names]:
            first, second = zip(*scope_pairs, strict=True)
            ratings = _ratings(first), _ratings(second)
            is_on_levels = {*ratings[0], *ratings[1]} <= {
                *LEVELS
            }  # published protocols also read others
            result = agreement(*ratings, LEVELS if is_on_levels else None)
            judges: dict[str, Value] = {
                "first_judge": _judge_names(first),
                "second_judge": _judge_names(second),
            }
            coefficients = coefficient_cells(pair_coefficients(result))
            yield {**judges, "answers": scope, "questions": result.questions, **coefficients}


def _table9_rows(
    people: Mapping[tuple[str, str], float], graded: Sequence[Graded]
) -> Iterator[OwnRow]:
    """Yield Pearson's r between the people and the judge of each run, over the same answers."""
    for run in graded:
        rated = [record for record in run.judged.values() if (record.id, record.answer) in people]
        if records := [record for record in rated if capability_of(record.id) in _BY_SEVERAL]:
            ratings = [people[record.id, record.answer] for record in records]
            pearson = coefficient_cells(
                {"own": agreement(ratings, _ratings(records), None).pearson}
            )
            too_few = (
                [f"fewer than {MIN_ITEMS} answers, so no coefficient"]
                if len(records) < MIN_ITEMS
                else []
            )
            cells: dict[str, Value] = {
                "evaluator": f"Human ({run.name})",
                "judge": _judge_names(records),
            }
            cells |= {
                name: in_percent(number) for name, number in pearson.items() if number is not None
            }
            yield cells | {"answers": len(records), "apart": "; ".join((_OTHER_ANSWERS, *too_few))}


def _table10_rows(rated: Sequence[RatedAnswer]) -> Iterator[OwnRow]:
    """Yield the people's mean grades of each model, for the dimensions of object and planning."""
    for model in dict.fromkeys(answer.model for answer in rated):
        answers = [answer for answer in rated if answer.model == model]
        row: dict[str, Value] = {"grading_methods": f"People, {model}", "apart": _OTHER_ANSWERS}
        for dimension in DIMENSIONS:
            ratings = [
                answer.rating for answer in answers if dimension_of(answer.id) == dimension.name
            ]
            if dimension.capability in _BY_SEVERAL and ratings:
                row[f"{dimension.capability}_{dimension.name}"] = 100 * fmean(ratings)
        yield row | {"answers": len(answers)}


def _correction_rows(
    people: Sequence[RatedAnswer], graded: Sequence[Graded]
) -> Iterator[dict[str, Value]]:
    """Yield the score of each run, corrected by people's ratings of a sample of its answers, or why
    it is not.
    """
    for run, model in product(graded, dict.fromkeys(answer.model for answer in people)):
        sample = {(answer.id, answer.answer): answer for answer in people if answer.model == model}
        records = [answer.record for answer in run.answers.values()]
        rated = [sample.get((record.id, record.answer)) for record in records]
        judge = [record.rating for record in records]
        matched, asked, judged = len(rated) - rated.count(None), len(records), len(run.judged)
        if matched < _SAME_ANSWERS * len(sample):
            continue
        (planned, chance), *mixed = {
            (answer.planned, answer.probability) for answer in sample.values()
        }
        frame = (
            round(planned / chance)
            if planned and chance and not mixed and len(sample) <= planned
            else 0
        )
        both = sum(None not in pair for pair in zip(rated, judge, strict=True))
        remarks = {
            "sample_unknown": not frame,
            "sample_matched": matched < len(sample),
            "sample_frame": frame not in (0, asked),
            "sample_small": both < FEWEST_RATED,
            "sample_unrated": len(sample) < _MOSTLY_RATED * (planned or 0),
            "sample_unjudged": judged < asked,
        }
        facts = {
            "matched": matched,
            "rated": len(sample),
            "planned": planned,
            "frame": frame,
            "asked": asked,
        }
        texts = [
            note(x, both=both, unjudged=asked - judged, **facts)
            for x, applies in remarks.items()
            if applies
        ]
        sampled = f"{both} of {planned or len(sample)}"
        cells: dict[str, Value] = {
            "model": run.name,
            "labels": model,
            "sampled": sampled,
            "of": judged,
        }
        if both >= MIN_ITEMS and matched == len(sample) and frame == asked:
            sizes = Counter(dimension_of(record.id) for record in run.judged.values())
            is_whole = len(sizes) == len(DIMENSIONS)
            weights = [1 / sizes[dimension_of(record.id)] if is_whole else 1 for record in records]
            ratings, chances = (
                [getattr(x, name, None) for x in rated] for name in ("rating", "probability")
            )
            result = corrected(judge, ratings, chances, weights)
            means = {"people": result.people, "corrected": result.corrected, "error": result.error}
            cells |= {
                x: in_percent(value)
                for x, value in ({"raw": result.raw} | coefficient_cells(means)).items()
            }
            cells |= {"tuning": result.tuning, "correlation": result.correlation}
            cells["mean"] = "dimensions" if is_whole else "answers"
        yield cells | {"remarks": " ".join(texts)}


def _noise_rows(judged: Sequence[Path]) -> Iterator[Row]:
    """Yield the spread of ratings and scores in files of repeated judgements.

    Raises:
        LmmsEgoplanError: A file is unreadable or malformed.
    """
    stems = Counter(path.stem for path in judged)
    for path in judged:
        ratings, judges = read_repeated(path)
        name, repeats = (
            path.stem if stems[path.stem] == 1 else str(path),
            len(next(iter(ratings.values()))),
        )
        for scope, noise in noise_by_dimension(ratings, EGOTHINK.official).items():
            spread = (min(noise.scores, default=None), max(noise.scores, default=None))
            rating_sd = None if noise.rating_sd is None else noise.rating_sd / 100
            numbers = (noise.score, noise.score_sd, *spread, in_percent(noise.changed), rating_sd)
            yield Row(
                (name, judges, scope, repeats, noise.answers, noise.left_out, *numbers), is_own=True
            )


def _ratings(records: Sequence[JudgedAnswer]) -> list[float]:
    return [record.rating for record in records if record.rating is not None]


def _judge_names(records: Sequence[JudgedAnswer]) -> str:
    return ", ".join(sorted({record.judge or "" for record in records}))
