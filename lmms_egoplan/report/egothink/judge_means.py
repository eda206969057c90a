"""Compare judges by their means of the same answers (Fig. 18 of EgoThink's paper)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from lmms_egoplan.benchmarks.egothink.dimensions import capability_of
from lmms_egoplan.report.charts import looks_of
from lmms_egoplan.report.document import Figure
from lmms_egoplan.report.egothink.answers import CAPABILITIES, EgoThinkTask
from lmms_egoplan.report.egothink.figures import SCORE_LABEL
from lmms_egoplan.report.egothink.means import mean_of_scores
from lmms_egoplan.report.egothink.notes import INTERVAL_NOTE
from lmms_egoplan.report.panels import Panel, panels_of
from lmms_egoplan.report.plots import draw_points, spoken
from lmms_egoplan.report.scores import Answer
from lmms_egoplan.report.tables import Column, Table, Value, interval_columns, table_of_runs
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.stats.means import Mean


@dataclass(frozen=True)
class JudgeMean:
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


def judge_means(
    graded: Sequence[EgoThinkTask], people: Mapping[tuple[str, str], float]
) -> list[JudgeMean]:
    """Average each evaluator's ratings of the answers that all evaluators of a run rated.

    Evaluators are the judges of a panel, and people if they rated at least `MIN_ITEMS` of its
    answers.

    Args:
        graded: The runs.
        people: People's ratings by id and answer.
    """
    means: list[JudgeMean] = []
    for panel in panels_of(graded):
        run = panel.runs[0]
        answers = [run.answers[key] for key, _ in panel.parts]
        ratings = _ratings_by_evaluator(panel, answers, people)
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
                    mean = mean_of_scores(part)
                    means.append(JudgeMean(run.name, evaluator, capability, len(part), mean))
    return means


def _ratings_by_evaluator(
    panel: Panel, answers: Sequence[Answer], people: Mapping[tuple[str, str], float]
) -> dict[str, np.ndarray]:
    """Return the ratings of a panel's answers, 0 to 100, by judge and by people."""
    ratings: dict[str, np.ndarray] = {}
    for run, judge_ratings in zip(panel.runs, panel.ratings.T, strict=True):
        ratings[run.judge] = judge_ratings
    people_ratings = np.array(
        [people.get((answer.id, answer.record.answer), np.nan) for answer in answers]
    )
    if np.isfinite(people_ratings).sum() >= MIN_ITEMS:
        ratings["people"] = 100 * people_ratings
    return ratings


def judge_means_table(judge_means: Sequence[JudgeMean]) -> Table:
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
        INTERVAL_NOTE,
    ]
    rows: list[dict[str, Value]] = []
    for judge_mean in judge_means:
        row: dict[str, Value] = {
            "model": judge_mean.run,
            "evaluator": judge_mean.evaluator,
            "group": judge_mean.capability,
            "answers": judge_mean.answers,
        }
        rows.append({**row, **judge_mean.mean.cells("score")})
    title = "Means of the same answers by judge"
    return table_of_runs("egothink_judge_means", title, columns, rows, notes)


def judge_figures(judge_means: Sequence[JudgeMean], models: Sequence[str]) -> Iterator[Figure]:
    """Draw the means by judge of each run's answers.

    Args:
        judge_means: The means.
        models: Names of all runs of the report.
    """
    for index, run in enumerate(dict.fromkeys(row.run for row in judge_means), 1):
        labels: dict[str, None] = {}
        means: dict[str, list[Mean]] = {}
        for row in judge_means:
            if row.run == run:
                labels[row.capability] = None
                means.setdefault(row.evaluator, []).append(row.mean)
        looks = looks_of(dict.fromkeys(means, run), models)
        yield Figure(
            f"egothink_judges_{index}",
            f"Means by judge of the same answers, like Fig. 18 of the paper: {run}",
            (
                "With 95 % intervals over the questions. Below the "
                "capabilities: number of answers that all evaluators rated. All points have the "
                "colour of the run whose answers were rated."
            ),
            partial(draw_points, [*labels], means, looks, SCORE_LABEL, 100),
            spoken([*labels], means, 1),
        )
