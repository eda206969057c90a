"""The benchmark's part of the report."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from lmms_egoplan.benchmarks.egoplan.published import load
from lmms_egoplan.benchmarks.egoplan.report.answers import find_docs
from lmms_egoplan.benchmarks.egoplan.report.figures import accuracies_figure, lines_figure
from lmms_egoplan.benchmarks.egoplan.report.groups import BIN_NAMES, bin_of, group_series, similarity_levels
from lmms_egoplan.benchmarks.egoplan.report.official import official_coverage
from lmms_egoplan.benchmarks.egoplan.report.pairs import pairs
from lmms_egoplan.benchmarks.egoplan.report.remarks import remarks
from lmms_egoplan.benchmarks.egoplan.report.series import CHANCE, DECIMALS, Series, read_series
from lmms_egoplan.benchmarks.egoplan.report.similarity import LEVELS
from lmms_egoplan.benchmarks.egoplan.report.tables import grouped_table, scores_table, table1, table3
from lmms_egoplan.report.benchmark import NO_INPUTS, Inputs
from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.run import Run


def section(runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> Section | None:
    """The benchmark's part of the report; None where no run has one of its tasks.

    Args:
        inputs: ``similarity`` is the encoder for the similarity of goal and answer, see `similarities`.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the tasks log, or the encoder cannot be loaded.
    """
    series = read_series(runs)
    if not series:
        return None
    docs, problem = find_docs(each.answers or {} for each in series)
    lengths = {key: bin_of(doc) for key, doc in docs.items()}
    alike, caption, unlike = similarity_levels(docs, inputs.similarity)
    past = group_series(series, lengths, BIN_NAMES)
    similar = group_series(series, alike, LEVELS)
    tables = [
        table1(series),
        table3(series),
        scores_table(series),
        past and grouped_table("egoplan_past_actions", "Accuracy by number of past actions", "Past actions", past),
        similar
        and grouped_table("egoplan_similarity", "Accuracy by goal-answer similarity", "Similarity", similar, caption),
        *pairs(series),
        published_with_runs(
            "Published: the test split",
            load("table4"),
            (),
            notes=("Its answers are private: runs of egoplan_test have predictions and no score.",),
        ),
    ]
    figures = [
        accuracies_figure(series),
        past
        and lines_figure(
            "egoplan_past_actions",
            "Accuracy by number of past actions",
            "number of past actions",
            past,
            "As Fig. 8 of the paper; the bins are the project's, since its text does not tell the figure's.",
        ),
        similar
        and lines_figure(
            "egoplan_similarity",
            "Accuracy by goal-answer similarity",
            "similarity of goal and right answer",
            similar,
            f"As Fig. 7 of the paper: three levels of the {caption}. That they are equal is the project's choice"
            + (", and the paper takes BERTScore." if inputs.similarity is None else "."),
        ),
    ]
    return Section(
        "egoplan",
        "EgoPlan",
        "Which of four actions comes next, given a goal and a first-person video of the progress so far? The choices "
        "are ranked by the likelihood that the model gives them; the score is the share of right ones.",
        tuple(_headlines(series)),
        tuple(table for table in tables if table),
        tuple(figure for figure in figures if figure),
        tuple(remarks(series, docs, problem, unlike)),
    )


def _headlines(series: Sequence[Series]) -> Iterator[Headline]:
    """Of each run its main task, or what it has instead."""
    for _, own in groupby(series, key=lambda each: each.run.name):
        each = next(own)
        yield Headline(
            run=each.run.name,
            benchmark="EgoPlan",
            task=each.task_run.task,
            metric="accuracy",
            value=each.percent("acc"),
            decimals=DECIMALS,
            interval=each.interval(),
            questions=each.questions,
            coverage=official_coverage(each),
            is_generated=not each.is_ranked,
            chance=CHANCE,
            beside=(("by sum", each.percent("acc_sum")),) if each.is_ranked else (),
        )
