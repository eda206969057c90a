"""The ``lmms-egoplan`` command."""

from typing import Annotated

import typer

from lmms_egoplan import __version__
from lmms_egoplan.cli import annotate, data, demo, plan, report, show, tasks_path
from lmms_egoplan.cli.errors import TellingErrors
from lmms_egoplan.cli.groups import add_benchmarks
from lmms_egoplan.harnesses.lm_eval import command as lm_eval
from lmms_egoplan.outputs import claiming

# Commands in the order of the help; others follow.
_ORDER = ("demo", "tasks-path", "metrics-path", "lm-eval", "show", "report")

app = typer.Typer(
    name="lmms-egoplan",
    cls=TellingErrors,
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
app.command("tasks-path", help=tasks_path.HELP)(tasks_path.tasks_path)
app.command(
    "lm-eval",
    help=lm_eval.HELP,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(lm_eval.lm_eval)
app.command("show")(show.show)
app.command("report", help=report.HELP)(report.report)
app.add_typer(plan.app, name="plan")
add_benchmarks(app, data=data.app, annotate=annotate.app)


def _claim_outputs(commands: typer.Typer, path: str) -> None:
    """Give every command with ``--out`` the one rule for outputs."""
    for command in commands.registered_commands:
        name = command.name or command.callback.__name__
        command.callback = claiming(f"{path}{name}", command.callback)
    for group in commands.registered_groups:
        _claim_outputs(group.typer_instance, f"{path}{group.name} ")


_claim_outputs(app, "")
app.registered_commands.sort(key=lambda command: [*_ORDER, command.name].index(command.name))
