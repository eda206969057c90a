"""``lmms-egoplan agreement``: how far judges and people agree."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from lmms_egoplan.judging.agreement import Agreement, Estimate

_OVERALL = "overall"
_COLUMNS = (
    "first", "second", "dimension", "questions",
    "pearson", "pearson_low", "pearson_high", "kappa", "kappa_low", "kappa_high", "undefined_resamples",
)  # fmt: skip

_Rows = Sequence[tuple[str, str, str, "Agreement"]]


def agreement(
    judged: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files that `lmms-egoplan judge` wrote, sample files of lmms-eval, or folders with those. Each is one "
            "judge; all have judged the same answers.",
            show_default=False,
        ),
    ] = None,
    human: Annotated[
        Path | None,
        typer.Option(help="CSV with a column id and one for each human rater: 0, 0.5, 1, or empty where not rated."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The table as CSV.")] = None,
) -> None:
    """Compare ratings of EgoThink's answers: Pearson's r and Cohen's kappa (linear weights) of every pair of raters.

    Over the questions that all raters have rated, per dimension and overall, with 95 % bootstrap intervals. All are
    fractions from -1 to 1; the paper's Table 9 prints Pearson's r times 100. Where a rater's ratings are all equal
    there is no number.

    Example: `lmms-egoplan agreement gpt-4o.jsonl qwen.jsonl --human annotators.csv --out agreement.csv`
    """
    from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
    from lmms_egoplan.benchmarks.egothink.ratings import LEVELS, read_raters
    from lmms_egoplan.benchmarks.egothink.stored import StoredError, dimension_of
    from lmms_egoplan.judging.agreement import pairwise, rated_by_all
    from lmms_egoplan.storage import write_whole

    paths = judged or []
    if len({path.resolve() for path in paths}) < len(paths):
        raise typer.BadParameter("the same file twice")
    try:
        raters = read_raters(paths, human)
        if len(raters) < 2:
            raise typer.BadParameter(f"needs at least two raters, got {len(raters)}")
        common = rated_by_all(raters)
        _print_counts(raters, len(common))
        if not common:
            raise StoredError("there is no question that all of them have rated")
        by_dimension = {
            dimension.name: [question for question in common if dimension_of(question) == dimension.name]
            for dimension in DIMENSIONS
        }
        groups = {name: questions for name, questions in by_dimension.items() if questions} | {_OVERALL: common}
        rows = [
            (first, second, name, found)
            for name, questions in groups.items()
            for first, second, found in pairwise(raters, questions, LEVELS)
        ]
        if out is not None:
            write_whole(out, _csv(rows))
        _print_tables(rows)
        if out is not None:
            typer.echo(f"Written to {out}")
    except (StoredError, OSError) as error:
        typer.echo(f"lmms-egoplan: {error}", err=True)
        raise typer.Exit(1) from None


def _print_counts(raters: Mapping[str, Mapping[str, float | None]], compared: int) -> None:
    from lmms_egoplan.judging.agreement import gaps

    total = len({question for rated in raters.values() for question in rated})
    typer.echo(f"Compared: {compared} of {total} questions. Left out: {total - compared}")
    for rater, (absent, unrated) in gaps(raters).items():
        if absent or unrated:
            typer.echo(f"  {rater}: {absent} not in the file, {unrated} without a rating")


def _print_tables(rows: _Rows) -> None:
    from lmms_egoplan.judging.agreement import RESAMPLES

    undefined = False
    for pair in dict.fromkeys((first, second) for first, second, _, _ in rows):
        table = Table("dimension", "questions", "Pearson's r", "kappa", title=escape(" and ".join(pair)))
        for *raters, name, found in rows:
            if (*raters,) == pair:
                mark = f" *{found.undefined_resamples}" if found.undefined_resamples else ""
                undefined |= bool(mark)
                table.add_row(name, f"{found.questions}{mark}", _shown(found.pearson), _shown(found.kappa))
        Console().print(table)
    if undefined:
        typer.echo(f"* resamples, of {RESAMPLES}, that the intervals leave out: a rater's ratings are all equal")


def _shown(estimate: "Estimate | None") -> str:
    return "n/a" if estimate is None else f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def _csv(rows: _Rows) -> str:
    from lmms_egoplan.text import csv_text

    lines: list[Sequence[Any]] = [_COLUMNS]
    for first, second, name, found in rows:
        estimates = [
            number
            for estimate in (found.pearson, found.kappa)
            for number in ((estimate.value, estimate.low, estimate.high) if estimate else ("n/a",) * 3)
        ]
        lines.append([first, second, name, found.questions, *estimates, found.undefined_resamples])
    return csv_text(lines)
