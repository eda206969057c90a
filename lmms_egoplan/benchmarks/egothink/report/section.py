"""EgoThink's part of the report, put together."""

from collections.abc import Sequence

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.published import load
from lmms_egoplan.benchmarks.egothink.report.answers import graded_runs
from lmms_egoplan.benchmarks.egothink.report.figures import bars
from lmms_egoplan.benchmarks.egothink.report.judges import judges
from lmms_egoplan.benchmarks.egothink.report.remarks import remarks
from lmms_egoplan.benchmarks.egothink.report.scores import CAPABILITIES, DECIMALS, SINGLE, part_of
from lmms_egoplan.benchmarks.egothink.report.tables import comparison_table, score_table, table3
from lmms_egoplan.report.benchmark import NO_INPUTS, Inputs
from lmms_egoplan.report.document import Headline, Section
from lmms_egoplan.report.published_with_runs import published_with_runs
from lmms_egoplan.report.run import Run


def section(runs: Sequence[Run], inputs: Inputs = NO_INPUTS) -> Section | None:
    """The benchmark's part of the report; None where no run has one of its tasks.

    Raises:
        LmmsEgoplanError: a sample is not of the form that the tasks log.
    """
    graded = graded_runs(runs)
    if not graded:
        return None
    whole = {run.name: part_of(run, DIMENSIONS) for run in graded}
    tables = [
        table3(graded, whole),
        score_table("egothink_capabilities", "Scores by capability", "Capability", graded, CAPABILITIES),
        score_table("egothink_dimensions", "Scores by dimension", "Dimension", graded, SINGLE),
        judges(graded),
        comparison_table(graded),
        *(
            published_with_runs(title, load(f"table{number}"), ())
            for number, title in (
                (9, "Published: Pearson's r between judges, times 100"),
                (10, "Published: people's grades of GPT-4V"),
                (11, "Published: grades by two other judges"),
            )
        ),
    ]
    return Section(
        "egothink",
        "EgoThink",
        "700 open questions in the first person about single images, in six capabilities and twelve dimensions. A "
        "judge model compares each answer with a person's and rates it 0, 0.5 or 1; scores are 100 times the mean.",
        tuple(
            Headline(
                name, "EgoThink", "egothink_bench", "average", part.score, DECIMALS, part.interval, part.judged,
                part.judged / part.official, part.truncated,
            )
            for name, part in whole.items()
        ),
        tuple(table for table in tables if table is not None),
        (
            bars("egothink_capability_bars", "Six capabilities", graded, CAPABILITIES),
            bars("egothink_dimension_bars", "Twelve dimensions", graded, SINGLE),
        ),
        tuple(remarks(graded, whole)),
    )  # fmt: skip
