"""The ``lmms-egoplan`` command."""

from typing import Annotated

import typer

from lmms_egoplan import __version__
from lmms_egoplan.cli import (
    agreement,
    data,
    demo,
    evaluate,
    heatmap,
    judge,
    metrics_path,
    report,
    score,
    show,
    submit,
    tasks_path,
    train,
)
from lmms_egoplan.harnesses.lm_eval import command as lm_eval

app = typer.Typer(
    name="lmms-egoplan",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"lmms-egoplan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Egocentric planning benchmarks for lmms-eval and lm-eval.

    Runs themselves are started with `lmms-eval` or with `lmms-egoplan lm-eval`.

    Example: `lmms-egoplan demo` runs everything on small rendered sets; `lmms-egoplan show runs` prints the scores of
    runs
    """


app.command("demo")(demo.demo)
app.command("tasks-path")(tasks_path.tasks_path)
app.command("metrics-path")(metrics_path.metrics_path)
app.command(
    "lm-eval",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(lm_eval.lm_eval)
app.command("show")(show.show)
app.command("report")(report.report)
app.add_typer(data.app, name="data")
app.add_typer(submit.app, name="submit")
app.add_typer(judge.app, name="judge")
app.command("agreement")(agreement.agreement)
app.add_typer(heatmap.app, name="heatmap")
app.add_typer(score.app, name="score")
app.add_typer(train.app, name="train")
app.add_typer(evaluate.app, name="evaluate")
